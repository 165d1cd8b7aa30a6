"""Copies of a lake put to the test: the faults are those of the destination's store."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from singerlake.errors import NotFoundError
from singerlake.lake import Lake
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from singerlake.transactions.writer import WriteOptions
from tests.copying import world
from tests.faults.operations import STALE_SECONDS, Operation
from tests.faults.plain import Dump


class Copy(Operation):
    """A first copy of a lake whose early entries name files that a vacuum has deleted."""

    name = "copy"
    loses_log = True  # until its last entry is there, its others are ahead of the log
    states: ClassVar[list[list[int] | None]] = [None, [1, 2, 3]]

    def prepare(self, lake: Lake) -> None:
        self._make(Lake(source_of(lake.store)))
        lake.store.put_if_absent(".staging/replace.lock", b"")  # a place, and nothing in it

    def _make(self, source: Lake) -> None:
        world.write(source, 1)
        world.write(source, 2)
        world.combine(source)
        world.delete(source)
        world.write(source, 3)

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        stale = STALE_SECONDS if again else 600
        writing = WriteOptions(lock_wait_seconds=20, lock_stale_seconds=stale)
        options = replace(world.ONE_BY_ONE, sync=True, writing=writing)
        world.copy(source_of(store), store, options=options)

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        rows = _opened(dump)
        assert rows == self.states[-1] if done else rows in self.states


class CopyMore(Copy):
    """The same copied once more, after another vacuum at the source; what that deleted goes."""

    name = "copy, more"
    states: ClassVar[list[list[int] | None]] = [[1, 2, 3], [1, 2, 3, 4, 5]]

    def prepare(self, lake: Lake) -> None:
        source = Lake(source_of(lake.store))
        self._make(source)
        Copy().run(lake.store, Path())
        world.write(source, 4)
        world.combine(source)
        world.delete(source)
        world.write(source, 5)


def source_of(store: Store) -> LocalStore:
    """The lake that is copied, beside its copies."""
    return LocalStore(Path(store.uri).parent / "source")


def _opened(dump: Dump) -> list[int] | None:
    """What a reader finds who opens what is there as a lake; None where there is no such table."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as root:
        for key, data in dump.items():
            path = Path(root, key)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        try:
            return world.opens(LocalStore(Path(root)))
        except NotFoundError:
            return None


COPIES = (Copy, CopyMore)
