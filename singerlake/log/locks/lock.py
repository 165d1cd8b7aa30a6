"""The writers' lock: courtesy where the store keeps conditions, the last word where it does not.

A lock is refreshed in the background. A waiter takes it over only when ``refreshed`` stood
still for the stale time by the waiter's own clock, so that clocks that disagree between
machines cannot break a lock that lives. How the file gets onto the store is in
``lock_file.py``.
"""

from __future__ import annotations

import os
import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from singerlake.errors import ConflictError, DataError, LockTimeoutError, SingerlakeError
from singerlake.format import metadata, times
from singerlake.format.metadata import Lock
from singerlake.log.locks.heartbeat import Heartbeat
from singerlake.log.locks.lock_file import lock_file
from singerlake.storage.base import Capabilities, Store, StoredObject

POLL_SECONDS = 0.2
STALE_SETTLES = 4
"""A lock must stand still for at least so many times what is waited before it is read back."""
SURE_SETTLES = 4
"""Settle times after which a lock that was read back is sure, on a store that ignores conditions.
Another writer may have looked just before this lock was seen (one settle time), and its own may be
seen one after it was written. Who reads back later knows of both before it commits, unless it is
held up for the other two between its last look and its write. See ``model/Turns.tla``."""


def new_writer_id() -> str:
    """An id for this process: host, process and something no other has."""
    return f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def elapsed() -> float:
    """Seconds on a clock that goes on while the process, or the machine, sleeps."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


def _wait_on() -> None:
    """Nothing ends the wait early."""


def nobody(writer_id: str) -> bool:  # noqa: ARG001
    """Of no writer it is known that it is done."""
    return False


@dataclass(frozen=True)
class Waiting:
    """How a writer treats other writers' locks.

    Attributes:
        wait_seconds: How long to wait for another writer.
        stale_seconds: How long a lock must stand still to be taken over; one's own is
            refreshed four times within it.
        while_waiting: Called now and then while another writer has the lock; may raise to
            end the wait.
    """

    wait_seconds: float = 300.0
    stale_seconds: float = 60.0
    while_waiting: Callable[[], None] = _wait_on


class WriterLock:
    """Holds a lock's file while a writer publishes and commits.

    Args:
        store: The lake's store.
        key: The lock's key.
        writer_id: Who takes it.
        wait_seconds: See :class:`Waiting`.
        stale_seconds: See :class:`Waiting`.
        clock: The waiter's clock, seconds.
        while_waiting: See :class:`Waiting`.
        capabilities: The store's, where it is not open for writing yet.
        settles: On a store that ignores conditions, how many settle times to wait before the
            lock is read back: 1 for courtesy, ``SURE_SETTLES`` where it is the last word.
        is_done: Tells of another writer, by its id, that it is not at work any more: its lock is
            taken over without waiting until it is stale. Not asked on such a store.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        writer_id: str,
        *,
        wait_seconds: float = 300.0,
        stale_seconds: float = 60.0,
        clock: Callable[[], float] = elapsed,
        while_waiting: Callable[[], None] = _wait_on,
        capabilities: Capabilities | None = None,
        settles: int = 1,
        is_done: Callable[[str], bool] = nobody,
    ) -> None:
        self._store = store
        self._key = key
        self._writer_id = writer_id
        self._wait_seconds = wait_seconds
        self._stale_seconds = stale_seconds
        known = capabilities or store.capabilities
        self._conditional = known.supports_conditional_writes
        if not self._conditional:
            settled = settles * known.settle_seconds
            self._stale_seconds = max(stale_seconds, STALE_SETTLES * settled)
        self._clock = clock
        self._while_waiting = while_waiting
        self._is_done = is_done if self._conditional else nobody
        self._file = lock_file(store, key, clock, known, settles)
        self._acquired = ""
        self._beats = 0
        self._etag = ""
        self._refreshed_at = 0.0
        self._checked_at: float | None = None
        self._mutex = threading.Lock()
        self._heartbeat = Heartbeat(self._stale_seconds / 4, self._beat)
        self._abandoned = False

    @classmethod
    def of(
        cls,
        store: Store,
        key: str,
        writer_id: str,
        waiting: Waiting,
        *,
        settles: int = 1,
        is_done: Callable[[str], bool] = nobody,
    ) -> WriterLock:
        """A lock whose writer waits as told."""
        return cls(
            store,
            key,
            writer_id,
            wait_seconds=waiting.wait_seconds,
            stale_seconds=waiting.stale_seconds,
            while_waiting=waiting.while_waiting,
            settles=settles,
            is_done=is_done,
        )

    def __enter__(self) -> WriterLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            LockTimeoutError: Another writer kept it for longer than ``wait_seconds``.
        """
        self._acquired = times.iso(times.now())
        deadline = self._clock() + self._wait_seconds
        present: StoredObject | None = None
        seen_etag, seen_at = "", 0.0
        while not (present is None and self._try_to_take(self._file.create)):
            present = self._file.read()
            now = self._clock()
            if present is not None:
                if present.etag != seen_etag:
                    seen_etag, seen_at = present.etag, now
                    if self._is_done(self._owner(present)) and self._take_over(seen_etag):
                        break
                elif now - seen_at >= self._stale_seconds and self._take_over(seen_etag):
                    break
            if now >= deadline:
                raise LockTimeoutError(self._timeout_message(present))
            self._while_waiting()
            if present is not None:
                # At random, so that those who wait for one lock do not all come at once.
                time.sleep(POLL_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311
        self._heartbeat.start()

    def check(self) -> None:
        """Make sure that the lock is still this writer's, just before a commit.

        Raises:
            ConflictError: Another writer took it over, or somebody removed it.
        """
        with self._mutex:
            self._checked_at, began = None, self._clock()
            present = self._file.read()
            late = self._may_be_taken_over(self._refreshed_at)
        owner = self._owner(present) if present is not None else None
        if owner == self._writer_id:
            if not late:
                self._checked_at = began
                return
            how = "it was not refreshed for so long that another process may have taken it over"
        elif owner is None:
            how = "another process broke it, or took it over and finished"
        else:
            how = f"taken over by {owner or 'another writer'} while this process was stalled"
        raise ConflictError(
            f"the lock {self._key} was lost ({how}): nothing was committed; run it again"
        )

    def release(self) -> None:
        """Give the lock up, if it is still this writer's. Never raises for a lost one."""
        self._heartbeat.stop()
        if self._abandoned or self._may_be_taken_over(self._refreshed_at):
            return
        try:
            if self._was_just_checked() or self._is_own():
                self._store.delete(self._key)
        except SingerlakeError:
            pass  # others take it over once it is stale

    def _was_just_checked(self) -> bool:
        """Whether it was this writer's a moment ago, so that there is no need to read it again.

        A commit checks its lock, creates one log entry, and gives the lock up. In a quarter of
        the stale time nobody takes it over. Should a person have broken it in that moment, and
        another taken it, then that one's is deleted: it finds so when it checks, and commits
        nothing. Where the lock is the last word, it is read.
        """
        return (
            self._conditional
            and self._checked_at is not None
            and self._clock() - self._checked_at < self._stale_seconds / 4
        )

    def _is_own(self) -> bool:
        present = self._file.read()
        return present is not None and self._owner(present) == self._writer_id

    def abandon(self) -> None:
        """Leave the lock where it is, to go stale.

        For a writer that published files and cannot tell whether they were committed: beside
        a lock nobody takes them for files whose log was lost.
        """
        self._heartbeat.stop(wait=False)
        self._abandoned = True

    def _content(self) -> bytes:
        self._beats += 1
        lock = Lock(
            writer_id=self._writer_id,
            acquired=self._acquired,
            refreshed=times.iso(times.now()),
            beat=self._beats,
        )
        return metadata.encode(lock)

    def _owner(self, present: StoredObject) -> str:
        try:
            return metadata.decode(present.data, Lock, self._key).writer_id
        except DataError:
            return ""

    def _try_to_take(self, write: Callable[[bytes], str | None]) -> bool:
        self._refreshed_at = self._clock()  # should it end half-way, release() may clean up
        return self._take(write)

    def _take(self, write: Callable[[bytes], str | None]) -> bool:
        began = self._clock()
        etag = write(self._content())
        if etag is None:
            return False
        self._etag, self._refreshed_at = etag, began
        return True

    def _take_over(self, etag: str) -> bool:
        return self._try_to_take(lambda content: self._file.swap(content, etag))

    def _beat(self) -> bool:
        with self._mutex:
            try:
                return self._refresh()  # once it is lost, check() says so before a commit
            except SingerlakeError:
                return True  # tried again well before the lock is stale

    def _refresh(self) -> bool:
        before = self._refreshed_at
        if self._may_be_taken_over(before):
            return False
        if self._take(lambda content: self._file.refresh(content, self._etag)):
            if not self._may_be_taken_over(before):
                return True
            self._refreshed_at = before  # it came too late to count
            return False
        # Changed since: by another, or by an earlier refresh whose reply was lost.
        present = self._file.read()
        if present is None or self._owner(present) != self._writer_id:
            self._checked_at = None  # not to be given up unread
            return False
        self._etag = present.etag
        return True

    def _may_be_taken_over(self, refreshed_at: float) -> bool:
        """Whether so much time has passed that to write would be to write over another's."""
        if self._conditional:
            return False
        return self._clock() - refreshed_at >= self._stale_seconds

    def _timeout_message(self, present: StoredObject | None) -> str:
        owner = self._owner(present) if present is not None else ""
        return (
            f"waited {self._wait_seconds:g} s for the lock {self._key}"
            + (f", held by {owner}" if owner else "")
            + (f" ({self._file.trouble})" if self._file.trouble else "")
            + ": try again later, let it wait longer (lock_wait_seconds), or see who holds it "
            "with: singerlake locks" + self._too_short_for_the_dead()
        )

    def _too_short_for_the_dead(self) -> str:
        """Say it where no wait is long enough to find that the other writer is gone."""
        if self._wait_seconds > self._stale_seconds:
            return ""
        return (
            "; a run takes over a dead writer's lock only if it waits for more than "
            f"{self._stale_seconds:g} s (lock_stale_seconds); otherwise, break it with singerlake "
            "unlock"
        )
