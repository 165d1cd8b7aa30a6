"""Takes what confirms a guess at an erased row out of the logs: fingerprints and checksums of then.

What to do follows from the ``erase`` entries alone, so a run that died is gone on with by any later
one, and where nothing is left to do, nothing is written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import structs

from singerlake.errors import DamagedError, SingerlakeError
from singerlake.format import names
from singerlake.format.lake_log import LakeVersion
from singerlake.format.log import Entry, Operation
from singerlake.log import lake_log, log
from singerlake.log.checkpoint import write_checkpoint
from singerlake.log.lake_log import LakeLog
from singerlake.log.locks.lock import Waiting
from singerlake.log.log import TableLog
from singerlake.log.replacing import replacing
from singerlake.log.rewriting import Erasures
from singerlake.log.table_state import TableState
from singerlake.storage.base import Store


@dataclass(frozen=True)
class Resealed:
    """What was rewritten.

    Attributes:
        head: The table, as it is now.
        entries: The transactions whose log entries were.
        lake_versions: The numbers of the lake versions that were.
    """

    head: TableState
    entries: list[int] = field(default_factory=list)
    lake_versions: list[int] = field(default_factory=list)


def reseal(
    store: Store,
    head: TableState,
    *,
    waiting: Waiting | None = None,
    check: Callable[[], None] = lambda: None,
) -> Resealed:
    """Rewrite the entries that tell of erased rows; to be done under the table's vacuum lock.

    Args:
        store: The lake's store.
        head: The table, as last seen.
        waiting: How to treat other writers, where the store makes them take turns.
        check: Called before each entry; raises if the caller's own lock is lost.

    Raises:
        DamagedError: An entry is lost or damaged. Nothing was written, or, if it is one of the
            lake's log, all that can be read there.
        OutcomeUnknownError: An entry may have been replaced, or not: run it again.
        StoreError: The store refused; run it again.
    """
    head = log.refresh(store, head)
    erasures = read_erasures(store, head)
    if not erasures.last:
        return Resealed(head)
    stale = stale_entries(store, head, erasures)
    done = _replace_entries(TableLog(store, head.table), stale, erasures, waiting, check)
    if head.checkpoint < erasures.last:
        head = write_checkpoint(store, head, durable=True)
    return Resealed(head, done, _reseal_lake(store, erasures, waiting, check))


def read_erasures(store: Store, head: TableState) -> Erasures:
    """Read what the erasures of a table left of its versions and blocks.

    Raises:
        DamagedError: An ``erase`` entry is lost or damaged.
    """
    numbers = [one.number for one in head.transactions if one.operation == Operation.ERASE]

    @functools.cache
    def is_start(number: int) -> bool:
        entry = log.read_entry(store, head.table, number)
        return entry is not None and entry.operation == Operation.ERASE_START

    return Erasures.of(head, log.sound_entries(store, head.table, numbers), is_start)


def stale_entries(store: Store, head: TableState, erasures: Erasures) -> list[int]:
    """Return the transactions whose log entries tell of erased rows, in order.

    Raises:
        DamagedError: An entry that may is lost or damaged.
    """
    found = log.sound_entries(store, head.table, erasures.may_tell(head))
    return [entry.number for entry in found if erasures.without_traces(entry) is not entry]


def stale_lake_versions(
    store: Store, erasures: Erasures
) -> tuple[list[LakeVersion], list[SingerlakeError]]:
    """Return the lake versions that do, and what is wrong with those that cannot be read."""
    found, wrong = lake_log.look(store)
    stale = [one for one in found if erasures.lake_version_without_traces(one) is not one]
    return stale, wrong


def _replace_entries(
    table_log: TableLog,
    numbers: list[int],
    erasures: Erasures,
    waiting: Waiting | None,
    check: Callable[[], None],
) -> list[int]:
    def changed(entry: Entry) -> Entry | None:
        wanted = erasures.without_traces(entry)
        if wanted is entry:
            return None
        if not wanted.previous and wanted.number > 1:  # of format 1, in which none says it
            before = table_log.read(wanted.number - 1)
            if before is None:
                raise DamagedError(f"{table_log.key(wanted.number - 1)} is missing")
            wanted = structs.replace(wanted, previous=before.chain)
        return wanted

    done = []
    if numbers:
        with replacing(table_log, waiting) as replace:
            for number in numbers:
                check()
                if replace(number, changed):
                    done.append(number)
    return done


def _reseal_lake(
    store: Store, erasures: Erasures, waiting: Waiting | None, check: Callable[[], None]
) -> list[int]:
    stale, wrong = stale_lake_versions(store, erasures)

    def changed(version: LakeVersion) -> LakeVersion | None:
        wanted = erasures.lake_version_without_traces(version)
        return None if wanted is version else wanted

    done = []
    if stale:
        with replacing(LakeLog(store), waiting) as replace:
            for version in stale:
                check()
                if replace(version.number, changed):
                    done.append(version.number)
    if wrong:
        raise DamagedError(
            f"{names.LAKE_LOG} may still contain traces of erased rows, because parts of it cannot "
            f"be read: {wrong[0]}"
        ) from wrong[0]
    return done
