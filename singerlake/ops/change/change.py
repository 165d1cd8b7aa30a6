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
from singerlake.engine.work import Work
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops.change import plan as plans
from singerlake.ops.change.job import Changed, change_rows
from singerlake.ops.change.plan import ChangeOptions, ChangePlan, Mode
from singerlake.ops.change.present_rows import PresentRows
from singerlake.ops.change.row_set import GivenRows, Part
from singerlake.overlay.constraint_checks import beyond_schemas
from singerlake.rows.state.shape import Shape
from singerlake.snapshot.from_blocks import needed_blocks

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
        table: The table.
        steps: What is asked, in order: a row that one inserts, the next may change.
        options: How.
        choice: What may read the rows, and write them.

    Raises:
        RejectedRowsError: Rows that cannot be taken; each problem is named.
        ConflictError: Rows were changed since they were read, or the table is no longer at
            ``if_transaction``; nothing was changed.
        ViolationsError: Rows would break a constraint; nothing was changed.
        UsageError: It cannot be done as asked.
        LockTimeoutError: A writer did not give its lock up in time.
        RuntimeMissingError: Spark is needed, and it or Java is not installed.
    """
    options, choice = options or ChangeOptions(), choice or EngineChoice()
    engines = _Engines(choice, steps)
    # Java starts before a lease is asked for, and not for what is refused.
    engines(plans.plan(table.snapshot(), options))
    now = partial(present_rows, with_rows=bool(steps))
    return change_rows(table, partial(_parts, steps), options, engines, now)


def begin(table: Table, options: ChangeOptions, choice: EngineChoice) -> None:
    """Start Spark if a change of a table needs it, before the caller asks for a lease.

    Args:
        table: The table.
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

    def __call__(self, wanted: ChangePlan) -> Engine[Any]:
        of_spark = (one.rows.of_spark for one in self.steps)
        sql = next(filter(None, of_spark), None) or asked_in_sql(wanted, with_rows=bool(self.steps))
        work = Work.of(needed_blocks(wanted.head), len(wanted.state.columns))
        for one in self.steps:
            work += one.rows.work
        self.started = self.choice.engine_for(work, WHAT, sql=sql, started=self.started)
        return self.started


def asked_in_sql(wanted: ChangePlan, *, with_rows: bool) -> str | None:
    """Say what only Spark can check of a change, in words; None if there is nothing.

    Args:
        wanted: The plan.
        with_rows: Whether rows are given.
    """
    state, table, altered = wanted.state, wanted.head.table, wanted.altered
    if altered is not None and (altered.asks_sql or (with_rows and altered.asks_values)):
        return f"the overrides of {table}"
    types = dict(state.columns)
    constraints = state.overlay.constraints.values()
    if any(one.kind == "unique" or beyond_schemas(one, types) for one in constraints):
        return f"the constraints of {table}"
    if constraints and wanted.options.new_version:
        return f"the constraints of {table}"
    return None


def present_rows(
    engine: Engine[Any], table: Table, wanted: ChangePlan, shape: Shape, *, with_rows: bool
) -> PresentRows:
    """Return what reads the rows that there are, and has SQL check what only that can."""
    if asked_in_sql(wanted, with_rows=with_rows) is None:
        return PresentRows(engine, table, wanted, shape)
    from singerlake.ops.change.sql.checked_rows import CheckedRows

    return CheckedRows(engine, table, wanted, shape)
