"""Rows that a change is asked for, made ready to be held against a table's state.

Each row gets the cells of all columns that the change names, and the key or the position by which
its row of the table is found. Equal keys go into the same part, wherever they are read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.format.types import Columns, Kind, is_exact
from singerlake.rows.batches import packing
from singerlake.rows.batches.packing import one_array
from singerlake.rows.batches.problems import MOST, Problem, Problems, RowProblem, decode
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.batches.steps import Batches, Step
from singerlake.rows.blocks.exact_decoding import DELETED_AT
from singerlake.rows.changes import row_ids
from singerlake.rows.changes.row_ids import AT_BLOCK, AT_ROW
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.given.rows import (
    DELETED,
    LINE,
    OMITTED,
    PROBLEMS,
    ROW_ID,
    ROW_VERSION,
    SOURCE,
    TYPES,
)
from singerlake.rows.state import keys
from singerlake.rows.state.blocked_keys import BlockedRows

SHARED = "part int, rows binary, present boolean, summary binary"
"""What a step gives: packed rows of a part, and at a task's end what it has seen of them all."""
SHARED_SCHEMA = pa.schema(
    [("part", pa.int32()), ("rows", pa.binary()), ("present", pa.bool_()), ("summary", pa.binary())]
)
GIVEN = "given"
"""The number of the row set that a row is of."""
GONE = "gone"
"""Whether the row shall not be there."""
READ = "read"
"""The version in which the row was read; null where nobody says."""
_BUFFER_ROWS, _BUFFER_BYTES = 131_072, 32 << 20
_MOST_KEY_BYTES = 32 << 20
"""Of keys that a task names to those that read the table's state; with more, none are named."""
_MARKED = "marks a row that a source deleted; to delete this one, use a column _delete"
_KEYLESS = "the table has no key, so only _row_id identifies a row"
_LONE = (
    "is null in a row of the table, so no change can find that row: give the table another key "
    "(singerlake alter TABLE set-key), or remove the row from all versions (singerlake erase "
    "TABLE --where)"
)
_NO_ID = "is not the id of a row of this table"
_NO_EXACT_ID = (
    f"{_NO_ID}, or its key column would round it: first give the column a type that holds every "
    "key, with singerlake alter TABLE retype COLUMN TYPE"
)
_NEW_KEY = (
    ": the key of a row cannot be changed; delete the one row, and insert the other without _row_id"
)


class Placed(msgspec.Struct):
    """A problem, and where its row is.

    Attributes:
        source: The number of its source.
        line: Its line; -1 where there is none.
        row: The id of the row.
        problem: The problem.
    """

    source: int
    line: int
    row: str
    problem: Problem


def by_place(found: Iterable[Placed]) -> list[Placed]:
    """Return the first problems, in the order of their rows."""
    return sorted(found, key=lambda one: (one.source, one.line, one.row))[:MOST]


class AskedSummary(msgspec.Struct):
    """What a task has seen of the rows that it read.

    Attributes:
        named: Rows that say which row of the table they mean.
        unnamed: Those that must and do not, in a table without a key.
        problems: What the reader has found wrong.
        wrong: Rows whose key or id cannot be.
        faults: The first of them.
        keys: The columns that rows are found by, packed, each value once; null where there are
            too many.
        blocked: Rows that were left out because their keys are blocked.
    """

    named: int = 0
    unnamed: int = 0
    problems: Problems = msgspec.field(default_factory=Problems)
    wrong: int = 0
    faults: list[Placed] = msgspec.field(default_factory=list)
    keys: bytes | None = None
    blocked: int = 0


@dataclass
class AskedStep:
    """Makes the rows of one row set ready.

    Attributes:
        reader: Gives batches of ``given.rows.given_schema``; None where such batches come in.
        columns: The table's.
        keys: Indexes of its key's columns.
        named: Indexes of the columns that the rows name.
        cells: Indexes of those that the change names, and of the key's.
        number: The row set's.
        first_source: The number of its first source.
        sources: What messages call its sources.
        deletes: Whether all rows are to go.
        updates: Whether all must be there.
        parts: Parts that rows are shared out to.
        blocked: Tells rows with a blocked key, which are left out; None where no key is blocked.
    """

    reader: Step | None
    columns: Columns
    keys: tuple[int, ...]
    named: tuple[int, ...]
    cells: tuple[int, ...]
    number: int
    first_source: int
    sources: tuple[str, ...]
    deletes: bool
    updates: bool
    parts: int
    blocked: BlockedRows | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Read and share out."""
        summary = AskedSummary()
        known = _KnownKeys()
        waiting: list[pa.RecordBatch] = []
        for batch in batches if self.reader is None else self.reader(batches):
            sound = _sound(batch, summary.problems)
            if sound.num_rows:
                waiting.append(self._let_in(self._ready(sound, summary), summary))
            enough = sum(map(len, waiting)) >= _BUFFER_ROWS
            if enough or sum(one.nbytes for one in waiting) >= _BUFFER_BYTES:
                yield from self._shared(waiting, known)
                waiting = []
        if waiting:
            yield from self._shared(waiting, known)
        summary.keys = known.packed()
        last = [None, None, None, msgspec.msgpack.encode(summary)]
        arrays = [pa.array([v], f.type) for v, f in zip(last, SHARED_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SHARED_SCHEMA)

    def _shared(self, waiting: list[pa.RecordBatch], known: _KnownKeys) -> Batches:
        rows = pa.Table.from_batches(waiting)
        names = row_ids.join_columns(self.keys)
        compared = compared_keys(rows, names, self._key_columns)
        known.add(compared)
        part = keys.parts_of(compared, self.parts)
        if not self.keys:  # rows that name none go anywhere
            unnamed = np.flatnonzero(rows.column(AT_BLOCK).is_null().to_numpy())
            part[unnamed] = unnamed % self.parts
        yield from shared(rows, part, self.parts, present=False)

    @property
    def _key_columns(self) -> Columns:
        return tuple(self.columns[index] for index in self.keys)

    def _ready(self, batch: pa.RecordBatch, summary: AskedSummary) -> pa.RecordBatch:
        count = batch.num_rows
        cells = {index: self._cell(batch, index) for index in self.cells}
        gone = pc.fill_null(_typed(batch, DELETED), False)
        if self.deletes:
            gone = pa.repeat(pa.scalar(True), count)
        ids = _typed(batch, ROW_ID)
        at: dict[str, pa.Array] = {}
        if self.keys:
            found, named = self._check_keys(cells, ids, _typed(batch, ROW_VERSION))
        else:
            at = dict(zip((AT_BLOCK, AT_ROW), row_ids.positions(ids), strict=True))
            found, named = self._check_positions(ids, at[AT_BLOCK], gone, summary)
        found += self._deletions(cells, gone, {one.row for one in found})
        source = pc.add(_typed(batch, SOURCE), pa.scalar(self.first_source, pa.int32()))
        ready = pa.RecordBatch.from_pydict(
            {
                **{alias(index): cell for index, cell in cells.items()},
                **at,
                SOURCE: source,
                LINE: _typed(batch, LINE),
                OMITTED: _typed(batch, OMITTED),
                GIVEN: pa.repeat(pa.scalar(self.number, pa.int32()), count),
                GONE: gone,
                READ: _typed(batch, ROW_VERSION),
            }
        )
        summary.named += named
        if found:
            self._note(found, batch, summary)
            right = np.ones(count, dtype=bool)
            right[[one.row for one in found]] = False
            ready = ready.filter(pa.array(right))
        return ready

    def _let_in(self, ready: pa.RecordBatch, summary: AskedSummary) -> pa.RecordBatch:
        """Leave out what comes with a blocked key; a row that is to go does not come."""
        if self.blocked is None or not len(ready):
            return ready
        cells = [ready.column(alias(index)) for index in self.keys]
        stays = ~self.blocked.mask(keys.compared(cells, self._key_columns))
        stays |= ready.column(GONE).to_numpy(zero_copy_only=False)
        summary.blocked += int(np.count_nonzero(~stays))
        return ready.filter(pa.array(stays))

    def _cell(self, batch: pa.RecordBatch, index: int) -> pa.Array:
        type_ = arrow_type(self.columns[index][1])
        if index not in self.named:
            return pa.nulls(batch.num_rows, type_)
        return as_type(batch.column(alias(index)), type_)

    def _deletions(
        self, cells: dict[int, pa.Array], gone: pa.Array, wrong: Container[int]
    ) -> list[RowProblem]:
        """Find rows that would be deletions by their ``_sdc_deleted_at``, which only taps set."""
        names = {self.columns[index][0]: index for index in self.named if index in cells}
        if (index := names.get(DELETED_AT)) is None or cells[index].null_count == len(gone):
            return []
        marked = pc.and_(cells[index].is_valid(), pc.invert(gone))
        return [
            RowProblem(row, DELETED_AT, str(cells[index][row].as_py()), _MARKED)
            for row in _rows(marked)
            if row not in wrong
        ]

    def _check_keys(
        self, cells: dict[int, pa.Array], ids: pa.Array, read: pa.Array
    ) -> tuple[list[RowProblem], int]:
        """Find each row's key, by its id too, and what is wrong with it."""
        if ids.null_count < len(ids):
            faults = self._by_ids(cells, ids, read)
            return faults, len(ids) - len(faults)
        wrong: dict[int, RowProblem] = {}
        for index in self.keys:
            cell = cells[index]
            for row in _rows(cell.is_null()) if cell.null_count else ():
                name = self.columns[index][0]
                wrong.setdefault(row, RowProblem(row, name, None, _null_key(read, row)))
        return list(wrong.values()), len(ids) - len(wrong)

    def _by_ids(
        self, cells: dict[int, pa.Array], ids: pa.Array, read: pa.Array
    ) -> list[RowProblem]:
        wrong: dict[int, RowProblem] = {}
        others: set[int] = set()
        given = ids.is_valid()
        meant = row_ids.key_values(ids, self._key_columns)
        for index, value in zip(self.keys, meant, strict=True):
            cell, (name, type_) = cells[index], self.columns[index]
            both = pc.and_(given, cell.is_valid())
            others.update(_rows(pc.and_(both, differ(cell, value, type_.kind))))
            cells[index] = cell = pc.coalesce(cell, value)
            for row in _rows(cell.is_null()):
                id_ = ids[row].as_py()
                none = RowProblem(row, name, None, _null_key(read, row))
                why = _NO_EXACT_ID if is_exact(type_) else _NO_ID
                told = none if id_ is None else RowProblem(row, "_row_id", id_, why)
                wrong.setdefault(row, told)
        for row in sorted(others.difference(wrong)):
            values = [cells[index][row].as_py() for index in self.keys]
            own = row_ids.id_text(values, self._key_columns)
            reason = f"is the id of another row than {own}{_NEW_KEY}"
            wrong[row] = RowProblem(row, "_row_id", ids[row].as_py(), reason)
        return [wrong[row] for row in sorted(wrong)]

    def _check_positions(
        self, ids: pa.Array, blocks: pa.Array, gone: pa.Array, summary: AskedSummary
    ) -> tuple[list[RowProblem], int]:
        given, found = ids.is_valid(), blocks.is_valid()
        bad = {
            row: RowProblem(row, "_row_id", ids[row].as_py(), _NO_ID)
            for row in _rows(pc.and_(given, pc.invert(found)))
        }
        must = pc.invert(given) if self.updates else pc.and_(pc.invert(given), gone)
        unnamed = {row: RowProblem(row, "_row_id", None, _KEYLESS) for row in _rows(must)}
        summary.unnamed += len(unnamed)
        wrong = {**bad, **unnamed}
        return [wrong[row] for row in sorted(wrong)], pc.sum(found).as_py() or 0

    def _note(
        self, found: Sequence[RowProblem], batch: pa.RecordBatch, summary: AskedSummary
    ) -> None:
        summary.wrong += len(found)
        sources, lines = batch.column(SOURCE), batch.column(LINE)
        for one in found[: max(0, MOST - len(summary.faults))]:
            source, line = sources[one.row].as_py(), lines[one.row].as_py()
            told = one.at(self.sources[source], line)
            at = -1 if line is None else line
            summary.faults.append(Placed(self.first_source + source, at, "", told))


def _null_key(read: pa.Array, row: int) -> str:
    """Say what is wrong with a null in a key: a row that was read is there, and has it."""
    return _LONE if read[row].is_valid else "a key cannot be null"


class _KnownKeys:
    """The values of the columns that rows are found by, as long as they are not too many."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] | None = []

    def add(self, compared: pa.Table) -> None:
        if self._tables is not None:
            self._tables.append(compared.combine_chunks())
            if sum(table.nbytes for table in self._tables) > _MOST_KEY_BYTES:
                self._tables = None

    def packed(self) -> bytes | None:
        if self._tables is None:
            return None
        whole = pa.concat_tables(self._tables) if self._tables else pa.table({})
        return packing.pack(whole)


def _sound(batch: pa.RecordBatch, problems: Problems) -> pa.RecordBatch:
    """The rows without what a reader says of them."""
    if PROBLEMS not in batch.schema.names:
        return batch
    told = batch.column(PROBLEMS)
    if told.null_count == len(told):
        return batch
    for one in told.drop_null().to_pylist():
        problems.merge(decode(one))
    return batch.filter(told.is_null())


def _typed(batch: pa.RecordBatch, name: str) -> pa.Array:
    return as_type(batch.column(name), TYPES[name])


def _rows(mask: pa.Array) -> list[int]:
    found: list[int] = np.flatnonzero(
        pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    ).tolist()
    return found


def as_type(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return a column in our type for it: Spark names the insides of some otherwise."""
    return array if array.type == type_ else array.cast(type_)


def differ(left: pa.Array, right: pa.Array, kind: Kind) -> pa.Array:
    """Tell where two columns of one kind differ; two nulls do not, nor do two NaN."""
    if pa.types.is_nested(left.type):
        left, right = (pa.array(map(repr, one.to_pylist())) for one in (left, right))
    other = pc.not_equal(left, right)
    if kind is Kind.NUMBER:
        other = pc.and_(other, pc.invert(pc.and_(pc.is_nan(left), pc.is_nan(right))))
    return (
        pc.fill_null(other, pc.xor(left.is_null(), right.is_null())) if other.null_count else other
    )


def compared_keys(rows: pa.Table, names: Sequence[str], columns: Columns) -> pa.Table:
    """Return the columns that rows are found by, as they are compared.

    Args:
        rows: The rows.
        names: What these columns are called there.
        columns: The key's; empty where rows are found by their positions.
    """
    arrays = [one_array(rows.column(name)) for name in names]
    if columns:
        arrays = keys.compared(arrays, columns)
    return pa.table(arrays, list(map(alias, range(len(arrays)))))


def shared(
    rows: pa.Table, part: NDArray[np.int64], parts: int, *, present: bool
) -> Iterator[pa.RecordBatch]:
    """Give rows by their parts, as :data:`SHARED` has them."""
    for number, some in packing.split(rows, part, parts):
        values = [number, packing.pack(some), present, None]
        arrays = [pa.array([v], f.type) for v, f in zip(values, SHARED_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SHARED_SCHEMA)
