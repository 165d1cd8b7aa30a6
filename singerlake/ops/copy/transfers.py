"""Moving bytes from one store to another: data files through a check, log entries as they are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Executor, wait
from dataclasses import dataclass, field
from typing import TypeVar

from singerlake.errors import ConflictError, DamagedError, NotDurableError, OutcomeUnknownError
from singerlake.format.log import Block
from singerlake.log.staging import holds
from singerlake.ops.copy.members import MemberCheck
from singerlake.storage.base import KeyExistsError, KeyMissingError, Staged, Store

PIECE = 8 << 20
"""Read and written at a time, in each thread."""
_T = TypeVar("_T")


@dataclass
class Meter:
    """How far a copy is, for whoever shows it; and how it is told to stop.

    Attributes:
        done: Bytes of data files copied, or read again.
        total: Bytes that are known to be due.
        tables: How many tables are due.
        begun: How many of them have begun, so that their bytes are in ``total``.
    """

    done: int = 0
    total: int = 0
    tables: int = 0
    begun: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *, done: int = 0, total: int = 0, begun: int = 0) -> None:
        """Count bytes, and tables that begin."""
        with self._mutex:
            self.done += done
            self.total += total
            self.begun += begun

    def expected(self) -> int:
        """Bytes that are due: those known, and for each table to come as many as others have."""
        with self._mutex:
            to_come = max(0, self.tables - self.begun)
            return self.total + to_come * self.total // max(1, self.begun)

    def stop(self) -> None:
        """End all that is under way at its next piece."""
        self._stopped.set()

    def check(self) -> None:
        """Go on, unless it was stopped.

        Raises:
            ConflictError: It was; nobody sees it, for who stopped it is gone.
        """
        if self._stopped.is_set():
            raise ConflictError("the copy was stopped: run it again")


def copy_file(
    source: Store, destination: Store, key: str, blocks: Iterable[Block], meter: Meter
) -> int:
    """Copy a data file, byte for byte; what does not check is never published.

    Args:
        source: Whence.
        destination: Where to.
        key: Of the file, in both.
        blocks: What the log says lies in it.
        meter: Counts the bytes.

    Returns:
        How many bytes it has.

    Raises:
        KeyMissingError: The source does not have it, any more.
        DamagedError: It is damaged at the source, or another file has its name at the destination.
        StoreError: A store refused.
    """
    staged = destination.stage()
    try:
        check = MemberCheck(f"{source.uri}/{key}", blocks)
        for data in pieces(source, key, meter):
            check.feed(data)
            staged.write(data)
        check.end()
        publish(destination, staged, key)
        return staged.size
    finally:
        staged.discard()


def check_file(store: Store, key: str, blocks: Iterable[Block], meter: Meter) -> None:
    """Read a data file to its end, and hold it against the log.

    Raises:
        DamagedError: It is not there, or not what the log says.
        StoreError: The store refused.
    """
    check = MemberCheck(f"{store.uri}/{key}", blocks)
    try:
        for data in pieces(store, key, meter):
            check.feed(data)
    except KeyMissingError as error:
        raise DamagedError(f"{store.uri}/{key} is missing") from error
    check.end()


def pieces(store: Store, key: str, meter: Meter) -> Iterable[bytes]:
    """Read an object, piece by piece; one that is empty gives an empty piece.

    Raises:
        KeyMissingError: There is none.
    """
    at, data = 0, b""
    while at == 0 or len(data) == PIECE:
        meter.check()
        data = store.get_range(key, at, PIECE)
        at += len(data)
        meter.add(done=len(data))
        yield data
        if not data:
            return


def publish(destination: Store, staged: Staged, key: str) -> None:
    """Give a file its name, which nobody else has: it may only be there from a copy before.

    Raises:
        DamagedError: Another file has its name.
        StoreError: The store refused.
    """
    try:
        staged.publish(key)
    except NotDurableError:
        raise
    except (KeyExistsError, OutcomeUnknownError) as error:
        if holds(destination, key, staged):
            return
        if isinstance(error, OutcomeUnknownError):
            raise
        raise DamagedError(
            f"{destination.uri}/{key} exists, but is not the source's file of that name: it is not "
            "overwritten; check what it is, and move it away"
        ) from error


def put_entry(destination: Store, key: str, data: bytes) -> None:
    """Create a log entry, unless the very same is there.

    Raises:
        ConflictError: Another is.
        StoreError: The store refused.
    """
    if not destination.capabilities.supports_conditional_writes and _same(destination, key, data):
        return  # asked before: there a creation would write over what is there
    try:
        destination.put_if_absent(key, data)
    except NotDurableError:
        raise
    except (KeyExistsError, OutcomeUnknownError):
        if not _same(destination, key, data):
            raise


def _same(store: Store, key: str, data: bytes) -> bool:
    """Whether an object is there, with these bytes; if with others, that is an error.

    Raises:
        ConflictError: It has others.
    """
    try:
        present = store.get(key).data
    except KeyMissingError:
        return False
    if present != data:
        raise ConflictError(
            f"{store.uri}/{key} differs from the source's transaction: another process wrote to "
            "the destination; it is not overwritten"
        )
    return True


def in_threads(threads: Executor, work: Callable[..., _T], items: Iterable[object]) -> list[_T]:
    """Do something with each of some things; after an error nothing is under way any more."""
    futures = [threads.submit(work, item) for item in items]
    try:
        wait(futures, return_when=FIRST_EXCEPTION)
    finally:
        for future in futures:
            future.cancel()
        wait(futures)
    for future in futures:
        if not future.cancelled() and (error := future.exception()) is not None:
            raise error
    return [future.result() for future in futures]
