"""The bar: on a terminal's stderr, and nowhere else; it says the stage and its share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from singerlake.lake import Lake
from singerlake.spark.jobs.reverting.undo import Undone
from singerlake_cli import working
from singerlake_cli.commands import revert
from tests.build import commit_rows
from tests.cli.call import run
from tests.cli.terminal import COLUMNS, on_a_terminal

STAGES = [("reading keys", 1, 4), ("finding newest rows", 3, 4)]


def job(stages: list[tuple[str, int, int]]) -> Callable[[], None]:
    """A job that stays a while at each stage."""

    def run() -> None:
        working.EVERY_SECONDS = 0.02
        at: list[tuple[str, int, int]] = []
        working.follow(lambda: at[-1])
        with working.working("freezing tap-shop.orders"):
            for stage in stages:
                at.append(stage)
                time.sleep(0.25)
        print("done")

    return run


@pytest.mark.parametrize("columns", COLUMNS)
def test_a_terminal_gets_a_bar_with_stage_and_share(columns: int) -> None:
    # Rich follows a terminal that changes its size: that of this process, or what is said here.
    with pytest.MonkeyPatch.context() as patch:
        shown = on_a_terminal(
            columns, lambda: (patch.setenv("COLUMNS", str(columns)), job(STAGES)())
        )
    lines = [line for line in shown.replace("\r", "\n").splitlines() if line.strip()]
    assert lines[-1].strip() == "done"
    assert max(map(len, lines)) <= columns
    bars = [line for line in lines if "freezing tap" in line]
    assert any(" 25% " in line for line in bars)
    assert any(" 75% " in line for line in bars)
    if columns >= 80:
        assert any("freezing tap-shop.orders: reading keys" in line for line in bars)
        assert any("freezing tap-shop.orders: finding newest rows" in line for line in bars)


def test_a_job_that_cannot_say_how_far_it_is_goes_on() -> None:
    def broken() -> tuple[str, int, int]:
        raise ConnectionError("Java is gone")

    def run() -> None:
        working.EVERY_SECONDS = 0.02
        working.follow(broken)
        with working.working("freezing"):
            time.sleep(0.2)

    shown = on_a_terminal(80, run)
    assert "freezing" in shown
    assert "gone" not in shown


def test_a_pipe_gets_none(capfd: pytest.CaptureFixture[str]) -> None:
    job(STAGES[:1])()
    assert capfd.readouterr() == ("done\n", "")


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "_progress", None)
    monkeypatch.setattr(working, "EVERY_SECONDS", working.EVERY_SECONDS)


def test_an_undo_is_printed_when_the_bar_is_gone(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written into a live bar is torn by it."""
    for number in range(2):
        commit_rows(lake, "t.s", {"id": {"type": "integer"}}, ["id"], [{"id": number}])
    happened: list[str] = []

    @contextmanager
    def bar(_: str) -> Iterator[None]:
        yield
        happened.append("the bar is gone")

    done = Undone([2], None, 0, 0, 0, (), "")
    monkeypatch.setattr("singerlake.spark.jobs.reverting.undo.undo", lambda *_, **__: done)
    monkeypatch.setattr(revert, "begin_spark", lambda *_: None)
    monkeypatch.setattr(revert, "start_spark", lambda *_: None)
    monkeypatch.setattr(revert, "working", bar)
    monkeypatch.setattr("singerlake_cli.output.say", lambda text, **_: happened.append(text))
    result = run(lake, "revert", "t.s", "--only", "2")
    assert result.exit_code == 0, result.output
    said = "t.s: nothing of transaction 2 is left to undo: its rows are as they were before"
    assert happened[-2:] == ["the bar is gone", said]
