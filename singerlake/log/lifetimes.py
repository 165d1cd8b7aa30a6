"""When a table was there: which transactions dropped it, and what became of it after each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from singerlake.errors import DroppedError, NotFoundError
from singerlake.format.log import Operation
from singerlake.format.metadata import TransactionSummary
from singerlake.format.names import TableName

LEAVES_DROPPED = frozenset(
    {
        Operation.VACUUM_START,
        Operation.VACUUM,
        Operation.ERASE_START,
        Operation.ERASE,
        Operation.BLOCK_KEYS,
    }
)
"""What a dropped table goes through and stays dropped. All else but ``undrop`` begins another."""


class Drop(NamedTuple):
    """A time in which a table was not there.

    Attributes:
        transaction: The one that dropped it.
        ended: The one that brought it back, or began another table; 0 while it is dropped.
        undone: Whether it was brought back.
    """

    transaction: int
    ended: int = 0
    undone: bool = False


Drops = tuple[Drop, ...]


def after(drops: Drops, number: int, operation: str) -> Drops:
    """Return the drops as of one more transaction.

    Args:
        drops: As of the one before.
        number: The transaction's.
        operation: What it did.
    """
    if operation == Operation.DROP:
        return drops if dropped_at(drops) else (*drops, Drop(number))
    if not drops or drops[-1].ended or operation in LEAVES_DROPPED:
        return drops
    return (*drops[:-1], Drop(drops[-1].transaction, number, operation == Operation.UNDROP))


def of_log(transactions: Iterable[TransactionSummary]) -> Drops:
    """Return the drops that a log tells of."""
    drops: Drops = ()
    for transaction in transactions:
        if drops or transaction.operation == Operation.DROP:
            drops = after(drops, transaction.number, transaction.operation)
    return drops


def dropped_at(drops: Drops) -> int:
    """Return the transaction that dropped the table; 0 where it is there."""
    return drops[-1].transaction if drops and not drops[-1].ended else 0


def first(drops: Drops) -> int:
    """Return the first transaction of the table that is there, or was dropped last."""
    return max((drop.ended for drop in drops if not drop.undone), default=0) or 1


def was_there(drops: Drops, number: int) -> bool:
    """Tell whether a transaction's state is one of the table that is there now."""
    return (
        not dropped_at(drops)
        and number >= first(drops)
        and not any(drop.transaction <= number < drop.ended for drop in drops if drop.undone)
    )


def as_of(drops: Drops, number: int) -> Drops:
    """Return the drops that were known after an earlier transaction."""
    known = (drop for drop in drops if drop.transaction <= number)
    return tuple(drop if drop.ended <= number else Drop(drop.transaction) for drop in known)


def dropped_error(table: TableName, number: int, time: str, *, possible: bool) -> DroppedError:
    """Return the error of a table that is dropped.

    Args:
        table: Which.
        number: The transaction that dropped it.
        time: When, ISO 8601 in UTC.
        possible: Whether it can still be brought back.
    """
    way_out = (
        f"restore it with: singerlake undrop {table}"
        if possible
        else "a vacuum has deleted its data since, or begun to, so it cannot be restored"
    )
    return DroppedError(f"{table} was dropped (transaction {number}, {time[:19]}Z): {way_out}")


def not_there_error(table: TableName, number: int, first: int) -> NotFoundError:
    """Return the error of a state in which the table was not there, or another was."""
    return NotFoundError(
        f"the snapshot of {table} at transaction {number} is gone: the table was dropped then, "
        f"or before another of its name began with transaction {first}"
    )


def given_up_error(table: TableName, number: int, floor: int) -> NotFoundError:
    """Return the error of a state that a vacuum has given up."""
    return NotFoundError(
        f"the snapshot of {table} at transaction {number} is gone, because its history has "
        f"expired: only its frozen versions can be read, and transaction {floor} and later"
    )
