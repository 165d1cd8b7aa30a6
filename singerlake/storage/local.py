"""A lake in a folder of the machine's own disk (or a mounted one with hard links).

Creation is a temporary file, fsync, ``link``, fsync of the folder: ``link`` fails where the
name is taken, so two writers can never both succeed, and no reader sees half a file.
Replacement is a rename under an advisory lock, so that compare and swap are one step.
What need not be durable goes the same way without the fsyncs: each takes as long as all the rest.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from singerlake.errors import InvalidNameError, OutcomeUnknownError, StoreError
from singerlake.format.names import STAGING
from singerlake.storage.base import (
    KeyExistsError,
    KeyMissingError,
    Leftover,
    Listed,
    Range,
    Staged,
    Store,
    StoredObject,
    check_size,
)
from singerlake.storage.local_copy import copy_range
from singerlake.storage.local_session import Session, left_by_the_dead

_REPLACE_LOCK = "replace.lock"
"""In the staging folder; held while an object is compared and replaced."""

_OF_PROCESS = ("_own", "_mutex")

_PLAIN_WORDS = {
    errno.ENOSPC: "the disk is full: free some space and run it again",
    errno.EDQUOT: "the disk quota is used up: free some space and run it again",
    errno.EROFS: "the lake is on a read-only file system",
    errno.EACCES: "permission denied: this user may not do that there",
    errno.EPERM: "the file system does not allow it (a lake needs hard links)",
    errno.ENOTDIR: "a file stands where a folder is needed",
    errno.EISDIR: "a folder stands where a file is needed",
    errno.ENAMETOOLONG: "the path is longer than this file system takes",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
}


@contextmanager
def _plain_words(action: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if action == "read" and error.errno == errno.ENOENT:
            raise KeyMissingError(f"{path} is not there") from error
        words = _PLAIN_WORDS.get(error.errno or 0, error.strerror or str(error))
        raise StoreError(f"cannot {action} {path}: {words}") from error


def _etag(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_entry(path: Path) -> None:
    """Make a name durable that was given just now."""
    try:
        _sync_folder(path.parent)
    except OSError as error:
        raise OutcomeUnknownError(f"{path} may not be durable: {error.strerror}") from error


def _write_all(handle: int, data: bytes) -> None:
    """Write to a descriptor; one call takes at most 2 GiB, and may take less."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents, each durable in its own parent."""
    missing: list[Path] = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        _sync_folder(path.parent)


def _raise_unless_gone(error: OSError) -> None:
    # os.walk leaves out what it may not read: files would seem to be gone.
    if not isinstance(error, FileNotFoundError):
        raise error


class LocalStaged(Staged):
    """A temporary file in the lake's staging folder, on the file system it will stay on."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._path = store.temporary()
        self._durable = -1

    def write(self, data: bytes) -> None:
        # Opened anew for each block: a run with thousands of streams holds no descriptors.
        with _plain_words("write", self._path), self._path.open("r+b", buffering=0) as file:
            # Not to the file's end: a write that failed half-way may be repeated.
            file.seek(self.size)
            _write_all(file.fileno(), data)
        self.size += len(data)

    def take(self, parts: Iterable[tuple[Path, int, int]]) -> list[int]:
        """Append parts of other files: path, first byte, length; how many bytes of each there were.

        Raises:
            KeyMissingError: A file is not there.
        """
        counts: list[int] = []
        with _plain_words("write", self._path), self._path.open("r+b", buffering=0) as own:
            for path, offset, length in parts:
                with _plain_words("read", path), path.open("rb", buffering=0) as file:
                    at = own.fileno(), self.size
                    counts.append(copy_range(file.fileno(), offset, *at, length))
                self.size += counts[-1]
        return counts

    def reader(self) -> BinaryIO:
        with _plain_words("read", self._path):
            return self._path.open("rb")

    def publish(self, key: str) -> None:
        if self._durable != self.size:  # not again for each name that is taken
            with _plain_words("write", self._path), self._path.open("rb", buffering=0) as file:
                os.fsync(file.fileno())
            self._durable = self.size
        self._store.link(self._path, key)

    def discard(self) -> None:
        self._store.remove(self._path)


class LocalStore(Store):
    """A folder.

    Args:
        root: The lake's folder; made at the first write.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.uri = str(root)
        self._own: Session | None = None
        self._mutex = threading.Lock()

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise InvalidNameError(f"{key!r} is not a key of a lake")
        return self.root.joinpath(*parts)

    def temporary(self) -> Path:
        """A fresh, empty file in the staging folder."""
        with _plain_words("write to the lake at", self.root):
            path, handle = self._begin()
            os.close(handle)
        return path

    def _begin(self) -> tuple[Path, int]:
        """A fresh file in the staging folder, and a descriptor to write it by."""
        try:
            path = self._session().begin()
        except FileNotFoundError:
            _make_folder(self.root / STAGING)
            path = self._session().begin()
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except BaseException:
            self.remove(path)
            raise

    def remove(self, temporary: Path) -> None:
        """Remove a temporary file. Never raises."""
        # A leftover in staging harms nobody; what was made of it must not look failed.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        self._session().end(temporary)

    def _session(self) -> Session:
        with self._mutex:
            if self._own is None or self._own.process != os.getpid():
                self._own = Session(self.root / STAGING)
            return self._own

    def __getstate__(self) -> dict[str, Any]:
        # An executor shows its own sign of life.
        return {key: value for key, value in self.__dict__.items() if key not in _OF_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _own=None, _mutex=threading.Lock())

    def link(self, source: Path, key: str, *, durable: bool = True) -> None:
        """Give a temporary file its name, unless the name is taken."""
        path = self._path(key)
        with _plain_words("create", path):
            try:
                try:
                    os.link(source, path)
                except FileNotFoundError:
                    # Folders are durable whatever for: something else may soon lie in them.
                    _make_folder(path.parent)
                    os.link(source, path)
            except FileExistsError as error:
                raise KeyExistsError(f"{path} is taken") from error
        if durable:
            _sync_entry(path)

    def _write_temporary(self, data: bytes, *, durable: bool) -> Path:
        with _plain_words("write to the lake at", self.root):
            path, handle = self._begin()
        try:
            with _plain_words("write", path):
                try:
                    _write_all(handle, data)
                    if durable:
                        os.fsync(handle)
                finally:
                    os.close(handle)
        except BaseException:
            self.remove(path)
            raise
        return path

    def get(self, key: str) -> StoredObject:
        path = self._path(key)
        with _plain_words("read", path), path.open("rb", buffering=0) as file:
            check_size(os.fstat(file.fileno()).st_size, path)
            data = file.readall()
        return StoredObject(data, _etag(data))

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        path = self._path(key)
        with _plain_words("read", path), path.open("rb", buffering=0) as file:
            # As much memory is taken as is asked for, whatever the file has.
            length = min(length, os.fstat(file.fileno()).st_size - offset)
            # One call gives at most 2 GiB, and may give less.
            pieces: list[bytes] = []
            while length > 0 and (piece := os.pread(file.fileno(), length, offset)):
                pieces.append(piece)
                offset, length = offset + len(piece), length - len(piece)
            return b"".join(pieces)

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> str:
        temporary = self._write_temporary(data, durable=durable)
        try:
            self.link(temporary, key, durable=durable)
        finally:
            self.remove(temporary)
        return _etag(data)

    def replace(self, key: str, data: bytes, etag: str | None, *, durable: bool = True) -> str:
        path = self._path(key)
        temporary = self._write_temporary(data, durable=durable)
        try:
            with _plain_words("replace", path), self._exclusive():
                _make_folder(path.parent)
                if etag is not None:
                    present = path.read_bytes() if path.is_file() else None
                    if present is None or _etag(present) != etag:
                        raise KeyExistsError(f"{path} was changed by another")
                temporary.replace(path)
                if durable:
                    _sync_entry(path)
        finally:
            self.remove(temporary)
        return _etag(data)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with (self.root / STAGING / _REPLACE_LOCK).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def delete(self, key: str) -> None:
        path = self._path(key)
        with _plain_words("delete", path):
            path.unlink(missing_ok=True)

    def list(self, prefix: str) -> Iterator[Listed]:
        found: list[Listed] = []
        base = self._path(prefix.rstrip("/"))
        with _plain_words("list", base):
            for folder, _, names in os.walk(base, onerror=_raise_unless_gone):
                for name in names:
                    path = Path(folder, name)
                    try:
                        stat = path.stat()
                    except FileNotFoundError:
                        continue  # deleted while we looked
                    key = path.relative_to(self.root).as_posix()
                    found.append(Listed(key, stat.st_size, stat.st_mtime))
        return iter(sorted(found))

    def folders(self, prefix: str) -> Sequence[str]:
        base = self._path(prefix.rstrip("/"))
        with _plain_words("list", base):
            try:
                entries = [*os.scandir(base)]
            except FileNotFoundError:
                return []
            return sorted(entry.name for entry in entries if entry.is_dir())

    def stage(self) -> Staged:
        return LocalStaged(self)

    def copy(self, ranges: Sequence[Range], staged: Staged) -> Sequence[int]:
        if not isinstance(staged, LocalStaged):
            return super().copy(ranges, staged)
        return staged.take((self._path(key), offset, length) for key, offset, length in ranges)

    def leftovers(self) -> Iterator[Leftover]:
        with _plain_words("list", self.root / STAGING):
            yield from left_by_the_dead(self.root / STAGING, _REPLACE_LOCK)

    def remove_leftover(self, leftover: Leftover) -> None:
        self.delete(leftover.name)
