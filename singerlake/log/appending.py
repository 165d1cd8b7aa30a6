"""The one way into a log, a table's or the lake's: an entry is created where there is none.

Where the store ignores conditions, entries are created only under a lock of the whole log;
see ``docs/decisions/008-stores-that-ignore-conditions.md``.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from singerlake.errors import DataError, NotDurableError, OutcomeUnknownError, SingerlakeError
from singerlake.log.capabilities import open_for_writing
from singerlake.log.locks.lock import SURE_SETTLES, Waiting, WriterLock, new_writer_id
from singerlake.storage.base import KeyExistsError, Store


class Numbered(Protocol):
    """An entry of a log."""

    @property
    def number(self) -> int:
        """Its number."""

    @property
    def commit(self) -> str:
        """An id no other commit has."""


E = TypeVar("E", bound=Numbered)


class Log(Protocol[E]):
    """A log: where its entries lie, how they are read and spelled."""

    @property
    def store(self) -> Store:
        """The store that it lies in."""

    @property
    def lock(self) -> str:
        """Key of its lock, for a store that ignores conditions."""

    def key(self, number: int) -> str:
        """Key of an entry."""

    def read(self, number: int) -> E | None:
        """Return an entry; None where there is none."""

    def seal(self, entry: E) -> tuple[E, bytes]:
        """Return an entry with its hash, and its bytes."""

    def unknown(self, number: int, error: Exception) -> str:
        """Say that nobody knows whether an entry was committed, and how to find out."""


class CommitMark:
    """A mark that this process has begun to create a log entry: earlier commits are not its own.

    Attributes:
        any: Whether it has; what became of it is another question.
    """

    any = False


@contextmanager
def appending(
    log: Log[E], waiting: Waiting | None = None, *, read_back: bool = True
) -> Iterator[Callable[[E], E | None]]:
    """Open a log for writing.

    Gives a function that creates an entry, and gives back what the log has now, with its hash:
    None where the number is another's.

    Args:
        waiting: How to treat other writers, where the store makes them take turns.
        read_back: Whether to make sure, where the store ignores conditions, that nobody wrote
            over an entry; not needed for one that others could only write alike.

    Raises:
        LockTimeoutError: The store ignores conditions, and another kept the log's lock.
    """
    open_for_writing(log.store)
    if log.store.capabilities.supports_conditional_writes:
        yield functools.partial(_create, log)
        return
    waiting = waiting or Waiting()
    with WriterLock.of(log.store, log.lock, new_writer_id(), waiting, settles=SURE_SETTLES) as lock:
        yield functools.partial(_create_alone, log, lock, read_back)


def _create(log: Log[E], entry: E) -> E | None:
    entry, data = log.seal(entry)
    CommitMark.any = True
    try:
        log.store.put_if_absent(log.key(entry.number), data)
    except NotDurableError:
        raise  # it would be read back from memory, whatever becomes of it on the disk
    except (KeyExistsError, OutcomeUnknownError) as error:
        present = _read_back(log, entry, taken=isinstance(error, KeyExistsError))
        if present is None and isinstance(error, OutcomeUnknownError):
            raise  # a slow write may still arrive
        return _if_own(present, entry)
    return entry


def _if_own(present: E | None, entry: E) -> E | None:
    return present if present is not None and present.commit == entry.commit else None


def _create_alone(log: Log[E], lock: WriterLock, read_back: bool, entry: E) -> E | None:
    """The same under the log's lock, where only a look beforehand shows a taken number."""
    present = log.read(entry.number)
    if present is not None:
        return _if_own(present, entry)
    lock.check()
    try:
        created = _create(log, entry)
    except BaseException as error:
        if not isinstance(error, SingerlakeError) or isinstance(error, OutcomeUnknownError):
            lock.abandon()  # who comes next must wait until the write has surely arrived
        raise
    if created is None or not read_back:
        return created
    # Should the lock have failed, two wrote this entry, and whose came first is lost. That
    # one finds out here, and goes on to the next number, or gives up.
    time.sleep(log.store.capabilities.settle_seconds)
    return _if_own(_read_back(log, entry), entry)


def _read_back(log: Log[E], entry: E, *, taken: bool = False) -> E | None:
    """The entry of this number, as it is now.

    Args:
        entry: The one that was to be created.
        taken: Whether the store said that there was one before. What cannot be read is then
            not this commit's, which writes whole entries of this release's format.
    """
    try:
        return log.read(entry.number)
    except Exception as error:
        if taken and isinstance(error, DataError):
            raise
        raise OutcomeUnknownError(log.unknown(entry.number, error)) from error
