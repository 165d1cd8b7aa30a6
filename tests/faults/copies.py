"""Copies of a lake put to the test: the faults are those of the destination's store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from singerlake.errors import NotFoundError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log import not_copied
from singerlake.log.writer import WriteOptions
from singerlake.ops import freeze as freezing
from singerlake.ops import freeze_lake_plan as freeze_lake
from singerlake.ops.verify.lake import check_lake_log
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from tests.faults import plain
from tests.faults.operations import STALE_SECONDS, Operation
from tests.faults.plain import Dump
from tests.ops.copy import world


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


class CopyLakeVersion(Copy):
    """A lake version, onto a copy of an earlier one.

    One of its tables goes on, one is new, which an earlier lake version named as well; and of one
    between, whose entry goes along, the table stays behind.
    """

    name = "copy, lake version"
    states: ClassVar[list[list[int] | None]] = [[1, 2], [1, 2, 3]]
    a, b, c = (TableName("tap-test", stream) for stream in ("t", "u", "v"))

    def prepare(self, lake: Lake) -> None:
        source = Lake(source_of(lake.store))
        self._write(source, 1, self.a, self.b)
        self._write(source, 2, self.a)
        world.copy_lake_version(source.store, lake.store, "2", world.ONE_BY_ONE)
        self._write(source, 1, self.c)
        self._write(source, 3, self.a, self.b)

    def _write(self, source: Lake, number: int, *tables: TableName) -> None:
        """A row in the first of some tables, and a lake version of them all."""
        for table in tables:
            if table == tables[0] or number == 1:
                head = world.write(source, number, table=str(table))
                wanted, proof = freezing.plan(head), f"lt1:{head.number:064x}"
                freezing.commit_version(
                    source.store, head, wanted, rows=1, fingerprint=proof, record_fingerprint=proof
                )
        freeze_lake.commit_lake_version(
            source.store, freeze_lake.plan(source.store, lambda: {*tables}), {}
        )

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        stale = STALE_SECONDS if again else 600
        writing = WriteOptions(lock_wait_seconds=20, lock_stale_seconds=stale)
        options = replace(world.ONE_BY_ONE, writing=writing)
        world.copy_lake_version(source_of(store), store, "4", options)

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        super().check(dump, acknowledged, done=done)
        with _written(dump) as store:
            report = check_lake_log(store)
            absent = not_copied.read(store)
            for version in report.versions:
                if version.number == 4 or not absent.get(not_copied.entry_of(version)):
                    for table in version.tables:
                        Lake(store).table(table.name).snapshot_at(str(table.version))
        assert report.problems == []
        numbers = [version.number for version in report.versions]
        assert numbers == [1, 2, 3, 4] if done else numbers in ([1, 2], [1, 2, 3], [1, 2, 3, 4])
        if done:
            plain.lake_versions(dump)
            assert [*plain.not_copied(dump).values()] == [{str(self.c)}]


def source_of(store: Store) -> LocalStore:
    """The lake that is copied, beside its copies."""
    return LocalStore(Path(store.uri).parent / "source")


def _opened(dump: Dump) -> list[int] | None:
    """What a reader finds who opens what is there as a lake; None where there is no such table."""
    with _written(dump) as store:
        try:
            return world.opens(store)
        except NotFoundError:
            return None


@contextmanager
def _written(dump: Dump) -> Iterator[LocalStore]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as root:
        for key, data in dump.items():
            path = Path(root, key)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        yield LocalStore(Path(root))


COPIES = (Copy, CopyMore)
