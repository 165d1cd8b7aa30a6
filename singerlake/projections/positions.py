"""How far a projection is: the states that it shows, held against the tables as they are."""

from __future__ import annotations

from singerlake.format.names import TableName
from singerlake.projections.published import SourceState
from singerlake.quantities import count
from singerlake.transactions.snapshot import Snapshot


def state_of(snapshot: Snapshot, version: int | None = None) -> SourceState:
    """Note the state that is read, for a position.

    Args:
        snapshot: The table at the transaction.
        version: The version that was asked for; None for the head.
    """
    return SourceState(str(snapshot.table), snapshot.number, snapshot.commit, version)


def table_of(state: SourceState) -> TableName:
    """The table that a position speaks of."""
    tap, _, stream = state.table.partition(".")
    return TableName(tap, stream)


def is_same_table(state: SourceState, head: Snapshot) -> bool:
    """Whether a table's log still holds the transaction whose state was read.

    It does not where the table was dropped since and begun anew, or where the lake is another.
    """
    if not head.first <= state.transaction <= head.number:
        return False
    return head.summary(state.transaction).commit == state.commit


def behind(state: SourceState, head: Snapshot) -> str | None:
    """Say how a table has moved on from the state that was read.

    Args:
        state: The state.
        head: The table as it is, or the version that is asked for.

    Returns:
        In words; None where its rows are the same, as after a freeze or a vacuum.
    """
    if not is_same_table(state, head):
        return f"{head.table} is another table than the one that was read"
    then = head.filed(state.transaction)
    if then.last_block == head.last_block and then.reads_like(head):
        return None
    return f"{count(head.number - state.transaction, 'transaction')} behind {head.table}"
