"""The README says what the code does."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake.errors import SingerlakeError
from singerlake_cli.main import COMMANDS, EXIT_CODES, cli
from tests import readme_tables
from tests.meltano import project

HELD_ELSEWHERE = {
    "make demo": "tests/test_wheel.py runs the demo",
    "make test": "runs this",
    "pip install .": "tests/test_wheel.py installs into an empty environment",
}


def test_the_settings_tables_are_those_of_about() -> None:
    text = readme_tables.README.read_text(encoding="utf-8")
    assert text == readme_tables.filled(text), "run: python -m tests.readme_tables"


def test_every_command_it_shows_exists() -> None:
    text = readme_tables.README.read_text(encoding="utf-8")
    shown = set(re.findall(r"^(?:meltano invoke )?singerlake ([a-z]+)", text, re.M))
    shown |= set(re.findall(r"`singerlake ([a-z]+)", text))
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


def commands() -> Iterator[str]:
    """Every command in the README's shell blocks, in order, without its comment."""
    text = readme_tables.README.read_text(encoding="utf-8")
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
        for line in block.splitlines():
            if command := re.sub(r"\s+#.*", "", line).strip():
                yield command


def test_no_command_goes_untested() -> None:
    meltano = [command for command in commands() if command.startswith("meltano ")]
    assert meltano == project.readme_commands()
    assert set(HELD_ELSEWHERE) <= set(commands())


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_commands_work_one_after_the_other_from_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's come in this process, for they share the session; the others in bash."""
    programs, work = tmp_path / "programs", tmp_path / "work"
    programs.mkdir()
    work.mkdir()
    shutil.copy(project.ROOT / "examples" / "tap-shop", programs)
    path = [programs, _target_jsonl(tmp_path), Path(sys.executable).parent, os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(str(one) for one in path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SINGERLAKE_LAKE", raising=False)
    monkeypatch.chdir(work)
    Path("shop.json").write_text("{}")
    ran = []
    for command in commands():
        if command in HELD_ELSEWHERE or command.startswith("meltano "):
            continue
        ran.append(command)
        if command.startswith("singerlake ") and "|" not in command:
            done = CliRunner().invoke(cli, shlex.split(command)[1:])
            assert done.exit_code == 0, f"{command}\n{done.output}\n{done.exception}"
        else:
            script = ["bash", "-euo", "pipefail", "-c", command]
            bash = subprocess.run(script, capture_output=True, text=True, check=False, timeout=120)
            assert bash.returncode == 0, f"{command}\n{bash.stderr}"
    assert len(ran) > 15
    assert "singerlake freeze tap-shop.orders --label 2026-q3" in ran
    (written,) = work.glob("orders*.jsonl")
    assert len(written.read_text().splitlines()) == 100
    assert "singerlake completion bash" in (tmp_path / ".bashrc").read_text()


def _target_jsonl(folder: Path) -> Path:
    """The real target-jsonl, in an environment of its own; the folder of its program."""
    project.installed()
    uv = project.ENVIRONMENT / "bin" / "uv"
    subprocess.run(
        [uv, "venv", "--quiet", "--python", sys.executable, folder / "jsonl"], check=True
    )
    python = folder / "jsonl" / "bin" / "python"
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", python, "target-jsonl"], check=True
    )
    return python.parent
