"""Checks of rows that come back, by the key and the types of now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from singerlake.engine.base import Engine, Schema
from singerlake.errors import SingerlakeError, ViolationsError
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.ops.rows_back.actions import found_in
from singerlake.ops.rows_back.revert import Outcome
from singerlake.ops.rows_back.revert_plan import RevertPlan
from singerlake.ops.rows_back.undo_plan import UndoPlan
from singerlake.rows.batches.row_columns import aliases
from singerlake.rows.batches.steps import Batches, Pipeline, Step
from singerlake.rows.batches.violations import Violation
from singerlake.rows.blocks.misfits import ColumnMisfits
from singerlake.rows.state.misfit_steps import COUNTED, MisfitCounter, merged
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot import content, from_blocks
from singerlake.snapshot.index import Index
from singerlake.snapshot.key_violations import key_violations


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


def check_key(engine: Engine[Any], table: Table, wanted: RevertPlan, old: Index) -> None:
    """Refuse rows that cannot have the key by which they will be told apart from now on.

    Raises:
        ViolationsError: They lack a value of it, or several have the same.
    """
    after = wanted.after
    if not after.key or after.key_reading == wanted.to.key_reading:
        return
    columns = tuple(after.columns[index] for index in after.key)
    read = partial(as_now, engine, table, wanted, old, columns)
    found = key_violations(engine, read, columns, aliases(columns), content.most_rows(old))
    if found:
        raise ViolationsError.of_lines(
            f"{table.name} has the key {', '.join(found.names)}, which its rows at transaction "
            f"{wanted.to.number} cannot have; nothing was changed:",
            *found.lines(),
            f"first give the table a key that they can have: singerlake alter {table.name} set-key",
        )


def revert_misfits(
    engine: Engine[Any], table: Table, wanted: RevertPlan, old: Index
) -> list[ColumnMisfits]:
    """Find the values of the old state that do not fit the types which columns have by now."""
    names, after = wanted.retyped, wanted.after
    if not names:
        return []
    indexes = [i for i, (name, _) in enumerate(after.columns) if name in names or i in after.key]
    columns = tuple(after.columns[index] for index in indexes)
    shape = Shape(columns, tuple(map(indexes.index, after.key)), old.shape.survival)
    counts = as_now(engine, table, wanted, old, columns, MisfitCounter.of(shape), COUNTED)
    return [one for one in merged(engine.collect(counts), shape) if one.column in names]


def undo_misfits(
    engine: Engine[Any], table: Table, wanted: UndoPlan, rows: Any
) -> list[ColumnMisfits]:
    """Find the values that come back and do not fit the types which columns have by now.

    Args:
        rows: Positions of the rows that are written, as in ``actions.FOUND``.
    """
    if not (names := wanted.retyped):
        return []
    shape = shape_of(wanted.after)
    counts = put_back(engine, table, wanted, rows, MisfitCounter.of(shape), COUNTED)
    return [one for one in merged(engine.collect(counts), shape) if one.column in names]


def put_back(
    engine: Engine[Any], table: Table, wanted: UndoPlan, rows: Any, step: Step, schema: Schema
) -> Any:
    """Give rows that come back to a step, as they will be read; ``rows`` as above."""
    shape = replace(shape_of(wanted.after), keys=())
    plan = from_blocks.planned(engine, table, wanted.after, shape=shape)

    def places(step: Step, schema: Schema) -> Any:
        return engine.map(rows, Pipeline((_put_back, step)), schema)

    return from_blocks.at_places(engine, plan, places, step, schema)


def as_now(
    engine: Engine[Any],
    table: Table,
    wanted: RevertPlan,
    old: Index,
    columns: Columns,
    step: Step,
    schema: Schema,
) -> Any:
    """Give rows of the old state to a step, as they will be read; the index has them as of then."""
    # Without a key each row is read, whatever it has.
    shape = Shape(columns, (), old.shape.survival)
    plan = from_blocks.planned(engine, table, wanted.after, shape=shape, blocks=wanted.to.blocks)
    places = partial(content.places, engine, old)
    return from_blocks.at_places(engine, plan, places, step, schema)


def _put_back(batches: Batches) -> Batches:
    """Give the positions of rows that are not deleted."""
    for batch in batches:
        for some in found_in(batch):
            yield pa.RecordBatch.from_arrays([pa.array(some.codes[~some.deleted])], ["codes"])


def _misfits_error(table: Table, rows: str, found: Sequence[ColumnMisfits]) -> SingerlakeError:
    """Say why nothing is turned back: old values do not fit the types of today.

    Args:
        rows: Which of its rows, as a message begins.
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
        rows: Which of its rows, as a message begins.
        command: What was asked for, as a verb.
    """
    return ViolationsError.of_lines(
        f"{rows} violate the current constraints of the table, and nothing was changed:",
        *(line for one in found for line in one.lines()),
        f"drop these constraints first (singerlake alter {table.name} drop-constraint), or "
        f"{command} anyway with --allow-violations (allow_violations=True in Python), which the "
        "transaction records",
    )
