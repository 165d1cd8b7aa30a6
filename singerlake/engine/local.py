"""Steps run in this process, one part after the other: what is small takes less time than Java."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from singerlake.engine.base import SOURCE, Engine, Schema, task_row
from singerlake.engine.spill import SpilledParts
from singerlake.rows.batches.steps import Batches, Step

Parts: TypeAlias = list[Callable[[], Batches]]
"""Each computes a part, from its beginning whenever it is called."""


class LocalEngine(Engine[Parts]):
    """Runs steps in this process.

    Rows of a part go through all its steps batch by batch. An exchange holds its rows, in memory up
    to a limit and beyond it in a temporary file.
    """

    parts = 1
    here = True

    def source(self, tasks: Sequence[bytes]) -> Parts:  # noqa: D102
        return [partial(_one_task, number, task) for number, task in enumerate(tasks)]

    def map(self, rows: Parts, step: Step, schema: Schema) -> Parts:  # noqa: ARG002, D102
        return [partial(_mapped, part, step) for part in rows]

    def union(self, *rows: Parts) -> Parts:  # noqa: D102
        return [part for some in rows for part in some]

    def exchange(  # noqa: D102
        self, rows: Parts, parts: int, by: str, tasks: Sequence[bytes] | None = None
    ) -> Parts:
        shared_out = cache(partial(_shared_out, rows, parts, by))

        def part(number: int) -> Batches:
            waiting = None if tasks is None else tasks[number]
            for batch in shared_out().read(number):
                if waiting is not None:
                    yield task_row(batch.schema, by, number, waiting)
                    waiting = None
                yield batch

        return [partial(part, number) for number in range(parts)]

    def having(self, rows: Parts, column: str) -> Parts:  # noqa: D102
        return [partial(_having, part, column) for part in rows]

    @contextmanager
    def keep(self, rows: Parts) -> Iterator[Parts]:  # noqa: D102
        kept = cache(partial(_kept, rows))
        try:
            yield [partial(_read, kept, number) for number in range(len(rows))]
        finally:
            kept.cache_clear()

    def collect(self, rows: Parts) -> list[dict[str, Any]]:  # noqa: D102
        return [row for batch in self.batches(rows) for row in batch.to_pylist()]

    def batches(self, rows: Parts) -> Iterator[pa.RecordBatch]:
        """Compute rows, one batch at a time."""
        for part in rows:
            yield from part()


def _one_task(number: int, task: bytes) -> Batches:
    yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([task])], schema=SOURCE)


def _mapped(part: Callable[[], Batches], step: Step) -> Batches:
    return step(part())


def _having(part: Callable[[], Batches], column: str) -> Batches:
    for batch in part():
        found = batch.filter(batch.column(column).is_valid())
        if found.num_rows:
            yield found


def _kept(rows: Parts) -> SpilledParts:
    found = SpilledParts(len(rows))
    for number, part in enumerate(rows):
        for batch in part():
            found.add(number, batch)
    return found


def _read(parts: Callable[[], SpilledParts], number: int) -> Batches:
    return parts().read(number)


def _shared_out(rows: Parts, parts: int, by: str) -> SpilledParts:
    found = SpilledParts(parts)
    for part in rows:
        for batch in part():
            numbers = batch.column(by).to_numpy() % parts
            for number in np.unique(numbers).tolist():
                found.add(number, batch.filter(pa.array(numbers == number)))
    return found
