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
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from singerlake.errors import NotDurableError
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
from singerlake.storage.local import files, listing
from singerlake.storage.local.copying import copy_ranges
from singerlake.storage.local.liveness import abandoned_files
from singerlake.storage.local.os_errors import map_os_errors
from singerlake.storage.local.temporary import STAGING_FOLDER, TemporaryFiles
from singerlake.storage.local.together import LocalTogether
from singerlake.storage.together import Together
from singerlake.storage.unfinished import Leftover

_REPLACE_LOCK = "replace.lock"
"""In the staging folder; held while an object is compared and replaced."""
_OF_PROCESS = ("_names", "temporary")


def _sync_name(folder: int, path: str) -> None:
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
        self._files = store.temporary
        self._name = self._files.create()
        self._path = self._files.path(self._name)
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
        with ExitStack() as stack:
            with map_os_errors("write", self._path):
                staging = stack.enter_context(self._files.folder())
                if self._durable != self.size:  # not again for each name that is taken
                    self._sync(staging)
                    self._durable = self.size
            self._store.link(staging, self._name, key)

    def share(self) -> str:
        self._cut()
        return f"{STAGING}{self._name}"

    def _cut(self) -> None:
        if self._torn:  # a write failed half-way: what it left is none of it
            with map_os_errors("write", self._path), self._opened(os.O_RDWR) as file:
                file.truncate(self.size)
            self._torn = False

    def discard(self) -> None:
        self._files.remove(self._name)

    def _opened(self, flags: int) -> io.FileIO:
        return self._files.opened(self._name, flags)

    def _sync(self, staging: int) -> None:
        """Make the bytes durable, or never try again.

        What could not be written the system forgets, and says nothing of it the next time: a
        second try that succeeds proves nothing.
        """
        if self._spoilt:
            raise OSError(errno.EIO, "an earlier write to the disk failed")
        handle = files.open_in(staging, self._name, self._path)
        try:
            os.fsync(handle)
        except OSError:
            self._spoilt = True
            raise
        finally:
            os.close(handle)


class LocalStore(Store):
    """A folder.

    Args:
        root: The lake's folder; made at the first write.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.uri = str(root)
        self._names = files.DurableNames()
        self.temporary = TemporaryFiles(root, self._names)

    def _split(self, key: str) -> tuple[str, list[str]]:
        """Check a key; return its path, for messages, and the names on the way."""
        return f"{self.uri}/{key}", files.parts_of(key)

    def _below(self, prefix: str) -> tuple[str, list[str]]:
        """The same of a folder, which may be the lake's own."""
        return self._split(prefix.rstrip("/")) if prefix else (self.uri, [])

    def __getstate__(self) -> dict[str, Any]:
        # An executor shows its own liveness marker.
        return {key: value for key, value in self.__dict__.items() if key not in _OF_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        names = files.DurableNames()
        temporary = TemporaryFiles(state["root"], names)
        self.__dict__.update(state, _names=names, temporary=temporary)

    def link(
        self,
        staging: int,
        source: str,
        key: str,
        *,
        durable: bool = True,
        names: files.DurableNames | None = None,
    ) -> None:
        """Give a file of the staging folder, which is open, its name, unless the name is taken."""
        where, (*folders, name) = self._split(key)
        with (
            map_os_errors("create", where),
            # New ones are durable whatever for: something else may soon lie in them.
            files.folder(self.root, folders, make=names or self._names, durable=durable) as target,
        ):
            try:
                os.link(source, name, src_dir_fd=staging, dst_dir_fd=target, follow_symlinks=False)
            except FileExistsError as error:
                raise KeyExistsError(f"{where} is taken") from error
            if durable:
                _sync_name(target, where)

    @contextmanager
    def reading(self, key: str) -> Iterator[io.FileIO]:
        """Open an object's file for reading."""
        where, parts = self._split(key)
        with (
            map_os_errors("read", where),
            io.FileIO(files.open_file(self.root, parts), "r") as file,
        ):
            yield file

    def get(self, key: str) -> StoredObject:
        found = self._get(key)
        assert found is not None, "of any size"  # noqa: S101
        return found

    def get_if_small(self, key: str, most: int) -> StoredObject | None:
        return self._get(key, most)

    def _get(self, key: str, most: int | None = None) -> StoredObject | None:
        where, parts = self._split(key)
        with map_os_errors("read", where):
            handle = files.open_file(self.root, parts)
            try:
                size = os.fstat(handle).st_size
                if most is not None and size > most:
                    return None
                check_size(size, where)
                data = files.read_all(handle, size)
            finally:
                os.close(handle)
        return StoredObject(data, of_bytes(data))

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
        self._split(key)  # raises before anything is written
        with self.temporary.holding(data, durable=durable) as (staging, name):
            self.link(staging, name, key, durable=durable)
        return of_bytes(data)

    def replace(self, key: str, data: bytes, etag: str | None, *, durable: bool = True) -> str:
        where, (*folders, name) = self._split(key)
        with (
            self.temporary.holding(data, durable=durable) as (staging, temporary),
            map_os_errors("replace", where),
            self._exclusive(staging),
            files.folder(self.root, folders, make=self._names, durable=durable) as target,
        ):
            if etag is not None and self._etag_of(key) != etag:
                raise KeyExistsError(f"{where} was changed by another process")
            os.replace(temporary, name, src_dir_fd=staging, dst_dir_fd=target)
            if durable:
                _sync_name(target, where)
        return of_bytes(data)

    def _etag_of(self, key: str) -> str | None:
        try:
            return self.get(key).etag
        except KeyMissingError:
            return None

    @contextmanager
    def _exclusive(self, staging: int) -> Iterator[None]:
        where = self.temporary.path(_REPLACE_LOCK)
        handle = files.open_in(staging, _REPLACE_LOCK, where, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def delete(self, key: str) -> None:
        where, (*folders, name) = self._split(key)
        with (
            map_os_errors("delete", where),
            suppress(FileNotFoundError),
            files.folder(self.root, folders) as inner,
        ):
            os.unlink(name, dir_fd=inner)

    def list(self, prefix: str) -> Iterator[Listed]:
        where, parts = self._below(prefix)
        with map_os_errors("list", where):
            return iter(
                sorted(
                    Listed(key, about.st_size, about.st_mtime)
                    for key, about in listing.walk(self.root, parts)
                )
            )

    def copies(self) -> Iterator[StoredCopy]:
        with map_os_errors("list", self.root):
            return iter(sorted(listing.copies(self.root)))

    def folders(self, prefix: str) -> Sequence[str]:
        where, parts = self._below(prefix)
        with map_os_errors("list", where):
            try:
                with (
                    files.folder(self.root, parts) as handle,
                    files.readable(handle) as names,
                    os.scandir(names) as entries,
                ):
                    # Links to folders, too: reading on from there then says what they are.
                    found = [entry.name for entry in entries if entry.is_dir()]
                    return sorted(one for one in found if listing.holds_files(names, one))
            except FileNotFoundError:
                return []

    def local_path(self, key: str) -> Path | None:
        return self.root / key

    def stage(self) -> Staged:
        return LocalStaged(self)

    def together(self) -> Together:
        def link(source: str, key: str) -> None:
            name, loose = source.removeprefix(STAGING), files.LooseNames()
            with map_os_errors("create", f"{self.uri}/{key}"), self.temporary.folder() as staging:
                self.link(staging, name, key, durable=False, names=loose)

        return LocalTogether(self.root, self._names, link)

    def copy(self, ranges: Sequence[Range], staged: Staged) -> Sequence[int]:
        if not isinstance(staged, LocalStaged):
            return super().copy(ranges, staged)
        return staged.take(ranges)

    def clone(self, source: str, key: str, size: int) -> None:
        (origin, there), (where, parts) = self._split(source), self._split(key)
        with map_os_errors("create", where):
            try:
                files.link(self.root, there, parts, self._names)
            except FileNotFoundError as error:
                raise KeyMissingError(f"{origin} does not exist") from error
            except FileExistsError as error:
                raise KeyExistsError(f"{where} is taken") from error
            except OSError as error:
                if error.errno != errno.EMLINK:  # it has as many names as a file may have
                    raise
                super().clone(source, key, size)

    def first_key(self) -> str | None:
        with map_os_errors("list", self.root):
            # Folders that nothing is in are what deleted objects leave.
            found = (key for key, _ in listing.walk(self.root, []))
            return next((key for key in found if key.split("/")[0] != STAGING_FOLDER), None)

    def leftovers(self) -> Iterator[Leftover]:
        with map_os_errors("list", self.temporary.path("")):
            yield from abandoned_files(self.root, STAGING_FOLDER, _REPLACE_LOCK)

    def remove_leftover(self, leftover: Leftover) -> None:
        self.delete(leftover.name)


# What tells one content of an object from another, for who replaces it; never kept on the disk.

_LARGE = 4 << 20


def of_bytes(data: bytes) -> str:
    """Return the etag of an object's bytes."""
    if len(data) > _LARGE:  # four times as fast, and for less not worth its import
        from blake3 import blake3

        return blake3(data).hexdigest(16)
    return hashlib.blake2b(data, digest_size=16).hexdigest()
