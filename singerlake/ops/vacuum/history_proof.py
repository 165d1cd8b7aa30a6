"""Proves, before the expiry of history is committed, that every protected state reads as before.

The old side is read from the old blocks, the new one from what was written to the store and from
the blocks that stay. Where both tell rows apart by the same key, the rows of blocks that stay are
compared by their places alone: a block is the same bytes on both sides, and which of its rows are
in the state is found on each side by itself, from all keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from singerlake.engine.base import Engine
from singerlake.errors import DamagedError
from singerlake.format.log import Entry
from singerlake.lake import Table
from singerlake.log import versions
from singerlake.log.commit import preview
from singerlake.log.table_state import TableState
from singerlake.ops.vacuum.drop_history import DropHistoryPlan
from singerlake.rows.blocks.misfits import NULL
from singerlake.rows.state import moved_rows
from singerlake.rows.state.fingerprint import Content, claims
from singerlake.rows.state.moved_rows import MOVED_SUMS, MovedContent, MovedSummer, MovedSums
from singerlake.snapshot import from_blocks
from singerlake.snapshot.content import state_content
from singerlake.snapshot.from_blocks import Plan


@dataclass(frozen=True)
class Found:
    """Where the rows of a state lie, found from the old blocks already.

    Attributes:
        number: The state's transaction.
        plan: How its blocks are shared out.
        picked: What ``from_blocks.picked`` gave for it.
    """

    number: int
    plan: Plan
    picked: Any


def prove(
    engine: Engine[Any],
    table: Table,
    snapshot: TableState,
    plan: DropHistoryPlan,
    entry: Entry,
    found: Found | None,
) -> None:
    """Read every state that lost blocks, by the new blocks, and hold it against the old.

    Args:
        engine: Reads the states.
        table: The table.
        snapshot: Its head.
        plan: What history goes.
        entry: What is to be committed.
        found: What is known of the old side.

    Raises:
        DamagedError: One reads otherwise.
    """
    after = preview(snapshot, entry)
    touched = min(interval.blocks[0].number for interval in plan.intervals if interval.blocks)
    seen: set[tuple[int, str, int, int]] = set()
    for version in versions.protecting(snapshot, plan.floor):
        at = after.frozen_as(version).earliest_equal()
        same = _state(at)
        if at.last_block < touched or same in seen:
            continue
        seen.add(same)
        known = Content(version.rows, claims(version))
        present = state_content(engine, table, at, tuple(known.proofs))
        _agree(table, f"version {version.number}", known, present)
    for number in (plan.floor, snapshot.number):
        # As the head reads: a key that only a person's word opened did not read at its own time.
        old, new = (one.at(number).as_read_by(snapshot) for one in (snapshot, after))
        same = _state(snapshot.at(number))
        if same in seen:
            continue
        seen.add(same)
        known_here = found if found is not None and found.number == number else None
        _compare(engine, table, f"transaction {number}", old, new, known_here)


def _compare(
    engine: Engine[Any],
    table: Table,
    what: str,
    old: TableState,
    new: TableState,
    found: Found | None,
) -> None:
    """Hold one state, as it was, against what it will be."""
    before = found.plan if found is not None else _planned(engine, table, old)
    after = _planned(engine, table, new)
    # A value that fits no column is no reason to keep history; the records' digests tell.
    if not before.shape.keys or before.shape != after.shape:
        was, now = (state_content(engine, table, one, misfits=NULL) for one in (old, new))
        _agree(table, what, was, now)
        return
    staying = {block.number: block for block in new.blocks}
    both = {block.number for block in old.blocks if staying.get(block.number) == block}
    picked = from_blocks.picked(engine, before) if found is None else found.picked
    earlier = _moved(engine, before, picked, both)
    later = _moved(engine, after, from_blocks.picked(engine, after), both)
    if (earlier.staying, earlier.places) != (later.staying, later.places):
        told = (f"{one.staying} rows at places {one.places}" for one in (later, earlier))
        raise _differs(table, what, *told)
    _agree(table, what, earlier.moved, later.moved)


def _planned(engine: Engine[Any], table: Table, state: TableState) -> Plan:
    return from_blocks.planned(engine, table, state, digests=True, shown=True)


def _moved(engine: Engine[Any], plan: Plan, picked: Any, both: set[int]) -> MovedContent:
    """Sum up a state whose rows were found."""
    pairs = zip(plan.sent, plan.tasks, strict=True)
    tasks = [moved_rows.task(sent, blocks, both) for sent, blocks in pairs]
    shape = plan.shape
    step = MovedSummer(plan.reader, shape.survival, shape.columns)
    joined = engine.exchange(picked, max(1, len(tasks)), "task", tasks)
    # A few kilobytes a part, never rows.
    return MovedSums(engine.collect(engine.map(joined, step, MOVED_SUMS))).content


def _state(at: TableState) -> tuple[int, str, int, int]:
    """What tells one state, and how it is read, from another."""
    return at.last_block, at.schema_hash, max(at.overlays, default=0), at.rules


def _agree(table: Table, what: str, was: Content, now: Content) -> None:
    if was != now:
        told = (f"{one.rows} rows, {' and '.join(one.proofs.values())}" for one in (now, was))
        raise _differs(table, what, *told)


def _differs(table: Table, what: str, now: str, was: str) -> DamagedError:
    return DamagedError(
        f"{table.name}: without its old history, {what} would change ({now}; before {was}): "
        f"nothing was changed; check with: singerlake verify {table.name}"
    )
