"""What the tests passed with is pinned, for every supported Python and system, and is installed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "constraints"
PYTHONS = ("3.10.0", "3.11.7", "3.12.1", "3.13.0", "3.14.0")
SYSTEMS = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def machines() -> Iterator[dict[str, str]]:
    """The variables of markers, for each supported Python and system."""
    for full, (system, machine) in product(PYTHONS, SYSTEMS):
        yield {
            "python_full_version": full,
            "python_version": full.rpartition(".")[0],
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
            "sys_platform": system,
            "platform_machine": machine,
        }


def applies(requirement: Requirement, machine: dict[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(machine)


def pins(name: str) -> list[Requirement]:
    """The lines of a file of constraints."""
    lines = (FOLDER / f"{name}.txt").read_text("utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def tools() -> list[Requirement]:
    """The tools that have an environment with the project, and what the project asks for."""
    lines = (ROOT / "tests" / "snapshot" / "tools.txt").read_text("utf-8").splitlines()
    return [*map(Requirement, PROJECT["dependencies"]), *map(Requirement, lines)]


def environments() -> list[tuple[str, str]]:
    """The names and requirements of environments other than the project's own."""
    lines = [
        line
        for path in sorted((ROOT / "tests").glob("*/environments.txt"))
        for line in path.read_text("utf-8").splitlines()
    ]
    return [(name, requirement) for name, _, requirement in (line.partition(" ") for line in lines)]


def direct() -> list[Requirement]:
    """The dependencies of the project and of its extras, except on its own extras."""
    extras = PROJECT["optional-dependencies"].values()
    asked = [*PROJECT["dependencies"], *(one for extra in extras for one in extra)]
    parsed = [Requirement(one) for one in asked]
    return [one for one in parsed if one.name != PROJECT["name"]]


def misses(asked: Requirement, pinned: list[Requirement], machine: dict[str, str]) -> str | None:
    """Say how pins fail to give one release that a requirement allows; None if they do not."""
    name = canonicalize_name(asked.name)
    found = [p for p in pinned if canonicalize_name(p.name) == name and applies(p, machine)]
    versions = [str(p.specifier).removeprefix("==") for p in found]
    if len(versions) == 1 and asked.specifier.contains(versions[0], prereleases=True):
        return None
    where = f"Python {machine['python_version']} on {machine['sys_platform']}"
    return f"{asked} is pinned to {versions or 'nothing'} for {where}: run make lock"


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("dev", direct()),
        ("tools", tools()),
        *((name, [Requirement(asked)]) for name, asked in environments()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_constraints_pin_each_direct_dependency_once_for_each_machine(
    name: str, asked: list[Requirement]
) -> None:
    pinned = pins(name)
    wrong = [
        said
        for machine in machines()
        for one in asked
        if applies(one, machine) and (said := misses(one, pinned, machine))
    ]
    assert wrong == []


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_constraints_pin_one_exact_release_each(path: Path) -> None:
    known = {"dev", "tools", *(name for name, _ in environments())}
    assert path.stem in known, "the Makefile installs nothing with it"
    pinned = pins(path.stem)
    assert all(re.fullmatch(r"==[\w.!+]+", str(one.specifier)) for one in pinned)
    for machine in machines():
        names = [canonicalize_name(one.name) for one in pinned if applies(one, machine)]
        assert len(names) == len({*names})


def test_misses_tells_what_a_file_of_constraints_lacks() -> None:
    machine = next(machines())
    asked = Requirement("click>=8.2,<9")
    assert misses(asked, [Requirement("Click==8.5.1")], machine) is None
    for pinned in ("", "click==8.1.0", "click==8.5.1; python_version >= '3.11'"):
        lines = [Requirement(pinned)] if pinned else []
        assert "run make lock" in str(misses(asked, lines, machine))


def test_makefile_installs_nothing_without_constraints() -> None:
    text = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    steps = re.findall(r"^.*(?:\$\(PIP_INSTALL\)|pip install ).*$", text, re.M)
    steps = [step for step in steps if not step.startswith("PIP_INSTALL")]
    assert len(steps) >= 7
    exact = "-r $<"  # a file that pins all itself
    loose = [s for s in steps if not re.search(r"(-c|--constraint) constraints/", s)]
    assert [step for step in loose if exact not in step] == []
    duckdb = (ROOT / "tests" / "publish" / "duckdb.txt").read_text("utf-8").split()
    assert all("==" in line for line in duckdb)
