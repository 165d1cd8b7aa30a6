"""A store in which one operation, the k-th, goes wrong in a way that real stores go wrong."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

from singerlake.errors import NotDurableError, OutcomeUnknownError, StoreError
from singerlake.storage.base import (
    KeyExistsError,
    KeyMissingError,
    Listed,
    Staged,
    Store,
    StoredObject,
)
from singerlake.storage.local.store import LocalStore
from singerlake.storage.together import Together
from singerlake.storage.unfinished import Leftover

READS = frozenset({"get", "get_range", "list", "folders"})
CREATES = frozenset({"put_if_absent", "replace", "publish"})
WRITES = CREATES | {"delete"}
STAGING = frozenset({"stage", "write"})
SETTLES = frozenset({"settle"})
ALL = READS | WRITES | STAGING | SETTLES | {"discard"}


@dataclass(frozen=True)
class Kind:
    """A way to go wrong.

    Attributes:
        name: What the table in docs/internals/promises.md calls it.
        methods: The operations that can go wrong so.
        kills: Whether the process is gone afterwards.
        interrupts: Whether ``KeyboardInterrupt`` comes.
        harmless: Whether the operation must succeed all the same.
    """

    name: str
    methods: frozenset[str]
    kills: bool = False
    interrupts: bool = False
    harmless: bool = False


ERROR_BEFORE = Kind("error before", ALL - {"discard"})
LOST_REPLY = Kind("error after the effect (lost reply)", WRITES)
NOT_DURABLE = Kind("written, but the folder's fsync fails (EIO)", CREATES | SETTLES)
LOST_REQUEST = Kind("no reply and no effect", CREATES)
LATE = Kind("no reply, the effect comes when the run is over", CREATES)
TORN = Kind("torn write", frozenset({"write", "put_if_absent", "replace"}))
TAKEN = Kind("412 after success", CREATES)
OUTAGE = Kind("error, and all later ones too (outage)", ALL)
LOST_THEN_OUTAGE = Kind("lost reply, then outage", WRITES)
INTERRUPT = Kind("interrupt (Ctrl-C) after the effect", WRITES | {"write"}, interrupts=True)
KILL_BEFORE = Kind("SIGKILL before", ALL, kills=True)
KILL_AFTER = Kind("SIGKILL after", ALL, kills=True)

KINDS = (
    ERROR_BEFORE,
    LOST_REPLY,
    NOT_DURABLE,
    LOST_REQUEST,
    LATE,
    TORN,
    TAKEN,
    OUTAGE,
    LOST_THEN_OUTAGE,
    INTERRUPT,
    KILL_BEFORE,
    KILL_AFTER,
)


@dataclass(frozen=True)
class Done:
    """An operation that was asked for."""

    method: str
    key: str


class FaultyStore(Store):
    """Counts operations, and lets one of them go wrong.

    On an executor it is the plain store: what the driver does is what is counted.

    Args:
        inner: The store that works.
        at: Which operation goes wrong, from 1; 0 for none.
        kind: How.
    """

    def __init__(self, inner: Store, at: int = 0, kind: Kind = ERROR_BEFORE) -> None:
        self.inner = inner
        self.uri = inner.uri
        self.trace: list[Done] = []
        self._at = at
        self._kind = kind
        self._out = False
        self._late: list[Callable[[], object]] = []
        self._mutex = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return itemgetter(0), ((self.inner,),)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not there yet while it is unpickled
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def next_strikes(self) -> bool:
        """Whether the next operation is the one that goes wrong."""
        return len(self.trace) + 1 == self._at

    def finish(self) -> None:
        """The run is over: what was on its way arrives now."""
        for effect in self._late:
            with suppress(KeyExistsError):
                effect()

    def do(self, method: str, key: str, effect: Callable[[], Any], data: bytes = b"") -> Any:
        """Count an operation and do it, well or badly."""
        with self._mutex:
            self.trace.append(Done(method, key))
            struck = len(self.trace) == self._at
        if self._out:
            raise StoreError(f"cannot {method} {key}: the store is gone (a test's outage)")
        if not struck or method not in self._kind.methods:
            return effect()
        return self._go_wrong(method, key, effect, data)

    def _go_wrong(self, method: str, key: str, effect: Callable[[], Any], data: bytes) -> Any:
        failed = StoreError(f"cannot {method} {key} (a test's fault)")
        unknown = OutcomeUnknownError(f"whether {key} was written is not known (a test's fault)")
        kind = self._kind
        if kind in (ERROR_BEFORE, OUTAGE):
            self._out = kind == OUTAGE
            raise failed
        if kind == LOST_REQUEST:
            raise unknown
        if kind == LATE:
            self._late.append(effect)
            raise unknown
        if kind == TORN:
            self._leave_half(data)
            raise failed
        if kind == KILL_BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        result = None
        with suppress(KeyExistsError, KeyMissingError):  # the reply to that may be lost, too
            result = effect()
        if kind == KILL_AFTER:
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == INTERRUPT:
            raise KeyboardInterrupt
        if kind == TAKEN:
            raise KeyExistsError(f"{key} is taken (a test's fault)")
        if kind == NOT_DURABLE:
            raise NotDurableError(f"{key} may be gone after a power cut (a test's fault)")
        assert kind in (LOST_REPLY, LOST_THEN_OUTAGE), (kind, result)
        self._out = kind == LOST_THEN_OUTAGE
        # Only of what is created does it matter whether it happened; real stores say so.
        raise unknown if method in CREATES else failed

    def _leave_half(self, data: bytes) -> None:
        """What a local disk keeps of a whole object that did not fit: half a temporary file."""
        if data and isinstance(self.inner, LocalStore):
            folder = Path(self.inner.root, ".staging")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / uuid.uuid4().hex).write_bytes(data[: len(data) // 2])

    def get(self, key: str) -> StoredObject:
        return self.do("get", key, lambda: self.inner.get(key))  # type: ignore[no-any-return]

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        return self.do("get_range", key, lambda: self.inner.get_range(key, offset, length))  # type: ignore[no-any-return]

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> str:
        work = lambda: self.inner.put_if_absent(key, data, durable=durable)  # noqa: E731
        return self.do("put_if_absent", key, work, data)  # type: ignore[no-any-return]

    def replace(self, key: str, data: bytes, etag: str | None, *, durable: bool = True) -> str:
        work = lambda: self.inner.replace(key, data, etag, durable=durable)  # noqa: E731
        if "/leases/" in key:  # written anew as time goes by, on a slow machine more often
            return work()
        return self.do("replace", key, work, data)  # type: ignore[no-any-return]

    def delete(self, key: str) -> None:
        self.do("delete", key, lambda: self.inner.delete(key))

    def list(self, prefix: str) -> Iterator[Listed]:
        return self.do("list", prefix, lambda: self.inner.list(prefix))  # type: ignore[no-any-return]

    def folders(self, prefix: str) -> Sequence[str]:
        return self.do("folders", prefix, lambda: self.inner.folders(prefix))  # type: ignore[no-any-return]

    def clone(self, source: str, key: str, size: int) -> None:
        self.do("publish", key, lambda: self.inner.clone(source, key, size))

    def first_key(self) -> str | None:
        return self.do("list", "", self.inner.first_key)  # type: ignore[no-any-return]

    def local_path(self, key: str) -> Path | None:
        return self.inner.local_path(key)

    def leftovers(self) -> Iterator[Leftover]:
        return self.inner.leftovers()

    def remove_leftover(self, leftover: Leftover) -> None:
        self.inner.remove_leftover(leftover)

    def together(self) -> Together:
        return _FaultyTogether(self, self.inner.together())

    def stage(self) -> Staged:
        return _FaultyStaged(self, self.do("stage", "", self.inner.stage))


class _FaultyStaged(Staged):
    def __init__(self, store: FaultyStore, inner: Any) -> None:
        self._store = store
        self._inner = inner

    @property
    def size(self) -> int:  # type: ignore[override]
        return int(self._inner.size)

    def write(self, data: bytes) -> None:
        if self._store._kind == TORN and self._store.next_strikes:
            # Past the inner store's own count: what a full disk leaves of a write.
            with Path(self._inner._path).open("r+b") as file:
                file.seek(self._inner.size)
                file.write(data[: len(data) // 2])
        self._store.do("write", "", lambda: self._inner.write(data))

    def reader(self) -> BinaryIO:
        return self._inner.reader()

    def publish(self, key: str) -> None:
        if self._store._kind == LATE and self._store.next_strikes:
            # The request has the bytes, whatever becomes of the file meanwhile.
            data = Path(self._inner._path).read_bytes()
            self._store.do("publish", key, lambda: self._store.inner.put_if_absent(key, data))
        else:
            self._store.do("publish", key, lambda: self._inner.publish(key))

    def discard(self) -> None:
        try:
            self._store.do("discard", "", self._inner.discard)
        except StoreError:  # an outage is not of this process's own temporary files
            self._inner.discard()


class _FaultyTogether(Together):
    def __init__(self, store: FaultyStore, inner: Together) -> None:
        self._store = store
        self._inner = inner

    def publish(self, staged: Any, key: str) -> None:
        if self._store._kind == LATE and self._store.next_strikes:
            staged.publish(key)
        else:
            work = lambda: self._inner.publish(staged._inner, key)  # noqa: E731
            self._store.do("publish", key, work)

    def settle(self) -> None:
        self._store.do("settle", "settled", self._inner.settle)

    def close(self) -> None:
        self._inner.close()
