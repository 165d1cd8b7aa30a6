"""The verify job: every block on the executors, then every frozen version from its blocks."""

from __future__ import annotations

import heapq
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from singerlake.lake import Table
from singerlake.maintenance.problems import MAX_PROBLEMS, Problem, Report
from singerlake.reading.index import Index
from singerlake.records.blocks import block_tasks
from singerlake.records.blocks.misfits import NULL, ColumnMisfits
from singerlake.records.rows.row_columns import BLOCK, ORDINAL
from singerlake.records.rows.steps import Batches
from singerlake.records.state.fingerprint import Content, Proof
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.jvm.session import cores
from singerlake.spark.state import from_blocks, parcels
from singerlake.spark.state.content import index_content, state_content, state_misfits
from singerlake.transactions.snapshot import Snapshot
from singerlake.verifying import whole_table
from singerlake.verifying.engine import Engine, T
from singerlake.verifying.upgrade import TableUpgrade, upgrade_of

_PROBLEMS = "number long, problem binary, more long"
_PROBLEM = msgspec.json.Decoder(Problem)
_NOTHING = (1 << 63) - 1
"""Stands where a row only counts problems."""


def verify(spark: SparkSession, table: Table, version: str | None = None) -> Report:
    """Hold all of a table against its log.

    Args:
        spark: The session.
        table: The table.
        version: A frozen version's number or label; by default all are computed again.

    Returns:
        What was looked at, and what is not as it should be.

    Raises:
        NotFoundError: There is no such version.
        StoreError: The store refused a listing, or the log.
    """
    return whole_table.verify(_OnSpark(spark), table, version)


def upgrade(spark: SparkSession, table: Table) -> TableUpgrade:
    """Find what the rules of today change in a table of any size.

    Raises:
        SingerlakeError: The table cannot be read.
    """
    return upgrade_of(_OnSpark(spark), table)


class _OnSpark(Engine):
    """Reads on the executors."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.tasks = 2 * cores(spark)

    def check_size(self, head: Snapshot, states: Iterable[Snapshot]) -> None:
        """Take tables of any size."""

    def problems(
        self, tasks: list[list[T]], check: Callable[[T], list[Problem]]
    ) -> tuple[list[Problem], int]:
        """Check things on the executors.

        Returns:
            Problems of the first things that have any, and the number of the others.
        """
        if not tasks:
            return [], 0
        parts = [
            pickle.dumps((first, task)) for first, task in zip(_firsts(tasks), tasks, strict=True)
        ]
        checker = _Checker(parcels.carried(parts), check)
        with plain_errors():
            problems = parcels.numbered(self._spark, parts).mapInArrow(checker, _PROBLEMS)
            # One executor cuts the list of them all: the driver gets no more than it reports.
            rows = problems.repartition(1).mapInArrow(_first_problems, _PROBLEMS).collect()
        first = [
            _PROBLEM.decode(row["problem"])
            for row in sorted(rows, key=lambda row: int(row["number"]))
            if row["problem"] is not None
        ]
        return first, sum(row["more"] for row in rows)

    def state_content(self, table: Table, at: Snapshot, proofs: tuple[Proof, ...]) -> Content:
        return state_content(self._spark, table, at, proofs)

    def index_content(self, built: Index, proofs: tuple[Proof, ...]) -> Content:
        with plain_errors():
            return index_content(self._spark, built, proofs)

    def misfits(self, table: Table, state: Snapshot) -> list[ColumnMisfits]:
        return state_misfits(self._spark, table, state)

    def differing_rows(self, table: Table, one: Snapshot, other: Snapshot) -> tuple[int, int, int]:
        with plain_errors():
            was, now = (
                from_blocks.state_rows(self._spark, table, state, NULL).select(BLOCK, ORDINAL)
                for state in (one, other)
            )
            only_now, only_was = now.exceptAll(was).count(), was.exceptAll(now).count()
            return now.count(), only_now, only_was


@dataclass
class _Checker(Generic[T]):
    """Checks things on an executor. Sent there by value: the store goes with it.

    Attributes:
        tasks: The things of each task, and the number of the first, pickled; none where each task
            is sent its own.
        check: Finds the problems of one.
    """

    tasks: list[bytes]
    check: Callable[[T], list[Problem]]

    def __call__(self, numbers: Batches) -> Batches:
        """Check the tasks whose numbers come in; gives one row a problem."""
        for number, sent in block_tasks.given(numbers):
            yield self._checked(self.tasks[number] if sent is None else sent)

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


def _firsts(tasks: list[list[T]]) -> Iterator[int]:
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
            "number": pa.array([*(number for number, _ in rows), _NOTHING], pa.int64()),
            "problem": pa.array([*(problem for _, problem in rows), None], pa.binary()),
            "more": pa.array([*(0 for _ in rows), more], pa.int64()),
        }
    )
