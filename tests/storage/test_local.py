"""The contract on a local folder, and what only a disk can do wrong."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import DamagedError, OutcomeUnknownError, StoreError
from singerlake.storage.base import KeyExistsError, KeyMissingError, Range, Staged, Store
from singerlake.storage.local import files
from singerlake.storage.local.store import LocalStore
from singerlake.storage.opening import open_store
from tests.storage.contract import StoreContract


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "a lake, not yet there"


@pytest.fixture
def store(root: Path) -> Store:
    return open_store(str(root))


def failing(code: int) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise OSError(code, os.strerror(code))

    return fail


def failing_to_create(code: int) -> Callable[..., int]:
    """``os.open``, but no staged file can be made; the liveness marker beside it can."""
    real = os.open

    def opened(path: Path, flags: int, *more: int, dir_fd: int | None = None) -> int:
        if flags & os.O_EXCL:
            raise OSError(code, os.strerror(code))
        return real(path, flags, *more, dir_fd=dir_fd)

    return opened


def leftovers(root: Path) -> list[str]:
    found = (path for path in (root / ".staging").glob("*") if path.name != "replace.lock")
    return sorted(path.name for path in found)


class TestLocal(StoreContract):
    pass


def test_nothing_is_left_in_staging(store: Store, root: Path) -> None:
    etag = store.put_if_absent("raw/one", b"1")
    store.replace("raw/one", b"2", etag)
    with pytest.raises(KeyExistsError):
        store.put_if_absent("raw/one", b"")
    with pytest.raises(KeyExistsError):
        store.replace("raw/one", b"", etag)
    published, refused = store.stage(), store.stage()
    published.write(b"x")
    assert len(leftovers(root)) == 3  # and the liveness marker beside them
    published.publish("raw/file")
    published.discard()
    with pytest.raises(KeyExistsError):
        refused.publish("raw/one")
    refused.discard()
    store.stage().discard()
    assert leftovers(root) == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "the disk is full: free some space"),
        (errno.EDQUOT, "quota"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_disk_that_takes_no_more(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    etag = store.put_if_absent("raw/one", b"1")
    staged = store.stage()
    staged.write(b"x")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(code))
        for write in (
            lambda: store.put_if_absent("raw/two", b"2"),
            lambda: store.replace("raw/one", b"2", etag),
            lambda: staged.publish("raw/two"),
        ):
            with pytest.raises(StoreError, match=words) as caught:
                write()
            assert not isinstance(caught.value, OutcomeUnknownError)
    staged.discard()
    assert store.get("raw/one").data == b"1"
    assert not store.exists("raw/two")
    assert leftovers(root) == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EROFS, "read-only file system"),
        (errno.EACCES, "permission denied"),
        (errno.EPERM, "hard links"),
    ],
)
def test_a_folder_that_may_not_be_written(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    store.put_if_absent("raw/one", b"1")
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", failing(code))
        with pytest.raises(StoreError, match=words):
            store.put_if_absent("raw/two", b"2")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing_to_create(code))
        with pytest.raises(StoreError, match=words):
            store.stage()
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing(code))
        with pytest.raises(StoreError, match=words):
            store.delete("raw/one")
    assert store.get("raw/one").data == b"1"
    assert not store.exists("raw/two")
    assert leftovers(root) == []


def test_a_file_in_the_place_of_the_lake(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = LocalStore(tmp_path / "file")
    with pytest.raises(StoreError, match="file"):
        store.put_if_absent("raw/one", b"")


def test_a_folder_that_may_not_be_read_is_not_taken_for_empty(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_if_absent("raw/a/one", b"1")
    monkeypatch.setattr(os, "scandir", failing(errno.EACCES))
    with pytest.raises(StoreError, match="permission denied"):
        list(store.list("raw/"))
    with pytest.raises(StoreError, match="permission denied"):
        store.folders("raw/")


def test_a_name_whose_folder_cannot_be_synced_may_be_there(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    etag = store.put_if_absent("raw/one", b"1")
    monkeypatch.setattr("singerlake.storage.local.files.sync", failing(errno.EIO))
    with pytest.raises(OutcomeUnknownError, match="raw/two"):
        store.put_if_absent("raw/two", b"2")
    with pytest.raises(OutcomeUnknownError, match="raw/one"):
        store.replace("raw/one", b"2", etag)
    assert store.get("raw/one").data == b"2"


def test_only_what_must_be_durable_waits_for_the_disk(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        name = str(Path(f"/proc/self/fd/{handle}").readlink())
        synced.append(name.removeprefix(str(root)))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    etag = store.put_if_absent("raw/a/lock", b"1", durable=False)
    # Its folders are: another writer may rely on them as soon as it sees them.
    assert [name for name in synced if not name.startswith("/.staging")][-2:] == ["", "/raw"]
    synced.clear()
    etag = store.replace("raw/a/lock", b"2", etag, durable=False)
    store.replace("raw/a/lock", b"3", None, durable=False)
    store.put_if_absent("raw/a/lock-2", b"1", durable=False)
    assert synced == []
    store.put_if_absent("raw/a/one", b"1")
    assert synced.pop(1) == str(root.parent)  # once a process, though the lake's folder was there
    store.replace("raw/a/one", b"2", None)
    staged = store.stage()
    staged.write(b"x")
    assert [Path(name).parent.name or name for name in synced] == [".staging", "raw"] * 2
    staged.publish("raw/a/file")
    staged.discard()
    assert synced[-1] == "/raw/a"
    assert len(synced) == 6


def test_a_folder_that_another_made_is_durable_before_anything_in_it_is_acknowledged(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "raw/a").mkdir(parents=True)  # by one who was killed before its fsync
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    store.put_if_absent("raw/a/lock", b"1", durable=False)
    assert str(root / "raw") not in synced
    synced.clear()
    staged = store.stage()
    staged.publish("raw/a/one")
    folders = [name for name in synced if ".staging" not in name]
    assert folders == [str(path) for path in (root.parent, root, root / "raw", root / "raw/a")]
    synced.clear()
    store.put_if_absent("raw/a/two", b"2")
    assert [name for name in synced if ".staging" not in name] == [str(root / "raw/a")]
    copy = pickle.loads(pickle.dumps(store))  # elsewhere nothing is known of this one's disk
    synced.clear()
    copy.put_if_absent("raw/a/three", b"3")
    assert str(root / "raw") in synced


def test_who_is_second_to_make_a_folder_makes_it_durable_too(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".staging").mkdir(parents=True)
    synced: list[str] = []
    real_mkdir, real_fsync = os.mkdir, os.fsync

    def mkdir(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        real_mkdir(path, mode, dir_fd=dir_fd)  # another was first, and is killed right after
        real_mkdir(path, mode, dir_fd=dir_fd)

    def fsync(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        real_fsync(handle)

    monkeypatch.setattr(os, "mkdir", mkdir)
    monkeypatch.setattr(os, "fsync", fsync)
    store.put_if_absent("raw/a/lock", b"1", durable=False)
    assert synced == [str(root), str(root / "raw")]


def test_a_folder_that_could_not_be_made_durable_is_not_tried_into_a_success(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "raw/a").mkdir(parents=True)
    real = os.fsync
    failed: list[str] = []

    def fsync(handle: int) -> None:
        name = str(Path(f"/proc/self/fd/{handle}").readlink())
        if name == str(root / "raw") and not failed:
            failed.append(name)
            raise OSError(errno.EIO, os.strerror(errno.EIO))  # the system tells of it once
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    for _ in range(2):
        with pytest.raises(StoreError, match="raw/a/one"):
            store.put_if_absent("raw/a/one", b"1")
        assert not (root / "raw/a/one").exists()
    assert failed


def test_the_folder_that_a_new_lake_lies_in_is_durable_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()  # by another process, which was to make the rest
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    open_store(str(tmp_path / "one/lake")).put_if_absent("x", b"", durable=False)
    assert synced == [str(path) for path in (tmp_path, tmp_path / "one", tmp_path / "one/lake")]


def test_a_lake_in_a_folder_that_may_not_be_read(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.mkdir(parents=True)
    above = root.parent.stat().st_ino
    real = os.open

    def open_(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "." and dir_fd is not None and os.fstat(dir_fd).st_ino == above:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", open_)
    store.put_if_absent("raw/one", b"1")
    assert store.get("raw/one").data == b"1"


def test_a_leftover_does_not_make_a_success_look_failed(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing(errno.EIO))
        store.put_if_absent("raw/one", b"1")
        store.stage().discard()
    assert store.get("raw/one").data == b"1"
    assert len(leftovers(root)) == 3  # and the liveness marker beside them


def test_a_staged_file_that_was_taken_away_is_no_missing_key(store: Store, root: Path) -> None:
    staged = store.stage()
    staged.write(b"x")
    for name in leftovers(root):
        (root / ".staging" / name).unlink()
    with pytest.raises(StoreError, match="No such file"):
        staged.publish("raw/one")
    with pytest.raises(StoreError, match="No such file"):
        staged.write(b"y")


def fails_half_way(staged: Staged, data: bytes, patch: pytest.MonkeyPatch) -> None:
    """Write, on a disk that takes two bytes and is full then."""

    def full(handle: int, data: bytes) -> None:
        os.write(handle, data[:2])
        raise OSError(errno.ENOSPC, "full")

    with patch.context() as within:
        within.setattr(files, "write_all", full)
        with pytest.raises(StoreError, match=r"cannot write .*\.staging/.*: the disk is full"):
            staged.write(data)


def test_a_write_that_failed_half_way_may_be_repeated(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = store.stage()
    staged.write(b"one ")
    fails_half_way(staged, b"two", monkeypatch)
    staged.write(b"two")
    staged.publish("raw/one")
    assert store.get("raw/one").data == b"one two"


@pytest.mark.parametrize("together", [False, True])
def test_of_a_write_that_failed_half_way_nothing_is_published(
    store: Store, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    staged = store.stage()
    staged.write(b"one ")
    fails_half_way(staged, b"two", monkeypatch)
    if together:
        at_once = store.together()
        assert at_once is not None
        at_once.publish(staged, "raw/one")
        at_once.settle()
        at_once.close()
    else:
        staged.publish("raw/one")
    assert store.get("raw/one").data == b"one "


def test_a_full_disk_is_no_fault_of_the_file_that_is_copied(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_if_absent("raw/one", b"0123456789")
    monkeypatch.setattr(os, "copy_file_range", failing(errno.ENOSPC), raising=False)
    with pytest.raises(StoreError, match=r"cannot write .*\.staging/.*: the disk is full"):
        store.stage().take([("raw/one", 0, 10)])


def test_a_read_that_comes_in_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_if_absent("raw/one", b"0123456789")
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, at: whole(fd, min(length, 3), at))
    assert store.get_range("raw/one", 1, 8) == b"12345678"
    assert store.get_range("raw/one", 5, 100) == b"56789"


def short(source: int, target: int, count: int, offset: int, at: int) -> int:
    data = os.pread(source, min(count, 3), offset)
    return os.pwrite(target, data, at)


@pytest.mark.parametrize(
    "kernel", [None, failing(errno.EXDEV), lambda *_: 0, short], ids=["none", "error", "0", "short"]
)
def test_what_the_kernel_does_not_copy_is_copied_by_hand(
    store: Store, monkeypatch: pytest.MonkeyPatch, kernel: Any
) -> None:
    if kernel is None:
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    else:
        monkeypatch.setattr(os, "copy_file_range", kernel, raising=False)
    monkeypatch.setattr("singerlake.storage.local.copying._PIECE", 4)
    store.put_if_absent("raw/one", b"0123456789")
    staged = store.stage()
    assert store.copy([Range("raw/one", 1, 8), Range("raw/one", 5, 100)], staged) == [8, 5]
    staged.publish("raw/two")
    assert store.get("raw/two").data == b"1234567856789"


def test_a_disk_that_fills_up_while_it_copies(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_if_absent("raw/one", b"0123456789")
    staged = store.stage()
    with monkeypatch.context() as patch:
        patch.setattr(os, "copy_file_range", failing(errno.ENOSPC), raising=False)
        with pytest.raises(StoreError, match="the disk is full"):
            store.copy([Range("raw/one", 0, 10)], staged)
    assert staged.size == 0
    store.copy([Range("raw/one", 2, 3)], staged)
    staged.publish("raw/two")
    assert store.get("raw/two").data == b"234"


def test_a_file_is_made_durable_once_however_many_names_are_taken(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_if_absent("raw/one", b"")
    staged = store.stage()
    staged.write(b"x")
    synced: list[int] = []
    work = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_ino), work(fd)))
    for _ in range(3):
        with pytest.raises(KeyExistsError):
            staged.publish("raw/one")
    staged.write(b"y")
    staged.publish("raw/two")
    assert synced.count((Path(store.uri) / "raw/two").stat().st_ino) == 2


def test_no_key_leaves_the_lake(store: Store, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"secret")
    with pytest.raises(Exception, match=r"not a key"):
        store.get("../outside")
    with pytest.raises(Exception, match=r"not a key"):
        list(store.list("../"))


def test_a_large_object_is_replaced_only_where_it_did_not_change(tmp_path: Path) -> None:
    """Its etag is made in another way than that of a small one, and of all its bytes."""
    store = LocalStore(tmp_path)
    large = bytes(5 << 20)
    first = store.put_if_absent("raw/one", large)
    assert store.get("raw/one").etag == first
    second = store.replace("raw/one", b"\1" + large[1:], first)
    third = store.replace("raw/one", large[:-1] + b"\1", second)
    assert len({first, second, third}) == 3
    for stale in (first, second):
        with pytest.raises(KeyExistsError, match="changed"):
            store.replace("raw/one", large, stale)
    assert store.get("raw/one").etag == third


def test_parts_of_many_files_are_put_together(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake")
    for key in ("raw/a/one", "raw/b/two", "raw/a/three"):
        store.put_if_absent(key, key.encode())
    staged = store.stage()
    staged.write(b"|")
    ranges = [
        *(Range("raw/a/one", 0, 100), Range("raw/b/two", 6, 3), Range("raw/a/three", 4, 4)),
        *(Range("raw/a/three", 50, 4), Range("raw/a/one", 4, 2)),
    ]
    assert store.copy(ranges, staged) == [9, 3, 4, 0, 2]
    staged.write(b"|")
    staged.publish("raw/all")
    assert store.get("raw/all").data == b"|raw/a/onetwoa/tha/|"
    open_files = Path("/proc/self/fd")
    before = len(list(open_files.iterdir())) if open_files.exists() else 0
    for missing in ("raw/a/four", "raw/c/one"):
        again = store.stage()
        with pytest.raises(KeyMissingError, match=missing):
            store.copy([ranges[0], Range(missing, 0, 1)], again)
        again.discard()
    assert not before or len(list(open_files.iterdir())) == before


@pytest.mark.parametrize("where", ["file", "folder", "pipe"])
def test_no_link_is_followed_where_a_folder_stays_open(tmp_path: Path, where: str) -> None:
    store = LocalStore(tmp_path / "lake")
    for key in ("raw/a/one", "raw/a/two", "raw/b/two"):
        store.put_if_absent(key, b"ours")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "two").write_bytes(b"secret")
    odd = "raw/b/two" if where == "folder" else "raw/a/two"
    place = store.root / odd
    place.unlink()
    if where == "file":
        place.symlink_to(outside / "two")
    elif where == "pipe":
        os.mkfifo(place)
    else:
        place.parent.rmdir()
        place.parent.symlink_to(outside)
    staged = store.stage()
    with pytest.raises(DamagedError, match="a pipe" if where == "pipe" else "symbolic link"):
        store.copy([Range("raw/a/one", 0, 4), Range(odd, 0, 4)], staged)
    with staged.reader() as written:
        assert written.read() in (b"", b"ours")
    staged.discard()
