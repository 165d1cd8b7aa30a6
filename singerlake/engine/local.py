"""Steps run in this process, one part after the other: what is small takes less time than Java."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from singerlake.engine.base import SOURCE, Engine, Schema, task_row
from singerlake.records.rows.steps import Batches, Step

Parts: TypeAlias = list[Callable[[], Batches]]
"""Each computes a part, from its beginning whenever it is called."""


class LocalEngine(Engine[Parts]):
    """Runs steps in this process.

    Rows of a part go through all its steps batch by batch; an exchange holds its rows in memory, as
    does what is kept.
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
        @cache
        def shared_out() -> list[list[pa.RecordBatch]]:
            return _shared_out(rows, parts, by)

        def part(number: int) -> Batches:
            batches = shared_out()[number]
            if batches and tasks is not None:
                yield task_row(batches[0].schema, by, number, tasks[number])
            yield from batches

        return [partial(part, number) for number in range(parts)]

    def having(self, rows: Parts, column: str) -> Parts:  # noqa: D102
        return [partial(_having, part, column) for part in rows]

    @contextmanager
    def keep(self, rows: Parts) -> Iterator[Parts]:  # noqa: D102
        kept = [_Kept(part) for part in rows]
        try:
            yield [*kept]
        finally:
            for part in kept:
                part.batches = None

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


class _Kept:
    """A part that is computed when it is first asked for."""

    def __init__(self, part: Callable[[], Batches]) -> None:
        self._part = part
        self.batches: list[pa.RecordBatch] | None = None

    def __call__(self) -> Batches:
        if self.batches is None:
            self.batches = [*self._part()]
        yield from self.batches


def _shared_out(rows: Parts, parts: int, by: str) -> list[list[pa.RecordBatch]]:
    found: list[list[pa.RecordBatch]] = [[] for _ in range(parts)]
    for part in rows:
        for batch in part():
            numbers = batch.column(by).to_numpy() % parts
            for number in np.unique(numbers).tolist():
                found[number].append(batch.filter(pa.array(numbers == number)))
    return found
