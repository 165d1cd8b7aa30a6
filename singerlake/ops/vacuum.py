"""Vacuum: compact small files, expire history, and delete what nothing needs any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from singerlake import extras
from singerlake.errors import SingerlakeError, UsageError
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.maintenance import combine
from singerlake.maintenance import vacuum as plans
from singerlake.maintenance.combine import Group
from singerlake.maintenance.vacuum import Vacuumed, VacuumOptions, VacuumPlan
from singerlake.ops.engines import LOCAL, SPARK, EngineChoice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHAT = "this vacuum"


def plan(table: Table, options: VacuumOptions) -> VacuumPlan:
    """Find out what a vacuum would do.

    Raises:
        UsageError: The table has lost its log.
        DamagedError: The log cannot be read.
        StoreError: The store refused.
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
        table: The table.
        options: What to do, and how carefully.
        choice: What may copy its files, and read its rows.
        wanted: What :func:`plan` found just now; if the table has changed since, another plan is
            made.

    Raises:
        UsageError: The table has lost its log, or history is to be expired and only this process
            may be used.
        ConflictError: Another vacuum is at work on it.
        DamagedError: A block that is needed cannot be read.
        StoreError: The store refused. What was committed stays; the next run continues.
        RuntimeMissingError: Spark is needed, and it or Java is not installed.
    """
    choice = choice or EngineChoice()
    wanted = wanted or plan(table, options)
    if wanted.needs_no_run:
        return Vacuumed(table.name, kept=wanted.garbage.kept)
    from singerlake.spark.vacuuming import vacuum_table

    here, check = partial(_copies_here, choice), partial(_check, choice)
    check(wanted)
    start = partial(_session, choice)
    return vacuum_table(start, table, options, plan=wanted, here=here, check=check, expire=_expire)


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
        lake: The lake.
        tables: Which.
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


def _copies_here(choice: EngineChoice, groups: list[Group]) -> bool:
    """Whether this process copies files: the system moves their bytes, so it may be a lot."""
    return choice.name == LOCAL or (choice.name != SPARK and combine.is_little(groups))


def _check(choice: EngineChoice, wanted: VacuumPlan) -> None:
    """Refuse what cannot be done to its end, before anything is announced.

    Raises:
        UsageError: History is to be expired, and only this process may be used.
        RuntimeMissingError: Spark is needed, and not installed.
    """
    if wanted.drop_history is not None and choice.name == LOCAL:
        raise UsageError("history can only be expired by Spark: use the engine auto or spark")
    copies = wanted.combine and not _copies_here(choice, wanted.combine)
    if wanted.drop_history is not None or copies:
        extras.require("pyspark", WHAT)


def _expire(spark: SparkSession, *what: Any) -> Any:
    from singerlake.spark.jobs.maintenance.drop_history import drop_history

    return drop_history(spark, *what)


def _session(choice: EngineChoice) -> SparkSession:
    spark: SparkSession = choice.spark_engine(WHAT).spark  # type: ignore[attr-defined]
    return spark
