"""The rows that a change begins with: those that there are, as they will be read.

Where people say in the same change what the columns and the key are, no index has the rows so.
Under a new key, rows that were replaced or deleted under the old one may come back; then all rows
of the state are written again, as ``alter`` does.

Rows that a change may mean go on as packed Arrow tables. An index is read in Python where its
files lie on this machine, and a row group without a row that is asked for is left after its keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from singerlake.errors import ViolationsError
from singerlake.lake import Table
from singerlake.maintenance.change import ChangePlan
from singerlake.reading.index import Index
from singerlake.records.changes.asked_rows import SHARED
from singerlake.records.changes.present_rows import IndexScan, PresentStep
from singerlake.records.rows.row_columns import BLOCK, DELETED, ORDINAL
from singerlake.records.state.shape import Shape
from singerlake.snapshot import building
from singerlake.snapshot.from_blocks import planned, through
from singerlake.spark.engine import SparkEngine
from singerlake.spark.jobs.row_sets.asked_rows import Asked
from singerlake.spark.jvm.session import cores, runs_here
from singerlake.spark.state import frames, from_blocks, index_build, index_rows
from singerlake.spark.state.key_violations import folds_alike, key_violations
from singerlake.transactions.snapshot import Snapshot


class PresentRows:
    """The rows that there are.

    Args:
        spark: The session.
        table: The table.
        wanted: The plan.
        shape: The table's, as it is read after the change.

    Attributes:
        spark: The session.
    """

    def __init__(self, spark: SparkSession, table: Table, wanted: ChangePlan, shape: Shape) -> None:
        self.spark = spark
        self._table = table
        self._wanted = wanted
        self._shape = shape
        self._all_go = False

    @property
    def new_key(self) -> bool:
        """Whether rows are told apart otherwise from then on."""
        return self._wanted.altered is not None and not self._wanted.altered.same_key

    @property
    def frame(self) -> DataFrame:
        """The rows, with provenance and misfits."""
        return self._frame.limit(0) if self._all_go else self._frame

    @cached_property
    def _frame(self) -> DataFrame:
        spark, table, state = self.spark, self._table, self._wanted.state
        if self._wanted.overlay is None:
            return index_rows.rows(spark, index_build.ensure(spark, table, state))
        # An index is filed by what the log says of columns, and the log does not say this yet.
        if not self.new_key:
            return from_blocks.rows(spark, table, state)
        # Which rows there are, the key of until now says.
        now = index_rows.rows(spark, index_build.ensure(spark, table, self._wanted.head))
        shape = Shape(self._shape.columns, (), self._shape.survival)
        every = frames.read_blocks(spark, table, state, state.blocks, shape).drop(DELETED)
        return every.join(now.select(BLOCK, ORDINAL), [BLOCK, ORDINAL], "left_semi")

    def meant(self, asked: Asked) -> list[DataFrame]:
        """Share out the rows that may be meant, as ``asked_rows.SHARED`` has them.

        Args:
            asked: What is asked; its rows have been read.
        """
        spark, table, spec = self.spark, self._table, asked.spec
        step = PresentStep(
            columns=spec.columns,
            keys=spec.keys,
            cells=tuple(spec.set_columns),
            asked=None if asked.replaces else asked.seen.keys,
            parts=asked.parts,
        )
        if self.new_key:
            return [self.frame.mapInArrow(step, SHARED)]
        state = self._wanted.state
        # An index is filed by what the log says of columns, and the log may not say this yet.
        index = None if self._wanted.overlay is not None else _index(spark, table, state)
        if index is None:
            engine = SparkEngine(spark)
            plan = planned(engine, table, state)
            return [through(engine, plan, step, SHARED, asked=step.asked).frame]
        both = [index] if index.below is None else [index.below, index]
        return [
            _of_index(spark, one, replace(step, layer=one.below is not None))
            for one in both
            if one.parts
        ]

    @cached_property
    def written_again(self) -> bool:
        """Whether all rows must be, lest others come back under a new key."""
        if not self.new_key:
            return False
        return self._all_go or not folds_alike(
            self.spark, self._table, self._wanted.state, self.frame
        )

    def check_key(self, *, replaced: bool) -> None:
        """Refuse a new key that the rows cannot have.

        Args:
            replaced: Whether others take their place. Then none of them is found by it, and all go.

        Raises:
            ViolationsError: Rows lack a value of it, or have the same.
        """
        shape, table = self._shape, self._wanted.head.table
        if not self.new_key:
            return
        if found := key_violations(self.frame, shape.key_aliases, shape.key_names):
            if replaced:
                self._all_go = True
                return
            raise ViolationsError.of_lines(
                f"{table} cannot have the key {', '.join(shape.key_names)}, and nothing was "
                "changed:",
                *found.lines(),
                "correct these rows in a change before this one, or name more columns that tell "
                "them apart",
            )


def _index(spark: SparkSession, table: Table, state: Snapshot) -> Index | None:
    """The index to read, which may have to be made; None if a look at all keys costs less.

    That is so in a small table, and in one that had no index so far. Where one change follows
    another, an index is made all the same: the changes after it cost what they change.
    """
    if (index := index_build.at_hand(table, state)) is not None:
        return index
    if state.key:
        rows = sum(block.rows for block in state.blocks)
        alone = state.summary(state.number).operation != "change"
        if rows < building.LEAST_ROWS or (alone and not index_build.has_base(table, state)):
            return None
    return index_build.ensure(spark, table, state)


def _of_index(spark: SparkSession, index: Index, step: PresentStep) -> DataFrame:
    """The rows of an index's own files."""
    paths = [index.table.store.local_path(part.key) for part in index.parts]
    if not runs_here(spark) or None in paths:
        return index_rows.own_rows(spark, index, digests=False).mapInArrow(step, SHARED)
    groups = [
        (str(path), group)
        for path in paths
        for group in range(pq.read_metadata(str(path)).num_row_groups)
    ]
    tasks = _shared_out(groups, 2 * cores(spark))
    scan = IndexScan(tasks, [*index.shape.aliases, *index.own_columns], step)
    return frames.numbered(spark, len(tasks)).mapInArrow(scan, SHARED)


def _shared_out(groups: Sequence[tuple[str, int]], most: int) -> list[Sequence[tuple[str, int]]]:
    """Share row groups out to tasks, neighbours to the same one."""
    share = -(-len(groups) // most)
    return [groups[start : start + share] for start in range(0, len(groups), share)]
