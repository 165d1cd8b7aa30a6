"""Replays that an undo or a revert takes back: how their records get on the list again."""

from __future__ import annotations

from collections.abc import Iterable

from singerlake.format.log import Operation
from singerlake.format.names import REJECTED
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake_cli import output


def replay_notes(table: Table, head: TableState, numbers: Iterable[int]) -> list[str]:
    """Describe where the records of replays are that are taken back.

    Args:
        numbers: The transactions that are taken back.
    """
    replays = [one for one in numbers if head.summary(one).operation == Operation.REPLAY]
    if not replays:
        return []
    from singerlake.ops.rejected import kept

    settled = kept.settlements(table, head, replays)
    if not settled:
        return []
    which = ", ".join(map(str, replays))
    verb = "is" if len(replays) == 1 else "are"
    return [
        f"{output.count(len(replays), 'replay')} ({which}) {verb} taken back, but the records stay "
        "off the list of rejected records. To list them again, run: singerlake undo "
        f"{table.name}{REJECTED} {' '.join(map(str, settled))} --on-conflict keep"
    ]
