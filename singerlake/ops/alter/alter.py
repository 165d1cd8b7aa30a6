"""Alter: add, rename, retype, drop columns of a table, give it a key, ask something of its rows.

What is said lies over what the tap says; the lines stay as they are. Most of it needs no look at a
row. A type needs one at all values, and a key at all keys. Rows that were replaced or deleted
under the old key may come back under a new one; then all rows of the table are written again,
after ACTIVATE_VERSION messages that remove everything before, in the same transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from singerlake.engine.choice import EngineChoice
from singerlake.errors import UsageError
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.overlay import alter as plans
from singerlake.overlay.alter import (
    Altered,
    AlterOptions,
    AlterPlan,
    OverlayChange,
    looks_at_rows,
)

if TYPE_CHECKING:
    from singerlake.engine.base import Engine

WHAT = "altering a table"


def alter(
    table: Table,
    change: OverlayChange,
    options: AlterOptions | None = None,
    choice: EngineChoice | None = None,
    *,
    head: TableState | None = None,
) -> Altered:
    """Alter a table.

    Args:
        change: What is to be said of it.
        head: The table as a caller has just read it.

    Raises:
        NotFoundError: The table has no such column.
        UsageError: It cannot be said, or the table has lost its log.
        ViolationsError: Rows are not what they would have to be; nothing was changed.
        ConflictError: Another process changed the table meanwhile; nothing was changed.
        DamagedError: A row that is needed cannot be read.
    """
    options, choice = options or AlterOptions(), choice or EngineChoice()
    head = head or table.snapshot()
    wanted = plans.plan(head, change, options)
    if options.new_version:
        return _with_version(table, wanted, change, options, choice)
    if not looks_at_rows(wanted, allow_type_mismatches=options.allow_type_mismatches):
        return plans.alter(table.store, head, change, options)
    # Java starts before a lease is asked for, and not for what is refused.
    engine = _engine_for(choice, wanted)
    from singerlake.ops.alter.by_rows import alter_by_rows  # late: most alterations need no row

    with table.lease() as lease:
        wanted = plans.plan(lease.snapshot, change, options)
        if not looks_at_rows(wanted, allow_type_mismatches=options.allow_type_mismatches):
            return plans.alter(table.store, lease.snapshot, change, options)
        # Another time: the table may have grown since it was looked at.
        engine = _engine_for(choice, wanted, engine)
        return alter_by_rows(table, wanted, engine, change, options, choice)


def _with_version(
    table: Table,
    wanted: AlterPlan,
    change: OverlayChange,
    options: AlterOptions,
    choice: EngineChoice,
) -> Altered:
    """Alter and freeze a version in one transaction, as for any change.

    Raises:
        UsageError: The version would have values that do not fit.
    """
    if options.allow_type_mismatches:
        raise UsageError(
            "a version cannot have values that do not fit: --allow-type-mismatches and "
            "--new-version exclude each other"
        )
    if options.dry_run and not looks_at_rows(wanted):
        return Altered(wanted.words)
    from singerlake.ops.change.change import change as change_rows  # late, as above
    from singerlake.ops.change.plan import ChangeOptions

    how = ChangeOptions(
        comment=options.comment,
        metadata=options.metadata,
        if_transaction=options.if_transaction,
        new_version=True,
        label=options.label,
        dry_run=options.dry_run,
        said=change,
        writing=options.writing,
    )
    done = change_rows(table, [], how, choice)
    rows = done.version.rows if done.whole and done.version is not None else None
    return Altered(wanted.words, done.transaction, rows, done.version)


def _engine_for(
    choice: EngineChoice, wanted: AlterPlan, started: Engine[Any] | None = None
) -> Engine[Any]:
    from singerlake.snapshot.from_blocks import reading  # late, as above

    work = reading(wanted.head)
    sql = None
    if wanted.asks_sql:
        from singerlake.ops.alter.constraint_checks import asked_in_sql
        from singerlake.sql.constraints import asked_of_spark

        sql = asked_of_spark(choice, wanted.after, asked_in_sql(wanted))
    return choice.engine_for(work, WHAT, sql=sql, started=started)
