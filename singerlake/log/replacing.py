"""Replacing entries of a log in place: for an erasure alone, which the log announces before.

Each is replaced only while it is what was read. Where the store ignores conditions, that is done
under the lock of the whole log, as entries are created there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from singerlake.errors import (
    ConflictError,
    DamagedError,
    NotDurableError,
    OutcomeUnknownError,
    SingerlakeError,
)
from singerlake.log.capabilities import open_for_writing
from singerlake.log.locks.lock import SURE_SETTLES, Waiting, WriterLock, new_writer_id
from singerlake.storage.base import KeyExistsError, KeyMissingError, Store

E = TypeVar("E")
Change = Callable[[E], "E | None"]
"""Says what an entry is to become; None where it is that already."""
_ATTEMPTS = 10
"""Times that an entry may change under us: nobody but another erasure's run does that."""


class ReplaceableLog(Protocol[E]):
    """A log whose entries may be replaced."""

    @property
    def store(self) -> Store:
        """Where it lies."""

    @property
    def lock(self) -> str:
        """Key of its lock, for a store that ignores conditions."""

    def key(self, number: int) -> str:
        """Key of an entry."""

    def decode(self, data: bytes, number: int) -> E:
        """Read an entry."""

    def seal(self, entry: E) -> tuple[E, bytes]:
        """Return an entry with its hash, and its bytes."""


@contextmanager
def replacing(
    log: ReplaceableLog[E], waiting: Waiting | None = None
) -> Iterator[Callable[[int, Change[E]], bool]]:
    """Open a log to replace entries of it.

    Gives a function that replaces one, of a number, and tells whether it was not yet what it is
    to be.

    Args:
        log: The log.
        waiting: How to treat other writers, where the store makes them take turns.

    Raises:
        LockTimeoutError: The store ignores conditions, and another kept the log's lock.
    """
    open_for_writing(log.store)
    if log.store.capabilities.supports_conditional_writes:
        yield lambda number, change: _replace(log, number, change, lambda: None)
        return
    held = WriterLock.of(
        log.store, log.lock, new_writer_id(), waiting or Waiting(), settles=SURE_SETTLES
    )
    with held as lock:

        def replace(number: int, change: Change[E]) -> bool:
            try:
                return _replace(log, number, change, lock.check)
            except BaseException as error:
                if not isinstance(error, SingerlakeError) or isinstance(error, OutcomeUnknownError):
                    lock.abandon()  # who comes next must wait until the write has surely arrived
                raise

        yield replace


def _replace(
    log: ReplaceableLog[E], number: int, change: Change[E], check: Callable[[], None]
) -> bool:
    key = log.key(number)
    for _ in range(_ATTEMPTS):
        try:
            stored = log.store.get(key)
        except KeyMissingError as error:
            raise DamagedError(f"{key} is missing: restore it from a backup") from error
        wanted = change(log.decode(stored.data, number))
        if wanted is None:
            return False
        _, data = log.seal(wanted)
        check()
        try:
            log.store.replace(key, data, stored.etag)
        except KeyExistsError:
            continue  # another was sooner, or it was ourselves and the reply was lost
        except NotDurableError:
            raise  # it would be read back from memory, whatever becomes of it on the disk
        except OutcomeUnknownError:
            if log.store.get(key).data != data:
                raise  # a slow write may still arrive
        return True
    raise ConflictError(f"{key} changes too fast to be replaced: run it again")
