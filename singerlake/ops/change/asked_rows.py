"""Row sets put together: what a change asks of a table's rows, read once.

A change may have several parts, applied in order: a row that the first part inserts the second
may change. All of them are read here, and shared out by key; how they are put together and held
against the table's state is in ``rows/changes/merging.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from singerlake.engine.base import Engine
from singerlake.errors import UsageError
from singerlake.format.names import TableName
from singerlake.log.table_state import TableState
from singerlake.ops.change.plan import Mode
from singerlake.ops.change.row_set import Part
from singerlake.rows.changes.asked_rows import SHARED, AskedStep, AskedSummary, by_place
from singerlake.rows.changes.merge_terms import MergeSpec
from singerlake.rows.state.blocked_keys import BlockedRows
from singerlake.rows.state.shape import Shape

MOST_PARTS = 512
"""Parts that rows are shared out to by their keys; each is compared in memory."""
PART_ROWS = 1_000_000
"""Rows of the state for which there is a part, about."""
_SUMMARY = msgspec.msgpack.Decoder(AskedSummary)


@dataclass(frozen=True)
class Asked:
    """What a change asks of a table's rows.

    Attributes:
        engine: Reads the rows.
        rows: The rows, packed, and what was seen of them, as ``asked_rows.SHARED`` has them.
        spec: What is asked of them.
        modes: Those of the steps.
        parts: Parts that rows are shared out to.
    """

    engine: Engine[Any]
    rows: Any
    spec: MergeSpec
    modes: tuple[Mode, ...]
    parts: int

    @property
    def replaces(self) -> bool:
        """Whether rows that are not asked for go."""
        return self.spec.replaces

    @property
    def columns(self) -> tuple[int, ...]:
        """Indexes of the columns that are named, and of the key's."""
        return self.spec.cells

    @property
    def sources(self) -> tuple[str, ...]:
        """What messages call the rows' sources."""
        return self.spec.sources

    @property
    def packed(self) -> Any:
        """The packed rows alone."""
        return self.engine.having(self.rows, "part")

    @cached_property
    def seen(self) -> Seen:
        """What the rows are like; they are read for it."""
        told = self.engine.collect(self.engine.having(self.rows, "summary"))
        return Seen([_SUMMARY.decode(row["summary"]) for row in told])


class Seen:
    """What has been seen of the rows that are asked for.

    Args:
        tasks: By those that read them.

    Attributes:
        named: Rows that say which row of the table they mean.
        unnamed: Those that must and do not, in a table without a key.
        problems: What readers have found wrong.
        wrong: Rows whose key or id cannot be.
        faults: The first of them.
        blocked: Rows that were left out because their keys are blocked.
        keys: The values of what rows are found by, packed; None where they are too many.
    """

    def __init__(self, tasks: Sequence[AskedSummary]) -> None:
        self.named = sum(task.named for task in tasks)
        self.unnamed = sum(task.unnamed for task in tasks)
        self.wrong = sum(task.wrong for task in tasks)
        self.blocked = sum(task.blocked for task in tasks)
        self.problems = [task.problems for task in tasks]
        self.faults = by_place(fault for task in tasks for fault in task.faults)
        found = [task.keys for task in tasks]
        few = None not in found and sum(map(len, filter(None, found))) <= _MOST_KEY_BYTES
        self.keys = [data for data in found if data] if few else None


_MOST_KEY_BYTES = 64 << 20
"""Of keys that are sent to those that read the table's state."""


def asked(
    engine: Engine[Any],
    state: TableState,
    shape: Shape,
    parts: Sequence[Part],
    *,
    blind: bool,
    blocked: BlockedRows | None = None,
) -> Asked:
    """Put the rows of all parts together.

    Args:
        engine: Reads them.
        state: The table as it is.
        shape: The table's.
        parts: In the order in which they are applied.
        blind: Whether the versions in which rows were read do not matter.
        blocked: Tells rows with a blocked key, which are left out; None where no key is blocked.

    Raises:
        UsageError: The parts contradict each other.
    """
    modes = tuple(part.mode for part in parts)
    if Mode.REPLACE in modes and len(parts) > 1:
        raise UsageError(
            f"replacing all rows of {state.table} cannot be combined with other parts of the "
            "change: do it in a separate change"
        )
    sets = [(number, one) for number, part in enumerate(parts) for one in part.row_sets]
    cells = tuple(sorted({*shape.keys, *(index for _, one in sets for index in one.columns)}))
    rows = sum(block.rows for block in state.blocks)
    many = max(engine.parts, rows // PART_ROWS, *(2 * one.tasks for _, one in sets))
    shared = min(many, MOST_PARTS)
    read: list[Any] = []
    sources: list[str] = []
    for number, (step, row_set) in enumerate(sets):
        ready = AskedStep(
            reader=row_set.step,
            columns=shape.columns,
            keys=shape.keys,
            named=row_set.columns,
            cells=cells,
            number=number,
            first_source=len(sources),
            sources=row_set.sources,
            deletes=modes[step] is Mode.DELETE,
            updates=modes[step] is Mode.UPDATE,
            parts=shared,
            blocked=blocked,
        )
        read.append(engine.map(row_set.rows, ready, SHARED))
        sources += row_set.sources
    spec = MergeSpec(
        columns=shape.columns,
        keys=shape.keys,
        cells=cells,
        sets=[tuple(i for i in one.columns if i not in shape.keys) for _, one in sets],
        steps=[step for step, _ in sets],
        needs=[{Mode.INSERT: False, Mode.UPDATE: True}.get(mode) for mode in modes],
        sources=tuple(sources),
        blind=blind,
        replaces=Mode.REPLACE in modes,
    )
    return Asked(engine, engine.union(*read), spec, modes, shared)


def check_named(wanted: Asked, table: TableName) -> None:
    """Refuse a change of rows that are there, where nothing at all says which ones are meant.

    Args:
        wanted: What is asked.
        table: For the error.

    Raises:
        UsageError: The table has no key, and no row has an id.
    """
    seen = wanted.seen
    if seen.named or wanted.spec.keys or {Mode.UPDATE, Mode.DELETE}.isdisjoint(wanted.modes):
        return
    if seen.unnamed and seen.unnamed == seen.wrong:
        raise UsageError(
            f"{table} has no key, and none of the rows contains a _row_id that identifies it: give "
            f"the table a key (singerlake alter {table} set-key COLUMN), or change rows in the "
            "form of query --row-metadata; nothing was changed"
        )
