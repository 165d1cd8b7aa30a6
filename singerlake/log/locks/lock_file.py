"""The creation of a lock's file: by conditions, or by the published protocol.

Where the store keeps conditions, creating a file where there is none is one step, and so is
replacing one that has not changed. Where it ignores them, the writer looks, writes, waits for
the settle time and reads back: who finds its own file has the lock. That holds as long as
looking and writing together take less than the settle time; a writer that notices that it
took longer gives way.

Nothing here is durable across a power cut: two fsyncs for each lock would be half of what a
small commit costs. A lock that vanished with the power had a writer that died of it too. One on
a file server, whose writer lives on while the server starts again, is missed by its writer
before it commits (:meth:`WriterLock.check`), and what keeps writers from harming each other is
that a log number is taken once; the next to come merely need not wait. A lock that came out
cut is nobody's, and is taken over when it has stood still. Who finds a table without a log must
still find the lock beside the files that were never committed: its name came first in their
own folder, and the fsync that makes their names durable there makes its name so; what it says
does not matter then. Within reach of one machine, or of a file server whose clients see a file
whole once it is closed (as NFS has it), no half of one is seen: it gets its name after.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from singerlake.errors import OutcomeUnknownError
from singerlake.storage.base import (
    Capabilities,
    KeyExistsError,
    KeyMissingError,
    Store,
    StoredObject,
)


class LockFile(ABC):
    """One lock's file."""

    trouble = ""
    """Why the lock could not be had although it was free, for a person."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key

    def read(self) -> StoredObject | None:
        """Read the object."""
        try:
            return self._store.get(self._key)
        except KeyMissingError:
            return None

    def _is(self, etag: str) -> bool:
        present = self.read()
        return present is not None and present.etag == etag

    @abstractmethod
    def create(self, content: bytes) -> str | None:
        """Write the file where there is none; its etag, or None where it was not ours to take."""

    @abstractmethod
    def swap(self, content: bytes, etag: str) -> str | None:
        """Take over a file that still has this etag."""

    @abstractmethod
    def refresh(self, content: bytes, etag: str) -> str | None:
        """Write one's own file again if it still has this etag."""


class _ByCondition(LockFile):
    """On a store that refuses what it should."""

    def create(self, content: bytes) -> str | None:
        try:
            return self._store.put_if_absent(self._key, content, durable=False)
        except KeyExistsError:
            return self._own(content)
        except OutcomeUnknownError:
            etag = self._own(content)
            if etag is None and self.read() is None:
                raise  # a slow write may still arrive
            return etag

    def swap(self, content: bytes, etag: str) -> str | None:
        try:
            return self._store.replace(self._key, content, etag, durable=False)
        except KeyExistsError:
            return self._own(content)
        except OutcomeUnknownError:
            own = self._own(content)
            if own is None and self._is(etag):
                raise  # a slow write may still arrive
            return own

    refresh = swap

    def _own(self, content: bytes) -> str | None:
        """The etag of what is there, if it is what was written and the reply was lost."""
        present = self.read()
        return present.etag if present is not None and present.data == content else None


class _ByReadingBack(LockFile):
    """On a store that ignores conditions: write, wait, read back."""

    def __init__(
        self,
        store: Store,
        key: str,
        clock: Callable[[], float],
        settle_seconds: float,
        settles: int,
    ) -> None:
        super().__init__(store, key)
        self._clock = clock
        self._settle_seconds = settle_seconds
        self._settles = settles

    def create(self, content: bytes) -> str | None:
        began = self._clock()
        return self._wait_and_read_back(content, began) if self.read() is None else None

    def swap(self, content: bytes, etag: str) -> str | None:
        began = self._clock()
        return self._wait_and_read_back(content, began) if self._is(etag) else None

    def refresh(self, content: bytes, etag: str) -> str | None:
        # No waiting: only its owner writes to a lock that is not stale.
        if not self._is(etag):
            return None
        return self._store.replace(self._key, content, None, durable=False)

    def _wait_and_read_back(self, content: bytes, began: float) -> str | None:
        self._store.replace(self._key, content, None, durable=False)
        took = self._clock() - began
        if took > self._settle_seconds:
            self._give_way(content, took)
            return None
        time.sleep(self._settles * self._settle_seconds)
        present = self.read()
        return present.etag if present is not None and present.data == content else None

    def _give_way(self, content: bytes, took: float) -> None:
        """Another may have read its own file back before ours came, and have gone on.

        It finds ours before it commits, and does not; nor must we.
        """
        self.trouble = (
            f"writing it took {took:.1f} s, longer than the {self._settle_seconds:g} s "
            "after which writers trust it: raise lock_settle_seconds in raw/singerlake.json"
        )
        present = self.read()
        if present is not None and present.data == content:
            self._store.delete(self._key)


def lock_file(
    store: Store,
    key: str,
    clock: Callable[[], float],
    capabilities: Capabilities,
    settles: int = 1,
) -> LockFile:
    """Choose how a lock's file is written: the way that its store allows.

    Args:
        clock: Seconds.
        capabilities: What the store is known to do.
        settles: On a store that ignores conditions, how many settle times to wait before the
            lock is read back.
    """
    if capabilities.supports_conditional_writes:
        return _ByCondition(store, key)
    return _ByReadingBack(store, key, clock, capabilities.settle_seconds, settles)
