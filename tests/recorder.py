"""Writes down what is done to a lake on a local disk, in the order in which it took effect.

Each operation and its line happen under one lock, across threads and processes. Where a process
is killed between the two, its line of intent is left, and the checker takes either for true.

``python -m tests.recorder JOURNAL MODULE ARGUMENTS…`` records a process of its own, and
``SINGERLAKE_JOURNAL`` names the journal for tests that record themselves where they are asked to.
"""

from __future__ import annotations

import fcntl
import gzip
import itertools
import json
import os
import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from singerlake.format import file_paths
from singerlake.storage.base import KeyMissingError
from singerlake.storage.local.store import LocalStaged, LocalStore

VARIABLE = "SINGERLAKE_JOURNAL"
_actors: list[str] = []
_numbers = itertools.count(1)


@contextmanager
def acting(name: str) -> Iterator[None]:
    """What is done inside, in any thread, is this actor's; one at a time, others inside it."""
    _actors.append(name)
    try:
        yield
    finally:
        _actors.pop()


class _Journal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._inside = threading.local()
        self._lakes: set[str] = set()

    def record(
        self, op: str, store: LocalStore, key: str, data: bytes, work: Callable[[], Any]
    ) -> Any:
        if getattr(self._inside, "an_operation", False):  # one that is made of others
            return work()
        self._inside.an_operation = True
        with self._path.open("ab", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                if str(store.root) not in self._lakes:
                    self._lakes.add(str(store.root))
                    file.write(_encoded(_found(store)))
                line = self._line(op, store, key, data)
                file.write(_encoded({**line, "intent": True}) if op in EFFECTS else b"")
                there = store.exists(key) if op in EFFECTS else False
                try:
                    result = work()
                    if isinstance(result, Iterator):
                        result = [*result]
                except KeyMissingError:
                    file.write(_encoded({**line, "missing": True}))
                    raise
                except BaseException:
                    if op in EFFECTS and store.exists(key) == (op != "delete") != there:
                        file.write(_encoded(line))  # done, whatever the caller hears
                    else:
                        file.write(_encoded({**line, "failed": True}))
                    raise
                file.write(_encoded(line))
                return result
            finally:
                self._inside.an_operation = False

    def _line(self, op: str, store: LocalStore, key: str, data: bytes) -> dict[str, Any]:
        actor = _actors[-1] if _actors else f"p{os.getpid()}"
        line = {
            "n": f"{os.getpid()}-{next(_numbers)}",
            "lake": str(store.root),
            "actor": actor,
            "thread": f"{actor}/{threading.get_ident()}",
            "op": op,
            "key": key,
        }
        if "/transactions/" in key or "/leases/" in key:
            line["data"] = data.decode("utf-8", "replace")
        elif data and _is_list(key):
            line["data"] = _listed(data)
        return line


def _is_list(key: str) -> bool:
    return file_paths.is_list("/".join(key.split("/")[3:]))


def _listed(data: bytes) -> str:
    """The files that a list names, one a line."""
    lines = gzip.decompress(data).decode().splitlines()
    return "\n".join(line.partition(" ")[0] for line in lines)


def _found(store: LocalStore) -> dict[str, Any]:
    """What is in a lake when its recording begins."""
    keys = [item.key for item in store.list("raw/")]
    entries = {key: store.get(key).data.decode() for key in keys if "/transactions/" in key}
    lists = {key: _listed(store.get(key).data) for key in keys if _is_list(key)}
    found = {"op": "found", "keys": keys, "entries": entries, "lists": lists}
    return {"n": "", "lake": str(store.root), **found}


EFFECTS = {"put", "replace", "delete", "publish"}


def _encoded(line: dict[str, Any]) -> bytes:
    return json.dumps(line).encode() + b"\n"


def _writing(journal: _Journal, op: str, method: Any) -> Any:
    def recorded(self: LocalStore, key: str, data: bytes, *args: Any, **more: Any) -> Any:
        work = lambda: method(self, key, data, *args, **more)  # noqa: E731
        return journal.record(op, self, key, data, work)

    return recorded


def _plain(journal: _Journal, op: str, method: Any) -> Any:
    def recorded(self: LocalStore | LocalStaged, key: str) -> Any:
        store = self._store if isinstance(self, LocalStaged) else self
        if op == "get" and "/transactions/" not in key:
            return method(self, key)
        found = journal.record(op, store, key, b"", lambda: method(self, key))
        return iter(found) if op == "list" else found

    return recorded


_WRAPPED = (
    (LocalStore, "put_if_absent", "put", _writing),
    (LocalStore, "replace", "replace", _writing),
    (LocalStore, "delete", "delete", _plain),
    (LocalStore, "list", "list", _plain),
    (LocalStore, "get", "get", _plain),
    (LocalStaged, "publish", "publish", _plain),
)


@contextmanager
def recording(path: Path) -> Iterator[Path]:
    """Record everything that is done to any lake on a local disk, in this process."""
    journal = _Journal(path)
    path.touch()
    kept = [(owner, name, getattr(owner, name)) for owner, name, _, _ in _WRAPPED]
    for owner, name, op, wrapper in _WRAPPED:
        setattr(owner, name, wrapper(journal, op, getattr(owner, name)))
    try:
        yield path
    finally:
        for owner, name, method in kept:
            setattr(owner, name, method)


@contextmanager
def asked_for() -> Iterator[None]:
    """Record where the environment asks for it and nobody in this process does so already."""
    path = os.environ.get(VARIABLE)
    if path and LocalStore.delete.__module__ != __name__:
        with recording(Path(path)):
            yield
    else:
        yield


if __name__ == "__main__":
    _, journal_path, module, *arguments = sys.argv
    sys.argv = [module, *arguments]
    with recording(Path(journal_path)):
        runpy.run_module(module, run_name="__main__", alter_sys=True)
