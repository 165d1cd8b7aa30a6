"""Refreshes in the log of a staging table, and other changes of it.

A refresh is a transaction of the table, and its metadata say what it was computed of. So the rows
and how far they go are one commit, and `history` shows both.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from singerlake.format.log import Operation
from singerlake.log import log
from singerlake.log.table_state import TableState
from singerlake.publish.published import Position, SourceState
from singerlake.storage.base import Store

LEAVE_ROWS = frozenset(
    {
        Operation.FREEZE,
        Operation.VACUUM_START,
        Operation.COMBINE,
        Operation.DROP_HISTORY,
        Operation.VACUUM,
        Operation.ERASE_START,
        Operation.BLOCK_KEYS,
    }
)
"""Operations after which a table has the rows and columns that it had."""
MOST = 1_000
"""Log entries that are looked through for a refresh."""


@dataclass(frozen=True)
class Refresh:
    """The last refresh of a staging table.

    Attributes:
        transaction: Which one it is.
        position: What it was computed of.
        touched: The last transaction since that was no refresh and may have changed rows or
            columns; None where there is none, so that the table has what the refresh left.
    """

    transaction: int
    position: Position
    touched: int | None = None


def metadata_of(position: Position) -> dict[str, Any]:
    """Return what a refresh's log entry says of it."""
    return {
        "projection": position.projection,
        "definition": position.definition,
        "sources": [
            {name: said for name, said in asdict(one).items() if name != "erased" or said}
            for one in position.sources
        ],
    }


def last_refresh(store: Store, head: TableState) -> Refresh | None:
    """Find the last refresh of a table.

    Returns:
        None where no projection made the table, or more than :data:`MOST` transactions came since.

    Raises:
        DamagedError: An entry of its log cannot be read.
    """
    touched = None
    others = [one for one in head.own_transactions if one.operation not in LEAVE_ROWS]
    for summary in reversed(others[-MOST:]):
        if summary.operation in (Operation.CHANGE, Operation.CREATE):
            entry = log.read_entry(store, head.table, summary.number)
            position = None if entry is None else _position(entry.metadata, store.uri)
            if position is not None:
                return Refresh(summary.number, position, touched)
        touched = touched or summary.number
    return None


def _position(said: dict[str, Any], lake: str) -> Position | None:
    """Read the refresh that a log entry records; None if it records none."""
    if not {"projection", "definition", "sources"} <= said.keys():
        return None
    names = SourceState.__dataclass_fields__
    try:
        read = [{name: one[name] for name in names if name in one} for one in said["sources"]]
        sources = tuple(SourceState(**one) for one in read)
    except TypeError:
        return None
    return Position(str(said["projection"]), str(said["definition"]), lake, sources)
