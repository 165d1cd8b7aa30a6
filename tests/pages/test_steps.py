"""How pages are run: nothing is left out unseen, and only noise may differ."""

from __future__ import annotations

from pathlib import Path

from tests.meltano import project
from tests.pages import running, steps
from tests.pages.blocks import pages

EVERYWHERE = [step for page in pages() for step in steps.steps(page)]


def test_what_is_not_run_here_is_held_elsewhere() -> None:
    commands = [step.command for step in EVERYWHERE]
    assert set(running.HELD_ELSEWHERE) <= set(commands)
    pipelines = steps.steps(steps.ROOT / "docs" / "guides" / "pipelines.md")
    meltano = [one.command for one in pipelines if one.command.startswith("meltano ")]
    assert meltano == project.page_commands()


def test_what_differs_from_run_to_run_is_left_out_of_the_comparison() -> None:
    shown = "head 3 · 2026-11-22 03:11:33 · 1.9 kB · 5 s ago\n──────\n"
    assert steps.shape(shown) == steps.shape(
        "head  3 · 2027-01-02 13:01:03 · 20.9 MB · 2 min ago\n──\n\n"
    )
    assert steps.shape(shown) != steps.shape(shown.replace("3 ·", "4 ·"))


def test_command_continues_after_a_backslash(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\nsingerlake ls \\\n    --all  # every table\nls\n```\n")
    assert [step.command.split() for step in steps.steps(page)] == [
        ["singerlake", "ls", "--all"],
        ["ls"],
    ]


def test_only_sentences_are_wrapped() -> None:
    row, rule, sentence = "a  b" + "c" * 200, "─" * 200, "word " * 40
    assert steps._laid_out(f"{row}\n\n {rule}\n{sentence}") == [
        row,
        f" {rule}",
        *[("word " * 20).rstrip()] * 2,
    ]
