"""Verifying a small table in this process, by the steps that Spark's tasks run.

It is done before Java has started, and of many tables side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from singerlake.errors import SingerlakeError
from singerlake.format.types import Columns
from singerlake.freezing import SMALL_BYTES, SMALL_CELLS
from singerlake.lake import Table
from singerlake.maintenance.problems import MAX_PROBLEMS, Problem, Report
from singerlake.reading import small_state
from singerlake.reading.index import Index
from singerlake.reading.state_reader import StateReader
from singerlake.records.blocks import positions
from singerlake.records.blocks.misfits import ColumnMisfits
from singerlake.records.rows.row_columns import DIGEST
from singerlake.records.rows.steps import Batches
from singerlake.records.state.fingerprint import Content, Proof, Sums
from singerlake.records.state.misfit_steps import MisfitCheck, MisfitCounter, merged
from singerlake.records.state.shape import shape_of
from singerlake.transactions import log
from singerlake.transactions.snapshot import Snapshot
from singerlake.verifying.engine import Engine, T, TooLargeError
from singerlake.verifying.remembered import Remembered
from singerlake.verifying.upgrade import TableUpgrade, upgrade_of
from singerlake.verifying.whole_table import verify, verify_leased

SIDE_BYTES = 1 << 20
"""Bytes up to which tables are verified side by side: they are in memory at once, and whoever
ends the command waits for those that are under way."""
ENTRY_BYTES = 1_000
"""What an entry of the log counts as."""


@dataclass
class _Here(Engine):
    """Reads in this process.

    Attributes:
        most: Bytes of all blocks, and of the state of each version once more.
    """

    most: int

    def check_size(self, head: Snapshot, states: Iterable[Snapshot]) -> None:
        work = head.number * ENTRY_BYTES + sum(block.bytes for block in head.blocks)
        rows = sum(block.rows for block in head.blocks)
        cells = rows * len(head.columns) if rows else 0
        named = any(block.files for block in head.blocks)  # of any size, and hashed whole
        seen: set[int] = set()
        for state in states:
            if named or work > self.most or cells > SMALL_CELLS:
                break
            if state.number not in seen:
                seen.add(state.number)
                work += sum(block.bytes for block in small_state.blocks_of(state))
        if named or work > self.most or cells > SMALL_CELLS:
            raise TooLargeError

    def problems(
        self, tasks: list[list[T]], check: Callable[[T], list[Problem]]
    ) -> tuple[list[Problem], int]:
        found = [problem for task in tasks for one in task for problem in check(one)]
        return found[:MAX_PROBLEMS], len(found[MAX_PROBLEMS:])

    def state_content(self, table: Table, at: Snapshot, proofs: tuple[Proof, ...]) -> Content:
        shape = shape_of(at)
        rows = small_state.rows(table, at, digests=Proof.RECORDS in proofs)
        checked = MisfitCheck(table.name, shape.names, keyed=bool(shape.keys))(rows)
        return _summed(checked, shape.columns, proofs)

    def index_content(self, built: Index, proofs: tuple[Proof, ...]) -> Content:
        rows = StateReader.of(built).rows([*built.shape.aliases, DIGEST])
        return _summed(rows, built.shape.columns, proofs)

    def misfits(self, table: Table, state: Snapshot) -> list[ColumnMisfits]:
        shape = shape_of(state)
        counted = MisfitCounter.of(shape)(small_state.rows(table, state))
        return merged([row for batch in counted for row in batch.to_pylist()], shape)

    def differing_rows(self, table: Table, one: Snapshot, other: Snapshot) -> tuple[int, int, int]:
        was, now = (_places(table, state) for state in (one, other))
        return len(now), len(np.setdiff1d(now, was)), len(np.setdiff1d(was, now))


def _places(table: Table, state: Snapshot) -> NDArray[np.int64]:
    found = [positions.codes_in(rows) for rows in small_state.rows(table, state)]
    return np.concatenate([np.empty(0, dtype=np.int64), *found])


def upgrade_here(table: Table, *, most: int = SMALL_BYTES) -> TableUpgrade | None:
    """Find what the rules of today change in a small table, without Spark.

    Returns:
        None where the table is too large for it.

    Raises:
        SingerlakeError: The table cannot be read.
    """
    try:
        return upgrade_of(_Here(most), table)
    except TooLargeError:
        return None


def _summed(rows: Batches, columns: Columns, proofs: tuple[Proof, ...]) -> Content:
    sums = Sums(proofs)
    for batch in rows:
        sums.take(batch, columns)
    return sums.content()


def verify_here(
    table: Table, version: int | str | None = None, *, most: int = SMALL_BYTES
) -> Report | None:
    """Hold all of a small table against its log, without Spark; arguments as for :func:`verify`.

    Returns:
        None where the table is too large for it.

    Raises:
        SingerlakeError: As :func:`verify` does.
    """
    engine = _Here(most)
    seen = Table(Remembered(table.store), table.name)
    try:
        with suppress(SingerlakeError):  # a log that cannot be read is what it must report
            if (known := log.read_checkpoint(seen.store, seen.name)) is not None:
                engine.check_size(known, ())
        # A lease takes two requests. Without one a vacuum may delete what is read meanwhile, which
        # then is missing: only what is found under a lease is told of as a problem.
        name = None if version is None else str(version)
        report = verify_leased(engine, seen, name)
        return report if not report.problems else verify(engine, table, name)
    except TooLargeError:
        return None
