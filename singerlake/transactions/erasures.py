"""Erased rows in the log: what an ``erase`` makes of versions, and what it stops others from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import structs

from singerlake.errors import ConflictError
from singerlake.format.log import Entry, FrozenVersion, Operation
from singerlake.format.version_notes import VersionErasure

if TYPE_CHECKING:
    from singerlake.transactions.snapshot import Snapshot

_READS_NO_ROW = frozenset(
    {
        Operation.SYNC,
        Operation.CREATE,
        Operation.ADOPT,
        Operation.DELETE_VERSION,
        Operation.DROP,
        Operation.UNDROP,
        Operation.VACUUM_START,
        Operation.VACUUM,
        Operation.ERASE_START,
    }
)
"""These bring back no row that was erased, and say nothing of a state's rows."""


def check_nothing_erased(present: Snapshot, planned: Snapshot, entry: Entry) -> None:
    """Refuse what was worked out from rows of which some have been erased since.

    It would bring them back, or freeze a version that counts them.

    Args:
        present: The table now.
        planned: As it was when the commit began.
        entry: What is to be committed.

    Raises:
        ConflictError: There are such.
    """
    if present.erased_at != planned.erased_at and entry.operation not in _READS_NO_ROW:
        raise ConflictError(
            f"rows of {present.table} were erased meanwhile (transaction {present.erased_at}): "
            "nothing was changed; run it again"
        )


def less_erased(some: Iterable[FrozenVersion], entry: Entry) -> list[FrozenVersion]:
    """Return versions as an ``erase`` leaves them: without its rows, and with a note of it.

    What it says of a version holds whatever the version's own entry says by then, and saying it
    twice changes nothing.
    """
    said = {one.version: one for one in entry.erased}
    left = []
    for version in some:
        now = said.get(version.number)
        if now is None:
            left.append(version)
            continue
        reason, by = (entry.erasure.reason, entry.erasure.by) if entry.erasure else ("", "")
        note = VersionErasure(entry.number, entry.time, now.rows_before, now.rows, reason, by)
        left.append(
            structs.replace(
                version,
                rows=now.rows,
                fingerprint=now.fingerprint,
                record_fingerprint=now.record_fingerprint,
                erased=[*version.erased, note],
            )
        )
    return left
