"""Files that rows name, on their way to people: found in rows, opened, written into a folder."""

from __future__ import annotations

import hashlib
import io
import json
import mimetypes
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from singerlake import quantities
from singerlake.errors import DamagedError, InputError, NotFoundError, StoreError, UsageError
from singerlake.format import file_paths
from singerlake.format.content import Place
from singerlake.format.names import TableName
from singerlake.storage.base import READERS, KeyMissingError, Store
from singerlake.storage.local import files

PIECE_BYTES = 4 << 20
_TOO_SHORT = " (of a SHA-256, at least 8 digits are needed)"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True)
class StoredFile:
    """What a row says of a file in the lake.

    Attributes:
        path: Where it lies, within the table's folder.
        uri: Where it came from; its path, where the record held the file itself.
        size: Its bytes, as the row says; None where it does not.
        content_type: Its media type, as the row says; empty where it does not.
    """

    path: str
    uri: str = ""
    size: int | None = None
    content_type: str = ""

    @property
    def digest(self) -> str:
        """The SHA-256 of its bytes, as 64 hexadecimal digits."""
        return file_paths.digest_in(self.path)

    @property
    def name(self) -> str:
        """What people call it: its URI, or digits of its hash where it has none of its own."""
        if self.uri and self.uri != self.path:
            return self.uri
        return f"{self.digest[:16]}{mimetypes.guess_extension(self.content_type) or ''}"

    @property
    def glance(self) -> str:
        """What people know it by: its name, size, type and the beginning of its hash."""
        size = "" if self.size is None else quantities.size(self.size)
        known = (self.name, size, self.content_type, f"sha-256 {self.digest[:16]}")
        return ", ".join(filter(None, known))


Find: TypeAlias = Callable[[str], "str | None"]
"""Gives the path of a file that a table has by its SHA-256; None where it has none."""


def in_value(value: Any, place: Place, find: Find | None = None) -> Iterator[StoredFile]:
    """Yield the files that a value of a row names.

    Args:
        value: As Arrow hands it to Python: a dict or a list, or the JSON text of one.
        place: Where files may be in it.
        find: Finds a file by its hash, where the schema lists the members of its object and its
            path is not among them, so that the column does not show it.
    """
    find = find or _nothing
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return
        find = _nothing  # this is all that the record has
    if isinstance(value, Mapping):
        if place.is_file:
            shown = value if "path" in value else {**value, "path": _found(value, find)}
            if (found := of_value(shown)) is not None:
                yield found
            return
        for name, inner in place.members.items():
            if name in value:
                yield from in_value(value[name], inner, find)
    elif isinstance(value, Sequence) and place.items is not None:
        for item in value:
            yield from in_value(item, place.items, find)


def _nothing(_digest: str) -> None:
    return None


def _found(value: Mapping[str, Any], find: Find) -> str | None:
    """The path of the file whose hash an object has."""
    match = file_paths.CHECKSUM.fullmatch(str(value.get("checksum")))
    return None if match is None else find(match[1].lower())


def of_value(value: Any) -> StoredFile | None:
    """Read what a row says of a file; None where it names none in the lake.

    Args:
        value: The object, its JSON text, or the file's path alone.
    """
    if isinstance(value, str) and not file_paths.is_content(value):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if isinstance(value, str):
        value = {"path": value}
    path = value.get("path") if isinstance(value, Mapping) else None
    if not isinstance(path, str) or not file_paths.is_content(path):
        return None
    uri, size, media = (value.get(name) for name in ("uri", "size", "content_type"))
    return StoredFile(
        path,
        uri if isinstance(uri, str) else "",
        int(size) if isinstance(size, (int, float)) else None,
        media if isinstance(media, str) else "",
    )


def opened(store: Store, table: TableName, file: StoredFile) -> io.BufferedReader[Any]:
    """Open a file for reading; it may be sought in.

    Whoever reads it from its beginning to its end has it checked against its hash.

    Args:
        store: The lake's store.
        table: The table whose rows name it.
        file: The file.

    Raises:
        DamagedError: It is gone. While it is read: its bytes are not what was stored.
        StoreError: The store refused.
    """
    stream = _Stream(store, table.key(file.path), file.digest)
    reader = io.BufferedReader(stream, PIECE_BYTES)
    reader.peek(1)  # that it is there, is known now
    return reader


class _Stream(io.RawIOBase):
    """An object's bytes, read where they are asked for."""

    def __init__(self, store: Store, key: str, digest: str) -> None:
        self._store, self._key, self._digest = store, key, digest
        self._at, self._end = 0, -1
        self._hashed, self._hashed_to = hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            offset += self._size()
        elif whence == io.SEEK_CUR:
            offset += self._at
        if offset < 0:
            raise ValueError("a place before the beginning")
        self._at = offset
        return offset

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        piece = self._asked(len(buffer)) if len(buffer) and self._at != self._end else b""
        if self._hashed_to == self._at:
            self._hashed.update(piece)
            self._hashed_to += len(piece)
            if not piece and len(buffer) and self._hashed.hexdigest() != self._digest:
                raise DamagedError(
                    f"the file {self._key} is damaged: its bytes have another SHA-256"
                )
        self._at += len(piece)
        buffer[: len(piece)] = piece
        return len(piece)

    def _asked(self, length: int) -> bytes:
        try:
            piece = self._store.get_range(self._key, self._at, length)
        except KeyMissingError as error:
            raise DamagedError(
                f"the file {self._key}, which a row references, is missing"
            ) from error
        if len(piece) < length:  # it ends here, and no request is made to see it end
            self._end = self._at + len(piece)
        return piece

    def _size(self) -> int:
        for listed in self._store.list(self._key.rpartition("/")[0]):
            if listed.key == self._key:
                return listed.size
        raise DamagedError(f"the file {self._key}, which a row references, is missing")


def chosen(found: Iterable[StoredFile], name: str) -> StoredFile:
    """Find the file that a person means.

    Args:
        found: The files of a state.
        name: Its URI, its path, or its SHA-256 or the beginning of it, of at least eight digits.

    Raises:
        NotFoundError: There is none.
        UsageError: There are several.
    """
    digits = name.lower().removeprefix("sha-256:")
    by_hash = re.fullmatch("[0-9a-f]{8,64}", digits) is not None
    meant = {
        file.digest: file
        for file in found
        if name in (file.uri, file.path, file.name) or (by_hash and file.digest.startswith(digits))
    }
    if not meant:
        short = _TOO_SHORT if re.fullmatch("[0-9a-f]{4,7}", digits) else ""
        raise NotFoundError(
            f"no row references a file {name!r}{short}: list them with: singerlake files ls TABLE"
        )
    if len(meant) > 1:
        hashes = ", ".join(sorted(digest[:16] for digest in meant))
        raise UsageError(
            f"{len(meant)} different files are called {name!r}: name its hash: {hashes}"
        )
    return next(iter(meant.values()))


def targets(found: Iterable[StoredFile]) -> dict[tuple[str, ...], StoredFile]:
    """Work out where in a folder files go: the names of folders on the way, and their own.

    Raises:
        InputError: A name leaves the folder, cannot be a file's, or is that of two files.
    """
    wanted: dict[tuple[str, ...], StoredFile] = {}
    for file in found:
        parts = _parts(file)
        if (other := wanted.setdefault(parts, file)).digest != file.digest:
            raise InputError(
                f"{'/'.join(parts)!r} is the name of two different files, {other.digest[:16]} and "
                f"{file.digest[:16]}: get each by its hash with: singerlake files get"
            )
    for parts in wanted:
        for end in range(1, len(parts)):
            if parts[:end] in wanted:
                raise InputError(
                    f"{'/'.join(parts[:end])!r} is the name of a file and of a folder: get each "
                    "with: singerlake files get"
                )
    return wanted


def _parts(file: StoredFile) -> tuple[str, ...]:
    name = file.name
    if _SCHEME.match(name):
        split = urlsplit(name)
        name = f"{split.hostname or ''}/{unquote(split.path)}"
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts or not parts or any(ord(c) < ord(" ") for c in name):
        raise InputError(
            f"a row names its file {name[:200]!r}, which is outside of the folder or not a name: "
            f"nothing was written; get it by its hash: singerlake files get … {file.digest[:16]}"
        )
    return parts


def export(
    store: Store, table: TableName, wanted: Mapping[tuple[str, ...], StoredFile], folder: Path
) -> int:
    """Write files into a folder, several at a time, each under its name only once it is checked.

    What is there already with the same bytes stays; nothing else is written over, and no link is
    followed.

    Args:
        store: The lake's store.
        table: The files' table.
        wanted: Where each goes.
        folder: The folder; made where it is missing.

    Returns:
        How many were written.

    Raises:
        InputError: Something else is there under the name of a file.
        DamagedError: A file is gone or damaged, or a link stands in the way.
        StoreError: The disk or the store refused.
    """
    names = files.DurableNames()

    def one(item: tuple[tuple[str, ...], StoredFile]) -> int:
        parts, file = item
        try:
            return _written(store, table, file, folder, parts, names)
        except OSError as error:
            place = folder.joinpath(*parts)
            raise StoreError(f"cannot write {place}: {error.strerror or error}") from error

    with ThreadPoolExecutor(READERS, "export") as pool:
        futures = [pool.submit(one, item) for item in wanted.items()]
        try:
            return sum(future.result() for future in futures)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _written(
    store: Store,
    table: TableName,
    file: StoredFile,
    folder: Path,
    parts: tuple[str, ...],
    names: files.DurableNames,
) -> int:
    with files.folder(folder, parts[:-1], make=names) as inner:
        if _holds(inner, parts[-1], file, folder.joinpath(*parts)):
            return 0
        part = f".{file.digest[:8]}-{os.urandom(8).hex()}.part"
        try:
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=inner)
            with os.fdopen(handle, "wb") as out, opened(store, table, file) as source:
                while piece := source.read(PIECE_BYTES):
                    out.write(piece)
            try:
                os.link(part, parts[-1], src_dir_fd=inner, dst_dir_fd=inner)
            except FileExistsError:  # somebody else was there first
                _holds(inner, parts[-1], file, folder.joinpath(*parts))
        finally:
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=inner)
    return 1


def _holds(inner: int, name: str, file: StoredFile, place: Path) -> bool:
    """Whether a file is there already, with the bytes that it should have."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=inner)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise InputError(f"{place} already exists, and is not a regular file") from error
    hashed = hashlib.sha256()
    with os.fdopen(handle, "rb") as there:
        files.refuse_odd(os.fstat(handle), place)
        while piece := there.read(PIECE_BYTES):
            hashed.update(piece)
    if hashed.hexdigest() != file.digest:
        raise InputError(f"{place} already exists, with other bytes: name an empty folder")
    return True
