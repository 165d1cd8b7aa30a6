"""Change: insert, update and delete rows of a table, as one new transaction.

What is asked is compared with the rows that there are, by key, and only the difference is written.
If others changed the same rows meanwhile, it is compared again with theirs, or refused if a row was
read in a version that it no longer has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from singerlake.engine.base import Engine
from singerlake.engine.choice import EngineChoice
from singerlake.engine.local import LocalEngine
from singerlake.engine.work import Work
from singerlake.format.overlay import Constraint
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops.change import plan as plans
from singerlake.ops.change.checked_rows import CheckedRows
from singerlake.ops.change.job import Changed, change_rows
from singerlake.ops.change.plan import ChangeOptions, ChangePlan, Mode
from singerlake.ops.change.present_rows import PresentRows
from singerlake.ops.change.row_set import GivenRows, Part
from singerlake.overlay.constraint_checks import beyond_schemas
from singerlake.rows.state.shape import Shape
from singerlake.snapshot.from_blocks import needed_blocks
from singerlake.sql.local.outside import OutsideError

WHAT = "changing rows"


@dataclass(frozen=True)
class ChangeStep:
    """One step of a change.

    Attributes:
        mode: What is asked of the rows.
        rows: The rows.
        source: What messages call them.
    """

    mode: Mode
    rows: GivenRows
    source: str


def change(
    table: Table,
    steps: Sequence[ChangeStep],
    options: ChangeOptions | None = None,
    choice: EngineChoice | None = None,
) -> Changed:
    """Change rows of a table in steps that are one transaction.

    Args:
        steps: What is asked, in order: a row that one inserts, the next may change.

    Raises:
        RejectedRowsError: Rows that cannot be taken; each problem is named.
        ConflictError: Rows were changed since they were read, or the table is no longer at
            ``if_transaction``; nothing was changed.
        ViolationsError: Rows would break a constraint; nothing was changed.
        UsageError: It cannot be done as asked.
    """
    options, choice = options or ChangeOptions(), choice or EngineChoice()
    engines = _Engines(choice, steps)
    # Java starts before a lease is asked for, and not for what is refused.
    engines(plans.plan(table.snapshot(), options))
    parts = partial(_parts, steps)
    try:
        return change_rows(table, parts, options, engines, present_rows)
    except OutsideError as error:
        engines.give_up(error.construct)
    return change_rows(table, parts, options, engines, present_rows)


def begin(table: Table, options: ChangeOptions, choice: EngineChoice) -> None:
    """Start Spark if a change of a table needs it, before the caller asks for a lease.

    Args:
        options: How it is to be changed.
        choice: What may read its rows, and write them.

    Raises:
        SingerlakeError: As for :func:`change`, as far as it is known without the rows.
    """
    _Engines(choice, [])(plans.plan(table.snapshot(), options))


def _parts(steps: Sequence[ChangeStep], engine: Engine[Any], present: TableState) -> list[Part]:
    return [Part((one.rows.row_set(engine, present, one.source),), one.mode) for one in steps]


@dataclass
class _Engines:
    """Chooses the engine of each attempt: the table may have grown, or got constraints."""

    choice: EngineChoice
    steps: Sequence[ChangeStep]
    started: Engine[Any] | None = None
    outside: str | None = None

    def __call__(self, wanted: ChangePlan) -> Engine[Any]:
        of_spark = (one.rows.of_spark for one in self.steps)
        sql = self.outside or next(filter(None, of_spark), None) or self._checked(wanted)
        work = Work.of(needed_blocks(wanted.head), len(wanted.state.columns))
        for one in self.steps:
            work += one.rows.work
        self.started = self.choice.engine_for(work, WHAT, sql=sql, started=self.started)
        return self.started

    def give_up(self, construct: str) -> None:
        """Go on with Spark, as DuckDB does not answer as that does.

        Raises:
            UsageError: Only this process may be used.
        """
        self.outside = f"a change with {construct}"
        self.choice.need_spark(WHAT, self.outside)

    def _checked(self, wanted: ChangePlan) -> str | None:
        if not (asked := checked(wanted)):
            return None
        from singerlake.sql.constraints import asked_of_spark  # late: few tables have constraints

        return asked_of_spark(self.choice, wanted.state, asked)


def checked(wanted: ChangePlan) -> dict[str, Constraint]:
    """Return the constraints that SQL has to check of a change, by name."""
    constraints = wanted.state.overlay.constraints
    if wanted.options.new_version:
        return dict(constraints)
    types = dict(wanted.state.columns)
    found = {
        name: one
        for name, one in constraints.items()
        if one.kind == "unique" or beyond_schemas(one, types)
    }
    if (altered := wanted.altered) is None:
        return found
    return {**found, **altered.new_constraints, **altered.rechecked, **altered.checked_defaults}


def present_rows(
    engine: Engine[Any], table: Table, wanted: ChangePlan, shape: Shape
) -> PresentRows:
    """Return what reads the rows that there are, and has SQL check what only that can."""
    if not checked(wanted):
        return PresentRows(engine, table, wanted, shape)
    if isinstance(engine, LocalEngine):
        return CheckedRows(engine, table, wanted, shape)
    from singerlake.ops.change.sql.checked_rows import SparkCheckedRows  # late: imports PySpark

    return SparkCheckedRows(engine, table, wanted, shape)
