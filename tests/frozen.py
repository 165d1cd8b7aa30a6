"""Freezing, verifying, reverting and looking at tables, on the engine that a test is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.engine.local import LocalEngine
from singerlake.format.log import FrozenVersion
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions
from singerlake.ops.alter.alter import alter
from singerlake.ops.change.plan import ChangeOptions
from singerlake.ops.create.create import Created
from singerlake.ops.create.table import CreateOptions, create
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake.ops.revert import RevertOptions, revert
from singerlake.ops.rows import RowsOptions, RowVersion, row_history
from singerlake.ops.rows_back.revert import Reverted
from singerlake.ops.undo import Undone, UndoOptions, undo
from singerlake.ops.vacuum.plan import Vacuumed, VacuumOptions, VacuumPlan
from singerlake.ops.vacuum.vacuum import vacuum
from singerlake.ops.verify import verify as ops_verify
from singerlake.ops.verify.problems import Report
from singerlake.overlay.alter import Altered, AlterOptions, OverlayChange
from singerlake.snapshot import building
from singerlake.snapshot.index import Index

HERE = EngineChoice(LOCAL)


def freeze_here(table: Table, *, again: bool = True, **options: Any) -> FrozenVersion:
    """Freeze a table in this process."""
    return freeze(table, FreezeOptions(again=again, **options), HERE).version


def freeze_on_spark(
    spark: SparkSession, table: Table, *, again: bool = True, **options: Any
) -> FrozenVersion:
    """Freeze a table on Spark."""
    return freeze(table, FreezeOptions(again=again, **options), on(spark)).version


def verify_here(table: Table, version: int | str | None = None) -> Report:
    """Verify a table in this process."""
    return ops_verify.verify(table, version, HERE)


def verify_on_spark(spark: SparkSession, table: Table, version: str | None = None) -> Report:
    """Verify a table on Spark."""
    return ops_verify.verify(table, version, on(spark))


def revert_here(table: Table, to: int, **options: Any) -> Reverted:
    """Turn a table back in this process."""
    return revert(table, _options(to, **options), HERE)


def revert_on_spark(spark: SparkSession, table: Table, to: int, **options: Any) -> Reverted:
    """Turn a table back on Spark."""
    return revert(table, _options(to, **options), on(spark))


def undo_on_spark(
    spark: SparkSession,
    table: Table,
    numbers: Sequence[int],
    *,
    options: WriteOptions | None = None,
    **more: Any,
) -> Undone:
    """Undo transactions of a table on Spark."""
    return undo(table, UndoOptions(numbers, writing=options or WriteOptions(), **more), on(spark))


def row_history_on_spark(spark: SparkSession, table: Table, **key: str) -> list[RowVersion]:
    """List the versions of a row on Spark."""
    return row_history(table, RowsOptions(key), on(spark))


def alter_here(table: Table, change: OverlayChange, options: AlterOptions | None = None) -> Altered:
    """Alter a table in this process."""
    return alter(table, change, options, HERE)


def alter_on_spark(
    spark: SparkSession, table: Table, change: OverlayChange, options: AlterOptions | None = None
) -> Altered:
    """Alter a table on Spark."""
    return alter(table, change, options, on(spark))


def create_on_spark(
    spark: SparkSession,
    lake: Lake,
    name: str,
    sql: str,
    *,
    keys: Sequence[str] = (),
    options: ChangeOptions | None = None,
) -> Created:
    """Make a table of a query's rows."""
    wanted = CreateOptions(sql, keys, None, options or ChangeOptions())
    return create(lake, name, wanted, on(spark))


def _options(to: int, options: WriteOptions | None = None, **more: Any) -> RevertOptions:
    return RevertOptions(to, writing=options or WriteOptions(), **more)


def vacuum_here(
    table: Table, options: VacuumOptions, *, plan: VacuumPlan | None = None
) -> Vacuumed:
    """Vacuum a table in this process."""
    return vacuum(table, options, HERE, wanted=plan)


def vacuum_on_spark(
    spark: SparkSession, table: Table, options: VacuumOptions, *, plan: VacuumPlan | None = None
) -> Vacuumed:
    """Vacuum a table on Spark."""
    return vacuum(table, options, on(spark), wanted=plan)


def on(spark: SparkSession) -> EngineChoice:
    """Choose a session."""
    return EngineChoice.of(spark=spark)


def index_here(table: Table, snapshot: TableState) -> Index:
    """Make the index of a state in this process."""
    return building.ensure(LocalEngine(), table, snapshot, shown=True)
