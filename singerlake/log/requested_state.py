"""The snapshot that a program or a command names: by a version, a transaction or a time."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Literal, NamedTuple

from singerlake.errors import UsageError
from singerlake.format import times
from singerlake.format.log import FrozenVersion
from singerlake.log.table_state import TableState


class Naming(NamedTuple):
    """One way to name a snapshot, as a caller offers it."""

    option: str
    """What the user writes, such as ``--to-time``. Errors name it."""
    kind: Literal["version", "transaction", "time"]
    """A version is named by its number or label, a pointer (``@current``) or a transaction."""
    value: int | str | datetime | None
    """What the user gave; None if nothing. Times without a zone are in UTC."""


def requested_transaction(
    head: TableState, *namings: Naming, required: bool = False
) -> tuple[FrozenVersion | None, int]:
    """Return the version, if one is named, and the transaction of the snapshot that is named.

    It may be one whose rows were given up.

    Args:
        namings: All that the caller offers. The last transaction is meant if none has a value.
        required: Refuse if none has a value.

    Raises:
        NotFoundError: There is no such version or transaction.
        UsageError: Several snapshots are named, or none is and one is required; or the value is
            no transaction or time.
    """
    given = [one for one in namings if one.value is not None]
    if len(given) > 1:
        written = " and ".join(one.option for one in given)
        raise UsageError(f"specify one snapshot: {written} are given")
    if not given and required:
        raise UsageError(f"specify the snapshot: one of {', '.join(one.option for one in namings)}")
    if not given:
        return None, head.number
    naming = given[0]
    if naming.value == "":  # such as that of a variable which is not set; the head is not meant
        raise UsageError(f"{naming.option} is empty: give a {naming.kind}, or leave it out")
    if naming.kind == "version":
        return head.transaction_named(str(naming.value))
    if naming.kind == "time":
        return None, head.transaction_at(_written(naming.value))
    return None, head.summary(_number(naming)).number


def requested_state(head: TableState, *namings: Naming) -> tuple[FrozenVersion | None, TableState]:
    """Return the version, if one is named, and the table as of the snapshot that is named.

    Raises:
        NotFoundError: There is no such version or transaction, or its rows were given up.
        UsageError: As for :func:`requested_transaction`.
    """
    version, number = requested_transaction(head, *namings)
    return version, head.at(number) if version is None else head.frozen_as(version)


def _number(naming: Naming) -> int:
    value = str(naming.value)
    if not value.isdecimal():
        raise UsageError(f"{naming.option}: {value!r} is not a transaction: give its number")
    return int(value)


def _written(time: int | str | datetime | None) -> str:
    if not isinstance(time, datetime):
        return str(time)
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)
    return times.iso(zoned.astimezone(timezone.utc))
