"""The log that a copy of some versions of a table gets.

Where nothing but the freezes has happened to their state since, it is the source's own log up to
the last freeze, byte for byte: whatever comes later can follow it. Else it is made anew, and ends
there; see :mod:`excerpt`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from singerlake.copying.excerpt import Excerpt
from singerlake.copying.logs import CopiedLog, WholeLog
from singerlake.errors import ConflictError
from singerlake.format.log import FREEZES_ITSELF, FrozenVersion, Operation
from singerlake.storage.base import Store
from singerlake.transactions import log
from singerlake.transactions.snapshot import Snapshot

_FREEZES = {Operation.FREEZE, *FREEZES_ITSELF}


def missing(wanted: Sequence[FrozenVersion], here: Snapshot) -> list[FrozenVersion]:
    """Return the versions that the destination does not have."""
    # What became of it before it was copied, a copy of a version does not tell.
    there_are = [structs.replace(version, erased=[]) for version in here.frozen]
    return [one for one in wanted if structs.replace(one, erased=[]) not in there_are]


def log_of(
    source: Store,
    destination: Store,
    there: Snapshot,
    here: Snapshot,
    wanted: Sequence[FrozenVersion],
) -> CopiedLog | None:
    """Return the log with which the destination has some versions; None where it has them.

    Args:
        source: Whence.
        destination: Where to.
        there: The table at the source.
        here: The same at the destination, with a log that is a beginning of the source's.
        wanted: The versions.

    Raises:
        ConflictError: The table is there without them, and cannot be gone on with.
        DamagedError: The source's log cannot be read.
    """
    lacking = missing(wanted, here)
    if not lacking:
        return None
    as_it_is = _as_it_is(source, there, here, wanted)
    if as_it_is is not None:
        return as_it_is
    if here.number:
        raise ConflictError(
            f"{here.table} is at {destination.uri} already, without version "
            f"{lacking[0].number}, whose files are not those any more that its log names, or which "
            "was frozen after other rows had come: copy it to another place, or all of the table"
        )
    return Excerpt(source, there, wanted)


def _as_it_is(
    source: Store, there: Snapshot, here: Snapshot, wanted: Sequence[FrozenVersion]
) -> WholeLog | None:
    """The source's log up to the last freeze, if that is the state of the newest version.

    That is so where no rows came in between, and nothing has moved, deleted or rewritten since what
    it says.
    """
    number = _frozen_by(source, there, wanted)
    if not here.number <= number or not there.erased_at <= number:
        return None
    state = there.at(max(version.transaction for version in wanted))
    end = there.summary(number)
    if (end.last_block, end.schema_hash) != (state.last_block, state.schema_hash):
        return None
    log_ = WholeLog(source, there.table, here, number)
    head = log_.head
    same_rows = list(head.blocks) == list(state.blocks) and head.overlay == state.overlay
    frozen = {version.number for version in there.frozen}
    all_kept = all(version.number in frozen for version in head.frozen)
    # A list of blocked keys goes when there is another.
    all_kept = all_kept and head.blocked == there.blocked and not head.dropped_at
    return log_ if same_rows and all_kept else None


def _frozen_by(source: Store, there: Snapshot, wanted: Sequence[FrozenVersion]) -> int:
    """The transaction by which the last of some versions was frozen; 0 where none tells."""
    left = {version.number for version in wanted}
    first = min(version.transaction for version in wanted)
    for summary in there.transactions[first - 1 :]:
        if summary.operation not in _FREEZES:
            continue
        entry = log.read_entry(source, there.table, summary.number)
        if entry is not None and entry.version is not None:
            left.discard(entry.version.number)
        if not left:
            return summary.number
    return 0
