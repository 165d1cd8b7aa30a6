"""The bar: on a terminal's stderr, and nowhere else; it says the stage and its share."""

from __future__ import annotations

import io
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from singerlake.errors import ConflictError
from singerlake.lake import Lake
from singerlake.ops.undo import Undone
from singerlake_cli import live_line, output, working
from singerlake_cli.commands import undo
from tests.build import commit_rows
from tests.cli.call import run
from tests.cli.terminal import COLUMNS, on_a_terminal

STAGES = [("reading keys", 1, 8), ("finding newest rows", 6, 8)]


def job(stages: list[tuple[str, int, int]], *inner: Callable[[], None]) -> Callable[[], None]:
    """A job that stays a while at each stage, and then does something else."""

    def run() -> None:
        working.EVERY_SECONDS = 0.02
        at = [("", 0, 0)]
        working.follow(lambda: at[-1])
        with working.working("freezing tap-shop.orders"):
            for stage in stages:
                at.append(stage)
                time.sleep(0.25)
            for one in inner:
                one()
        print("done")

    return run


class Screen(io.StringIO):
    """A terminal that keeps what is written to it, and knows what is on its screen."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError

    def lines(self) -> list[str]:
        """The lines that are on the screen, without colours."""
        rows = [""]
        for sign in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|.|\n", self.getvalue(), re.DOTALL):
            if sign == "\n":
                rows.append("")
                self.column = 0
            elif sign == "\r":
                self.column = 0
            elif sign == "\x1b[K":
                rows[-1] = rows[-1][: self.column]
            elif sign == "\x1b[2K":
                rows[-1] = ""
            elif not sign.startswith("\x1b"):
                rows[-1] = rows[-1][: self.column] + sign + rows[-1][self.column + 1 :]
                self.column += 1
        return rows

    column = 0


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("columns", COLUMNS)
def test_the_bar_has_stage_share_time_and_in_the_end_what_is_left(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    screen, clock = Screen(), Clock()
    at = [("", 0, 0)]
    working.follow(lambda: at[-1])
    bar = working.Bar("freezing tap-shop.orders", screen, clock)

    def shown(seconds: float, *now: object) -> str:
        clock.now = seconds
        at.append(now)  # type: ignore[arg-type]
        bar.draw()
        [line] = screen.lines()
        assert len(line) < columns
        return line

    assert shown(1, "", 0, 0).split()[-2:] in (
        ["━" * 12, "0:00:01"],
        ["tap-shop.orders", "0:00:01"],
    )
    assert shown(4, "reading keys", 0, 40).endswith("  0% 0:00:04")
    assert shown(9, "reading keys", 10, 40).endswith(" 25% 0:00:09")
    line = shown(14, "reading keys", 20, 40)
    assert line.endswith(" 50% 0:00:14  10 s left")
    assert ("━" * 12 in line) is (columns >= 80)
    assert "freezing tap-shop" in line
    assert ("reading keys" in line) is (columns >= 80)
    line = shown(3674, "adding up", 20, 80)  # a stage of which nobody knew: the share does not fall
    assert line.endswith(" 50% 1:01:14  62 min left")
    live_line.erase()
    assert screen.lines() == [""]


def test_a_bar_of_several_tables_counts_them_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    screen, done = Screen(), [0]
    working.follow(lambda: ("", done[0], 4 * -(-(done[0] + 1) // 4)))
    bar, seen = working.Bar("freezing 2 tables", screen, Clock()), []
    for _ in bar.each([100, 300], float):
        for _ in range(3):
            bar.draw()
            seen.append(screen.lines()[0].split()[-2])
            done[0] += 1
        done[0] += 1
    assert seen == ["0%", "6%", "12%", "25%", "43%", "62%"]
    live_line.erase()


def test_a_terminal_without_unicode_gets_a_plain_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    screen = Screen()
    screen.encoding = "ascii"
    working.follow(lambda: ("reading " * 10, 1, 2))
    working.Bar("freezing", screen, Clock()).draw()
    live_line.erase()
    assert screen.getvalue().isascii()


@pytest.mark.parametrize("columns", COLUMNS)
def test_nothing_is_left_of_the_bar_on_a_terminal(columns: int) -> None:
    # The width is that of this process's terminal, or what is said here.
    with pytest.MonkeyPatch.context() as patch:
        shown = on_a_terminal(
            columns, lambda: (patch.setenv("COLUMNS", str(columns)), job(STAGES)()), styled=True
        )
    assert "12%" in shown
    assert "75%" in shown
    assert "?25l" not in shown  # the cursor stays, so that nothing has to bring it back
    assert shown.endswith(f"{live_line.ERASE}done\n")


def test_what_is_printed_meanwhile_is_above_the_bar() -> None:
    def tell() -> None:
        for number in range(3):
            output.say(f"table {number}")
            time.sleep(0.1)
        logging.getLogger("singerlake.test").warning("made again")

    def run() -> None:
        patch.setattr(logging, "lastResort", live_line.LogHandler())
        patch.setattr(logging.getLogger(), "handlers", [])
        job(STAGES, tell)()

    with pytest.MonkeyPatch.context() as patch:
        shown = on_a_terminal(80, run, styled=True)
    screen = Screen()
    screen.write(shown)
    assert screen.lines() == ["table 0", "table 1", "table 2", "made again", "done", ""]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ConflictError("moved")])
def test_nothing_is_left_after_a_failure(error: Any) -> None:
    def fail() -> None:
        raise error

    def run() -> None:
        with suppress(KeyboardInterrupt, ConflictError):
            job(STAGES, fail)()
        output.say("error: …")

    screen = Screen()
    screen.write(on_a_terminal(80, run, styled=True))
    assert screen.lines() == ["error: …", ""]


def test_a_terminal_that_cannot_erase_gets_none() -> None:
    with pytest.MonkeyPatch.context() as patch:
        shown = on_a_terminal(80, lambda: (patch.setenv("TERM", "dumb"), job(STAGES)()))
    assert shown == "done\n"


def test_a_job_that_cannot_say_how_far_it_is_goes_on() -> None:
    def broken() -> tuple[str, int, int]:
        raise ConnectionError("Java is missing")

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
        happened.append("the bar is missing")

    done = Undone([2], None, 0, 0, 0, (), "")
    monkeypatch.setattr("singerlake.ops.undo.undo", lambda *_, **__: done)
    monkeypatch.setattr(undo, "working", bar)
    monkeypatch.setattr("singerlake_cli.output.say", lambda text, **_: happened.append(text))
    result = run(lake, "undo", "t.s", "2")
    assert result.exit_code == 0, result.output
    said = "t.s: nothing of transaction 2 is left to undo: its rows are already as before"
    assert happened[-2:] == ["the bar is missing", said]
