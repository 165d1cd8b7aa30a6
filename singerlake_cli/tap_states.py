"""The bookmark of a tap whose rows are reverted: what becomes of it, and how to set it back."""

from __future__ import annotations

import os
from dataclasses import asdict

import click
import msgspec

from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.log import bookmarks
from singerlake.log.acknowledged import acknowledged_by
from singerlake.log.table_state import TableState
from singerlake_cli import output
from singerlake_cli.shared import Command, Shared


def print_state(shared: Shared, table: Table, head: TableState, to: int, target: str) -> None:
    """Print the STATE that went out with a transaction, on standard output alone.

    Args:
        target: The option by which it was named, as it is spelled.

    Raises:
        NotFoundError: The log keeps none.
    """
    found = acknowledged_by(table.store, head, to)
    shared.output.note(
        f"the STATE that was acknowledged with transaction {found.transaction} of {table.name} "
        f"({output.clock(found.time)}); it covers all streams of the tap, so the tap sends records "
        "of other tables again, too. If that run failed, use the STATE of an earlier transaction "
        "for tables that it did not reach"
    )
    if not shared.json:
        shared.output.note("nothing was reverted. To give it to the tap with Meltano:")
        command = f"singerlake revert {table.name} {target} --print-state"
        environment = os.environ.get("MELTANO_ENVIRONMENT", "dev")
        state_id = f"{environment}:{table.name.tap}-to-target-singerlake"
        output.say_whole(
            f"  meltano state set --force {state_id} "
            f'"{{\\"singer_state\\": $({command} 2>/dev/null)}}"',
            err=True,
        )
    shared.output.result(
        lambda: {**asdict(found), "state": msgspec.Raw(found.state.encode())},
        lambda: output.say_whole(found.state),
    )


def keep_bookmark_option(command: Command) -> Command:
    """Add the option of a revert and of an undo that leaves bookmarks as they are."""
    return click.option(
        "--keep-bookmark",
        is_flag=True,
        help="Do not turn back the tap's bookmarks that the lake keeps.",
    )(command)


def bookmark_note(table: Table, otherwise: str, *, keep: bool) -> str:
    """Describe what becomes of the tap's bookmarks.

    Args:
        table: The table that is turned back.
        otherwise: What to say if they are not in the lake.
        keep: Whether those in the lake stay as they are.
    """
    kept = [one.id for one in bookmarks.all_of(table.store) if one.tap == table.name.tap]
    if not kept:
        return otherwise
    which = f"the bookmark{'' if len(kept) == 1 else 's'} {', '.join(kept)}"
    if keep:
        return (
            f"{which} will stay (--keep-bookmark), so the tap resends these records only if they "
            "change at the source"
        )
    return (
        f"{which} will be turned back as well, so the next run resends these records. To prevent "
        "that, use --keep-bookmark"
    )


def bookmark_stays(table: TableName, target: str, *, known: bool) -> str:
    """Explain that a bookmark elsewhere stays, and what to do about it.

    Args:
        table: The table that is turned back.
        target: The option that says where to, as it is spelled.
        known: Whether the log keeps the STATE of then.
    """
    way = (
        f"give it the STATE printed by: singerlake revert {table} {target} --print-state"
        if known
        else "run it without a STATE, because the log does not contain the STATE of that time"
    )
    return (
        "the tap's bookmark is not reset, so the tap resends these records only if they change at "
        f"the source. To have it resend them now, {way}"
    )
