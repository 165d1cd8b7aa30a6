"""The image and the workflows, held to the files, extras, Pythons and targets that they name."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from singerlake import extras

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PYTHONS = {
    one.rpartition(" ")[2]
    for one in PROJECT["project"]["classifiers"]
    if re.search(r":: 3\.\d+$", one)
}
IMAGE = [*(ROOT / "Dockerfile").read_text("utf-8").splitlines()]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def lines(word: str) -> list[list[str]]:
    """The words of the image's lines that begin with one."""
    return [line.split()[1:] for line in IMAGE if line.startswith(f"{word} ")]


def test_the_image_has_all_packages_and_files_that_the_wheel_needs() -> None:
    copied = {one for words in lines("COPY") if "--from=build" not in words for one in words[:-1]}
    assert all((ROOT / one).exists() for one in copied)
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert copied >= {*wheel, "pyproject.toml", PROJECT["project"]["readme"]}
    assert copied >= {*PROJECT["project"]["license-files"]}
    let_in = {one[1:] for one in (ROOT / ".dockerignore").read_text().split() if one[0] == "!"}
    assert let_in == copied


def test_the_image_installs_extras_that_there_are_and_pinned_releases() -> None:
    [installed] = re.findall(r"pip install -c (\S+) '/src\[(.*)\]'", "\n".join(IMAGE))
    assert installed[0] == "/src/constraints/dev.txt"
    assert {*installed[1].split(",")} <= PROJECT["project"]["optional-dependencies"].keys()
    assert {"sql", "spark", "java"} <= {*installed[1].split(",")}


def bounds(library: str) -> dict[str, Requirement]:
    """What each extra asks for of a library."""
    declared = PROJECT["project"]["optional-dependencies"].items()
    asked = ((extra, Requirement(line)) for extra, lines in declared for line in lines)
    return {extra: one for extra, one in asked if one.name == library}


def test_releases_that_answer_sql_are_those_that_the_extra_asks_for() -> None:
    for library, (first, below) in extras.RELEASES.items():
        wanted = f">={first}" if below is None else f">={first},<{below}"
        assert bounds(library)["sql"].specifier == SpecifierSet(wanted)


def test_extras_ask_for_no_duckdb_that_is_older_than_the_tests_run_on() -> None:
    pinned = re.findall(r"^duckdb==([\d.]+)", (ROOT / "constraints/dev.txt").read_text(), re.M)
    oldest = min(map(Version, pinned))
    asked = bounds("duckdb")
    assert asked.keys() == {"duckdb", "sql"}
    [bound] = {str(one.specifier) for one in asked.values()}
    least = Version(bound.removeprefix(">="))
    assert least <= oldest
    assert least.release[:2] == oldest.release[:2], "answers of an earlier minor are not tested"


@pytest.mark.parametrize(
    "place",
    [
        "Dockerfile",
        "meltano.yml",
        "examples/github-actions/lake.yml",
        "docs/hub/utilities/singerlake/singerlake.yml",
        "docs/installing.md",
        "docs/tutorial.md",
    ],
)
def test_places_that_install_java_also_install_what_spares_queries_java(place: str) -> None:
    text = (ROOT / place).read_text("utf-8")
    installed = [found.split(",") for found in re.findall(r"\[([a-z,]*spark[a-z,]*)\]", text)]
    with_java = [chosen for chosen in installed if "java" in chosen]
    assert with_java
    assert all("sql" in chosen for chosen in with_java)


def test_the_image_is_of_two_stages_and_runs_without_rights() -> None:
    bases = lines("FROM")
    assert [one[1:] for one in bases] == [["AS", "build"], []]
    assert {one[0] for one in bases} == {f"python:{version}-slim" for version in {"3.12"} & PYTHONS}
    [[user]] = lines("USER")
    assert int(user) > 0
    last = max(number for number, line in enumerate(IMAGE) if line.startswith(("RUN", "COPY")))
    assert IMAGE.index(f"USER {user}") > last


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"].values()
    return [step for job in jobs for step in job.get("steps", [])]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.name)
def test_a_workflow_names_pythons_and_targets_that_there_are(workflow: Path) -> None:
    text = workflow.read_text("utf-8")
    named = {*re.findall(r'"(3\.\d+)"', text)}
    assert named <= PYTHONS
    targets = {*re.findall(r"^([\w-]+)(?: [\w -]+)?:", (ROOT / "Makefile").read_text(), re.M)}
    phony = (ROOT / "Makefile").read_text().partition(".PHONY:")[2].partition("\n")[0].split()
    for step in steps(workflow):
        for target in re.findall(r"^make ([\w-]+)", step.get("run", ""), re.M):
            assert target in {*targets, *phony}


def test_checks_run_on_every_python_and_tests_in_all_tiers() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]
    assert {*jobs["check"]["strategy"]["matrix"]["python"]} == PYTHONS
    run = [
        step["run"]
        for name in ("check", "test", "test-all")
        for step in jobs[name]["steps"][2:]
        if "run" in step
    ]
    assert run[:3] == ["make check", "make test", "make test-all"]


def test_a_release_is_published_after_all_tests_without_a_token() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["tests"]["with"] == {"all": True}
    assert (jobs["build"]["needs"], jobs["publish"]["needs"]) == ("tests", "build")
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in text
    assert "password" not in text
