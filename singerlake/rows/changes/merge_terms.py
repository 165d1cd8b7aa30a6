"""Inputs and outputs of a merge: rows that are asked for, and those that are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.format.types import Columns
from singerlake.rows.batches import row_columns
from singerlake.rows.batches.problems import MOST
from singerlake.rows.batches.row_columns import BLOCK, MISFITS, ORDINAL, alias
from singerlake.rows.changes import row_ids
from singerlake.rows.changes.asked_rows import GIVEN, GONE, READ, PlacedProblem, by_place
from singerlake.rows.changes.row_ids import AT_BLOCK, AT_ROW
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.input.rows import LINE, OMITTED, ROW_ID, SOURCE, TYPES

LAYER = "layer"
"""Whether a row is of a layer, and so hides the one of its key below."""
MERGED = "part int, there binary, new binary, summary binary"
"""What a step gives: packed rows that change, those that are there and those that are new, with the
number of their part; and at a task's end what it has found."""
MERGED_SCHEMA = pa.schema(
    [("part", pa.int32()), ("there", pa.binary()), ("new", pa.binary()), ("summary", pa.binary())]
)
STATUS = "status"
INSERTED, UPDATED, DELETED, UNCHANGED = "inserted", "updated", "deleted", "unchanged"
ABSENT, WRONG, STALE = "absent", "wrong", "stale"
"""What becomes of a row; the last three: it is to be deleted and was not there, it cannot be, and
it was read in another version."""
POSITION_BLOCK, POSITION_ROW = "block", "row"
"""Where the row is now; null for one that is not there. A new record may replace a row."""
CHANGED = "changed"
"""Indexes of the columns whose cells are others afterwards; of a new record, those that are set;
null of one that goes."""

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


class StaleRow(msgspec.Struct):
    """A row that was read in another version than it has.

    Attributes:
        source: The number of its source.
        line: Its line; -1 where there is none.
        read: The versions in which it was read.
        now: That which it has; None where it is gone.
    """

    source: int
    line: int
    row: str
    read: list[int]
    now: int | None


class MergeSummary(msgspec.Struct):
    """The findings of a task.

    Attributes:
        repeated: Keys that one step names twice.
        twice: The first of them.
        faults: The first of the rows that cannot be.
        stale: The first of those that were read in another version.
        blocks: The blocks that rows are in which are written again, and how many of each.
    """

    counts: dict[str, int] = msgspec.field(default_factory=dict)
    repeated: int = 0
    twice: list[PlacedProblem] = msgspec.field(default_factory=list)
    faults: list[PlacedProblem] = msgspec.field(default_factory=list)
    stale: list[StaleRow] = msgspec.field(default_factory=list)
    blocks: dict[int, int] = msgspec.field(default_factory=dict)

    def merge(self, other: MergeSummary) -> None:
        """Add what another part has shown."""
        for status, count in other.counts.items():
            self.counts[status] = self.counts.get(status, 0) + count
        for block, count in other.blocks.items():
            self.blocks[block] = self.blocks.get(block, 0) + count
        self.repeated += other.repeated
        self.twice = by_place(self.twice + other.twice)
        self.faults = by_place(self.faults + other.faults)
        self.stale = sorted(self.stale + other.stale, key=lambda one: (one.source, one.line))
        self.stale = self.stale[:MOST]


@dataclass(frozen=True)
class MergeSpec:
    """The specification of a merge.

    Attributes:
        keys: Indexes of its key's columns.
        cells: Indexes of the columns that are named, and of the key's.
        sets: Of each row set, the indexes of the columns that its rows set.
        steps: Of each, the number of the step that it is of.
        needs: Of each step, whether its rows must be there (true), must not (false), or may be.
        sources: What messages call the sources.
        blind: Whether the versions in which rows were read do not matter.
        replaces: Whether rows that are not asked for go.
    """

    columns: Columns
    keys: tuple[int, ...]
    cells: tuple[int, ...]
    sets: Sequence[tuple[int, ...]]
    steps: Sequence[int]
    needs: Sequence[bool | None]
    sources: tuple[str, ...]
    blind: bool
    replaces: bool

    @property
    def join(self) -> tuple[str, ...]:
        """The columns that rows are found by."""
        return row_ids.join_columns(self.keys)

    @property
    def id_names(self) -> str:
        """The names in messages of the columns that name a row."""
        return ", ".join(name for name, _ in self.key_columns) or "_row_id"

    @property
    def set_columns(self) -> list[int]:
        """Indexes of the columns whose cells may change."""
        return [index for index in self.cells if index not in self.keys]

    @property
    def key_columns(self) -> Columns:
        """The columns of the key."""
        return tuple(self.columns[index] for index in self.keys)


def asked_schema(spec: MergeSpec) -> pa.Schema:
    """Return the columns that rows which are asked for have in a merge."""
    cells = {alias(index): arrow_type(spec.columns[index][1]) for index in spec.cells}
    at = {} if spec.keys else {AT_BLOCK: pa.int64(), AT_ROW: pa.int32()}
    given = {name: TYPES[name] for name in (SOURCE, LINE, OMITTED)}
    more = {GIVEN: pa.int32(), GONE: pa.bool_(), READ: pa.int64()}
    return pa.schema(list({**cells, **at, **given, **more}.items()))


def present_schema(spec: MergeSpec) -> pa.Schema:
    """Return the columns that rows which are there have."""
    columns = (*spec.keys, *spec.set_columns)
    cells = {alias(index): arrow_type(spec.columns[index][1]) for index in columns}
    own = {name: row_columns.TYPES[name] for name in (BLOCK, ORDINAL, MISFITS, row_columns.DELETED)}
    return pa.schema(list({**cells, **own, LAYER: pa.bool_()}.items()))


def changed_schema(spec: MergeSpec) -> pa.Schema:
    """Return the columns of rows that change, as a merge packs them.

    They have what becomes of them, the position, the indexes of the columns that change, what
    they are found by, the cells, where they were given, and an id if they have no line.
    """
    cells = {alias(i): arrow_type(spec.columns[i][1]) for i in (*spec.keys, *spec.set_columns)}
    fields = {
        STATUS: pa.string(),
        POSITION_BLOCK: pa.int64(),
        POSITION_ROW: pa.int32(),
        CHANGED: pa.list_(pa.int32()),
        **({} if spec.keys else {AT_BLOCK: pa.int64(), AT_ROW: pa.int32()}),
        **cells,
        **{name: TYPES[name] for name in (SOURCE, LINE, ROW_ID)},
    }
    return pa.schema(list(fields.items()))


def ints(column: pa.ChunkedArray) -> Numbers:
    """Return a column of whole numbers without nulls."""
    found: Numbers = column.to_numpy().astype(np.int64, copy=False)
    return found


def bools(column: pa.ChunkedArray | pa.Array) -> Mask:
    """Return a column of truths; a null is false."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    filled = pc.fill_null(whole, False)
    found: Mask = filled.to_numpy(zero_copy_only=False)
    return found
