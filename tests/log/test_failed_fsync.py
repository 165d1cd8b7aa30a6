"""After a failed fsync nothing is durable, whatever can be read back: no STATE, nothing deleted."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake.errors import NotDurableError, OutcomeUnknownError, StoreError
from singerlake.lake import Lake
from singerlake.log.writer import TableWriter
from singerlake.storage.local.store import LocalStore
from tests.log.broken import TABLE, ids_in, staged_rows
from tests.target.harness import data_files, record, records_of, run, schema, state

FIRST = [schema("a"), record("a", {"id": 1}), state(1)]
SECOND = [schema("a"), record("a", {"id": 2}), state(2)]


def path_of(handle: int) -> str:
    return str(Path(f"/proc/self/fd/{handle}").readlink())


def fail(
    monkeypatch: pytest.MonkeyPatch, fails: Callable[[os.stat_result, str], bool]
) -> list[str]:
    """Let some fsyncs fail, each once: the system tells of an error once."""
    failed: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        path = path_of(handle)
        if path not in failed and fails(os.fstat(handle), path):
            failed.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return failed


def of_folder(part: str) -> Callable[[os.stat_result, str], bool]:
    return lambda about, path: stat.S_ISDIR(about.st_mode) and path.endswith(part)


def test_a_log_entry_whose_name_is_not_durable_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    assert run(lake, FIRST) == [1]
    with monkeypatch.context() as patch:
        failed = fail(patch, of_folder("/transactions"))
        with pytest.raises(NotDurableError, match="may be gone after a power cut"):
            run(lake, SECOND)
    assert run.states == []  # type: ignore[attr-defined]
    assert len(failed) == 1
    # It may be there after a power cut as well, so what it names must be.
    assert len(data_files(lake)) == 2
    assert Lake.open(str(lake)).find("tap-test.a")[0].snapshot().number == 2
    assert run(lake, SECOND, lock_stale_seconds=1) == [2], "the next run brings the rest"
    assert records_of(lake, "a") == [{"id": 1}, {"id": 2}, {"id": 2}]


def test_a_data_file_whose_name_is_not_durable_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    assert run(lake, FIRST) == [1]
    folder = data_files(lake)[0].parent.name
    with monkeypatch.context() as patch:
        fail(patch, of_folder(f"/{folder}"))
        with pytest.raises(OutcomeUnknownError):
            run(lake, SECOND)
    assert run.states == []  # type: ignore[attr-defined]
    assert Lake.open(str(lake)).find("tap-test.a")[0].snapshot().number == 1
    assert run(lake, SECOND, lock_stale_seconds=1) == [2]


@pytest.mark.parametrize("part", ["raw", "tap-test", "a", "transactions"])
def test_a_new_folder_whose_name_is_not_durable_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Left there, who comes next would take it for durable."""
    lake = tmp_path / "lake"
    synced: list[str] = []
    with monkeypatch.context() as patch:
        parent = {"raw": "/lake", "tap-test": "/raw", "a": "/tap-test", "transactions": "/a"}[part]
        assert len(fail(patch, of_folder(parent))) == 0
        with pytest.raises(StoreError):
            run(lake, FIRST)
    assert run.states == []  # type: ignore[attr-defined]
    assert not list(lake.rglob("0*.json"))
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(path_of(fd)), real(fd)))
    assert run(lake, FIRST, lock_stale_seconds=1) == [1]
    assert any(path.endswith(parent) for path in synced)


def test_bytes_that_did_not_reach_the_disk_are_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system forgets what it could not write: the second fsync succeeds for nothing."""
    store = LocalStore(tmp_path / "lake")
    staged = store.stage()
    staged.write(b"x")
    with monkeypatch.context() as patch:
        failed = fail(patch, lambda about, path: "/.staging/" in path)
        for _ in range(2):
            with pytest.raises(StoreError, match="cannot write") as caught:
                staged.publish("raw/one")
            assert not isinstance(caught.value, OutcomeUnknownError)
        assert len(failed) == 1
        with pytest.raises(StoreError):
            store.put_if_absent("raw/one", b"1")
        assert len(failed) == 2
    staged.discard()
    assert not store.exists("raw/one")


def test_a_commit_whose_file_did_not_reach_the_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "lake")
    TableWriter(store, TABLE).commit(staged_rows(store, 1))
    with monkeypatch.context() as patch:
        fail(patch, lambda about, path: "/.staging/" in path)
        with pytest.raises(StoreError) as caught:
            TableWriter(store, TABLE).commit(staged_rows(store, 2))
    assert not isinstance(caught.value, OutcomeUnknownError)
    assert len(list((store.root / TABLE.folder).rglob("*.singer.gz"))) == 1
    TableWriter(store, TABLE).commit(staged_rows(store, 3))
    assert ids_in(store) == [1, 3]
