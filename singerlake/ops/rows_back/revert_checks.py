"""Whether the rows of an old state may be those of the table again, by what is said of it now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from singerlake.engine.spark.engine import SparkEngine, SparkRows
from singerlake.errors import SingerlakeError, ViolationsError
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.ops.rows_back.revert import Outcome
from singerlake.ops.rows_back.revert_plan import RevertPlan
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL, aliases
from singerlake.rows.batches.violations import Violation
from singerlake.rows.blocks.misfits import ColumnMisfits
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot.index import Index
from singerlake.snapshot.key_violations import key_violations
from singerlake.sql.state import content, frames, index_rows
from singerlake.sql.violations import check_constraints


def check_outcome(
    spark: SparkSession,
    table: Table,
    wanted: RevertPlan,
    old: Index,
    *,
    allow_violations: bool,
    allow_type_mismatches: bool,
) -> Outcome:
    """Refuse rows that cannot be read, or do not keep what is asked of rows, by what is said now.

    Raises:
        ViolationsError: They are such, and are not allowed.
    """
    check_key(spark, table, wanted, old)
    return outcome(
        table,
        f"rows of {table.name} at transaction {wanted.to.number}",
        "revert",
        find_misfits(spark, table, wanted, old),
        lambda: broken_constraints(spark, table, wanted, old),
        allow_violations=allow_violations,
        allow_type_mismatches=allow_type_mismatches,
    )


def outcome(
    table: Table,
    rows: str,
    command: str,
    misfits: Sequence[ColumnMisfits],
    find_broken: Callable[[], Sequence[Violation]],
    *,
    allow_violations: bool,
    allow_type_mismatches: bool,
) -> Outcome:
    """Refuse what is wrong with rows, or name it if it is allowed.

    Args:
        table: The table.
        rows: Which of its rows, as a message begins.
        command: What was asked for, as a verb.
        misfits: Values that do not fit the type of now.
        find_broken: Finds the constraints that they break.
        allow_violations: Name these, and refuse nothing for them.
        allow_type_mismatches: The same of values that do not fit.

    Raises:
        ViolationsError: Something is wrong, and not allowed.
    """
    if misfits and not allow_type_mismatches:
        raise _misfits_error(table, rows, misfits)
    broken = find_broken()
    if broken and not allow_violations:
        raise _violations_error(table, rows, broken, command)
    return Outcome([one.name for one in broken], [one.column for one in misfits])


def check_key(spark: SparkSession, table: Table, wanted: RevertPlan, old: Index) -> None:
    """Refuse rows that cannot have the key by which they will be told apart from now on."""
    after = wanted.after
    if not after.key or after.key_reading == wanted.to.key_reading:
        return
    columns = tuple(after.columns[index] for index in after.key)
    rows = _read_as_now(spark, table, wanted, old, columns)
    engine = SparkEngine(spark)
    read = partial(engine.map, SparkRows(rows))
    if found := key_violations(engine, read, columns, aliases(columns)):
        raise ViolationsError.of_lines(
            f"{table.name} has the key {', '.join(found.names)}, which its rows at transaction "
            f"{wanted.to.number} cannot have; nothing was changed:",
            *found.lines(),
            f"first give the table a key that they can have: singerlake alter {table.name} set-key",
        )


def find_misfits(
    spark: SparkSession, table: Table, wanted: RevertPlan, old: Index
) -> list[ColumnMisfits]:
    """Find the values of the old state that do not fit the types which columns have by now."""
    names, after = wanted.retyped, wanted.after
    if not names:
        return []
    indexes = [i for i, (name, _) in enumerate(after.columns) if name in names or i in after.key]
    columns = tuple(after.columns[index] for index in indexes)
    rows = _read_as_now(spark, table, wanted, old, columns)
    shape = Shape(columns, tuple(map(indexes.index, after.key)), old.shape.survival)
    return [one for one in content.frame_misfits(rows, shape) if one.column in names]


def broken_constraints(
    spark: SparkSession, table: Table, wanted: RevertPlan, old: Index
) -> list[Violation]:
    """Find the constraints of today that the rows of the old state do not keep."""
    after = wanted.after
    asked = after.overlay.constraints
    if not asked:
        return []
    shape = shape_of(after)
    if after.reads_like(wanted.to):
        rows = index_rows.rows(spark, old)
    else:
        rows = _read_as_now(spark, table, wanted, old, shape.columns)
    return check_constraints(rows, shape, asked)


def _misfits_error(table: Table, rows: str, found: Sequence[ColumnMisfits]) -> SingerlakeError:
    """Say why nothing is turned back: old values do not fit the types of today.

    Args:
        table: The table.
        rows: Which of its rows, as a message begins.
        found: The values.
    """
    return ViolationsError.of_lines(
        f"{rows} have values that do not fit the current types of their columns, and nothing was "
        "changed:",
        *(line for one in found for line in one.lines()),
        f"first give the column a type that fits all of them (singerlake alter {table.name} "
        "retype), or use --allow-type-mismatches (allow_type_mismatches=True in Python): they are "
        "then restored unchanged, and queries that read them fail",
    )


def _violations_error(
    table: Table, rows: str, found: Sequence[Violation], command: str
) -> SingerlakeError:
    """Say why nothing is turned back: the rows do not keep the constraints of today.

    Args:
        table: The table.
        rows: Which of its rows, as a message begins.
        found: The constraints.
        command: What was asked for, as a verb.
    """
    return ViolationsError.of_lines(
        f"{rows} violate the current constraints of the table, and nothing was changed:",
        *(line for one in found for line in one.lines()),
        f"drop these constraints first (singerlake alter {table.name} drop-constraint), or "
        f"{command} anyway with --allow-violations (allow_violations=True in Python), which the "
        "transaction records",
    )


def _read_as_now(
    spark: SparkSession, table: Table, wanted: RevertPlan, old: Index, columns: Columns
) -> DataFrame:
    """The rows of the old state with columns as they will be read; the index has those of then."""
    # Without a key each row is read, whatever it has.
    shape = Shape(columns, (), old.shape.survival)
    every = frames.read_blocks(spark, table, wanted.after, wanted.to.blocks, shape)
    positions = index_rows.rows(spark, old).select(BLOCK, ORDINAL)
    return every.join(positions, [BLOCK, ORDINAL], "left_semi")
