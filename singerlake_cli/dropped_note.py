"""What to say before a name is used again whose table was dropped."""

from __future__ import annotations

from singerlake.transactions.snapshot import Snapshot
from singerlake_cli.shared import Shared


def note_dropped(shared: Shared, before: Snapshot) -> None:
    """Say that a new table under this name ends the way back to the one that was dropped.

    Args:
        shared: Where to say it.
        before: What the new table goes on from, as ``create.check_new`` gives it.
    """
    if before.dropped_at:
        shared.output.note(
            f"{before.table} was dropped (transaction {before.dropped_at}): once this new table is "
            f"made, `singerlake undrop {before.table}` cannot bring the old one back"
        )
