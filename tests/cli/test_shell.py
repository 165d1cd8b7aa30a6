"""How the command behaves in a shell: completion, colours, help, sparklines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from singerlake.lake import Lake
from singerlake_cli import output
from singerlake_cli.main import COMMANDS, cli
from singerlake_cli.shared import complete_table
from tests.build import commit_rows

PROGRAM = Path(sys.executable).with_name("singerlake")


@pytest.fixture
def filled(lake: Lake) -> Lake:
    for count in (8, 1, 4):
        rows = [{"id": n} for n in range(count)]
        commit_rows(lake, "tap-shop.orders", {"id": {"type": "integer"}}, ["id"], rows)
    commit_rows(lake, "tap-web.visits", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    return lake


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_shows_no_mark_of_its_layout(name: str) -> None:
    shown = CliRunner().invoke(cli, [*name.split(), "--help"]).output
    assert "Usage:" in shown
    assert "\b" not in shown
    assert "\\b" not in shown
    for line in shown.splitlines():  # each example stands on a line of its own
        assert line.count("singerlake --lake ") + line.count(" singerlake shell <") <= 1


def completed(lake: Lake, *words: str) -> list[str]:
    """What click answers a bash that completes the last word."""
    answer = subprocess.run(
        [PROGRAM],
        env={
            **os.environ,
            "SINGERLAKE_LAKE": lake.store.uri,
            "_SINGERLAKE_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["singerlake", *words]),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stderr == ""
    return [line.partition(",")[2] for line in answer.stdout.splitlines() if line]


@pytest.mark.usefixtures("processes")
def test_commands_tables_and_options_are_completed(filled: Lake) -> None:
    assert completed(filled, "ver") == ["versions", "verify"]
    assert completed(filled, "freeze", "tap-s") == ["tap-shop.orders"]
    assert completed(filled, "show", "t") == ["tap-shop.orders", "tap-web.visits"]
    assert "--label" in completed(filled, "freeze", "--")
    Path(filled.store.uri).rename(Path(filled.store.uri).with_name("gone"))
    assert completed(filled, "show", "t") == []


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_one_that_the_shell_takes(shell: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["completion", shell])
    assert done.exit_code == 0
    assert "_SINGERLAKE_COMPLETE" in done.stdout
    if program := shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(done.stdout)
        subprocess.run([program, "-n", script], check=True)


@pytest.mark.usefixtures("processes")
def test_bash_completes_with_it(filled: Lake) -> None:
    script = (
        f'PATH="{PROGRAM.parent}:$PATH"; eval "$(singerlake completion bash)"\n'
        "COMP_WORDS=(singerlake freeze tap-w) COMP_CWORD=2\n"
        '_singerlake_completion singerlake; echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "SINGERLAKE_LAKE": filled.store.uri},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "tap-web.visits"


def test_tables_complete_with_underscores_in_the_place_of_dashes(filled: Lake) -> None:
    context = click.Context(cli)
    context.params["uri"] = filled.store.uri
    parameter = click.Argument(["table"])
    assert complete_table(context, parameter, "tap_w") == ["tap_web.visits"]
    assert complete_table(context, parameter, "tap_web.vi") == ["tap_web.visits"]
    assert complete_table(context, parameter, "tap-w") == ["tap-web.visits"]
    assert complete_table(context, parameter, "tap_web_v") == []


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_no_color_is_obeyed_on_a_terminal(no_color: str, coloured: bool, tmp_path: Path) -> None:
    terminal = shutil.which("script")
    if terminal is None or sys.platform != "linux":
        pytest.skip("there is no program script as Linux has it, which gives a terminal")
    done = subprocess.run(
        [terminal, "-qc", f"{PROGRAM} --lake {tmp_path}/none ls; {PROGRAM} histroy", "/dev/null"],
        env={**os.environ, "NO_COLOR": no_color, "TERM": "xterm"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "there is no lake" in done.stdout
    assert "No such command 'histroy'" in done.stdout
    assert done.stdout.count("\x1b[31m") == (2 if coloured else 0)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_examples(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    examples = [line.strip() for line in (command.help or "").splitlines()]
    assert any(line.startswith(("singerlake ", "echo 'eval")) for line in examples), name


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([], ""), ([0, 0], ""), ([5], "█"), ([0, 4, 8], "▁▄█"), ([1, 1_000_000], "▁█")],
)
def test_sparkline(values: list[int], drawn: str) -> None:
    assert output.sparkline(values) == drawn


def test_ls_and_show_draw_recent_transactions(filled: Lake) -> None:
    listed = CliRunner().invoke(cli, ["--lake", filled.store.uri, "ls"]).stdout
    assert "█▁▄" in listed
    shown = CliRunner().invoke(cli, ["--lake", filled.store.uri, "show", "tap-shop.orders"]).stdout
    assert "█▁▄  13 records in 3 transactions" in shown
