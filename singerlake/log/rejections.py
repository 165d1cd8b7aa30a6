"""Numbers of rejected and replayed records, by logs alone."""

from __future__ import annotations

from singerlake.format.log import Operation
from singerlake.log.table_state import TableState


def rejected(snapshot: TableState) -> int:
    """Count the lines that runs put into a dead-letter table; replays take none of them away."""
    own = snapshot.own_transactions
    return sum(one.rows for one in own if one.operation != Operation.REPLAY)


def replayed(snapshot: TableState) -> int:
    """Count the rejected records that became rows of a table."""
    own = snapshot.own_transactions
    return sum(one.rows for one in own if one.operation == Operation.REPLAY)
