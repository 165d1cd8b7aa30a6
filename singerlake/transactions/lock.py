"""The writers' lock of one schema's folder: courtesy, for correctness is the log's.

A lock is taken by put-if-absent and refreshed in the background. A waiter takes it over only
when ``refreshed`` stood still for the stale time by the waiter's own clock, so that clocks
that disagree between machines cannot break a lock that lives.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from singerlake.errors import ConflictError, DamagedError, LockTimeoutError, StoreError
from singerlake.format import metadata, times
from singerlake.format.metadata import Lock
from singerlake.storage.base import KeyExistsError, KeyMissingError, Store, StoredObject

POLL_SECONDS = 0.2


def _wait_on() -> None:
    """Nothing ends the wait early."""


class WriterLock:
    """Holds ``singerlake.lock`` while a writer publishes and commits.

    Args:
        store: The lake's store.
        key: The lock's key.
        writer_id: Who takes it.
        wait_seconds: How long to wait for another writer.
        stale_seconds: How long a lock must stand still to be taken over; it is refreshed
            four times within it.
        monotonic: The waiter's clock.
        while_waiting: Called now and then while another writer has the lock; may raise to
            end the wait.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        writer_id: str,
        *,
        wait_seconds: float = 300.0,
        stale_seconds: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
        while_waiting: Callable[[], None] = _wait_on,
    ) -> None:
        self._store = store
        self._key = key
        self._writer_id = writer_id
        self._wait_seconds = wait_seconds
        self._stale_seconds = stale_seconds
        self._monotonic = monotonic
        self._while_waiting = while_waiting
        self._acquired = ""
        self._etag = ""
        self._mutex = threading.Lock()
        self._released = threading.Event()
        self._abandoned = False
        self._refresher: threading.Thread | None = None

    def __enter__(self) -> WriterLock:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            LockTimeoutError: Another writer kept it for longer than ``wait_seconds``.
        """
        self._acquired = times.iso(times.now())
        deadline = self._monotonic() + self._wait_seconds
        seen_etag, seen_at = "", 0.0
        while True:
            try:
                content = self._content()
                self._etag = self._store.put_if_absent(self._key, content)
                break
            except KeyExistsError:
                present = self._read()
            if present is not None and present.data == content:
                # Our own: the store had it, and the reply to the first try was lost.
                self._etag = present.etag
                break
            now = self._monotonic()
            if present is not None:
                if present.etag != seen_etag:
                    seen_etag, seen_at = present.etag, now
                elif now - seen_at >= self._stale_seconds and self._take_over(seen_etag):
                    break
            if now >= deadline:
                raise LockTimeoutError(self._timeout_message(present))
            self._while_waiting()
            time.sleep(POLL_SECONDS)
        self._refresher = threading.Thread(target=self._refresh_until_released, daemon=True)
        self._refresher.start()

    def check(self) -> None:
        """Make sure that the lock is still this writer's, just before a commit.

        Raises:
            ConflictError: Another writer took it over, or somebody removed it.
        """
        with self._mutex:
            present = self._read()
        if present is None or self._owner(present) != self._writer_id:
            raise ConflictError(
                f"the lock {self._key} was lost to another writer while this one was held up: "
                "nothing was committed; run it again"
            )

    def release(self) -> None:
        """Give the lock up, if it is still this writer's. Never raises for a lost one."""
        self._released.set()
        if self._refresher is not None:
            self._refresher.join()
        if self._abandoned:
            return
        try:
            present = self._read()
            if present is not None and self._owner(present) == self._writer_id:
                self._store.delete(self._key)
        except StoreError:
            pass  # others take it over once it is stale

    def abandon(self) -> None:
        """Leave the lock where it is, to go stale.

        For a writer that published files and cannot tell whether they were committed: beside
        a lock nobody takes them for files whose log was lost.
        """
        self._released.set()
        self._abandoned = True

    def _content(self) -> bytes:
        lock = Lock(
            writer_id=self._writer_id,
            acquired=self._acquired,
            refreshed=times.iso(times.now()),
        )
        return metadata.encode(lock)

    def _read(self) -> StoredObject | None:
        try:
            return self._store.get(self._key)
        except KeyMissingError:
            return None

    def _owner(self, present: StoredObject) -> str:
        try:
            return metadata.decode(present.data, Lock, self._key).writer_id
        except DamagedError:
            return ""

    def _take_over(self, etag: str) -> bool:
        try:
            self._etag = self._store.replace(self._key, self._content(), etag)
        except KeyExistsError:
            return False
        return True

    def _refresh_until_released(self) -> None:
        while not self._released.wait(self._stale_seconds / 4):
            with self._mutex:
                try:
                    if not self._refresh():
                        return  # lost: check() says so before anything is committed
                except StoreError:
                    continue  # tried again well before the lock is stale

    def _refresh(self) -> bool:
        try:
            self._etag = self._store.replace(self._key, self._content(), self._etag)
        except KeyExistsError:
            # Changed since: by another, or by an earlier refresh whose reply was lost.
            present = self._read()
            if present is None or self._owner(present) != self._writer_id:
                return False
            self._etag = present.etag
        return True

    def _timeout_message(self, present: StoredObject | None) -> str:
        owner = self._owner(present) if present is not None else ""
        return (
            f"waited {self._wait_seconds:g} s for the lock {self._key}"
            + (f", held by {owner}" if owner else "")
            + ": try again later, or let it wait longer (lock_wait_seconds)"
        )
