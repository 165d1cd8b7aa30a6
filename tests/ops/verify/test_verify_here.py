"""A small table is verified in this process: which is small, what is asked for, when by lease."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from singerlake import extras
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import NotFoundError, RuntimeMissingError
from singerlake.lake import Lake, Table
from singerlake.log import lease
from singerlake.ops.verify import whole_table
from singerlake.ops.verify.verify import Remembered, verify
from singerlake.storage.base import KeyMissingError
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.frozen import freeze_here as freeze_small

PROPERTIES = {"id": {"type": "integer"}}


class Counting(LocalStore):
    """A folder that counts what is read of it, and of which a vacuum may have just deleted."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: list[str] = []
        self.gone = 0

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        self.read.append(key)
        if self.gone and key.endswith(".gz"):
            self.gone -= 1
            raise KeyMissingError(key)
        return super().get_range(key, offset, length)


@pytest.fixture
def table(lake: Lake) -> Table:
    commit_rows(lake, "tap.t", PROPERTIES, ["id"], [{"id": n} for n in range(6)], block_rows=2)
    freeze_small(lake.table("tap.t"))
    return Table(Counting(Path(lake.store.uri)), lake.table("tap.t").name)


@pytest.fixture
def leases(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose leases were taken."""
    taken: list[str] = []
    acquire = lease.ReaderLease.acquire

    def noted(self: lease.ReaderLease) -> lease.ReaderLease:
        taken.append("taken")
        return acquire(self)

    monkeypatch.setattr(lease.ReaderLease, "acquire", noted)
    return taken


def test_each_file_is_read_once_and_no_lease_is_taken(table: Table, leases: list[str]) -> None:
    report = verify(table)
    assert (report.blocks, report.files, report.versions, report.problems) == (3, 1, 1, [])
    assert isinstance(table.store, Counting)
    data = [key for key in table.store.read if key.endswith(".gz")]
    assert len(data) == 1
    assert leases == []


def test_what_a_vacuum_deletes_meanwhile_is_no_damage(table: Table, leases: list[str]) -> None:
    assert isinstance(table.store, Counting)
    table.store.gone = 1
    report = verify(table)
    assert report.problems == []
    assert leases == ["taken"]
    table.store.gone = 1_000
    report = verify(table)
    assert {problem.what for problem in report.problems} >= {"block", "version"}
    assert leases == ["taken"] * 2


def test_a_version_that_is_not_there(table: Table) -> None:
    with pytest.raises(NotFoundError, match="no version '7'"):
        verify(table, "7")
    report = verify(table, "1")
    assert report.versions == 1


def test_what_is_too_large_is_left_to_spark(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    head = table.snapshot()
    blocks = sum(block.bytes for block in head.blocks)
    # The version's state is read once more.
    enough = Work(2 * blocks + head.number * whole_table.ENTRY_BYTES, 6)
    assert not verify(table, None, EngineChoice(limit=enough)).problems
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    for limit in (replace(enough, bytes=enough.bytes - 1), replace(enough, cells=5)):
        with pytest.raises(RuntimeMissingError, match="verifying a table"):
            verify(table, None, EngineChoice(limit=limit))
        assert not verify(table, None, EngineChoice(LOCAL, limit=limit)).problems


def test_a_look_writes_nothing(table: Table) -> None:
    seen = Remembered(table.store)
    for write in (
        lambda: seen.put_if_absent("a", b""),
        lambda: seen.replace("a", b"", None),
        lambda: seen.delete("a"),
        seen.stage,
    ):
        with pytest.raises(AssertionError, match="read-only store"):
            write()


def test_parts_of_a_file_are_those_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(100)))
    seen = Remembered(LocalStore(tmp_path))
    for offset, length in ((10, 20), (0, 5), (95, 50), (99, 1), (100, 1), (0, 100), (40, 10)):
        assert seen.get_range("a", offset, length) == bytes(range(100))[offset : offset + length]
    with pytest.raises(KeyMissingError):
        seen.get_range("b", 0, 1)
