"""The rows of a relation, as DuckDB is handed them: the columns that a statement reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format.types import INTEGER, STRING, Columns, Kind, Type
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL, TYPES, alias
from singerlake.rows.batches.steps import Batches
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.snapshot.index import Index
from singerlake.snapshot.state_reader import StateReader
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.tables import metadata_names

_CLOCK = pa.timestamp("us")
_METADATA = (STRING, INTEGER, INTEGER)
_ROW_ID, _ROW_VERSION, _TRANSACTION = range(3)
_SPELLED_ALIKE = (Kind.INTEGER, Kind.STRING, Kind.TEXT)
"""Kinds of which Arrow and Spark make the same text."""


def columns_of(state: TableState, *, row_metadata: bool) -> Columns:
    """Return the columns that a statement may name."""
    if not row_metadata:
        return state.columns
    names = metadata_names([name for name, _ in state.columns])
    return (*zip(names, _METADATA, strict=True), *state.columns)


@dataclass(frozen=True)
class RelationRows:
    """A reader of the columns of a relation that a statement names.

    Attributes:
        state: The table at its transaction.
        used: Their indexes in :func:`columns_of`.
        row_metadata: Whether it has columns of ours in front.
        strict: Whether values that do not fit are an error; otherwise those of the whole table
            are counted.
    """

    state: TableState
    index: Index
    used: list[int]
    row_metadata: bool = False
    strict: bool = True

    def __post_init__(self) -> None:
        unfit, shape = self.index.misfits, self.index.shape
        if self.strict:
            needed = {alias(place): place for place in range(len(shape.columns))}
            unfit = {needed[name] for name in self._needed() if name in needed} & unfit
        if unfit:
            raise OutsideError(
                f"the column {shape.names[min(unfit)]}, which has values that do not fit its type"
            )
        if self._asks(_ROW_ID):
            keys = [type_ for _, type_ in shape.key_columns]
            if len(keys) > 1 or any(type_.kind not in _SPELLED_ALIKE for type_ in keys):
                raise OutsideError("_row_id in a table whose key is not a single number or string")

    def __call__(self) -> tuple[pa.Schema, Batches]:
        """Begin to read the rows; if no column is asked for, one column stands for the rows."""
        columns = columns_of(self.state, row_metadata=self.row_metadata)
        fields = [pa.field(alias(one), clock_type(columns[one][1])) for one in self.used]
        schema = pa.schema(fields or [pa.field(BLOCK, TYPES[BLOCK])])
        return schema, self._batches(schema)

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        rows = StateReader.proven(self.index).rows(self._needed())
        columns = (
            [self._column(one, batch) for one in self.used] or [batch.column(BLOCK)]
            for batch in rows
        )
        return clocks(columns, schema)

    @property
    def _ours(self) -> int:
        return len(_METADATA) if self.row_metadata else 0

    def _asks(self, ours: int) -> bool:
        return self.row_metadata and ours in self.used

    def _needed(self) -> list[str]:
        """Return the columns that are read, by their names inside."""
        own = [alias(one - self._ours) for one in self.used if one >= self._ours]
        ours = [BLOCK] if len(own) < len(self.used) or not own else []
        if self._asks(_ROW_ID):
            ours += self.index.shape.key_aliases or [ORDINAL]
        return list(dict.fromkeys([*own, *ours]))

    def _column(self, one: int, batch: pa.RecordBatch) -> pa.Array:
        if one >= self._ours:
            return batch.column(alias(one - self._ours))
        block = batch.column(BLOCK)
        if one == _ROW_VERSION:
            return block
        if one == _TRANSACTION:
            return _transactions(self.state).take(pc.subtract(block, 1))
        keys = [batch.column(name) for name in self.index.shape.key_aliases]
        if keys:
            return keys[0].cast(pa.string())
        ordinal = batch.column(ORDINAL).cast(pa.string())
        return pc.binary_join_element_wise(block.cast(pa.string()), ordinal, ":")


def clocks(rows: Iterable[Sequence[pa.Array]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Make batches of columns, with times as a schema of :func:`clock_type` has them."""
    for columns in rows:
        arrays = [
            column.view(type_) if type_ == _CLOCK else column
            for column, type_ in zip(columns, schema.types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def clock_type(type_: Type) -> pa.DataType:
    """Return a column's type in DuckDB; for a time, that of what a clock in UTC shows."""
    return _CLOCK if type_.kind is Kind.TIMESTAMP else arrow_type(type_)


def _transactions(state: TableState) -> pa.Array:
    """Return the transaction of each block, from the first on."""
    numbers: list[int] = []
    for one in state.transactions:
        numbers += [one.number] * (one.last_block - len(numbers))
    return pa.array(numbers, pa.int64())
