"""Notes before a table is made: the lake is new, or the name belonged to a dropped table."""

from __future__ import annotations

from singerlake.lake import Lake
from singerlake.log.table_state import TableState
from singerlake_cli.shared import Shared


def note_new_lake(shared: Shared, lake: Lake) -> None:
    """Warn that there is no lake yet: its place may be a typing error.

    Args:
        lake: The lake, which gets its first table.
    """
    if lake.file is None and not lake.taps():
        shared.output.note(f"there is no lake at {lake.store.uri} yet: creating it")


def note_dropped(shared: Shared, before: TableState) -> None:
    """Warn that a new table under this name makes the dropped one impossible to restore.

    Args:
        before: The state that the new table continues, as ``create.check_new`` gives it.
    """
    if before.dropped_at:
        shared.output.note(
            f"{before.table} was dropped (transaction {before.dropped_at}): once this new table "
            f"exists, `singerlake undrop {before.table}` cannot restore the old one"
        )
