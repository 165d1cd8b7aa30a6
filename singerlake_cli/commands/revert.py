"""singerlake revert: turn a table back to an earlier state, as a new transaction."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from singerlake.errors import UsageError
from singerlake.format.log import Operation
from singerlake.format.metadata import TransactionSummary
from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.log import conflicts
from singerlake.log.acknowledged import is_state_kept
from singerlake.log.requested_state import Naming, requested_transaction
from singerlake.log.table_state import TableState
from singerlake.log.versions import warn_of_rules
from singerlake.ops.rows_back.revert_plan import RevertPlan, kept, undone_by
from singerlake_cli import output
from singerlake_cli.replay_notes import replay_notes
from singerlake_cli.shared import (
    Shared,
    alter_options,
    complete_table,
    engine_options,
)
from singerlake_cli.tap_states import (
    bookmark_note,
    bookmark_stays,
    keep_bookmark_option,
    print_state,
)
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.ops.rows_back.revert import Reverted
    from singerlake.overlay.alter import AlterOptions

SHOWN = 3
"""So many of the transactions that are undone are listed."""


@click.command("revert")
@click.argument("table", shell_complete=complete_table)
@click.option("--to", "version", metavar="VERSION", help="A frozen version, by number or label.")
@click.option("--to-transaction", type=click.IntRange(min=1), metavar="NUMBER")
@click.option(
    "--to-time", metavar="TIME", help="The snapshot at a time, such as 2026-11-20T12:00Z."
)
@click.option(
    "--allow-violations",
    is_flag=True,
    help="Revert even if old rows violate a constraint; the transaction records it.",
)
@click.option(
    "--allow-type-mismatches",
    is_flag=True,
    help="Revert even if values do not fit the current type of their column.",
)
@click.option(
    "--print-state",
    "only_state",
    is_flag=True,
    help="Only print the STATE that was acknowledged with that transaction, and change nothing.",
)
@keep_bookmark_option
@alter_options
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    version: str | None,
    to_transaction: int | None,
    to_time: str | None,
    allow_violations: bool,
    allow_type_mismatches: bool,
    only_state: bool,
    keep_bookmark: bool,
    options: AlterOptions,
    choice: EngineChoice,
) -> None:
    """Revert a TABLE to an earlier snapshot.

    Use this after a bad sync. To undo single transactions and keep later ones, use `singerlake
    undo`.

    Writes the difference to the earlier snapshot as one new transaction, under the schema of that
    time, so you can revert a revert, and targets that resume from a bookmark receive only the
    difference. A row is restored if any byte of its record differs.

    The transactions that it undoes are listed first. Bookmarks that the lake keeps (`singerlake
    bookmark`) are turned back as well, so the next run resends these records. A bookmark elsewhere
    is not reset, so the tap resends these records only if they change at the source. To have it
    resend them now, give it the STATE that --print-state prints.

    Overrides by `singerlake alter` stay in effect, and so do constraints: old rows that violate
    them, or do not fit current types, are not restored.

    If the table has no key, all its rows are written again, after ACTIVATE_VERSION. A target that
    ignores this message, such as pipelinewise-target-postgres, then contains them twice.

    Tables of up to 32 MiB of messages need no Spark, except for complex constraints; --engine
    chooses otherwise.

    \b
    singerlake revert tap-shop.orders --to 1 --dry-run
    singerlake revert tap-shop.orders --to 2026-q3
    singerlake revert tap-shop.orders --to-time 2026-11-20T12:00Z
    singerlake revert tap-shop.orders --to 2026-q3 --print-state > state.json
    """
    lake_table, ref = shared.lake().find(table)
    if ref.version is not None:
        raise UsageError(f"name the table alone, and the version with --to {ref.version}")
    allowed = {
        "allow_violations": allow_violations,
        "allow_type_mismatches": allow_type_mismatches,
        "keep_bookmark": keep_bookmark,
    }
    if only_state and (options.dry_run or options.comment or options.metadata):
        raise UsageError(
            "--print-state changes nothing: leave out --dry-run, --comment and --metadata"
        )
    head = lake_table.snapshot()
    kept(options.metadata, options.comment)
    conflicts.check_transaction(head, options.if_transaction)
    named, to = requested_transaction(
        head,
        Naming("--to", "version", version),
        Naming("--to-transaction", "transaction", to_transaction),
        Naming("--to-time", "time", to_time),
        required=True,
    )
    if named is not None:
        warn_of_rules(named, head.table)
    spelled = _spelled(version, to)
    if only_state:
        print_state(shared, lake_table, head, to, spelled)
        return
    undone = _announced(
        shared, lake_table, head, to, spelled, dry_run=options.dry_run, keep=keep_bookmark
    )
    if RevertPlan(head, head.at(to)).same_state and not shared.json:
        _print_same(ref.table, to)  # the document counts the rows, which Spark has to
        return
    from singerlake.ops.revert import RevertOptions, revert

    writing = replace(options.writing, metadata=kept(options.metadata, options.comment))
    how = RevertOptions(to, options.dry_run, writing, options.if_transaction, **allowed)
    with working(f"reverting {ref.table}"):
        reverted = revert(lake_table, how, choice, head=head)
    _say(shared, lake_table, head, undone, reverted, dry_run=options.dry_run)


def _announced(
    shared: Shared,
    table: Table,
    head: TableState,
    to: int,
    spelled: str,
    *,
    dry_run: bool,
    keep: bool,
) -> list[TransactionSummary]:
    """Report what is going to be undone, and return the transactions."""
    if not head.at(to).schema.key_properties:
        shared.output.note(_keyless(table.name))
    undone = undone_by(head, to)
    if undone and not shared.json:  # the document has them
        shared.output.note(_undoes(undone, dry_run=dry_run))
        if any(one.operation == Operation.SYNC for one in undone):
            kept_then = is_state_kept(table.store, head, to)
            otherwise = bookmark_stays(table.name, spelled, known=kept_then)
            shared.output.note(bookmark_note(table, otherwise, keep=keep))
        for note in replay_notes(table, head, [one.number for one in undone]):
            shared.output.note(note)
    return undone


def _say(
    shared: Shared,
    table: Table,
    head: TableState,
    undone: list[TransactionSummary],
    done: Reverted,
    *,
    dry_run: bool,
) -> None:
    to = done.to
    if done.transaction is not None and done.transaction > head.number + 1:
        known = {one.number for one in undone}
        undone = [u for u in undone_by(table.snapshot(), to) if u.number < done.transaction]
        others = [one for one in undone if one.number not in known]
        if others and not shared.json:
            shared.output.note("another process wrote to the table in the meantime:")
            shared.output.note(_undoes(others, dry_run=False))
    shared.output.result(
        lambda: {**asdict(done), "undoes": [_as_json(one) for one in undone]},
        lambda: _print(table.name, to, done, dry_run),
    )


def _undoes(undone: Sequence[TransactionSummary], *, dry_run: bool) -> str:
    """Describe the transactions that a revert undoes."""
    shown = [
        f"{one.operation} {one.number} ({output.clock(one.time)}, "
        f"{output.count(one.rows, 'record')})"
        for one in undone[:SHOWN]
    ]
    more = len(undone) - len(shown)
    verb = "would undo" if dry_run else "undoes"
    count = output.count(len(undone), "later transaction")
    return f"this {verb} {count}: {', '.join(shown)}" + (f" and {more:,} more" if more else "")


def _spelled(version: str | None, to: int) -> str:
    """Return the option that names the state, as it can be typed again."""
    return f"--to-transaction {to}" if version is None else f"--to {shlex.quote(version)}"


def _as_json(one: TransactionSummary) -> dict[str, Any]:
    return {
        "transaction": one.number,
        "operation": one.operation,
        "time": one.time,
        "rows": one.rows,
    }


def _print(table: TableName, to: int, done: Reverted, dry_run: bool) -> None:
    counts = f"{output.count(done.put_back, 'row')} put back"
    if done.deleted is None:
        counts += " instead of all current rows"
    else:
        counts += f", {done.deleted:,} deleted, {done.unchanged:,} unchanged"
    if dry_run:
        output.say(f"{table} to transaction {to} (dry run): {counts}")
    elif done.transaction is None:
        _print_same(table, to)
    else:
        output.say(f"{table} to transaction {to}, as transaction {done.transaction}: {counts}")
    if done.violations:
        output.say(f"its rows violate {', '.join(done.violations)}")
    if done.misfits:
        output.say(f"values do not fit their type in {', '.join(done.misfits)}")
    if done.whole and done.put_back:
        output.say(
            "all rows written again, after ACTIVATE_VERSION: a target that resumes from its "
            "bookmark must support this message"
        )


def _print_same(table: TableName, to: int) -> None:
    output.say(f"{table} is already at the snapshot of transaction {to}: nothing to do")


def _keyless(table: TableName) -> str:
    return (
        f"{table} has no key, so a revert writes all its rows again, after ACTIVATE_VERSION; a "
        "target that ignores this message (pipelinewise-target-postgres does) then contains the "
        "rows twice: empty its table before its next run"
    )
