"""What to say before a table is made: that the lake is new, or what its name meant before."""

from __future__ import annotations

from singerlake.lake import Lake
from singerlake.log.table_state import TableState
from singerlake_cli.shared import Shared


def note_new_lake(shared: Shared, lake: Lake) -> None:
    """Say that there is no lake yet: its place may be a typing error.

    Args:
        shared: Where to say it.
        lake: Which gets its first table.
    """
    if lake.file is None and not lake.taps():
        shared.output.note(f"there is no lake at {lake.store.uri} yet: creating it")


def note_dropped(shared: Shared, before: TableState) -> None:
    """Say that a new table under this name ends the way back to the one that was dropped.

    Args:
        shared: Where to say it.
        before: What the new table goes on from, as ``create.check_new`` gives it.
    """
    if before.dropped_at:
        shared.output.note(
            f"{before.table} was dropped (transaction {before.dropped_at}): once this new table "
            f"exists, `singerlake undrop {before.table}` cannot restore the old one"
        )
