"""singerlake undo: take back single transactions, and leave what came after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from singerlake.errors import UsageError
from singerlake.format.log import Operation
from singerlake.lake import Table
from singerlake.ops.rows_back.undo_plan import OnConflict, UndoPlan, kept
from singerlake_cli import output
from singerlake_cli.replay_notes import replay_notes
from singerlake_cli.shared import Shared, alter_options, complete_table, engine_options
from singerlake_cli.tap_states import bookmark_note, keep_bookmark_option
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.ops.undo import Undone, UndoOptions
    from singerlake.overlay.alter import AlterOptions

SHOWN = 10
"""So many rows that were touched again are named."""


@click.command("undo")
@click.argument("table", shell_complete=complete_table)
@click.argument("transactions", nargs=-1, required=True, metavar="NUMBER...")
@click.option(
    "--on-conflict",
    type=click.Choice(["keep", "undo", "fail"]),
    default="fail",
    show_default=True,
    help="Rows that were changed later: keep them as they are now, undo them too, or undo "
    "nothing if there are any.",
)
@click.option(
    "--allow-violations",
    is_flag=True,
    help="Undo even if rows that come back violate a constraint; the transaction records it.",
)
@click.option(
    "--allow-type-mismatches",
    is_flag=True,
    help="Undo even if values do not fit the current type of their column.",
)
@keep_bookmark_option
@alter_options
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    transactions: tuple[str, ...],
    on_conflict: str,
    allow_violations: bool,
    allow_type_mismatches: bool,
    keep_bookmark: bool,
    options: AlterOptions,
    choice: EngineChoice,
) -> None:
    """Undo single transactions of a TABLE, and keep later ones.

    Each row that the transactions wrote is restored to its previous content, byte for byte; other
    rows do not change. The result is one new transaction, which you can undo as well. `singerlake
    history` lists the transactions with their numbers.

    A row that a later transaction changed again is a conflict. By default, conflicts are listed and
    nothing is undone. With --on-conflict keep, these rows stay as they are now; with --on-conflict
    undo, the later changes are undone as well, and remain only in the history. --dry-run always
    lists conflicts.

    Bookmarks that the lake keeps (`singerlake bookmark`) are turned back to before the first of the
    transactions, so the next run resends these records. Other bookmarks are not reset. Restored
    rows must satisfy the table's current constraints and types. If the table has no key, all of its
    remaining rows are written again, after ACTIVATE_VERSION.

    Tables of up to 32 MiB of messages need no Spark, except for complex constraints; --engine
    chooses otherwise.

    \b
    singerlake undo tap-shop.orders 17 --dry-run
    singerlake undo tap-shop.orders 17 19 --on-conflict keep
    """
    lake_table, ref = shared.lake().find(table)
    if ref.version is not None:
        raise UsageError(f"name the table without a version: {ref.table}")
    from singerlake.ops.undo import UndoOptions, undo

    mode = OnConflict(on_conflict)
    what = UndoOptions(
        _numbers(transactions),
        mode,
        dry_run=options.dry_run,
        writing=replace(options.writing, metadata=kept(options.metadata, options.comment)),
        if_transaction=options.if_transaction,
        allow_violations=allow_violations,
        allow_type_mismatches=allow_type_mismatches,
        keep_bookmark=keep_bookmark,
    )
    outline = _announced(shared, lake_table, what)
    with working(f"undoing transactions of {ref.table}"):
        done = undo(lake_table, what, choice, outline=outline)
    shared.output.result(
        lambda: asdict(done), lambda: _print(outline, done, mode, dry_run=options.dry_run)
    )


def _announced(shared: Shared, table: Table, options: UndoOptions) -> UndoPlan:
    """Check all that needs no rows, and print notes before anything is done."""
    from singerlake.ops.undo import plan

    wanted = plan(table, options)
    if not shared.json:
        for line in _notes(wanted, table, keep=options.keep_bookmark):
            shared.output.note(line)
    return wanted


def _numbers(words: Sequence[str]) -> list[int]:
    """Parse the numbers of the named transactions.

    Raises:
        UsageError: One is no number.
    """
    numbers = [word for text in words for word in text.split(",") if word]
    wrong = [word for word in numbers if not word.isdecimal() or not 0 < int(word) < 1 << 53]
    if wrong or not numbers:
        raise UsageError(
            f"{wrong[0] if wrong else words[0]!r} is not a transaction number: singerlake history "
            "lists the transactions with their numbers"
        )
    return [int(word) for word in numbers]


def _notes(wanted: UndoPlan, table: Table, *, keep: bool) -> list[str]:
    head, notes = wanted.head, []
    if any(head.summary(number).operation == Operation.SYNC for number in wanted.numbers):
        stays = (
            "the tap's bookmark is not reset, so the tap resends the undone records only if they "
            "change at the source"
        )
        notes.append(bookmark_note(table, stays, keep=keep))
    if not head.key:
        notes.append(
            f"{head.table} has no key, so all its rows are written again, after ACTIVATE_VERSION; "
            "a target that ignores this message (pipelinewise-target-postgres does) then contains "
            "the rows twice: empty its table before its next run"
        )
    if wanted.schema_stays:
        notes.append("they changed the schema, and later transactions used it: the schema stays")
    return [*notes, *replay_notes(table, head, wanted.numbers)]


def _print(wanted: UndoPlan, done: Undone, on_conflict: OnConflict, *, dry_run: bool) -> None:
    table = wanted.head.table
    which = "transaction" if len(done.undone) == 1 else "transactions"
    which += f" {', '.join(map(str, done.undone))}"
    counts = f"{output.count(done.put_back, 'row')} put back, {done.deleted:,} deleted"
    same = not (done.put_back or done.deleted or done.conflicts)
    why = ": its rows are already as before" if same else ""
    if same:
        counts += " (its rows are already as before)"
    if done.transaction is not None:
        output.say(f"{table} without {which}, as transaction {done.transaction}: {counts}")
    elif dry_run:
        output.say(f"{table} without {which} (dry run): {counts}")
    else:
        output.say(f"{table}: nothing of {which} is left to undo{why}")
    if done.conflicts:
        _print_conflicts(wanted, done, on_conflict, dry_run=dry_run)
    if done.violations:
        output.say(f"restored rows violate {', '.join(done.violations)}")
    if done.misfits:
        output.say(f"values do not fit their type in {', '.join(done.misfits)}")
    if done.whole:
        written = "would be written" if dry_run else "written"
        output.say(
            f"all rows {written} again, after ACTIVATE_VERSION: a target that resumes from its "
            "bookmark must support this message"
        )


def _print_conflicts(
    wanted: UndoPlan, done: Undone, on_conflict: OnConflict, *, dry_run: bool
) -> None:
    became = {
        OnConflict.FAIL: "without --on-conflict keep or undo, nothing would be undone",
        OnConflict.KEEP: f"{'would be' if dry_run else 'were'} kept (--on-conflict keep)",
        OnConflict.UNDO: f"{'would be' if dry_run else 'were'} undone too (--on-conflict undo)",
    }[on_conflict]
    output.say(f"{output.count(done.conflicts, 'row')} changed later: {became}")
    names = ", ".join(wanted.head.schema.key_properties)
    for one in done.first_conflicts[:SHOWN]:
        output.say(f"  {names} {one}")
    if (more := done.conflicts - SHOWN) > 0:
        output.say(f"  and {more:,} more")
