"""The README says what the code does."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from singerlake.errors import SingerlakeError
from singerlake_cli.main import COMMANDS, EXIT_CODES, cli
from tests import readme_steps, readme_tables
from tests.meltano import project

HELD_ELSEWHERE = {
    "pip install '.[spark,java]'": "tests/test_wheel.py does it with a wheel, and runs the demo",
}


def test_the_settings_tables_are_those_of_about() -> None:
    text = readme_tables.README.read_text(encoding="utf-8")
    assert text == readme_tables.filled(text), "run: python -m tests.readme_tables"


def test_every_command_it_shows_exists() -> None:
    text = readme_tables.README.read_text(encoding="utf-8")
    shown = set(re.findall(r"^(?:\$ |meltano invoke )?singerlake ([a-z][a-z-]*)", text, re.M))
    shown |= set(re.findall(r"`singerlake ([a-z][a-z-]*)", text))
    assert shown
    assert shown <= set(COMMANDS)


def test_every_document_it_links_is_there() -> None:
    text = readme_tables.README.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert links
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    anchors = {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings}
    for link in links:
        path, _, anchor = link.partition("#")
        assert (readme_tables.README.parent / path).exists(), link
        assert path or anchor in anchors, link


def test_the_exit_codes_are_those_of_the_errors() -> None:
    def codes(kind: type[SingerlakeError]) -> set[int]:
        below = [codes(sub) for sub in kind.__subclasses__() if sub.__module__ == kind.__module__]
        return {kind.exit_code}.union(*below)

    documented = {int(code) for code in re.findall(r"^ +(\d)  ", EXIT_CODES, re.M)}
    assert codes(SingerlakeError) | {0} == documented


def test_no_command_goes_untested() -> None:
    commands = [step.command for step in readme_steps.steps(readme_tables.README)]
    meltano = [command for command in commands if command.startswith("meltano ")]
    assert meltano == project.readme_commands()
    assert set(HELD_ELSEWHERE) <= set(commands)


def test_what_differs_from_run_to_run_is_left_out_of_the_comparison() -> None:
    shown = "head 3 · 2026-11-22 03:11:33 · 1.9 kB · 5 s ago\n──────\n"
    assert readme_steps.shape(shown) == readme_steps.shape(
        "head  3 · 2027-01-02 13:01:03 · 20.9 MB · 2 min ago\n──\n\n"
    )
    assert readme_steps.shape(shown) != readme_steps.shape(shown.replace("3 ·", "4 ·"))


def test_only_sentences_are_wrapped() -> None:
    row, rule, sentence = "a  b" + "c" * 200, "─" * 200, "word " * 40
    assert readme_steps._laid_out(f"{row}\n\n {rule}\n{sentence}") == [
        row,
        f" {rule}",
        *[("word " * 20).rstrip()] * 2,
    ]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_it_works_from_top_to_bottom_in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's commands run in this process, which has the session; the others in bash."""
    work = tmp_path / "work"
    work.mkdir()
    beside = Path(sys.executable).parent
    monkeypatch.setenv("PATH", os.pathsep.join([str(beside), os.environ["PATH"]]))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "ada")
    monkeypatch.delenv("SINGERLAKE_LAKE", raising=False)
    monkeypatch.chdir(work)
    outputs = {}
    for step in readme_steps.steps(readme_tables.README):
        if step.command in HELD_ELSEWHERE or step.command.startswith("meltano "):
            continue
        outputs[step.number] = _run(step, monkeypatch)
    assert len(outputs) > 20
    if os.environ.get("SINGERLAKE_README") == "write":
        readme_steps.write(readme_tables.README, outputs)
    for step in readme_steps.steps(readme_tables.README):
        if step.output:
            assert readme_steps.shape(step.output) == readme_steps.shape(outputs[step.number]), (
                f"{step.command}: write what it prints now into the README with "
                "SINGERLAKE_README=write"
            )
    lines = (work / "everything.jsonl").read_text().splitlines()
    assert [json.loads(line)["type"] for line in lines].count("RECORD") == 106 + 1164
    assert (work / "monday.csv").read_text().startswith("id,customer_id,")
    assert "singerlake completion bash" in (tmp_path / ".bashrc").read_text()


def _run(step: readme_steps.Step, monkeypatch: pytest.MonkeyPatch) -> str:
    """One command's output; that of a pipeline without what its plugins log."""
    command = step.command
    if step.language == "python":
        names: dict[str, Any] = {}
        exec(command, names)
        assert [version.number for version in names["orders"].versions()] == [1]
        assert names["batch"].schema.names == ["id", "total"]
        return ""
    if setting := re.fullmatch(r"export (\w+)=(\S+)", command):
        monkeypatch.setenv(*setting.groups())
        return ""
    if command.startswith("singerlake ") and "|" not in command:
        done = CliRunner().invoke(cli, shlex.split(command)[1:])
        assert done.exit_code == 0, f"{command}\n{done.output}\n{done.exception}"
        return done.output
    script = ["bash", "-euo", "pipefail", "-c", command]
    bash = subprocess.run(script, capture_output=True, text=True, check=False, timeout=120)
    assert bash.returncode == 0, f"{command}\n{bash.stderr}"
    return bash.stdout
