"""A step that finds decimals of more digits than the type of their column declares.

All decimals are read with 38 digits, so that one with too many is no type mismatch.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.rows.batches.row_columns import BLOCK, ORDINAL, alias
from singerlake.rows.batches.steps import Batches
from singerlake.rows.batches.violations import FIRST, cut
from singerlake.rows.changes.row_ids import id_text
from singerlake.rows.state import keys
from singerlake.rows.state.shape import Shape

FOUND = "column int, values long, first binary"
"""What a :class:`DigitsStep` gives: how many values of a column are too long, and the first."""
_Rows = list[tuple[int, int, str]]
_ROWS = msgspec.json.Decoder(_Rows)


@dataclass
class DigitsStep:
    """Finds the values that are not below a bound.

    Attributes:
        shape: The table's, with the names that people see.
        bounds: The least whole number that has too many digits, by the index of its column.
    """

    shape: Shape
    bounds: Mapping[int, int]

    def __call__(self, batches: Batches) -> Batches:
        """Give one row for each column that has any."""
        counts = dict.fromkeys(self.bounds, 0)
        first: dict[int, _Rows] = {index: [] for index in self.bounds}
        for batch in batches:
            for index, bound in self.bounds.items():
                if found := self._beyond(batch, index, bound):
                    counts[index] += len(found)
                    first[index] = heapq.nsmallest(
                        FIRST, (*first[index], *self._told(found, index))
                    )
        told = [index for index, rows in counts.items() if rows]
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(told, pa.int32()),
                pa.array([counts[index] for index in told], pa.int64()),
                pa.array([msgspec.json.encode(first[index]) for index in told], pa.binary()),
            ],
            ["column", "values", "first"],
        )

    def _beyond(self, batch: pa.RecordBatch, index: int, bound: int) -> pa.RecordBatch:
        cells, scale = batch.column(alias(index)), self.shape.columns[index][1].scale
        most = bound - Decimal(1).scaleb(-scale)
        ends = [pa.scalar(end, cells.type) for end in (-most, most)]
        beyond = pc.or_(pc.less(cells, ends[0]), pc.greater(cells, ends[1]))
        return batch.filter(pc.fill_null(beyond, False))

    def _told(self, rows: pa.RecordBatch, index: int) -> Iterable[tuple[int, int, str]]:
        """Each row by its key, and the value, as a violation of a constraint names it."""
        shape = self.shape
        columns = keys.compared_columns(shape.columns)
        named = dict.fromkeys((*shape.keys, index))
        cells = [rows.column(alias(one)).to_pylist() for one in named]
        places = zip(*(rows.column(name).to_pylist() for name in (BLOCK, ORDINAL)), strict=True)
        for (block, ordinal), *values in zip(places, *cells, strict=True):
            where = [] if shape.keys else [f"row {block}:{ordinal}"]
            told = (
                f"{columns[one][0]} {_text(value, columns[one])}"
                for one, value in zip(named, values, strict=True)
            )
            yield block, ordinal, ", ".join((*where, *told))


def _text(value: Any, column: Any) -> str:
    return cut(None if value is None else id_text([value], (column,)))


def merged(rows: Iterable[Mapping[str, Any]]) -> dict[int, tuple[int, list[str]]]:
    """Merge what steps gave: how many values of each column are too long, and the first rows."""
    counts: dict[int, int] = {}
    first: dict[int, _Rows] = {}
    for row in rows:
        index = row["column"]
        counts[index] = counts.get(index, 0) + row["values"]
        first[index] = first.get(index, []) + _ROWS.decode(row["first"])
    return {
        index: (counts[index], [text for *_, text in heapq.nsmallest(FIRST, first[index])])
        for index in sorted(counts)
    }
