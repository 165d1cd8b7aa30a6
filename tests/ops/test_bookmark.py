"""Bookmarks in the lake: never ahead of its tables, whatever is turned back."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import (
    DamagedError,
    LockTimeoutError,
    NotFoundError,
    SingerlakeError,
    UsageError,
)
from singerlake.format.log import Operation
from singerlake.lake import Lake, Table
from singerlake.log import bookmarks
from singerlake.log.acknowledged import acknowledged_by
from singerlake.log.commit import commit, draft_entry
from singerlake.log.locks.lock import Waiting
from singerlake.ops.bookmark import (
    bookmark_lock_of,
    delete_bookmark,
    get_bookmark,
    parse_bookmark,
    set_bookmark,
)
from singerlake.ops.drop import drop_table
from singerlake.ops.rows_back.undo_plan import OnConflict
from singerlake.ops.undo import UndoOptions, undo
from singerlake.overlay.alter import AlterOptions
from singerlake.storage.local.store import LocalStore
from tests.frozen import HERE, freeze_here, revert_here
from tests.log.non_conditional import NonConditionalStore
from tests.pipeline import ID, STREAMS, Source, ids, is_behind, read, steps, write
from tests.target.harness import TAP, record, run, schema, state


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Three runs of two streams, of which each brought a row a stream."""
    source, store = Source(), LocalStore(tmp_path)
    for _ in range(3):
        for stream in STREAMS:
            source.grow(stream)
        for _ in steps(tmp_path, source, store, split=False):
            pass
    return tmp_path


def opened(lake: Path, stream: str) -> Table:
    return Lake.open(str(lake)).find(f"{TAP}.{stream}")[0]


def counts(a: int, b: int) -> Any:
    return {"bookmarks": {"a": a, "b": b}}


def caught_up(lake: Path, a: int = 3, b: int = 3) -> bool:
    """Whether the next run brings all that the source has."""
    source = Source({"a": a, "b": b})
    for _ in steps(lake, source, LocalStore(lake), split=False):
        pass
    found = {stream: ids(lake, stream) for stream in STREAMS}
    return found == {name: [*range(1, count + 1)] for name, count in source.rows.items()}


def test_a_bookmark_comes_back_as_it_was_written(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert get_bookmark(Lake(store), ID).completed is None
    text = b'{"completed": {"singer_state": {"x": 1.10, "y": 12345678901234567890123}}}'
    set_bookmark(Lake(store), ID, parse_bookmark(text))
    answer = get_bookmark(Lake(store), ID)
    assert b"1.10" in (answer.completed or b"")
    assert b"12345678901234567890123" in (answer.completed or b"")
    assert (answer.partial, answer.tap, answer.turned_back) == (b"null", "", [])
    assert bookmarks.ids(store) == [ID]
    delete_bookmark(Lake(store), ID)
    delete_bookmark(Lake(store), ID)
    assert bookmarks.ids(store) == []


def test_a_revert_turns_the_bookmark_back_and_the_next_run_brings_what_was_undone(
    lake: Path,
) -> None:
    store = LocalStore(lake)
    assert read(store) == counts(3, 3)
    revert_here(opened(lake, "a"), 2)
    assert read(store) == counts(2, 2)
    assert caught_up(lake)
    assert read(store) == counts(3, 3)


def test_tables_turned_back_to_several_states_give_the_earliest(lake: Path) -> None:
    revert_here(opened(lake, "a"), 2)
    revert_here(opened(lake, "b"), 1)
    assert read(LocalStore(lake)) == counts(1, 1)
    assert caught_up(lake)


def test_an_undo_turns_the_bookmark_back(lake: Path) -> None:
    undo(opened(lake, "b"), UndoOptions([2]), HERE)
    answer = get_bookmark(Lake(LocalStore(lake)), ID)
    assert [(str(one.table), one.transaction) for one in answer.turned_back] == [(f"{TAP}.b", 1)]
    assert read(LocalStore(lake)) == counts(1, 1)
    assert caught_up(lake)


def test_an_undo_leaves_an_earlier_undo_in_effect(lake: Path) -> None:
    table = opened(lake, "b")
    undo(table, UndoOptions([2]), HERE)
    undo(table, UndoOptions([3]), HERE)
    assert read(LocalStore(lake)) == counts(1, 1)
    # So it is for a person who asks for the STATE of these transactions.
    assert json.loads(acknowledged_by(table.store, table.snapshot(), 5).state) == counts(1, 1)
    assert caught_up(lake)


def test_a_revert_whose_metadata_are_lost_leaves_no_bookmark(lake: Path) -> None:
    table = opened(lake, "a")
    commit(
        table.store,
        table.snapshot(),
        lambda _: draft_entry(table.name, Operation.REVERT, writer="w"),
    )
    assert read(LocalStore(lake)) is None
    with pytest.raises(NotFoundError):
        acknowledged_by(table.store, table.snapshot(), 4)


def test_the_bookmark_is_not_turned_back_if_asked(lake: Path) -> None:
    revert_here(opened(lake, "a"), 2, keep_bookmark=True)
    undo(opened(lake, "b"), UndoOptions([3], keep_bookmark=True), HERE)
    assert read(LocalStore(lake)) == counts(3, 3)
    assert [e.metadata.get("keep_bookmark") for e in opened(lake, "a").entries()][-1] is True
    # A later revert to a state without these rows does not bring them again, either.
    for _ in steps(lake, Source({"a": 4, "b": 4}), LocalStore(lake), split=False):
        pass
    revert_here(opened(lake, "a"), 4)
    assert read(LocalStore(lake)) == counts(3, 3)


def test_a_revert_of_a_revert_gives_the_bookmark_back(lake: Path) -> None:
    revert_here(opened(lake, "a"), 1)
    assert read(LocalStore(lake)) == counts(1, 1)
    revert_here(opened(lake, "a"), 3)
    assert read(LocalStore(lake)) == counts(3, 3)


def test_a_revert_that_takes_no_sync_back_leaves_the_bookmark(lake: Path) -> None:
    freeze_here(opened(lake, "a"))
    revert_here(opened(lake, "a"), 3)
    run(lake, [schema("a", {"id": {"type": "integer"}}, ["id"]), record("a", {"id": 9}), state({})])
    revert_here(opened(lake, "a"), 4)
    # The last sync came after the bookmark was written: it counts nothing that is gone.
    assert read(LocalStore(lake)) == counts(3, 3)


def test_a_run_that_began_before_a_revert_does_not_move_the_bookmark(lake: Path) -> None:
    store, source = LocalStore(lake), Source({"a": 4, "b": 4})
    late = steps(lake, source, store, split=False)
    assert next(late) == "read"
    revert_here(opened(lake, "a"), 2)
    assert [*late] == ["committed", "wrote"]
    assert read(store) == counts(2, 2)
    assert caught_up(lake, 4, 4)


def test_a_revert_between_commit_and_bookmark_counts(lake: Path) -> None:
    store, source = LocalStore(lake), Source({"a": 4, "b": 4})
    late = steps(lake, source, store, split=False)
    assert [next(late), next(late)] == ["read", "committed"]
    revert_here(opened(lake, "a"), 3)
    assert next(late) == "wrote"
    assert read(store) == counts(3, 3)
    assert caught_up(lake, 4, 4)


def test_a_bookmark_that_a_person_writes_counts_although_a_table_was_reverted(lake: Path) -> None:
    revert_here(opened(lake, "a"), 2)
    write(LocalStore(lake), counts(3, 3))
    assert read(LocalStore(lake)) == counts(3, 3)


def test_a_state_that_never_went_out_is_not_answered(lake: Path) -> None:
    """One table of a commit failed: the log of the other has the STATE, the bookmark has not."""
    lines = Source({"a": 4, "b": 4}).sent(counts(3, 3))[0]
    run(lake, [lines[0], lines[1], lines[-1]])
    table = opened(lake, "a")
    run(lake, [schema("a", {"id": {"type": "integer"}}, ["id"]), record("a", {"id": 9})])
    revert_here(table, 4)
    assert read(LocalStore(lake)) == counts(3, 3)


def test_a_log_that_lost_its_end_turns_the_bookmark_back(lake: Path) -> None:
    folder = opened(lake, "a").name.folder
    for derived in ("manifest.json", "head.json"):
        (lake / folder / derived).unlink(missing_ok=True)
    last = lake / folder / "transactions" / "000000000003.json"
    names = [block["file"] for block in json.loads(last.read_text())["blocks"]]
    last.unlink()
    for name in names:
        (lake / folder / name).unlink()
    assert read(LocalStore(lake)) == counts(2, 2)
    assert caught_up(lake)


def test_without_a_kept_state_the_tap_sends_everything(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for number in (1, 2):
        run(tmp_path, [schema("a", None, ["id"]), record("a", {"id": number})])
    write(store, {"bookmarks": {"a": 2}})
    revert_here(opened(tmp_path, "a"), 1)
    answer = get_bookmark(Lake(store), ID)
    assert (answer.completed, answer.partial) == (None, None)
    assert [one.acknowledged for one in answer.turned_back] == [None]


def test_a_dropped_table_leaves_the_bookmark_to_the_operator(lake: Path) -> None:
    table = opened(lake, "a")
    drop_table(table.store, table.snapshot(), AlterOptions())
    assert read(LocalStore(lake)) == counts(3, 3)


@pytest.mark.parametrize(
    ("state_id", "tap"),
    [
        (f"prod:{TAP}-to-lake:suffix", TAP),
        (TAP, TAP),
        ("nightly", TAP),  # by its STATE
        ("dev:tap-singerlake-to-target-jsonl", ""),
    ],
)
def test_a_bookmark_is_about_the_tap_of_its_id_or_of_its_state(
    lake: Path, state_id: str, tap: str
) -> None:
    write(LocalStore(lake), counts(3, 3) if tap else {"other": 1}, state_id=state_id)
    assert get_bookmark(Lake(LocalStore(lake)), state_id).tap == tap


def test_a_state_that_two_taps_sent_links_neither(lake: Path) -> None:
    lines = [schema("a", None, ["id"]), record("a", {"id": 1}), state(counts(3, 3))]
    run(lake, lines, tap_id="tap-other")
    write(LocalStore(lake), counts(3, 3), state_id="nightly")
    assert get_bookmark(Lake(LocalStore(lake)), "nightly").tap == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "truncated"),
        (b"\xff", "not a bookmark"),
        (b"[]", "Expected"),
        (b'{"completed": 3}', "completed must be an object or null"),
        (b'{"partial": "x"}', "partial must be an object or null"),
        (b'{"complete": {}}', "unknown field"),
        (b'{"completed": {"x": NaN}}', "invalid"),
        (b'{"seen": {"tap": 3}}', "seen"),
    ],
)
def test_what_is_no_bookmark_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(UsageError, match="not a bookmark") as raised:
        parse_bookmark(text)
    assert why in str(raised.value)


@pytest.mark.parametrize("state_id", ["", "ü" * 31, "x" * 181, "\udc80"])
def test_an_id_that_has_no_place_is_refused(tmp_path: Path, state_id: str) -> None:
    lake = Lake(LocalStore(tmp_path))
    for work in (get_bookmark, delete_bookmark):
        with pytest.raises(UsageError, match="cannot be the id"):
            work(lake, state_id)
    with pytest.raises(UsageError, match="cannot be the id"):
        set_bookmark(lake, state_id, parse_bookmark(b"{}"))
    with pytest.raises(UsageError, match="cannot be the id"):
        bookmark_lock_of(lake, state_id, Waiting())


def test_a_damaged_bookmark_is_not_answered_and_not_replaced(lake: Path) -> None:
    path = lake / "bookmarks" / f"dev%3A{TAP}-to-target-singerlake.json"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DamagedError, match="singerlake bookmark delete"):
        read(LocalStore(lake))
    with pytest.raises(DamagedError, match="singerlake bookmark delete"):
        write(LocalStore(lake), counts(1, 1))
    delete_bookmark(Lake(LocalStore(lake)), ID)
    assert read(LocalStore(lake)) is None


def test_only_one_process_has_the_lock(tmp_path: Path) -> None:
    lake = Lake(LocalStore(tmp_path))
    with bookmark_lock_of(lake, ID, Waiting()):
        with pytest.raises(LockTimeoutError):
            bookmark_lock_of(lake, ID, Waiting(wait_seconds=0)).acquire()
        with bookmark_lock_of(lake, "another", Waiting(wait_seconds=0)):
            pass
    assert not [*(tmp_path / "bookmarks").iterdir()]


def test_of_two_writers_at_once_one_is_last_and_none_fails(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    threads = [
        threading.Thread(target=write, args=(store, {"bookmarks": {"a": number}}))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(store)["bookmarks"]["a"] in range(8)


def test_a_store_that_ignores_conditions_keeps_bookmarks_under_locks(tmp_path: Path) -> None:
    store = NonConditionalStore(tmp_path, settle=0.02)
    write(store, {"bookmarks": {"a": 1}})
    with bookmark_lock_of(Lake(store), ID, Waiting()):
        write(store, {"bookmarks": {"a": 2}})
    assert read(store) == {"bookmarks": {"a": 2}}
    assert not [*(tmp_path / "bookmarks").glob("*.lock")]


class Histories:
    """Two runs at once, reverts and undos between any of their steps.

    A table that a run wrote to which had begun before it was turned back is not turned back once
    more: its log then has a STATE that counts rows as sent that are gone (decision 158).
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._store = LocalStore(folder)
        self._random = random.Random(seed)
        self._source = Source()
        self._runs: dict[str, Iterator[str]] = {}
        self._began: dict[str, int] = {}
        self._turned: dict[str, int] = {}
        self._closed: set[str] = set()
        self._time = 0

    def go(self, count: int) -> None:
        for self._time in range(1, count + 1):
            work = self._random.choice([self._step, self._step, self._step, self._back, self._grow])
            work()
            self._check()
        for _ in steps(self._folder, self._source, self._store, split=False):
            pass
        rows = self._rows()
        assert rows == {s: [*range(1, count + 1)] for s, count in self._source.rows.items()}

    def _rows(self) -> dict[str, list[int]]:
        return {stream: ids(self._folder, stream) for stream in STREAMS}

    def _check(self) -> None:
        assert is_behind(read(self._store), self._rows())

    def _grow(self) -> None:
        self._source.grow(self._random.choice(STREAMS), self._random.randint(1, 2))

    def _step(self) -> None:
        name = self._random.choice("AB")
        if self._random.random() < 0.1:
            self._runs.pop(name, None)  # killed
        if name not in self._runs:
            split = self._random.random() < 0.5
            self._runs[name] = steps(self._folder, self._source, self._store, split)
            self._began[name] = self._time
        done = next(self._runs[name], None)
        if done is None:
            del self._runs[name]
        elif done == "committed":
            stale = {s for s, at in self._turned.items() if at > self._began[name]}
            self._closed |= stale

    def _back(self) -> None:
        stream = self._random.choice(STREAMS)
        try:
            table = opened(self._folder, stream)
            head = table.snapshot()
        except SingerlakeError:
            return
        if stream in self._closed:
            return
        syncs = [t.number for t in head.transactions if t.operation == Operation.SYNC]
        if self._random.random() < 0.5:
            revert_here(table, self._random.randint(1, head.number))
        elif syncs:
            numbers = [self._random.choice(syncs)]
            try:
                undo(table, UndoOptions(numbers, OnConflict.UNDO), HERE)
            except SingerlakeError:
                return
        self._turned[stream] = self._time


@pytest.mark.parametrize("seed", range(12))
def test_no_history_makes_the_bookmark_run_ahead(
    many_cases: None, tmp_path: Path, seed: int
) -> None:
    Histories(tmp_path, seed).go(40)
