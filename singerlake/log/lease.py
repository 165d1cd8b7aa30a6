"""Readers' leases: what a reader may still need, vacuum leaves until the lease ends.

The order makes it safe without any waiting by readers. A reader puts its lease, and only then
looks at the log's end once more. A vacuum commits the entry that drops a reference, and only
then lists the leases. So either the vacuum sees the lease, or the reader sees the entry and
reads by a snapshot that does not name what goes.

A lease is refreshed in the background. One that stood still for the stale time by the vacuum's
own clock belongs to a reader that died.

Leases are not durable across a power cut, for readers do not survive one either. Where a file
server loses one and its reader lives on, the next refresh puts it there again, and until then
the retention protects what is read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from singerlake.errors import (
    ConflictError,
    DataError,
    OutcomeUnknownError,
    SingerlakeError,
    StoreError,
)
from singerlake.format import metadata, names, times
from singerlake.format.metadata import Lease
from singerlake.format.names import TableName
from singerlake.log.locks.heartbeat import Heartbeat
from singerlake.log.locks.lock import new_writer_id
from singerlake.log.log import refresh
from singerlake.log.table_state import TableState
from singerlake.storage.base import KeyExistsError, KeyMissingError, Listed, Store

logger = logging.getLogger(__name__)
STALE_SECONDS = 60.0
POLL_SECONDS = 0.2


class ReaderLease:
    """Holds off the deletion of what one reader reads. Ends with :meth:`release`.

    Where the lake cannot be written the reader goes on without: then only the retention
    protects what it reads.

    Args:
        store: The lake's store.
        snapshot: The table as last seen, be it in its manifest; files dropped later are
            protected.
        stale_seconds: How long it may stand still; it is refreshed four times within.
        dropped: Whether to go on where the table was dropped.
    """

    def __init__(
        self,
        store: Store,
        snapshot: TableState,
        stale_seconds: float = STALE_SECONDS,
        *,
        dropped: bool = False,
    ) -> None:
        self._dropped = dropped
        self._store = store
        self._heartbeat = Heartbeat(stale_seconds / 4, self._refresh)
        self._held = False
        self._lease = Lease(
            reader_id=new_writer_id(),
            transaction=snapshot.number,
            acquired=times.iso(times.now()),
            refreshed=times.iso(times.now()),
        )
        self._key = snapshot.table.lease(self._lease.reader_id)
        self.snapshot = snapshot
        """The table's head, by which to read: looked at after the lease was there."""

    def __enter__(self) -> ReaderLease:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> ReaderLease:
        """Put the lease, then see what was committed meanwhile.

        Raises:
            DroppedError: The table was dropped.
            DamagedError: The log cannot be read.
            ConflictError: Another reader's lease has this one's name.
        """
        if not self.snapshot.from_log:
            return self  # no vacuum touches a table without its log
        try:
            self._put()
        except StoreError as error:
            logger.info("reading %s without a lease: %s", self.snapshot.table, error)
        else:
            self._held = True
            self._heartbeat.start()
        try:
            self.snapshot = refresh(self._store, self.snapshot)
            if not self._dropped:
                self.snapshot.check_there()
        except BaseException:
            self.release()
            raise
        return self

    def _put(self) -> None:
        """Create the lease; a reply that was lost is resolved by reading back.

        Raises:
            ConflictError: Another reader's stands in its place.
            StoreError: The store refused.
        """
        content = metadata.encode(self._lease)
        try:
            self._store.put_if_absent(self._key, content, durable=False)
            return
        except (KeyExistsError, OutcomeUnknownError):
            pass
        try:
            data = self._store.get(self._key).data
        except KeyMissingError:
            # The request was lost, or comes late. Nobody else writes under this name.
            self._store.replace(self._key, content, None, durable=False)
            return
        if metadata.decode(data, Lease, self._key).reader_id != self._lease.reader_id:
            raise ConflictError(f"the lease {self._key} is another reader's: run it again")

    def release(self) -> None:
        """Give the lease up. Never raises, and may be called again."""
        if not self._held:
            return
        self._held = False
        self._heartbeat.stop()
        with suppress(SingerlakeError):  # it goes stale
            self._store.delete(self._key)

    def _refresh(self) -> bool:
        self._lease.refreshed = times.iso(times.now())
        self._lease.beat += 1
        with suppress(SingerlakeError):  # tried again well before it is stale
            self._store.replace(self._key, metadata.encode(self._lease), None, durable=False)
        return True


@dataclass(frozen=True)
class LiveLease:
    """A lease as a vacuum sees it.

    Attributes:
        key: Where it lies.
        reader_id: Whose; empty where it cannot be read.
        transaction: What was referenced after this transaction or later may be needed; 0
            where it cannot be read.
        etag: Changes whenever it is refreshed.
    """

    key: str
    reader_id: str
    transaction: int
    etag: str


def leases(
    store: Store, table: TableName, listed: Iterable[Listed] | None = None
) -> list[LiveLease]:
    """Return the leases on a table, dead readers' among them.

    Args:
        store: The lake's store.
        table: The table.
        listed: What lies in its folder, where that was listed just now.
    """
    held = []
    for item in store.list(table.leases) if listed is None else listed:
        if not names.is_lease(table, item.key):
            continue
        try:
            present = store.get(item.key)
        except KeyMissingError:
            continue
        try:
            lease = metadata.decode(present.data, Lease, item.key)
            held.append(LiveLease(item.key, lease.reader_id, lease.transaction, present.etag))
        except DataError:
            held.append(LiveLease(item.key, "", 0, present.etag))
    return held


class Watch:
    """Since when leases stand still, by the clock of a process that watches them.

    One serves many tables, so that dead readers of all of them are waited for at the same time.

    Args:
        monotonic: The clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self._seen: dict[str, tuple[str, float]] = {}

    def note(self, seen: Iterable[LiveLease], now: float | None = None) -> dict[str, float]:
        """Take note of leases as they are now.

        Args:
            seen: The leases.
            now: The time by the clock, before they were read.

        Returns:
            The seconds for which each has stood still, by its key.
        """
        now = self.monotonic() if now is None else now
        still = {}
        for lease in seen:
            etag, since = self._seen.get(lease.key, ("", now))
            if etag != lease.etag:
                since = self.monotonic()  # it was read a moment ago, or, of many, long after now
                self._seen[lease.key] = (lease.etag, since)
            still[lease.key] = now - since
        return still


def wait_out(
    store: Store,
    table: TableName,
    keys: set[str],
    *,
    wait_seconds: float,
    stale_seconds: float = STALE_SECONDS,
    watch: Watch | None = None,
    tick: Callable[[], None] = lambda: None,
) -> list[LiveLease]:
    """Wait for some readers to end.

    Args:
        store: The lake's store.
        table: The table.
        keys: Their leases, listed after what they may need was dropped.
        wait_seconds: How long to wait for readers that live; below ``stale_seconds`` the
            leases of dead ones stay too.
        stale_seconds: A lease that stands still for so long is removed: its reader died.
        watch: What was seen of leases before.
        tick: Called now and then; may raise to end the wait.

    Returns:
        The leases that live on.
    """
    watch = watch or Watch()
    deadline = watch.monotonic() + wait_seconds
    while True:
        now = watch.monotonic()
        left = [lease for lease in leases(store, table) if lease.key in keys] if keys else []
        still = watch.note(left, now)
        dead = [lease for lease in left if still[lease.key] >= stale_seconds]
        for lease in dead:
            logger.warning("removed the lease of %s, whose reader is dead", lease.reader_id)
            store.delete(lease.key)
        if dead:
            continue  # to see what is left
        if not left or now >= deadline:
            return left
        tick()
        time.sleep(POLL_SECONDS)
