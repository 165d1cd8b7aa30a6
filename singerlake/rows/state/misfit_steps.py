"""Steps that count the values which their columns cannot hold, or fail at the first."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from singerlake.errors import DamagedError
from singerlake.format.names import TableName
from singerlake.rows.batches.row_columns import BLOCK, MISFITS, ORDINAL
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks.misfits import FIRST, ColumnMisfits, Misfit, reader_ways_out
from singerlake.rows.state.shape import Shape

COUNTED = "column int, misfits long, first binary"
"""What a :class:`MisfitCounter` gives, as Spark names it."""
_FIRST = msgspec.json.Decoder(list[Misfit])


@dataclass
class MisfitCheck:
    """Passes rows on, and fails at the first value that does not fit.

    Attributes:
        keyed: Whether the table has a key.
        columns: Indexes of the columns that are read; None for all.
    """

    table: TableName
    names: list[str]
    keyed: bool
    columns: frozenset[int] | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Check each batch before it goes on.

        Raises:
            DamagedError: A value does not fit its column.
        """
        for batch in batches:
            for index, error in self._in(batch.column(MISFITS)):
                ways_out = reader_ways_out(self.table, self.names[index], keyed=self.keyed)
                raise DamagedError(f"{error}; {ways_out}")
            yield batch

    def _in(self, misfits: pa.Array) -> Iterator[tuple[int, str]]:
        if misfits.null_count < len(misfits):
            for row in misfits.drop_null():
                yield from (
                    one for one in row.as_py() if self.columns is None or one[0] in self.columns
                )


@dataclass
class MisfitCounter:
    """Counts the misfits among rows, and keeps the first of each column.

    Attributes:
        keys: The key columns' indexes and names, by what they are called inside.
    """

    keys: dict[str, tuple[int, str]]

    @classmethod
    def of(cls, shape: Shape) -> MisfitCounter:
        """Make one for rows of a shape."""
        named = zip(shape.keys, shape.key_names, strict=True)
        return cls(dict(zip(shape.key_aliases, named, strict=True)))

    def __call__(self, batches: Batches) -> Batches:
        """Give one row for each column that has any."""
        counts: Counter[int] = Counter()
        first: defaultdict[int, list[Misfit]] = defaultdict(list)
        for batch in batches:
            errors = batch.column(MISFITS)
            if errors.null_count == len(errors):
                continue
            for index, misfit in self._in(batch.filter(errors.is_valid())):
                counts[index] += 1
                first[index].append(misfit)
            for index, some in first.items():
                first[index] = heapq.nsmallest(FIRST, some)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(list(counts), pa.int32()),
                pa.array(list(counts.values()), pa.int64()),
                pa.array([msgspec.json.encode(first[index]) for index in counts], pa.binary()),
            ],
            ["column", "misfits", "first"],
        )

    def _in(self, batch: pa.RecordBatch) -> Iterator[tuple[int, Misfit]]:
        keys = [(key, batch.column(column).to_pylist()) for column, key in self.keys.items()]
        rows = zip(*(batch.column(c).to_pylist() for c in (BLOCK, ORDINAL, MISFITS)), strict=True)
        for number, (block, ordinal, errors) in enumerate(rows):
            told = dict(errors)
            key = {
                name: _key_text(values[number], name, told.get(index))
                for (index, name), values in keys
            }
            for index, text in errors:
                yield index, Misfit(block, ordinal, text, key)


def _key_text(value: Any, name: str, error: str | None) -> str:
    """Spell a part of a row's key; one that its column cannot hold as what is said of it does."""
    if error is not None:
        said, of, _ = error.rpartition(f" of column {name!r} is not a valid ")
        _, the, text = said.partition("the value ")
        if of and the:
            return text
    return "null" if value is None else str(value)


def merged(rows: Iterable[Any], shape: Shape) -> list[ColumnMisfits]:
    """Merge what counters gave, by column."""
    counts: Counter[int] = Counter()
    first: defaultdict[int, list[Misfit]] = defaultdict(list)
    for row in rows:
        counts[row["column"]] += row["misfits"]
        first[row["column"]] += _FIRST.decode(row["first"])
    return [
        ColumnMisfits(
            column=shape.columns[index][0],
            type=str(shape.columns[index][1]),
            values=count,
            first=heapq.nsmallest(FIRST, first[index]),
        )
        for index, count in sorted(counts.items())
    ]
