"""Rows in order, however many: runs that fit in memory are sorted, spilled and merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.engine import spill
from singerlake.engine.spill import SpillFile
from singerlake.rows.batches.packing import one_array
from singerlake.rows.batches.steps import Batches

Indices: TypeAlias = NDArray[np.int64]
Order: TypeAlias = Callable[[pa.Table], Indices]
"""Returns the places of rows, in order."""


def in_order(batches: Batches, order: Order) -> Iterator[pa.Table]:
    """Give rows in order, at most some 64 MiB of them in memory.

    Args:
        batches: The rows.
        order: Sorts some of them.
    """
    file = SpillFile()
    runs: list[Iterator[pa.Table]] = []
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not len(batch):
            continue
        held.append(batch)
        size += batch.nbytes
        if size > spill.HELD_BYTES:
            runs.append(_spilled(file, _sorted(held, order)))
            held, size = [], 0
    if held:
        runs.append(iter([_sorted(held, order)]))
    yield from _merged(runs, order) if len(runs) > 1 else (rows for run in runs for rows in run)


def _sorted(batches: list[pa.RecordBatch], order: Order) -> pa.Table:
    rows = pa.Table.from_batches(batches)
    return rows.take(pa.array(order(rows)))


def _spilled(file: SpillFile, rows: pa.Table) -> Iterator[pa.Table]:
    spans = [*spill.written(file, rows.to_batches())]
    return (file.read(span) for span in spans)


def _merged(runs: list[Iterator[pa.Table]], order: Order) -> Iterator[pa.Table]:
    """Merge sorted runs: what comes before the end of each piece at hand is in its place."""
    heads = {number: next(run) for number, run in enumerate(runs)}
    while heads:
        rows = pa.concat_tables(heads.values())
        at = order(rows)
        owners = np.repeat([*heads], [*map(len, heads.values())])[at]
        # Of the run whose piece ends first, nobody knows what follows.
        ends = {number: place for place, number in enumerate(owners.tolist())}
        stop = min(ends.values()) + 1
        yield rows.take(pa.array(at[:stop]))
        for number in [*heads]:
            rest = at[stop:][owners[stop:] == number]
            head = rows.take(pa.array(rest)) if len(rest) else next(runs[number], None)
            if head is None:
                del heads[number]
            else:
                heads[number] = head


def by_columns(columns: Sequence[pa.ChunkedArray]) -> Indices:
    """Sort rows by columns as Spark does: null first, NaN last, objects and lists by their parts.

    Args:
        columns: The most important one first.
    """
    keys: list[pa.Array] = []
    for column in columns:
        cells = one_array(column)
        if pa.types.is_nested(cells.type):
            cells = _ranks(cells)
        elif pa.types.is_floating(cells.type):
            keys.append(pc.fill_null(pc.is_nan(cells), False))
        if cells.null_count:
            keys.append(cells.is_valid())
        keys.append(cells)
    names = [f"k{number}" for number in range(len(keys))]
    by = [(name, "ascending") for name in names]
    found: Indices = pc.sort_indices(pa.table(keys, names), sort_keys=by).to_numpy()
    return found.astype(np.int64)


def _ranks(cells: pa.Array) -> pa.Array:
    """Rank objects and lists; equal ones alike."""
    values = [_comparable(value) for value in cells.to_pylist()]
    ranks: dict[Any, int] = {value: rank for rank, value in enumerate(sorted({*values}))}
    return pa.array([ranks[value] for value in values], pa.int64())


def _comparable(value: Any) -> Any:
    """Turn a value into one that Python compares as Spark does."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, tuple(map(_comparable, value.values())))
    if isinstance(value, list):
        return (1, tuple(map(_comparable, value)))
    if isinstance(value, str):
        return (1, value.encode("utf-8", "surrogatepass"))
    if isinstance(value, float):
        return (2,) if value != value else (1, value)  # noqa: PLR0124  # NaN is the largest
    return (1, value)
