"""A lake in a folder of the machine's own disk (or a mounted one with hard links).

Creation is a temporary file, fsync, ``link``, fsync of the folder: ``link`` fails where the
name is taken, so two writers can never both succeed, and no reader sees half a file.
Replacement is a rename under an advisory lock, so that compare and swap are one step.
How files are reached, and why no link is followed, is in ``files.py``. What need not be
durable goes the same way without the fsyncs: each takes as long as all the rest.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from singerlake.errors import DamagedError, NotDurableError
from singerlake.format.names import STAGING
from singerlake.storage.base import (
    KeyExistsError,
    KeyMissingError,
    Listed,
    Range,
    Staged,
    Store,
    StoredCopy,
    StoredObject,
    check_size,
)
from singerlake.storage.local import etags, files
from singerlake.storage.local.copying import copy_ranges
from singerlake.storage.local.liveness import Session, abandoned_files
from singerlake.storage.local.os_errors import map_os_errors
from singerlake.storage.local.together import LocalTogether
from singerlake.storage.together import Together
from singerlake.storage.unfinished import Leftover

STAGING_FOLDER = STAGING.rstrip("/")
_REPLACE_LOCK = "replace.lock"
"""In the staging folder; held while an object is compared and replaced."""
_OF_PROCESS = ("_own", "_mutex", "_names")


def _file(root: Path, parts: Sequence[str], flags: int) -> io.FileIO:
    handle = files.open_file(root, parts, flags)
    return io.FileIO(handle, "r" if flags == os.O_RDONLY else "r+")


def _parts(prefix: str) -> list[str]:
    return prefix.rstrip("/").split("/") if prefix else []


def _sync_name(folder: int, path: Path) -> None:
    """Make a name durable that was given just now."""
    try:
        files.sync(folder)
    except OSError as error:
        raise NotDurableError(
            f"{path} was written, but the disk failed to make its name durable "
            f"({error.strerror}): it may be gone after a power cut; check the disk first"
        ) from error


class LocalStaged(Staged):
    """A temporary file in the lake's staging folder, on the file system it will stay on."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._name = store.temporary()
        self._path = store.staging / self._name
        self._durable = -1
        self._spoilt = self._torn = False

    def write(self, data: bytes) -> None:
        # Opened anew for each block: a run with thousands of streams holds no descriptors.
        with map_os_errors("write", self._path), self._opened(os.O_RDWR) as file:
            file.seek(self.size)  # not to its end: a write that failed half-way may be repeated
            self._torn = True
            files.write_all(file.fileno(), data)
        self.size, self._torn = self.size + len(data), False

    def take(self, ranges: Iterable[Range]) -> list[int]:
        """Append parts of objects; how many bytes of each there were.

        Raises:
            KeyMissingError: One is not there.
        """
        with map_os_errors("write", self._path), self._opened(os.O_RDWR) as own:
            self._torn = True
            counts = copy_ranges(self._store.root, ranges, own.fileno(), self.size)
        self.size, self._torn = self.size + sum(counts), False
        return counts

    def reader(self) -> BinaryIO:
        with map_os_errors("read", self._path):
            return io.BufferedReader(self._opened(os.O_RDONLY))

    def publish(self, key: str) -> None:
        self._cut()
        if self._durable != self.size:  # not again for each name that is taken
            with map_os_errors("write", self._path), self._opened(os.O_RDONLY) as file:
                self._sync(file.fileno())
            self._durable = self.size
        self._store.link(self._name, key)

    def share(self) -> str:
        self._cut()
        return f"{STAGING}{self._name}"

    def _cut(self) -> None:
        if self._torn:  # a write failed half-way: what it left is none of it
            with map_os_errors("write", self._path), self._opened(os.O_RDWR) as file:
                file.truncate(self.size)
            self._torn = False

    def discard(self) -> None:
        self._store.remove(self._name)

    def _opened(self, flags: int) -> io.FileIO:
        return _file(self._store.root, [STAGING_FOLDER, self._name], flags)

    def _sync(self, handle: int) -> None:
        """Make the bytes durable, or never try again.

        What could not be written the system forgets, and says nothing of it the next time: a
        second try that succeeds proves nothing.
        """
        if self._spoilt:
            raise OSError(errno.EIO, "the disk failed to take it before")
        try:
            os.fsync(handle)
        except OSError:
            self._spoilt = True
            raise


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
        self._names = files.DurableNames()

    def _path(self, key: str) -> Path:
        return self.root.joinpath(*files.parts_of(key))

    @property
    def staging(self) -> Path:
        """Where staged files lie, as a person may name it."""
        return self.root / STAGING_FOLDER

    def temporary(self) -> str:
        """Make a fresh, empty file in the staging folder, and return its name."""
        with map_os_errors("write to the lake at", self.root):
            name, handle = self._begin()
            os.close(handle)
        return name

    def _begin(self) -> tuple[str, int]:
        """Make a fresh file in the staging folder; return its name and a descriptor."""
        try:
            name = self._session().begin()
        except FileNotFoundError:
            with files.folder(self.root, [STAGING_FOLDER], make=self._names):
                name = self._session().begin()
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            return name, files.open_file(self.root, [STAGING_FOLDER, name], flags)
        except BaseException:
            self.remove(name)
            raise

    def remove(self, temporary: str) -> None:
        """Remove a temporary file. Never raises."""
        # A leftover in staging harms nobody; what was made of it must not look failed.
        with (
            suppress(OSError, DamagedError),
            files.folder(self.root, [STAGING_FOLDER]) as staging,
        ):
            os.unlink(temporary, dir_fd=staging)
        self._session().end(temporary)

    def _session(self) -> Session:
        with self._mutex:
            if self._own is None or self._own.process != os.getpid():
                self._own = Session(self.root, STAGING_FOLDER)
            return self._own

    def __getstate__(self) -> dict[str, Any]:
        # An executor shows its own liveness marker.
        return {key: value for key, value in self.__dict__.items() if key not in _OF_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        names = files.DurableNames()
        self.__dict__.update(state, _own=None, _mutex=threading.Lock(), _names=names)

    def link(
        self,
        source: str,
        key: str,
        *,
        durable: bool = True,
        names: files.DurableNames | None = None,
    ) -> None:
        """Give a temporary file its name, unless the name is taken."""
        path, (*folders, name) = self._path(key), key.split("/")
        with (
            map_os_errors("create", path),
            # New ones are durable whatever for: something else may soon lie in them.
            files.folder(self.root, folders, make=names or self._names, durable=durable) as target,
            files.folder(self.root, [STAGING_FOLDER]) as staging,
        ):
            try:
                os.link(source, name, src_dir_fd=staging, dst_dir_fd=target, follow_symlinks=False)
            except FileExistsError as error:
                raise KeyExistsError(f"{path} is taken") from error
            if durable:
                _sync_name(target, path)

    def _write_temporary(self, data: bytes, *, durable: bool) -> str:
        with map_os_errors("write to the lake at", self.root):
            name, handle = self._begin()
        try:
            with map_os_errors("write", self.staging / name):
                try:
                    files.write_all(handle, data)
                    if durable:
                        os.fsync(handle)
                finally:
                    os.close(handle)
        except BaseException:
            self.remove(name)
            raise
        return name

    @contextmanager
    def reading(self, key: str) -> Iterator[io.FileIO]:
        """Open an object's file for reading."""
        parts = files.parts_of(key)
        with (
            map_os_errors("read", f"{self.root}/{key}"),
            _file(self.root, parts, os.O_RDONLY) as file,
        ):
            yield file

    def get(self, key: str) -> StoredObject:
        with self.reading(key) as file:
            check_size(os.fstat(file.fileno()).st_size, self._path(key))
            return StoredObject(data := file.readall(), etags.of_bytes(data))

    def get_if_small(self, key: str, most: int) -> StoredObject | None:
        with self.reading(key) as file:
            small = os.fstat(file.fileno()).st_size <= most
        return self.get(key) if small else None

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        with self.reading(key) as file:
            # As much memory is taken as is asked for, whatever the file has.
            length = min(length, os.fstat(file.fileno()).st_size - offset)
            # One call gives at most 2 GiB, and may give less.
            pieces: list[bytes] = []
            while length > 0 and (piece := os.pread(file.fileno(), length, offset)):
                pieces.append(piece)
                offset, length = offset + len(piece), length - len(piece)
            return b"".join(pieces)

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> str:
        self._path(key)  # raises before anything is written
        temporary = self._write_temporary(data, durable=durable)
        try:
            self.link(temporary, key, durable=durable)
        finally:
            self.remove(temporary)
        return etags.of_bytes(data)

    def replace(self, key: str, data: bytes, etag: str | None, *, durable: bool = True) -> str:
        path, (*folders, name) = self._path(key), key.split("/")
        temporary = self._write_temporary(data, durable=durable)
        try:
            with (
                map_os_errors("replace", path),
                self._exclusive(),
                files.folder(self.root, folders, make=self._names, durable=durable) as target,
                files.folder(self.root, [STAGING_FOLDER]) as staging,
            ):
                if etag is not None and self._etag_of(key) != etag:
                    raise KeyExistsError(f"{path} was changed by somebody else")
                os.replace(temporary, name, src_dir_fd=staging, dst_dir_fd=target)
                if durable:
                    _sync_name(target, path)
        finally:
            self.remove(temporary)
        return etags.of_bytes(data)

    def _etag_of(self, key: str) -> str | None:
        try:
            return self.get(key).etag
        except KeyMissingError:
            return None

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        lock = [STAGING_FOLDER, _REPLACE_LOCK]
        with _file(self.root, lock, os.O_RDWR | os.O_CREAT) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def delete(self, key: str) -> None:
        path, (*folders, name) = self._path(key), key.split("/")
        with (
            map_os_errors("delete", path),
            suppress(FileNotFoundError),
            files.folder(self.root, folders) as inner,
        ):
            os.unlink(name, dir_fd=inner)

    def list(self, prefix: str) -> Iterator[Listed]:
        base = self._path(prefix.rstrip("/")) if prefix else self.root
        with map_os_errors("list", base):
            return iter(
                sorted(
                    Listed(key, about.st_size, about.st_mtime)
                    for key, about in files.walk(self.root, _parts(prefix))
                )
            )

    def copies(self) -> Iterator[StoredCopy]:
        with map_os_errors("list", self.root):
            return iter(sorted(files.copies(self.root)))

    def folders(self, prefix: str) -> Sequence[str]:
        base = self._path(prefix.rstrip("/")) if prefix else self.root
        with map_os_errors("list", base):
            try:
                with (
                    files.folder(self.root, _parts(prefix)) as handle,
                    files.readable(handle) as names,
                    os.scandir(names) as entries,
                ):
                    # Links to folders, too: reading on from there then says what they are.
                    return sorted(entry.name for entry in entries if entry.is_dir())
            except FileNotFoundError:
                return []

    def local_path(self, key: str) -> Path | None:
        return self.root / key

    def stage(self) -> Staged:
        return LocalStaged(self)

    def together(self) -> Together:
        def link(source: str, key: str) -> None:
            name = source.removeprefix(STAGING)
            self.link(name, key, durable=False, names=files.LooseNames())

        return LocalTogether(self.root, self._names, link)

    def copy(self, ranges: Sequence[Range], staged: Staged) -> Sequence[int]:
        if not isinstance(staged, LocalStaged):
            return super().copy(ranges, staged)
        return staged.take(ranges)

    def clone(self, source: str, key: str, size: int) -> None:
        origin, path = self._path(source), self._path(key)
        with map_os_errors("create", path):
            try:
                files.link(self.root, source.split("/"), key.split("/"), self._names)
            except FileNotFoundError as error:
                raise KeyMissingError(f"{origin} is not there") from error
            except FileExistsError as error:
                raise KeyExistsError(f"{path} is taken") from error
            except OSError as error:
                if error.errno != errno.EMLINK:  # it has as many names as a file may have
                    raise
                super().clone(source, key, size)

    def first_key(self) -> str | None:
        with map_os_errors("list", self.root):
            # Folders that nothing is in are what deleted objects leave.
            found = (key for key, _ in files.walk(self.root, _parts("")))
            return next((key for key in found if key.split("/")[0] != STAGING_FOLDER), None)

    def leftovers(self) -> Iterator[Leftover]:
        with map_os_errors("list", self.staging):
            yield from abandoned_files(self.root, STAGING_FOLDER, _REPLACE_LOCK)

    def remove_leftover(self, leftover: Leftover) -> None:
        self.delete(leftover.name)
