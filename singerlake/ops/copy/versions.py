"""The log that a copy of some versions of a table gets.

Where nothing but the freezes has happened to their state since, it is the source's own log up to
the last freeze, byte for byte: whatever comes later can follow it. Else it is made anew, and ends
there; see :mod:`excerpt`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import structs

from singerlake.errors import ConflictError, DamagedError, SingerlakeError
from singerlake.format.log import (
    FREEZES_ITSELF,
    Entry,
    FrozenVersion,
    Operation,
    seal_entry,
)
from singerlake.log import log
from singerlake.log.folding import fold
from singerlake.log.table_state import TableState
from singerlake.log.unfolding import entries_of
from singerlake.ops.copy.logs import CopiedLog, WholeLog
from singerlake.storage.base import Store
from singerlake.version import FORMAT

_FREEZES = {Operation.FREEZE, *FREEZES_ITSELF}


def missing(wanted: Sequence[FrozenVersion], here: TableState) -> list[FrozenVersion]:
    """Return the versions that the destination does not have."""
    # What became of it before it was copied, a copy of a version does not tell.
    there_are = [structs.replace(version, erased=[]) for version in here.frozen]
    return [one for one in wanted if structs.replace(one, erased=[]) not in there_are]


def log_of(
    source: Store,
    destination: Store,
    there: TableState,
    here: TableState,
    wanted: Sequence[FrozenVersion],
) -> CopiedLog | None:
    """Return the log with which the destination has some versions; None where it has them.

    Args:
        there: The table at the source.
        here: The same at the destination, with a log that is a beginning of the source's.

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
            f"{here.table} is at {destination.uri} already, without version {lacking[0].number}, "
            "whose files are no longer those in its log, or which was frozen after later rows had "
            "arrived: copy it to another place, or copy the whole table"
        )
    return Excerpt(source, there, wanted)


def _as_it_is(
    source: Store, there: TableState, here: TableState, wanted: Sequence[FrozenVersion]
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


def _frozen_by(source: Store, there: TableState, wanted: Sequence[FrozenVersion]) -> int:
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


# A log for some versions of a table: all up to the state that they mean, and their freezes.
#
# The source's log as it stands would not do. An early part of it names files that a vacuum has
# replaced since, and all of it needs all files. So the log up to the newest of the versions is
# made again as a rebuild makes it: the same transactions under the same numbers, each block where
# it lies now.


class Excerpt:
    """A log that ends with some frozen versions. The same versions make the same bytes.

    Raises:
        DamagedError: The source's log cannot be read.
    """

    def __init__(self, store: Store, there: TableState, versions: Sequence[FrozenVersion]) -> None:
        last = max(version.transaction for version in versions)
        originals = list(_read(store, there))
        later = [entry for entry in originals[last:] if entry.version is not None]
        frozen_later = {entry.version.number for entry in later if entry.version is not None}
        at = there.at(last)
        state = replace(
            at,
            frozen=[version for version in at.frozen if version.number not in frozen_later],
            deleted_versions=[v for v in at.deleted_versions if v.number not in frozen_later],
            dropped={},
            pending_deletes={},
            pending_lists=[],
        )
        wanted = {version.number for version in versions}
        freezes = [entry for entry in later if entry.version and entry.version.number in wanted]
        gone = {one.number for one in state.deleted_versions}
        deletions = [
            _given_up(entry, there)
            for entry in originals[last:]
            if entry.deletion is not None and entry.deletion.version in gone
        ]
        drafts = [*_made(state, originals), *_behind(state, [*freezes, *deletions])]
        self._data: list[bytes] = []
        self.head = fold(TableState(there.table), self._sealed(drafts))
        there_are = {version.number for version in self.head.frozen}
        if self.head.blocks != state.blocks or not wanted <= there_are:
            raise DamagedError(
                f"the log of {there.table} at {store.uri} does not match its versions: check for "
                f"damage with: singerlake verify {there.table}"
            )

    def _sealed(self, drafts: Sequence[Entry]) -> Iterator[Entry]:
        chain = ""
        for draft in drafts:
            # Pointers stay behind, which would name other versions than in the source, and
            # signatures, which cover the source's chain.
            alone: dict[str, Any] = {"stands_for": "", "rewritten": 0, "hash": ""}
            alone |= {"pointer": None, "signature": None}
            linked = msgspec.structs.replace(draft, previous=chain, **alone)
            entry, data = seal_entry(msgspec.structs.replace(linked, format=FORMAT))
            chain = entry.chain
            self._data.append(data)
            yield entry

    def data(self, number: int) -> bytes:
        """Return the bytes of one of its entries."""
        return self._data[number - 1]


def _read(store: Store, there: TableState) -> Iterator[Entry]:
    for number, entry in log.read_entries(store, there.table, range(1, there.number + 1)):
        if isinstance(entry, SingerlakeError):
            raise entry
        if entry is None:
            raise DamagedError(
                f"the log of {there.table} at {store.uri} lacks transaction {number}: rebuild it "
                f"there with: singerlake rebuild {there.table}"
            )
        yield entry


def _made(state: TableState, originals: Sequence[Entry]) -> Iterator[Entry]:
    """The entries up to a state, with what people said of them."""
    for made, original in zip(entries_of(state), originals, strict=False):
        said: dict[str, Any] = {
            "metadata": original.metadata,
            "metrics": original.metrics,
            "lanes": original.lanes if made.version is not None else {},
        }
        if made.number == state.number and state.floor:
            said["floor"] = state.floor  # rows before it may be gone, by a later vacuum
        yield msgspec.structs.replace(made, **said)


def _given_up(deletion: Entry, there: TableState) -> Entry:
    """The deletion of a version, after which its state cannot be read where it cannot there."""
    swept = deletion.number <= there.floor
    return msgspec.structs.replace(deletion, floor=deletion.number if swept else 0)


def _behind(state: TableState, later: Sequence[Entry]) -> Iterator[Entry]:
    """The freezes, and deletions of versions, that came later, right behind the state."""
    for number, entry in enumerate(later, start=state.number + 1):
        yield msgspec.structs.replace(
            entry,
            number=number,
            schema_hash=state.schema_hash,
            schemas={},
            floor=number if entry.floor else 0,
        )
