"""Erased rows in the log: what an ``erase`` makes of versions, and what it stops others from.

Also blocked keys: nobody commits rows that were not compared with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import structs

from singerlake.errors import ConflictError
from singerlake.format.log import Entry, FrozenVersion, Operation, SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.overlaid import laid, member_of
from singerlake.format.overlay import Overlay
from singerlake.format.version_notes import VersionErasure

if TYPE_CHECKING:
    from singerlake.log.table_state import TableState

_READS_NO_ROW = frozenset(
    {
        Operation.SYNC,
        Operation.CREATE,
        Operation.ADOPT,
        Operation.DELETE_VERSION,
        Operation.POINT,
        Operation.DROP,
        Operation.UNDROP,
        Operation.VACUUM_START,
        Operation.VACUUM,
        Operation.ERASE_START,
        Operation.BLOCK_KEYS,
    }
)
"""These bring back no row that was erased, and say nothing of a state's rows."""


def check_nothing_erased(present: TableState, planned: TableState, entry: Entry) -> None:
    """Refuse what was worked out from rows of which some have been erased since.

    It would bring them back, or freeze a version that counts them.

    Args:
        planned: As it was when the commit began.

    Raises:
        ConflictError: There are such.
    """
    if present.erased_at != planned.erased_at and entry.operation not in _READS_NO_ROW:
        raise ConflictError(
            f"rows of {present.table} were erased in the meantime (transaction "
            f"{present.erased_at}): nothing was changed; run it again"
        )


def check_still_dropped(present: TableState, planned: TableState) -> None:
    """Refuse to erase what a dropped table has once it is there again, or nobody can bring it back.

    Raises:
        ConflictError: It is.
    """
    if present.drops != planned.drops or present.restorable is None:
        raise ConflictError(
            f"{present.table} was restored or created again in the meantime, or a vacuum has begun "
            "to delete its data: nothing was changed; run it again"
        )


def check_blocked(present: TableState, planned: TableState, entry: Entry) -> None:
    """Refuse rows that were held against other blocked keys, and a key that cannot be held so.

    Args:
        planned: As it was when the commit began: its rows were held against the keys of then.

    Raises:
        ConflictError: Other keys are blocked by now, or the table would have another key.
    """
    if entry.blocks and present.blocked != planned.blocked:
        raise changed(present.table)
    if present.blocked is None or not (entry.schema_hash or entry.overlay):
        return
    if entry.operation == Operation.CREATE:  # its rows are written before anybody looks at the log
        raise ConflictError(
            f"{present.blocked.keys:,} keys of {present.table} have been blocked since before it "
            "was dropped, and rows of a new table are not checked against them; nothing was done: "
            f"unblock all of them first with: singerlake erase {present.table} --unblock --all"
        )
    overlay = Overlay() if present.dropped_at else present.overlay
    hash_ = entry.schema_hash or present.schema_hash
    schema = entry.schemas.get(hash_) or present.schema_of(hash_)
    check_key(present, schema, overlay if entry.overlay is None else entry.overlay)


def check_key(table: TableState, entry: SchemaEntry, overlay: Overlay) -> None:
    """Refuse a key by which blocked rows cannot be told: only hashes of theirs are known.

    Raises:
        ConflictError: It has other columns.
    """
    said = table.blocked
    if said is not None and {*said.columns} != {*key_members(entry, overlay)}:
        raise ConflictError(
            f"{said.keys:,} keys of {table.table} are blocked, by its key "
            f"{', '.join(said.columns)}; another key cannot be checked against them. Nothing was "
            "changed: keep the key, or unblock all of them first with: singerlake erase "
            f"{table.table} --unblock --all"
        )


def key_members(entry: SchemaEntry, overlay: Overlay) -> list[str]:
    """Return the columns of a key by the names that records have for them."""
    return [member_of(overlay, name) for name in laid(entry, overlay).key_properties]


def changed(table: TableName) -> ConflictError:
    """Return the error of rows that were held against other blocked keys than there are now."""
    return ConflictError(
        f"keys of {table} were blocked or unblocked in the meantime: nothing was committed; run it "
        "again"
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
                signed=[structs.replace(one, salt="") for one in version.signed],
            )
        )
    return left
