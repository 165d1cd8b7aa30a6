"""``revert --only``: take back some transactions, and leave what came after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from singerlake.errors import UsageError
from singerlake.format.log import Operation
from singerlake.lake import Table
from singerlake.maintenance.undo import OnConflict, UndoPlan
from singerlake_cli import output
from singerlake_cli.shared import Shared

if TYPE_CHECKING:
    from singerlake.ops.undo import Undone, UndoOptions

SHOWN = 10
"""So many rows that were touched again are named."""


def announced(shared: Shared, table: Table, options: UndoOptions) -> UndoPlan:
    """Check all that needs no rows, and say what to know before anything is done."""
    from singerlake.ops.undo import plan

    wanted = plan(table, options)
    if not shared.json:
        for line in _notes(wanted):
            shared.output.note(line)
    return wanted


def print_undone(
    shared: Shared, wanted: UndoPlan, done: Undone, on_conflict: OnConflict, *, dry_run: bool
) -> None:
    """Print what was done, or would be; when no bar is shown any more."""
    shared.output.result(
        lambda: asdict(done), lambda: _print(wanted, done, on_conflict, dry_run=dry_run)
    )


def numbers_of(only: Sequence[str], more: Sequence[str]) -> list[int]:
    """Read the transactions that are named.

    Raises:
        UsageError: One is no number.
    """
    words = [word for text in (*only, *more) for word in text.split(",") if word]
    wrong = [word for word in words if not word.isdecimal() or not 0 < int(word) < 1 << 53]
    if wrong or not words:
        raise UsageError(
            f"{wrong[0] if wrong else only[0]!r} is no transaction: name them by their numbers, as "
            "singerlake history shows them: singerlake revert TABLE --only 17 19"
        )
    return [int(word) for word in words]


def _notes(wanted: UndoPlan) -> list[str]:
    head, notes = wanted.head, []
    if any(head.summary(number).operation == Operation.SYNC for number in wanted.numbers):
        notes.append(
            "the bookmark of the tap stays where it is: what a sync brought that is undone comes "
            "again only where the source changes it"
        )
    if not head.key:
        notes.append(
            f"{head.table} has no key, so all its rows are written anew, behind ACTIVATE_VERSION; "
            "a target that ignores this message (pipelinewise-target-postgres does) will hold the "
            "rows twice: empty its table before it reads on"
        )
    if wanted.schema_stays:
        notes.append("they changed the schema, which later transactions wrote under: it stays")
    return notes


def _print(wanted: UndoPlan, done: Undone, on_conflict: OnConflict, *, dry_run: bool) -> None:
    table = wanted.head.table
    which = "transaction" if len(done.undone) == 1 else "transactions"
    which += f" {', '.join(map(str, done.undone))}"
    counts = f"{output.count(done.put_back, 'row')} put back, {done.deleted:,} deleted"
    same = not (done.put_back or done.deleted or done.conflicts)
    why = ": its rows are as they were before" if same else ""
    if same:
        counts += " (its rows are as they were before)"
    if done.transaction is not None:
        output.say(f"{table} without {which}, as transaction {done.transaction}: {counts}")
    elif dry_run:
        output.say(f"{table} without {which}: would be {counts}")
    else:
        output.say(f"{table}: nothing of {which} is left to undo{why}")
    if done.conflicts:
        _print_conflicts(wanted, done, on_conflict, dry_run=dry_run)
    if done.violations:
        output.say(f"rows that come back break {', '.join(done.violations)}")
    if done.misfits:
        output.say(f"values do not fit their type in {', '.join(done.misfits)}")
    if done.whole:
        written = "would be written" if dry_run else "written"
        output.say(
            f"all rows {written} again, after ACTIVATE_VERSION: a target that reads on must obey "
            "that message"
        )


def _print_conflicts(
    wanted: UndoPlan, done: Undone, on_conflict: OnConflict, *, dry_run: bool
) -> None:
    became = {
        OnConflict.FAIL: "without --ours or --theirs nothing would be undone",
        OnConflict.OURS: f"{'would stay' if dry_run else 'stayed'} as now (--ours)",
        OnConflict.THEIRS: f"{'would go' if dry_run else 'went'} back, too (--theirs)",
    }[on_conflict]
    output.say(f"{output.count(done.conflicts, 'row')} touched again since: {became}")
    names = ", ".join(wanted.head.schema.key_properties)
    for one in done.first_conflicts[:SHOWN]:
        output.say(f"  {names} {one}")
    if (more := done.conflicts - SHOWN) > 0:
        output.say(f"  and {more:,} more")
