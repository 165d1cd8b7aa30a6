"""Finds the values of a state that their columns cannot hold, on the executors."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.lake import Table
from singerlake.maintenance.misfits import FIRST, ColumnMisfits, Misfit
from singerlake.spark import state
from singerlake.spark.failures import plain_errors
from singerlake.spark.frames import BLOCK, MISFIT, ORDINAL, Shape
from singerlake.transactions.snapshot import Snapshot

_COUNTED = "place int, misfits long, first binary"
_FIRST = msgspec.json.Decoder(list[Misfit])


def found_in(frame: DataFrame, shape: Shape) -> list[ColumnMisfits]:
    """The misfits among some rows.

    Args:
        frame: Rows with what in them does not fit.
        shape: The table's shape.
    """
    some = frame.where(F.col(MISFIT).isNotNull())
    keys = [f"c{place}" for place in shape.keys]
    asked = some.select(*keys, BLOCK, ORDINAL, MISFIT)
    with plain_errors():
        return _merged(
            asked.mapInArrow(MisfitCounter(_key_names(shape)), _COUNTED).collect(), shape
        )


def of_state(spark: SparkSession, table: Table, snapshot: Snapshot) -> list[ColumnMisfits]:
    """The misfits of a state, from its blocks alone."""
    plan = state.planned(spark, table, snapshot)
    counter = MisfitCounter(_key_names(plan.shape))
    with plain_errors():
        return _merged(state.through(spark, plan, counter, _COUNTED).collect(), plan.shape)


def _key_names(shape: Shape) -> dict[str, str]:
    return {f"c{place}": shape.columns[place][0] for place in shape.keys}


@dataclass
class MisfitCounter:
    """Counts the misfits among rows, and keeps the first of each column.

    Attributes:
        keys: The key columns' names, by what they are called inside.
    """

    keys: dict[str, str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row for each column that has any."""
        counts: Counter[int] = Counter()
        first: defaultdict[int, list[Misfit]] = defaultdict(list)
        for batch in batches:
            said = batch.column(MISFIT)
            if said.null_count == len(said):
                continue
            for place, misfit in self._found(batch.filter(said.is_valid())):
                counts[place] += 1
                first[place].append(misfit)
            for place, some in first.items():
                first[place] = heapq.nsmallest(FIRST, some)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(list(counts), pa.int32()),
                pa.array(list(counts.values()), pa.int64()),
                pa.array([msgspec.json.encode(first[place]) for place in counts], pa.binary()),
            ],
            ["place", "misfits", "first"],
        )

    def _found(self, batch: pa.RecordBatch) -> Iterator[tuple[int, Misfit]]:
        keys = [(name, batch.column(column).to_pylist()) for column, name in self.keys.items()]
        rows = zip(*(batch.column(c).to_pylist() for c in (BLOCK, ORDINAL, MISFIT)), strict=True)
        for number, (block, ordinal, said) in enumerate(rows):
            key = {name: str(values[number]) for name, values in keys}
            for place, text in said:
                yield place, Misfit(block, ordinal, text, key)


def _merged(rows: Iterable[Any], shape: Shape) -> list[ColumnMisfits]:
    counts: Counter[int] = Counter()
    first: defaultdict[int, list[Misfit]] = defaultdict(list)
    for row in rows:
        counts[row["place"]] += row["misfits"]
        first[row["place"]] += _FIRST.decode(row["first"])
    return [
        ColumnMisfits(
            column=shape.columns[place][0],
            type=str(shape.columns[place][1]),
            values=count,
            first=heapq.nsmallest(FIRST, first[place]),
        )
        for place, count in sorted(counts.items())
    ]
