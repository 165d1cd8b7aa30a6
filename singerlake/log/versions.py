"""The frozen versions of a table: those that there are, and what is kept of those deleted.

A deleted version is told by whoever asks for it. Its state stays protected until the history floor
has come to the transaction that deleted it: until a vacuum has dropped the history of a time when
it was deleted already.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import structs

from singerlake.errors import NotFoundError
from singerlake.format import names
from singerlake.format.log import Entry, FrozenVersion
from singerlake.format.names import TableName
from singerlake.format.types import RULES
from singerlake.format.version_notes import PointerNote, SignatureNote
from singerlake.nearest import offer

if TYPE_CHECKING:
    from singerlake.log.table_state import TableState


logger = logging.getLogger(__name__)


def by_number(*versions: Iterable[FrozenVersion]) -> list[FrozenVersion]:
    """Return versions in the order in which they were frozen."""
    return sorted(chain(*versions), key=lambda version: version.number)


def known(snapshot: TableState) -> list[FrozenVersion]:
    """Return all versions that the log tells of, those of dropped tables and deleted ones too."""
    return by_number(snapshot.earlier_versions, snapshot.frozen, snapshot.deleted_versions)


def protecting(snapshot: TableState, floor: int) -> list[FrozenVersion]:
    """Return the versions whose states must not be given up where the floor comes to be there."""
    return [*snapshot.frozen, *deleted_since(snapshot, floor)]


def deleted_since(snapshot: TableState, floor: int) -> list[FrozenVersion]:
    """Return the versions that were deleted after a transaction."""
    every = snapshot.deleted_versions
    return [one for one in every if one.deleted is not None and one.deleted.transaction > floor]


def find(snapshot: TableState, name: str) -> FrozenVersion:
    """Return a table version by its number, its label, or a pointer, as ``@current``.

    Raises:
        NotFoundError: There is none of this name, or it was deleted, or went with a table of this
            name that was dropped.
    """
    if names.is_pointer(name):
        return pointed(snapshot, name[1:])
    table, frozen = snapshot.table, snapshot.frozen
    for version in frozen:
        if name in (str(version.number), version.label):
            return version
    for version in reversed(by_number(snapshot.earlier_versions, snapshot.deleted_versions)):
        gone = gone_words(snapshot, version)
        if gone and name in (str(version.number), version.label):
            raise NotFoundError(gone)
    none = f"freeze one with: singerlake freeze {table}"
    there = {
        v.label or str(v.number): f"{v.number} ({v.label})" if v.label else f"{v.number}"
        for v in reversed(frozen)
    }
    raise NotFoundError(f"{table} has no version {name!r}: {offer(name, there, none)}")


def pointers(snapshot: TableState) -> dict[str, tuple[FrozenVersion, PointerNote]]:
    """Return a table's pointers: by name the version that each names, and its last move."""
    last: dict[str, tuple[FrozenVersion, PointerNote]] = {}
    for version in by_number(snapshot.frozen, snapshot.deleted_versions):
        for note in version.pointed:
            if note.name not in last or last[note.name][1].transaction < note.transaction:
                last[note.name] = version, note
    there = (one for one in last.items() if not one[1][1].removed and not one[1][0].deleted)
    return dict(sorted(there))


def pointed(snapshot: TableState, name: str) -> FrozenVersion:
    """Return the version that a pointer names.

    Args:
        snapshot: The table.
        name: The pointer's name, without the ``@``.

    Raises:
        NotFoundError: The table has no such pointer.
    """
    found = pointers(snapshot)
    if name in found:
        return found[name][0]
    table = snapshot.table
    none = f"set one with: singerlake point {table} {name} VERSION"
    offered = {f"@{one}": f"@{one}" for one in found}
    raise NotFoundError(f"{table} has no pointer @{name}: {offer('@' + name, offered, none)}")


def with_pointer(frozen: Iterable[FrozenVersion], entry: Entry) -> list[FrozenVersion]:
    """Note a pointer's move with the version that it came to, or its removal with the one it left.

    Args:
        frozen: The versions before.
        entry: Has the move. A version that a rebuild could not bring back is passed over.
    """
    move = entry.pointer
    assert move is not None, "only moves come here"  # noqa: S101
    every = list(frozen)
    number = move.version
    if not number:
        moves = (
            (note.transaction, one.number)
            for one in every
            for note in one.pointed
            if note.name == move.name
        )
        number = max(moves, default=(0, 0))[1]
    note = PointerNote(move.name, entry.number, entry.time, move.by, removed=not move.version)
    return [
        structs.replace(one, pointed=[*one.pointed, note]) if one.number == number else one
        for one in every
    ]


def with_signature(frozen: Iterable[FrozenVersion], entry: Entry) -> list[FrozenVersion]:
    """Note a signature with its version; one that a rebuild could not bring back is passed over."""
    added = entry.signature
    assert added is not None, "only signatures come here"  # noqa: S101
    known = structs.asdict(added)
    number = known.pop("version")
    note = SignatureNote(transaction=entry.number, **known)
    return [
        structs.replace(one, signed=[*one.signed, note]) if one.number == number else one
        for one in frozen
    ]


def gone_words(head: TableState, version: FrozenVersion) -> str | None:
    """Say why a version of a table cannot be read any more; None where it can."""
    if version.deleted is not None:
        return deletion_words(head.table, version)
    if version in head.frozen:
        return None
    later = (d.transaction for d in head.drops if d.transaction > version.transaction)
    drop = head.summary(next(later))
    return (
        f"version {version.number} of {head.table} went with the table, which was dropped "
        f"(transaction {drop.number}, {drop.time[:19]}Z)"
    )


def erasure_words(version: FrozenVersion) -> list[str]:
    """Say when, by whom and why rows of a version were erased, in lines for people."""
    said = []
    for how in version.erased:
        by = f" by {how.by}" if how.by else ""
        why = f": {how.reason}" if how.reason else ""
        said.append(
            f"rows of version {version.number} were erased{by} on {how.time[:19]}Z (transaction "
            f"{how.transaction}){why}; it had {how.rows_before:,} until then, and {how.rows:,} "
            "after; earlier fingerprints are no longer valid"
        )
    return said


def deletion_words(table: TableName, version: FrozenVersion) -> str:
    """Say when, by whom and why a version was deleted."""
    how = version.deleted
    assert how is not None, "only deleted versions come here"  # noqa: S101
    label = f" ({version.label})" if version.label else ""
    by = f" by {how.by}" if how.by else ""
    return (
        f"version {version.number}{label} of {table} was deleted{by} on {how.time[:19]}Z "
        f"(transaction {how.transaction}): {how.reason}"
    )


def warn_of_rules(version: FrozenVersion, table: TableName) -> None:
    """Warn that an operation reads a version by other rules than those it was frozen under."""
    if version.types != RULES:
        logger.warning(
            "version %d of %s was frozen under earlier rules of types; this uses the current "
            "ones, under which it may have other rows: compare them with a query of the version",
            version.number,
            table,
        )
