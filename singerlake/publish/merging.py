"""Rows in order merged with others in order, batch by batch, as Spark would sort them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import total_ordering
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.publish.bounds import rank
from singerlake.publish.keys import Keys
from singerlake.publish.projection import OrderKey


@total_ordering
class _Descending:
    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self._value == other._value)

    def __lt__(self, other: _Descending) -> bool:
        return bool(other._value < self._value)

    __hash__ = None  # type: ignore[assignment]


class Order:
    """An order of rows: nulls are last, and NaN is greater than all numbers.

    Args:
        by: Columns and directions; none to leave rows as they lie.
    """

    def __init__(self, by: Sequence[OrderKey]) -> None:
        self._by = by

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Sort rows."""
        if not self._by:
            return rows
        keys: dict[str, tuple[pa.ChunkedArray, str]] = {}
        for key in self._by:
            values = rows.column(key.column)
            direction = "descending" if key.descending else "ascending"
            if pa.types.is_floating(values.type):  # Arrow puts NaN behind all, whatever direction
                keys[f"{len(keys)}"] = (pc.is_nan(values), direction)
            keys[f"{len(keys)}"] = (values, direction)
        table = pa.table({name: values for name, (values, _) in keys.items()})
        order = [(name, direction) for name, (_, direction) in keys.items()]
        return rows.take(pc.sort_indices(table, sort_keys=order))  # nulls are last

    def place(self, rows: pa.RecordBatch | pa.Table, index: int) -> tuple[Any, ...]:
        """Return something by which a row compares with others."""
        found: list[tuple[bool, Any]] = []
        for key in self._by:
            value = rows.column(key.column)[index].as_py()
            if value is None:
                found.append((True, 0))
            else:
                found.append((False, _Descending(rank(value)) if key.descending else rank(value)))
        return tuple(found)

    def until(self, rows: pa.RecordBatch | pa.Table, place: tuple[Any, ...]) -> int:
        """Count the rows, which are in order, that do not come after a place."""
        return bisect_right(range(rows.num_rows), place, key=lambda at: self.place(rows, at))


def merged(
    runs: Iterable[Sequence[Iterator[pa.RecordBatch]]], new: pa.Table, order: Order
) -> Iterator[pa.RecordBatch]:
    """Merge rows that lie in order. No more of them is held than a batch of each stream of a run.

    Args:
        runs: Streams of rows, each in order; those of a run may cross, and runs follow each other.
        new: Other rows, in order.
        order: The order of all.
    """
    for run in runs:
        streams = list(run)
        held = [_next(stream) for stream in streams]
        while any(held):
            there = [rows for rows in held if rows is not None]
            place = min(order.place(rows, rows.num_rows - 1) for rows in there)
            pieces = []
            for index, rows in enumerate(held):
                if rows is None:
                    continue
                count = order.until(rows, place)
                pieces.append(rows.slice(0, count))
                rest = rows.slice(count)
                held[index] = rest if rest.num_rows else _next(streams[index])
            count = order.until(new, place)
            pieces += new.slice(0, count).to_batches()
            new = new.slice(count)
            yield from _in_order(pieces, order)
    yield from new.to_batches()


def _next(stream: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((rows for rows in stream if rows.num_rows), None)


def _in_order(pieces: Sequence[pa.RecordBatch], order: Order) -> Iterator[pa.RecordBatch]:
    pieces = [piece for piece in pieces if piece.num_rows]
    if len(pieces) == 1:
        yield pieces[0]
    elif pieces:
        yield from order.sorted(pa.Table.from_batches(pieces)).combine_chunks().to_batches()


def without(rows: pa.RecordBatch, gone: Keys) -> pa.RecordBatch:
    """Leave out the rows that have some keys.

    Args:
        gone: The keys; its columns are among those of the rows.
    """
    if not len(gone.table) or not rows.num_rows:
        return rows
    found = gone.find(rows).rows
    if not len(found):
        return rows
    stays = np.ones(rows.num_rows, bool)
    stays[found] = False
    return rows.filter(pa.array(stays))
