"""Vacuum: compact small files, expire history, and delete what nothing needs any more.

Each part is done alone, too. A vacuum announces itself in the log before it deletes anything, and
what is left to do the next one finds by looking (``ops/vacuum/plan.py``). Its engine is chosen
before that: what needs Spark, and cannot have it, is refused with nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

from singerlake.engine.choice import EngineChoice
from singerlake.errors import SingerlakeError
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.ops.vacuum import plan as plans
from singerlake.ops.vacuum.plan import Vacuumed, VacuumOptions, VacuumPlan


def plan(table: Table, options: VacuumOptions) -> VacuumPlan:
    """Find out what a vacuum would do.

    Raises:
        UsageError: The table has lost its log.
        DamagedError: The log cannot be read.
    """
    return plans.plan_vacuum(table.store, table.snapshot(dropped=True), options)


def vacuum(
    table: Table,
    options: VacuumOptions,
    choice: EngineChoice | None = None,
    *,
    wanted: VacuumPlan | None = None,
) -> Vacuumed:
    """Vacuum one table.

    Args:
        options: What to do, and how carefully.
        choice: What may copy its files, and read its rows.
        wanted: What :func:`plan` found just now; if the table has changed since, another plan is
            made.

    Raises:
        UsageError: The table has lost its log, or an option makes no sense.
        ConflictError: Another vacuum is at work on it.
        DamagedError: A block that is needed cannot be read.
        StoreError: The store refused. What was committed stays; the next run continues.
    """
    choice = choice or EngineChoice()
    wanted = wanted or plan(table, options)
    if wanted.needs_no_run:
        return Vacuumed(table.name, kept=wanted.garbage.kept)
    from singerlake.ops.vacuum.run import run  # Arrow, which most runs from cron do not need

    return run(table, options, choice, wanted)


def vacuum_tables(
    lake: Lake,
    tables: Sequence[TableName],
    options: VacuumOptions,
    choice: EngineChoice,
    *,
    dry_run: bool = False,
    shown: Callable[[TableName], AbstractContextManager[object]] = nullcontext,
) -> Iterator[tuple[TableName, VacuumPlan | Vacuumed | SingerlakeError]]:
    """Vacuum tables, and give the result of each, or what went wrong, as soon as it is there.

    The plans are made side by side on a remote store. Tables with readers that may be dead come
    last, so that all of these are waited for at the same time.

    Args:
        options: What to do, and how carefully.
        choice: As for :func:`vacuum`.
        dry_run: Give plans only.
        shown: Shows that a table is being vacuumed.
    """

    def done(
        name: TableName, wanted: VacuumPlan | SingerlakeError
    ) -> VacuumPlan | Vacuumed | SingerlakeError:
        if dry_run or isinstance(wanted, SingerlakeError):
            return wanted
        try:
            if wanted.needs_no_run:
                return Vacuumed(name, kept=wanted.garbage.kept)
            with shown(name):
                return vacuum(lake.table(name), options, choice, wanted=wanted)
        except SingerlakeError as error:
            return error

    last: list[TableName] = []
    for name, wanted in lake.each(tables, lambda table: plan(table, options)):
        if isinstance(wanted, VacuumPlan) and wanted.may_wait and not dry_run:
            last.append(name)
        else:
            yield name, done(name, wanted)
    for name in last:
        try:
            wanted = plan(lake.table(name), options)
        except SingerlakeError as error:
            wanted = error
        yield name, done(name, wanted)
