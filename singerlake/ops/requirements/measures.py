"""The measures of requirements in a snapshot's columns: a pass over the rows, on any engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.engine.base import Engine
from singerlake.format.types import DIGITS, Kind, Type
from singerlake.rows.batches import packing
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.batches.steps import Batches
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.state import newest_rows
from singerlake.rows.state.newest_rows import SPLIT_KEYS
from singerlake.snapshot import content, from_blocks
from singerlake.snapshot.index import Index
from singerlake.snapshot.key_violations import CountedKeys

SUMMED = (Kind.INTEGER, Kind.NUMBER, Kind.DECIMAL)
"""Kinds of columns that have a sum."""
ORDERED = (*SUMMED, Kind.STRING, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP)
"""Kinds of columns that have a least and a greatest value."""
_FOUND = "found binary"
_DISTINCT = "keys long"
_EXACT = Context(prec=400)
"""Sums of decimals have no rounding: 38 digits and the digits of a count of rows fit by far."""


@dataclass(frozen=True)
class ColumnMeasure:
    """A measure of one column.

    Attributes:
        measure: ``nulls``, ``min``, ``max`` or ``sum``.
    """

    measure: str
    index: int
    type: Type


def measured(engine: Engine[Any], built: Index, wanted: Sequence[ColumnMeasure]) -> list[Any]:
    """Measure columns of a snapshot in one pass over them.

    Returns:
        For each an int (``nulls``), a Decimal or float (``sum``), or a value of the column; None
        for the least and greatest of no value.
    """
    if not wanted:
        return []
    columns = [*dict.fromkeys(alias(one.index) for one in wanted)]
    rows = content.of_index(engine, built, columns, MeasureStep(wanted), _FOUND)
    parts = [packing.unpack(row["found"]) for row in engine.collect(rows)]
    return [
        _total(one, [part.column(number) for part in parts]) for number, one in enumerate(wanted)
    ]


def distinct(engine: Engine[Any], built: Index, name: str, type_: Type, index: int) -> int:
    """Count the different values of a column, without null.

    Args:
        engine: Exchanges the values, so that equal ones come to one part.
    """
    columns = ((name, type_),)
    parts = max(engine.parts, content.most_rows(built) // from_blocks.PART_ROWS)
    counting = CountedKeys(columns, [alias(index)], parts)
    keyed = content.of_index(engine, built, [alias(index)], counting, SPLIT_KEYS)
    shared = engine.exchange(keyed, parts, "part")
    found = engine.collect(engine.map(shared, _distinct_of_part, _DISTINCT))
    return sum(row["keys"] for row in found)


def _distinct_of_part(parts: Batches) -> Batches:
    if tables := newest_rows.tables(parts):
        values = packing.one_array(pa.concat_tables(tables).column(alias(0)))
        keys = pc.count_distinct(values, mode="only_valid").as_py()
        yield pa.RecordBatch.from_pydict({"keys": pa.array([keys], pa.int64())})


@dataclass
class MeasureStep:
    """The measures of columns of some rows, as one packed row with a column for each measure."""

    wanted: Sequence[ColumnMeasure]

    def __call__(self, batches: Batches) -> Batches:
        """Take the rows of a file."""
        found: list[list[Any]] = [[] for _ in self.wanted]
        for batch in batches:
            for one, values in zip(self.wanted, found, strict=True):
                values.append(_of_batch(one, batch.column(alias(one.index))))
        arrays = [
            _combined(one, pa.array(values, _result_type(one)))
            for one, values in zip(self.wanted, found, strict=True)
        ]
        row = pa.table(arrays, names=[str(number) for number in range(len(arrays))])
        yield pa.RecordBatch.from_pydict({"found": pa.array([packing.pack(row)], pa.binary())})


def _result_type(one: ColumnMeasure) -> pa.DataType:
    if one.measure == "nulls":
        return pa.int64()
    if one.measure == "sum":  # a text has room for every digit
        return pa.float64() if one.type.kind is Kind.NUMBER else pa.string()
    return arrow_type(one.type)


def _of_batch(one: ColumnMeasure, column: pa.Array) -> Any:
    if one.measure == "nulls":
        return column.null_count
    if one.measure != "sum":
        return pc.min_max(column)[one.measure].as_py()
    if one.type.kind is Kind.NUMBER:
        return pc.sum(column).as_py()
    # In 128 bits a batch of 64-bit numbers has room; of 38 digits it may have none.
    if one.type.kind is Kind.INTEGER:
        total = pc.sum(column.cast(pa.decimal128(DIGITS, 0))).as_py()
    else:
        total = pc.sum(column.cast(pa.decimal256(2 * DIGITS, one.type.scale))).as_py()
    return None if total is None else str(total)


def _combined(one: ColumnMeasure, values: pa.Array) -> pa.Array:
    """Make one value of those of several batches."""
    if one.measure in ("min", "max"):
        value = pc.min_max(values)[one.measure]
    elif values.type == pa.string():
        value = pa.scalar(_exact_sum(values), pa.string())
    else:
        value = pc.sum(values, min_count=0 if one.measure == "nulls" else 1)
    return pa.array([value.as_py()], values.type)


def _exact_sum(values: pa.Array) -> str | None:
    total = None
    for text in values.drop_null().to_pylist():
        total = _EXACT.add(total or Decimal(0), Decimal(text))
    return None if total is None else str(total)


def _total(one: ColumnMeasure, parts: Sequence[pa.ChunkedArray]) -> Any:
    """Make the measure of all parts; no value at all has the sum 0."""
    pieces = [chunk for part in parts for chunk in part.chunks]
    values = pa.concat_arrays([pa.nulls(0, _result_type(one)), *pieces])
    (value,) = _combined(one, values).to_pylist()
    if one.measure == "sum":
        return Decimal(value or 0) if one.type.kind is not Kind.NUMBER else value or 0.0
    return value
