"""What need not outlast a power cut may be gone or spoilt after one, and nothing else suffers."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.errors import NotFoundError
from singerlake.lake import Lake
from singerlake.log import lease
from singerlake.log.lease import ReaderLease
from singerlake.log.log import read_checkpoint, read_snapshot
from singerlake.log.writer import TableWriter, WriteOptions
from singerlake.storage.local.store import LocalStore
from tests.log.broken import HASH, TABLE, ids_in, staged_rows

IMPATIENT = WriteOptions(lock_wait_seconds=60, lock_stale_seconds=0.1)


class Died(BaseException):
    """The process is no more."""


class ForgetfulStore(LocalStore):
    """A local store that knows what a power cut may take from it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.may_go: set[str] = set()
        self.dies_at = ""

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> str:
        if self.dies_at and self.dies_at in key:
            raise Died
        etag = super().put_if_absent(key, data, durable=durable)
        self._note(key, durable)
        return etag

    def replace(self, key: str, data: bytes, etag: str | None, *, durable: bool = True) -> str:
        new = super().replace(key, data, etag, durable=durable)
        self._note(key, durable)
        return new

    def _note(self, key: str, durable: bool) -> None:
        (self.may_go.discard if durable else self.may_go.add)(key)

    def cut_power(self, how: str) -> LocalStore:
        """The lake as the machine finds it when it starts again."""
        for key in self.may_go:
            path = self.root / key
            if not path.exists():
                continue
            size = path.stat().st_size
            if how == "gone":
                path.unlink()
            else:
                path.write_bytes({"empty": b"", "zeros": bytes(size)}[how])
        return LocalStore(self.root)


def die_before_the_commit(store: ForgetfulStore, row: int) -> None:
    store.dies_at = "/transactions/"
    with pytest.raises(Died):
        TableWriter(store, TABLE).commit(staged_rows(store, row))
    store.dies_at = ""


@pytest.mark.parametrize("how", ["gone", "empty", "zeros"])
def test_a_table_in_use(tmp_path: Path, how: str) -> None:
    store = ForgetfulStore(tmp_path / "lake")
    for row in range(3):
        TableWriter(store, TABLE).commit(staged_rows(store, row))
    before = read_snapshot(store, TABLE)
    assert before is not None
    reader = ReaderLease(store, before).acquire()
    reader._heartbeat.stop()  # it dies as well
    die_before_the_commit(store, 3)
    assert {key.rsplit("/", 1)[-1] for key in store.may_go if store.exists(key)} == {
        "manifest.json",
        "singerlake.lock",
        f"{reader._lease.reader_id}.json",
    }
    after = store.cut_power(how)
    assert (read_checkpoint(after, TABLE) is None) and after.exists(TABLE.transaction(3))
    snapshot = read_snapshot(after, TABLE)
    assert snapshot is not None
    assert (snapshot.number, snapshot.blocks) == (3, before.blocks)
    TableWriter(after, TABLE, IMPATIENT).commit(staged_rows(after, 4))
    checkpoint = read_checkpoint(after, TABLE)
    assert checkpoint is not None
    assert checkpoint.number == 4
    assert sorted(ids_in(after)) == [0, 1, 2, 4]
    left = lease.leases(after, TABLE)
    keys = {one.key for one in left}
    assert lease.wait_out(after, TABLE, keys, wait_seconds=60, stale_seconds=0.1) == []


@pytest.mark.parametrize("how", ["empty", "zeros"])
def test_a_table_that_was_never_committed_is_not_seen(tmp_path: Path, how: str) -> None:
    """The lock's name came before the file's in their folder, and went to the disk with it."""
    store = ForgetfulStore(tmp_path / "lake")
    die_before_the_commit(store, 1)
    after = store.cut_power(how)
    assert next(after.list(TABLE.folder)).key.startswith(f"{TABLE.folder}{HASH}/")
    with pytest.raises(NotFoundError):
        Lake(after).table(TABLE).snapshot()
    TableWriter(after, TABLE, IMPATIENT).commit(staged_rows(after, 2))
    assert ids_in(after) == [2]
