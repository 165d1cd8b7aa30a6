"""Dropping history against a plain model: every promised state stays, nothing else does."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from singerlake.errors import ConflictError, NotFoundError
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.format.version_notes import ErasedVersion
from singerlake.lake import Lake, Table
from singerlake.log import files, scan
from singerlake.log.checkpoint import from_manifest, to_manifest, write_checkpoint
from singerlake.log.folding import fold
from singerlake.log.table_state import TableState
from singerlake.ops import freeze as freezing
from singerlake.ops import rebuild
from singerlake.ops.delete_version import delete_version
from singerlake.ops.vacuum import drop_history
from singerlake.ops.verify.data_files import check_files
from singerlake.ops.verify.plan import check_log
from singerlake.ops.verify.whole_table import check_block
from singerlake.storage.local.store import LocalStore
from tap_singerlake.plan import Plan
from tests.build import commit_rows
from tests.ops.vacuum.plain_table import (
    DELETED,
    Event,
    bounds,
    cutoff_at,
    drop,
    erase,
    events,
    events_of,
    freeze,
    keys_at,
    promised,
    state,
    states,
    until,
)
from tests.ops.vacuum.test_combine import combine

NAME = TableName("tap", "s")
BASE: dict[str, Any] = {"id": {"type": "integer"}, "part": {"type": "string"}}
WIDE = {**BASE, "note": {"type": "string"}}
SCHEMAS = {
    "keyed": [(BASE, ["id"]), (WIDE, ["id"])],
    "rekeyed": [(BASE, ["id"]), (WIDE, ["id", "part"]), (WIDE, ["part"])],
    "keyless": [(BASE, []), (WIDE, [])],
}


@pytest.fixture(autouse=True, scope="module")
def no_fsync() -> Iterator[None]:
    """Nobody pulls the plug here, and it is what most of the time would go to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _handle: None)
        yield


def messages(some: random.Random, count: int) -> list[Any]:
    found: list[Any] = []
    for n in range(count):
        if some.random() < 0.12:
            found.append(some.choice([1, 2]))
            continue
        record: dict[str, Any] = {"id": some.randrange(4), "part": some.choice("ab"), "n": n}
        if some.random() < 0.15:
            record[DELETED] = "2026-01-01T00:00:00Z"
        found.append((record, some.choice([1, 2])) if some.random() < 0.5 else record)
    return found


def contents(some: list[Event]) -> list[str]:
    return sorted(repr(sorted(row.record.items())) for row in some)


def placeless(event: Event) -> str:
    return repr(event[2:])


def key_of(event: Event, keys: list[str]) -> list[Any]:
    return [event.record.get(name) for name in keys]


class Story:
    """One random table, and what was promised of it."""

    def __init__(self, lake: Lake, kind: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.lake, self.kind = lake, kind
        self.table: Table = lake.table(NAME)
        self.promised: dict[int, list[Event]] = {}
        self.erased: list[list[Any]] = []

    def sync(self) -> None:
        properties, keys = self.random.choice(SCHEMAS[self.kind])
        some = messages(self.random, self.random.randrange(1, 9))
        commit_rows(self.lake, "tap.s", properties, keys, some, block_rows=3)
        self.note()

    def freeze(self) -> None:
        head = self.table.snapshot()
        freeze(self.table, self.random.choice(promised(head, head.floor)))
        self.note()

    def delete(self) -> None:
        """Delete a version; what it alone protected goes with a vacuum whose floor is later."""
        head = self.table.snapshot()
        if head.frozen:
            number = self.random.choice(head.frozen).number
            delete_version(self.lake.store, head, str(number), "wrong")
            self.note()

    def erase(self) -> None:
        """Erase all that a key ever was, or some lines of a table without one."""
        head = self.table.snapshot()
        everything = events(self.table, head)
        some = [e for e in everything if e.kind]
        if not some:
            return
        keys = keys_at(head, head.number)
        key = key_of(self.random.choice(some), keys)
        chosen = self.random.sample(some, self.random.randrange(1, len(some) + 1))
        going = {e.position for e in (some if keys else chosen) if key_of(e, keys) == key}
        rest = [e for e in everything if e.position not in going or not e.kind]
        left = {}
        for number, rows in states(self.table, head).items():
            left[number] = [row for row in rows if row.position not in going]
            if state(until(rest, head, number), keys_at(head, number)) != left[number]:
                assert self.kind == "rekeyed"  # older rows would come back: it is refused
                return
        frozen = [*head.frozen, *head.deleted_versions]
        told = [
            ErasedVersion(version=v.number, rows_before=v.rows, rows=v.rows, fingerprint="e" * 32)
            for v in frozen
            if v.transaction in left
        ]
        erase(self.table, going, told)
        self.erased += [key] if keys else []
        after = self.table.snapshot()
        assert events(self.table, after) == rest, "and nothing else has moved"
        assert states(self.table, after).items() >= left.items()
        self.promised = {
            number: [row for row in rows if row.position not in going]
            for number, rows in self.promised.items()
        }
        self.note()

    def note(self) -> None:
        """What new transactions read when they are made is what they read for ever."""
        for number, rows in states(self.table, self.table.snapshot()).items():
            assert self.promised.setdefault(number, rows) == rows

    def vacuum(self) -> None:
        before = self.table.snapshot()
        if before.number <= before.floor:
            return
        floor = self.random.randrange(before.floor + 1, before.number + 1)
        cutoff = cutoff_at(before, floor)
        plan = drop_history.plan_drop_history(before, cutoff)
        if plan is None:
            return
        assert plan.floor == floor
        untouched = {e.position for e in events(self.table, before)} - {
            e.position for b in plan.blocks for e in self.of_block(b)
        }
        kept = drop(self.table, before, plan)
        after = self.table.snapshot()
        left = {e.position for e in events(self.table, after) if e.kind}
        assert left == kept | {p for p in untouched if p in left}
        assert drop_history.plan_drop_history(after, cutoff) is None, "a second run does nothing"
        self.note()
        self.check_given_up(before, after)

    def of_block(self, block: Block) -> list[Event]:
        return [e for e in events_of(self.table.read_block(block), block) if e.kind]

    def check_given_up(self, before: TableState, after: TableState) -> None:
        for number in range(1, before.number + 1):
            if number in promised(after, after.floor):
                assert after.at(number).number == number
            else:
                with pytest.raises(NotFoundError, match="is gone, because its history has expired"):
                    after.at(number)
                with pytest.raises(NotFoundError, match="is gone"):
                    freezing.plan(after, at=number)

    def check(self) -> None:
        snapshot = self.table.snapshot()
        self.note()
        for block in snapshot.blocks:
            assert check_block(self.lake.store, NAME, block) == []
        assert check_files(snapshot, self.lake.store.list(NAME.folder))[0] == []
        self.check_derived(snapshot)
        self.check_lost(snapshot)
        self.check_bookmarks(snapshot)

    def check_derived(self, snapshot: TableState) -> None:
        again = from_manifest(NAME, to_manifest(snapshot))
        for other in (again, fold(TableState(NAME), self.table.entries())):
            for name in ("blocks", "floor", "frozen", "deleted_versions"):
                assert getattr(other, name) == getattr(snapshot, name)
            assert other.erased_at == snapshot.erased_at
            assert other.dropped == snapshot.dropped
            assert other.transactions == snapshot.transactions

    def check_lost(self, snapshot: TableState) -> None:
        """The log made again from the manifest, and from the files with the old ones there."""
        there = [*self.table.entries()]
        for lost in [{n} for n in range(snapshot.number)] + [
            {n for n in range(snapshot.number) if self.random.random() < 0.5} for _ in range(8)
        ]:
            left = [entry for n, entry in enumerate(there) if n not in lost and entry.moved]
            again = rebuild.entries_of(snapshot, left)
            mixed = [again[n] if n in lost else there[n] for n in range(snapshot.number)]
            found = fold(TableState(NAME), mixed)
            assert (found.blocks, found.floor) == (snapshot.blocks, snapshot.floor), lost
            assert (found.frozen, found.erased_at) == (snapshot.frozen, snapshot.erased_at)
            assert found.deleted_versions == snapshot.deleted_versions
            assert [t.last_block for t in found.transactions] == [
                t.last_block for t in snapshot.transactions
            ]
        present = files.list_files(self.lake.store, NAME).free
        entry = scan.adopting_entry(self.lake.store, NAME, present)
        assert entry is not None
        alone = fold(TableState(NAME, from_log=False), [entry])
        assert [b.number for b in alone.blocks] == sorted({b.number for b in alone.blocks})
        keys = keys_at(snapshot, snapshot.number)
        found = events(self.table, alone)
        back = Counter(map(placeless, found))
        back.subtract(map(placeless, events(self.table, snapshot)))
        assert min(back.values(), default=0) >= 0, "a message that the table has is not found"
        wanted, rows = self.promised[snapshot.number], state(found, keys)
        if self.kind != "rekeyed":
            # Nobody deletes here what an erasure leaves: where the row that went had deleted an
            # older one, which history has dropped since, that one's file brings it back.
            kept = [row for row in rows if key_of(row, keys) not in self.erased]
            assert contents(kept) == contents(
                [row for row in wanted if key_of(row, keys) not in self.erased]
            )
            assert {*contents(wanted)} <= {*contents(rows)}
            return
        # What went by one key counts again by the next: as a row, and over older rows of that key.
        since = [key_of(event, keys) for event in found if back[placeless(event)]]
        hidden = Counter(contents(wanted)) - Counter(contents(rows))
        assert all(key_of(row, keys) in since for row in wanted if contents([row])[0] in hidden)

    def check_bookmarks(self, snapshot: TableState) -> None:
        """A tap that goes on from any transaction gets what came since, once."""
        everything = events(self.table, snapshot)
        for start in range(snapshot.number):
            seen = snapshot.transactions[start - 1].last_block if start else 0
            plan = Plan(snapshot, start)
            out: list[Event] = []
            for transaction, blocks in plan.steps():
                for block in blocks:
                    text, rows = plan.new_in(block, self.table.read_block(block))
                    shown = [*events_of(text, replace(block, rows=rows))]
                    assert all(e.block > seen for e in shown)
                    out += shown
                # What a bookmark stands for is out when it moves.
                due = [e for e in everything if seen < e.block <= transaction.last_block and e.kind]
                assert {e.position for e in due} <= {e.position for e in out if e.kind}
            assert sorted(out) == sorted(e for e in everything if e.block > seen)


@pytest.mark.parametrize("kind", SCHEMAS)
@given(st.integers(0, 2**32), st.lists(st.sampled_from("sssfvde"), min_size=3, max_size=12))
@example(125393, ["f", "f", "f", "s", "v", "s"])  # what comes back hides an older row
@example(13695900, ["s", "s", "s", "v", "e"])  # what had deleted an older row is erased
@settings(max_examples=25, deadline=None)
def test_promised_states_stay_and_the_rest_goes(kind: str, seed: int, steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Lake.open(folder, create=True), kind, seed)
        story.sync()
        for step in [*steps, "v"]:
            steps_of = {"s": story.sync, "f": story.freeze, "v": story.vacuum, "d": story.delete}
            steps_of["e"] = story.erase
            steps_of[step]()
        story.check()


def test_the_same_rows_under_two_keys_keep_what_either_needs(lake: Lake) -> None:
    """A schema that changes without a row: both states have the same blocks."""
    from tests.tap.test_raw import commit_schema

    rows = [{"id": 1, "part": "a"}, {"id": 1, "part": "b"}, {"id": 2, "part": "b"}]
    commit_rows(lake, "tap.s", BASE, ["id"], rows, 1)
    commit_schema(lake, "tap.s", BASE, ["part"])
    table = lake.table(NAME)
    freeze(table, 1)
    before = states(table, table.snapshot())
    snapshot = table.snapshot()
    plan = drop_history.plan_drop_history(snapshot, cutoff_at(snapshot, snapshot.number))
    assert plan is not None
    least, most = bounds(table, snapshot, plan)
    assert len(least) == 3
    drop(table, snapshot, plan)
    after = states(table, table.snapshot())
    assert {number: after[number] for number in before} == before
    assert most == least


def test_a_version_frozen_meanwhile_is_a_conflict(lake: Lake) -> None:
    for n in range(4):
        commit_rows(lake, "tap.s", BASE, ["id"], [{"id": 1, "n": n}])
    table = lake.table(NAME)
    snapshot = table.snapshot()
    plan = drop_history.plan_drop_history(snapshot, cutoff_at(snapshot, 4))
    assert plan is not None
    freeze(table, 2)
    with pytest.raises(ConflictError, match="version 1 of tap.s was frozen in the meantime"):
        drop(table, snapshot, plan)
    assert len(events(table, table.snapshot())) == 4
    # One of the head, or of a state that stays, is none.
    plan = drop_history.plan_drop_history(table.snapshot(), cutoff_at(snapshot, 4))
    assert plan is not None
    before = table.snapshot()
    freeze(table, 4)
    drop(table, before, plan)
    assert {e.position for e in events(table, table.snapshot())} == {(2, 0), (4, 0)}
    # And who was reading what went cannot freeze it any more.
    wanted = freezing.plan(before, at=3)
    with pytest.raises(ConflictError, match="has expired while it was read: nothing was frozen"):
        freezing.commit_version(lake.store, before, wanted, rows=1, fingerprint="0" * 32)


@pytest.mark.parametrize("lost", ["log", "manifest", "both", "one entry"])
@pytest.mark.parametrize("keys", [["id"], []])
def test_what_is_lost_right_after_a_vacuum_comes_back(
    lake: Lake, lost: str, keys: list[str]
) -> None:
    """While the old files are still there: no row comes twice."""
    table = lake.table(NAME)
    for n in range(3):
        commit_rows(lake, "tap.s", BASE, keys, [({"id": i, "n": n}, n) for i in range(3)])
        commit_rows(lake, "tap.s", BASE, keys, [n] if n < 2 else [{"id": 7}])
        snapshot = table.snapshot()
        plan = drop_history.plan_drop_history(snapshot, cutoff_at(snapshot, snapshot.number))
        assert plan is not None
        drop(table, snapshot, plan)
        combine(table, 1 << 20)
    head = table.snapshot()
    before = contents(states(table, head)[head.number])
    assert isinstance(lake.store, LocalStore)
    folder = lake.store.root / NAME.folder
    assert len([*folder.rglob("*.gz")]) > len({block.file for block in head.blocks})
    write_checkpoint(lake.store, head)
    if lost == "one entry":
        (folder / "transactions" / "000000000002.json").unlink()
    if lost in ("log", "both"):
        for path in (folder / "transactions").iterdir():
            path.unlink()
    if lost in ("manifest", "both"):
        (folder / "manifest.json").unlink()
    for _ in range(2):
        found = table.snapshot()
        assert contents(state(events(table, found), keys)) == before
        rebuild.rebuild_table(lake.store, NAME)
    if lost != "both":
        (folder / "manifest.json").unlink()
        again = table.snapshot()
        assert (again.blocks, again.floor) == (head.blocks, head.floor)
        assert states(table, again) == states(table, head)
    for block in table.snapshot().blocks:
        assert check_block(lake.store, NAME, block) == []
    assert check_log(lake.store, NAME).problems == []
