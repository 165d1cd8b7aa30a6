"""Files that become durable together: by one wait for the disk, or by one fsync each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from singerlake.errors import NotDurableError
from singerlake.storage.base import KeyExistsError, Store
from singerlake.storage.local import together
from singerlake.storage.local.store import LocalStore
from tests.storage.conftest import no_aws_settings, options, s3_port

__all__ = ["no_aws_settings", "s3_port"]


def publish(store: Store, number: int) -> list[str]:
    """Publish files, and settle them."""
    keys = [f"raw/a/{n % 3}/{n}" for n in range(number)]
    batch = store.together()
    try:
        for key in keys:
            staged = store.stage()
            staged.write(key.encode())
            batch.publish(staged, key)
            staged.discard()
        batch.settle()
    finally:
        batch.close()
    return keys


class Disk:
    """Notes what is made durable, and may fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: set[str] = set()
        self.folders: set[str] = set()
        self.whole = 0
        self.fails = False
        sync = os.fsync

        def fsync(handle: int) -> None:
            if self.fails:
                raise OSError(5, "Input/output error")
            place = Path(f"/proc/self/fd/{handle}").resolve()
            (self.folders if place.is_dir() else self.files).add(place.name)
            sync(handle)

        def whole(_: int) -> None:
            if self.fails:
                raise OSError(5, "Input/output error")
            self.whole += 1

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(together, "syncfs", lambda: whole)


def check_there(store: Store, keys: list[str]) -> None:
    for key in keys:
        assert store.get(key).data == key.encode()


def test_few_get_an_fsync_each_and_their_folders_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, store = Disk(monkeypatch), LocalStore(tmp_path / "lake")
    keys = publish(store, 5)
    check_there(store, keys)
    assert disk.whole == 0
    assert disk.files >= {key.rpartition("/")[2] for key in keys}
    assert disk.folders >= {"lake", "raw", "a", "0", "1", "2"}


def test_many_wait_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, store = Disk(monkeypatch), LocalStore(tmp_path / "lake")
    keys = publish(store, together.WORTHWHILE)
    check_there(store, keys)
    assert disk.whole == 1
    assert not disk.files
    assert not disk.folders & {"raw", "a", "0", "1", "2"}


def test_without_such_a_call_each_gets_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, store = Disk(monkeypatch), LocalStore(tmp_path / "lake")
    monkeypatch.setattr(together, "syncfs", lambda: None)
    keys = publish(store, together.WORTHWHILE)
    assert disk.files >= {key.rpartition("/")[2] for key in keys}


@pytest.mark.parametrize("number", [3, together.WORTHWHILE])
def test_a_disk_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store = LocalStore(tmp_path / "lake")
    store.put_if_absent("x", b"")  # so that there is a folder for what is staged
    disk = Disk(monkeypatch)
    disk.fails = True
    with pytest.raises(NotDurableError, match="check the disk first"):
        publish(store, number)


def test_a_name_that_is_taken_is_refused_and_what_is_there_is_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, store = Disk(monkeypatch), LocalStore(tmp_path / "lake")
    batch = store.together()
    for refused in (False, True):
        staged = store.stage()
        staged.write(b"x")
        if refused:  # an earlier run's, which died before it settled
            with pytest.raises(KeyExistsError):
                batch.publish(staged, "a/b")
        else:
            staged.publish("a/b")
        staged.discard()
    disk.files.clear()
    batch.settle()
    batch.close()
    assert "b" in disk.files


@pytest.mark.parametrize(
    ("release", "platform", "there"),
    [
        ("6.18.44-x", "linux", True),
        ("5.8.0", "linux", True),
        ("5.7.19", "linux", False),  # says nothing of errors
        ("4.19.0", "linux", False),
        ("23.1.0", "darwin", False),
        ("odd", "linux", False),
    ],
)
def test_where_there_is_such_a_call(
    monkeypatch: pytest.MonkeyPatch, release: str, platform: str, there: bool
) -> None:
    monkeypatch.setattr(together.platform, "release", lambda: release)
    monkeypatch.setattr(together.sys, "platform", platform)
    assert (together.syncfs() is not None) == there


def test_the_call_itself(tmp_path: Path) -> None:
    call = together.syncfs()
    if call is None:
        pytest.skip("this system has none")
    handle = os.open(tmp_path, os.O_RDONLY)
    call(handle)
    os.close(handle)
    with pytest.raises(OSError, match="Bad file descriptor"):
        call(handle)


def test_in_a_bucket_each_is_durable_at_once(s3_port: int) -> None:
    from singerlake.storage.s3.store import S3Store
    from tests.storage.conftest import BUCKET

    store = S3Store.open(f"s3://{BUCKET}/together", options(f"http://127.0.0.1:{s3_port}"))
    store._client.create_bucket(Bucket=BUCKET)
    check_there(store, publish(store, 4))
