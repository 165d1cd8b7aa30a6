"""A pipeline's bookmark in the lake is never ahead of the rows, whatever fails and wherever."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake
from singerlake.ops.bookmark import (
    Answer,
    bookmark_lock_of,
    get_bookmark,
    parse_bookmark,
    set_bookmark,
)
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from tests.faults import plain
from tests.faults.cases import Bench, Folder, fast_folder
from tests.faults.faulty_store import (
    INTERRUPT,
    KILL_AFTER,
    LOST_REPLY,
    LOST_THEN_OUTAGE,
    NOT_DURABLE,
    OUTAGE,
    TAKEN,
    Kind,
)
from tests.faults.kinds import each_kind
from tests.faults.operations import Operation, Target, read_states, write_options
from tests.faults.plain import Dump
from tests.frozen import revert_here
from tests.pipeline import ID, STREAMS, Source, is_behind, state_of, steps


def answer_of(dump: Dump) -> Answer:
    """The bookmark of a lake that nothing fails on."""
    with tempfile.TemporaryDirectory() as folder:
        for key, data in dump.items():
            if "/.staging/" not in f"/{key}":
                path = Path(folder, key)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        return get_bookmark(Lake(LocalStore(folder)), ID)


def number(answer: Answer) -> int:
    """The STATE of the target's operation, which is a number."""
    state = json.loads(answer.completed or b"null")
    return int(state["singer_state"]) if state else 0


class _Meltano(io.TextIOWrapper):
    """Writes each STATE that the target emits into the bookmark, before the target goes on."""

    def __init__(self, store: Store, acknowledged: Path, seen: Any, *, again: bool) -> None:
        super().__init__(acknowledged.open("ab"), write_through=True)
        self._lake = Lake(store)
        self._acknowledged = acknowledged
        self._taken = len(read_states(acknowledged))
        self._seen = seen
        self._waiting = write_options(again=again).waiting

    def flush(self) -> None:
        super().flush()
        for value in read_states(self._acknowledged)[self._taken :]:
            self._taken += 1
            given = {"completed": {"singer_state": value}, "seen": self._seen}
            with bookmark_lock_of(self._lake, ID, self._waiting):
                set_bookmark(self._lake, ID, parse_bookmark(json.dumps(given).encode()))


class Run(Target):
    """A run of a pipeline that reads its bookmark, and writes it as STATEs come out."""

    name = "bookmark"
    _again = False
    _seen: Any = None

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        self._again = again
        super().run(store, acknowledged, again=again)

    def last(self, store: Store, acknowledged: Path) -> int:
        answer = get_bookmark(Lake(store), ID)
        self._seen = answer.seen
        return number(answer)

    def out(self, store: Store, acknowledged: Path) -> io.TextIOWrapper:
        return _Meltano(store, acknowledged, self._seen, again=self._again)

    def lines(self, last: int) -> list[bytes]:
        return super().lines(last) if last < 2 else []

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        kept = number(answer_of(dump))
        if done:
            assert kept == 2
        assert kept <= max(acknowledged, default=0)
        # What was written is what the rows are held against: a rerun may send a part again.
        super().check(dump, sorted(acknowledged), done=done)
        super().check(dump, [kept], done=done)


class Revert(Operation):
    """A table that is turned back, and with it the bookmark, by one entry of the log."""

    name = "revert with a bookmark"

    def prepare(self, lake: Lake) -> None:
        source, root = Source(), Path(lake.store.uri)
        for _ in range(2):
            for stream in STREAMS:
                source.grow(stream)
            for _ in steps(root, source, lake.store, split=False):
                pass

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        table = Lake(store).find("tap-test.a")[0]
        revert_here(table, 1, options=write_options(again=again))

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        tables = plain.tables(dump)
        rows = {s: sorted(r["id"] for r in tables[f"tap-test.{s}"].state()) for s in STREAMS}
        kept = state_of(answer_of(dump))
        assert is_behind(kept, rows)
        reverted = rows["a"] == [1]
        assert kept["bookmarks"] == dict.fromkeys(STREAMS, 1 if reverted else 2)
        assert reverted or not done


QUICK = [
    *((kind, "bookmarks/") for kind in (LOST_REPLY, TAKEN, INTERRUPT)),
    (LOST_THEN_OUTAGE, "/transactions/"),
    (KILL_AFTER, "bookmarks/dev%3Atap-test-to-target-singerlake.json"),
]
THOROUGH = [
    (NOT_DURABLE, "bookmarks/"),
    (LOST_THEN_OUTAGE, ""),
    (OUTAGE, "bookmarks/"),
    (KILL_AFTER, "bookmarks/"),
    (KILL_AFTER, "/transactions/"),
]


@pytest.fixture(scope="module")
def bench(processes: None) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(Run(), Folder(folder), folder)


@pytest.fixture(scope="module")
def reverting(processes: None) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(Revert(), Folder(folder), folder)


@each_kind(QUICK, THOROUGH)
def test_a_bookmark_is_not_ahead_of_the_rows_whatever_fails(
    bench: Bench, kind: Kind, part: str
) -> None:
    bench.run_all(kind, part)


@each_kind(
    [(LOST_THEN_OUTAGE, "/transactions/")], [(LOST_THEN_OUTAGE, ""), (KILL_AFTER, "/transactions/")]
)
def test_a_revert_and_its_bookmark_are_one_step_whatever_fails(
    reverting: Bench, kind: Kind, part: str
) -> None:
    reverting.run_all(kind, part)
