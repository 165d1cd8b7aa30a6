"""Checks of many things, shared out to an engine's parts: no more comes back than is reported."""

from __future__ import annotations

import heapq
import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import pyarrow as pa

from singerlake.engine.base import Engine
from singerlake.ops.verify.problems import MAX_PROBLEMS, Problem
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks

T = TypeVar("T")
_PROBLEMS = "part int, number long, problem binary, more long"
_PROBLEM = msgspec.json.Decoder(Problem)
_NOTHING = (1 << 63) - 1
"""Stands where a row only counts problems."""


def problems(
    engine: Engine[Any], tasks: Sequence[Sequence[T]], check: Callable[[T], list[Problem]]
) -> tuple[list[Problem], int]:
    """Check things.

    Args:
        tasks: The things of each task.

    Returns:
        Problems of the first things that have any, and the number of the others.
    """
    if not tasks:
        return [], 0
    pairs = zip(_firsts(tasks), tasks, strict=True)
    source = engine.source([pickle.dumps((first, [*task])) for first, task in pairs])
    found = engine.map(source, _Checker(check), _PROBLEMS)
    # One part cuts the list of them all.
    first = engine.map(engine.exchange(found, 1, "part"), _first_problems, _PROBLEMS)
    rows = engine.collect(first)
    told = sorted((row for row in rows if row["problem"] is not None), key=lambda r: r["number"])
    return [_PROBLEM.decode(row["problem"]) for row in told], sum(row["more"] for row in rows)


@dataclass
class _Checker(Generic[T]):
    """Checks things. Sent to executors by value: the store goes with it.

    Attributes:
        check: Finds the problems of one.
    """

    check: Callable[[T], list[Problem]]

    def __call__(self, batches: Batches) -> Batches:
        """Check the tasks that come in; gives one row a problem."""
        for _, sent in block_tasks.given(batches):
            yield self._checked(sent or b"")

    def _checked(self, task: bytes) -> pa.RecordBatch:
        rows: list[tuple[int, bytes]] = []
        more = 0
        first, things = pickle.loads(task)  # noqa: S301  # from the driver, as the step itself
        for number, one in enumerate(things, start=first):
            for problem in self.check(one):
                if len(rows) < MAX_PROBLEMS:
                    rows.append((number, msgspec.json.encode(problem)))
                else:
                    more += 1
        return _rows(rows, more)


def _firsts(tasks: Sequence[Sequence[T]]) -> Iterator[int]:
    """The number of each task's first thing."""
    return itertools.accumulate(map(len, tasks[:-1]), initial=0)


def _first_problems(batches: Batches) -> Batches:
    more = total = 0

    def rows() -> Iterator[tuple[int, bytes]]:
        nonlocal more, total
        for batch in batches:
            columns = (batch.column(name) for name in ("number", "problem", "more"))
            for number, problem, others in zip(*(c.to_pylist() for c in columns), strict=True):
                more += others
                if problem is not None:
                    total += 1
                    yield number, problem

    kept = heapq.nsmallest(MAX_PROBLEMS, rows())
    yield _rows(kept, more + total - len(kept))


def _rows(rows: list[tuple[int, bytes]], more: int) -> pa.RecordBatch:
    """Problems with the numbers of what they are about, and a row that counts those left out."""
    return pa.RecordBatch.from_pydict(
        {
            "part": pa.array([0] * (len(rows) + 1), pa.int32()),
            "number": pa.array([*(number for number, _ in rows), _NOTHING], pa.int64()),
            "problem": pa.array([*(problem for _, problem in rows), None], pa.binary()),
            "more": pa.array([*(0 for _ in rows), more], pa.int64()),
        }
    )
