"""Running a page's steps in the folder where this process is."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake_cli.main import cli
from tests.pages.steps import ROOT, Step, shape, steps, write

HELD_ELSEWHERE = {
    "pip install '.[spark,java]'": "tests/test_wheel.py does it with a wheel, and runs the demo",
    "pip install --upgrade '.[spark,java]'": "the same",
    "python3 -m venv .venv && . .venv/bin/activate": "the same",
}
"""Commands that are not run here, and who does it."""
NOT_RUN = {
    "cluster.md": "it needs a cluster",
    "orchestrators.md": "tests/orchestrators runs its examples",
    "readers.md": "tests/publish/test_readers.py runs it",
    "stores.md": "it needs buckets of Google and Azure",
}
"""Guides that are not run from top to bottom, and why."""
REFUSED = " 2>&1 || true"
"""How a page shows a command that is refused."""


ENOUGH = 128 + signal.SIGPIPE
"""What a program ends with whose reader had enough, as `head` has."""


def pages() -> list[Path]:
    """The pages that are run from top to bottom."""
    found = [ROOT / "README.md", ROOT / "docs" / "tutorial.md"]
    for folder in ("guides", "concepts", "reference", "about"):
        found += sorted((ROOT / "docs" / folder).glob("*.md"))
    return [
        page
        for page in found
        if page.name not in NOT_RUN and any(is_run(step) for step in steps(page))
    ]


def is_run(step: Step) -> bool:
    """Whether a step is run here."""
    return step.command not in HELD_ELSEWHERE and not step.command.startswith("meltano ")


def run_page(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all of a page, and hold what is printed to what it shows."""
    outputs = {}
    for step in filter(is_run, steps(page)):
        printed = _run(step, monkeypatch)
        outputs[step.number] = printed.replace(str(Path.cwd()), "/home/ada")
    if os.environ.get("SINGERLAKE_PAGES") == "write":
        write(page, outputs)
    for step in steps(page):
        if step.output:
            assert shape(step.output) == shape(outputs[step.number]), (
                f"{step.command}: write what it prints now into the page with "
                "SINGERLAKE_PAGES=write"
            )


def _run(step: Step, monkeypatch: pytest.MonkeyPatch) -> str:
    if step.language == "file":
        Path(step.file).write_text(step.command, encoding="utf-8")
        return ""
    if step.language == "python":
        exec(step.command, {})
        return ""
    if setting := re.fullmatch(r"export (\w+)=(\S+)", step.command):
        monkeypatch.setenv(setting[1], setting[2])
        return ""
    return run(step.command, os.environ)


def run(command: str, environment: Mapping[str, str]) -> str:
    """One command's output; that of a pipeline without what its plugins log.

    What needs Spark runs in this process, which has the session; other commands in bash.
    """
    refused = command.endswith(REFUSED)
    alone = command.removesuffix(REFUSED)
    if alone.startswith("singerlake ") and not re.search(r"[|<>]|\$\(", _unquoted(alone)):
        done = CliRunner().invoke(cli, shlex.split(alone)[1:], prog_name="singerlake")
        as_expected = (done.exit_code != 0) == refused
        assert as_expected, f"{command}\n{done.output}\n{done.exception}"
        return done.output
    script = ["bash", "-euo", "pipefail", "-c", command]
    bash = subprocess.run(
        script, capture_output=True, text=True, check=False, timeout=120, env={**environment}
    )
    assert bash.returncode in (0, ENOUGH), f"{command}\n{bash.stderr}"
    return bash.stdout


def _unquoted(command: str) -> str:
    return re.sub(r'"[^"]*"|\'[^\']*\'', "", command)
