"""A signal gives what is under way its time, and more while it gets on."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from singerlake.annotations import changes
from singerlake.engine.choice import EngineChoice
from singerlake.errors import InputError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops import freeze
from target_singerlake import freezing
from target_singerlake.errors import TerminatedError
from target_singerlake.interrupts import GRACE_SECONDS, Interrupts
from tests.build import commit_rows
from tests.target.harness import record, run, schema, state


class Timer:
    """Stands in for a clock."""

    running: list[Timer]

    def __init__(self, seconds: float, _then: Callable[[], None]) -> None:
        assert seconds == GRACE_SECONDS

    def start(self) -> None:
        self.running.append(self)

    def cancel(self) -> None:
        self.running.remove(self)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> list[Timer]:
    """The timers that run."""
    Timer.running = []
    monkeypatch.setattr(threading, "Timer", Timer)
    return Timer.running


def test_what_gets_on_is_given_more_time(running: list[Timer]) -> None:
    interrupts = Interrupts()
    interrupts.progress()
    assert running == []
    interrupts.handle(signal.SIGTERM)
    [first] = running
    interrupts.handle(signal.SIGTERM)  # a second one changes nothing
    assert running == [first]
    interrupts.progress()
    [second] = running
    assert second is not first
    interrupts.over()
    assert running == []
    interrupts.progress()
    assert running == []


def test_after_the_run_no_time_is_up(running: list[Timer]) -> None:
    interrupts = Interrupts()
    interrupts.over()
    interrupts.handle(signal.SIGTERM)
    assert running == []
    with pytest.raises(TerminatedError):
        interrupts.check()


def test_each_table_of_a_commit_is_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[None] = []
    monkeypatch.setattr(Interrupts, "progress", lambda _: told.append(None))
    lines = [line for name in "abc" for line in (schema(name), record(name, {"id": 1}))]
    assert run(tmp_path / "lake", [*lines, state(1)]) == [1]
    assert len(told) == 3


def test_a_signal_during_a_freeze_ends_it_after_the_table(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, running: list[Timer]
) -> None:
    interrupts = Interrupts()
    interrupts.over()
    frozen: list[Any] = []

    def fake(table: Any, *_: Any) -> Any:
        frozen.append(table.name)
        interrupts.handle(signal.SIGTERM)
        version = SimpleNamespace(number=1, rows=1, fingerprint="")
        return SimpleNamespace(version=version, new=True)

    monkeypatch.setattr(freeze, "freeze", fake)
    tables = [TableName("tap", "a"), TableName("tap", "b")]
    for table in tables:
        commit_rows(lake, str(table), {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    with pytest.raises(TerminatedError):
        freezing.freeze_tables(lake, tables, EngineChoice(), logging.getLogger(), interrupts.check)
    assert frozen == tables[:1]
    assert running == []


def test_behind_a_freeze_the_time_counts_again(running: list[Timer]) -> None:
    interrupts = Interrupts()
    with interrupts.unlimited():
        interrupts.handle(signal.SIGTERM)
        assert running == []
    assert len(running) == 1
    interrupts.over()
    assert running == []


@pytest.mark.parametrize("ending", [b"{", b""])
def test_a_note_that_hangs_is_ended_by_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: list[Timer], ending: bytes
) -> None:
    """The store takes the note only after the signal, for which the clock must run by then."""
    lines = [schema("s"), record("s", {"id": 1}), state(1), ending]
    waiting: list[int] = []

    def hangs(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        waiting.append(len(running))

    monkeypatch.setattr(changes, "record_run", hangs)
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    run(lake.store.uri, lines[:-1])
    with suppress(InputError):
        run(lake.store.uri, lines if ending else lines[:-1], job_url="https://example.com/7")
    assert waiting == [1]
    assert running == []
