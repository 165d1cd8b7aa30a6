"""Pointers: names such as ``@current`` that move from version to version, in the table's log.

Readers, projections and taps that name a pointer read the version that it names when they begin.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from singerlake.errors import UsageError
from singerlake.format.log import Entry, FrozenVersion, Operation
from singerlake.format.names import POINTER_NAME
from singerlake.format.version_notes import PointerMove
from singerlake.log import conflicts, versions
from singerlake.log.commit import commit, current_user, draft_entry, new_writer_id
from singerlake.log.table_state import TableState
from singerlake.log.writer import update_checkpoint
from singerlake.storage.base import Store


@dataclass(frozen=True)
class Pointed:
    """A pointer that was moved, or was there already.

    Attributes:
        name: Its name, without the ``@``.
        version: The version that it names; None if it was removed.
        before: The number of the version that it named before; None if there was no such pointer.
        transaction: The transaction that moved it; None if it named the version already.
    """

    name: str
    version: FrozenVersion | None
    before: int | None
    transaction: int | None


def pointer_name(text: str) -> str:
    """Return the name of a pointer, which may be written with an ``@``.

    Raises:
        UsageError: It is not a valid name.
    """
    name = text.removeprefix("@")
    if not re.fullmatch(POINTER_NAME, name):
        raise UsageError(
            f"{text[:110]!r} is not a valid name for a pointer: use a letter, then letters, "
            "digits, _ or -, at most 100, for example current"
        )
    return name


def point(store: Store, head: TableState, name: str, version: str | None) -> Pointed:
    """Move a pointer to a version, or remove it. One that names the version already stays.

    Args:
        version: The version's number or label, or another pointer; None removes the pointer.

    Raises:
        NotFoundError: There is no such version, or no such pointer to remove.
        UsageError: The name is not valid, the version is a transaction, or the log is lost.
        ConflictError: Another process moved the pointer, or deleted the version, in the meantime.
    """
    name = pointer_name(name)
    head.check_log()
    wanted = None if version is None else _version(head, version)
    there = versions.pointers(head).get(name)
    before = None if there is None else there[0].number
    if wanted is None and there is None:
        versions.pointed(head, name)  # which says what there is
    if wanted is not None and wanted.number == before:
        return Pointed(name, wanted, before, None)
    move = PointerMove(name, 0 if wanted is None else wanted.number, current_user())

    def draft(present: TableState) -> Entry:
        conflicts.check_pointer_unmoved(present, head, name)
        if wanted is not None:
            conflicts.check_version_there(present, wanted.number)
        return draft_entry(present.table, Operation.POINT, writer=new_writer_id(), pointer=move)

    after = commit(store, head, draft)
    update_checkpoint(store, after)
    there = versions.pointers(after).get(name)
    return Pointed(name, None if there is None else there[0], before, after.number)


def _version(head: TableState, name: str) -> FrozenVersion:
    found, _ = head.named(name)
    if found is None:
        raise UsageError(
            f"{name} is a transaction: freeze it first, with: singerlake freeze {head.table} "
            f"--transaction {name[1:]}"
        )
    return found
