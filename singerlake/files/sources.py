"""Where files that rows name may come from: folders and buckets that the settings allow.

What a record says is not trusted: it may name a password file, a device, or a server that only
this machine can reach. So a path counts only below a root, and is opened step by step, without
following a link (as everything in a lake on disk is); a bucket only where a root names it; and a
web server only where that is switched on, and never one of a private network.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from singerlake.errors import DamagedError, InputError, StoreError, UsageError
from singerlake.storage.base import KeyExistsError, KeyMissingError, Store
from singerlake.storage.local import files
from singerlake.storage.opening import AZURE_ADDRESSES, folder, in_project, is_remote, open_store
from singerlake.storage.options import StoreOptions

PIECE_BYTES = 4 << 20
"""Read at a time; eight files are read side by side."""
HTTP_BYTES = 1 << 30
"""The most that a file from a web server may have, unless a setting says otherwise."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_BUCKET = re.compile(r"[$A-Za-z0-9][A-Za-z0-9._-]*")
_SHOWN = 200


class MissingFileError(InputError):
    """The file is not there."""


@dataclass(frozen=True)
class SourceOptions:
    """What may be read.

    Attributes:
        roots: Folders, and ``s3://bucket/prefix`` and the like; files lie below one of them.
        http: Whether ``http://`` and ``https://`` are read too.
        http_max_bytes: The most that a file read so may have.
        store: How to reach buckets.
    """

    roots: Sequence[str] = (".",)
    http: bool = False
    http_max_bytes: int = HTTP_BYTES
    store: StoreOptions = field(default_factory=StoreOptions)


class Sources:
    """Opens files by what records call them.

    Args:
        options: What may be read.

    Raises:
        UsageError: A root is neither a folder that is there nor ``s3://bucket/prefix``.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._folders: list[Path] = []
        self._prefixes: list[tuple[str, str]] = []
        self._stores: dict[str, Store] = {}
        for root in options.roots:
            if is_remote(root):
                self._prefixes.append(_prefix(root))
            else:
                self._folders.append(_folder(root))

    def pieces(self, uri: str) -> Iterator[bytes]:
        """Read a file, piece by piece.

        Args:
            uri: A path, or ``file:///…``, ``s3://…`` and the like, ``http(s)://…``, ``data:…``.

        Raises:
            MissingFileError: It is not there.
            InputError: It may not be read, or changed while it was.
            StoreError: The disk or the bucket refused.
        """
        match = _SCHEME.match(uri)
        scheme = match[1].lower() if match else ""
        if scheme == "data":
            yield _inline(uri)
        elif is_remote(uri):
            yield from self._from_bucket(uri)
        elif scheme in ("http", "https"):
            if not self._options.http:
                raise InputError(f"{shown(uri)} is on the web: set file_http to read such files")
            from singerlake.files import http  # only who reads from the web needs it

            yield from http.pieces(uri, self._options.http_max_bytes)
        elif scheme in ("", "file"):
            yield from self._from_disk(uri, _file_uri_path(uri) if scheme else uri)
        else:
            raise InputError(
                f"{shown(uri)} is not a readable file: {scheme}: is none of file://, s3://, gs://, "
                "az://, http://, https:// and data:; a path with a colon in its first name begins "
                "with ./"
            )

    def _from_disk(self, uri: str, path: str) -> Iterator[bytes]:
        yield from pieces_of(self._open(uri, path), shown(uri))

    def _open(self, uri: str, path: str) -> int:
        """Open a file below a root, without following a link."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in path or not parts:
            raise InputError(f"{shown(uri)} is rejected: a path has no .. in it, and names a file")
        allowed = [*self._below(parts, absolute=path.startswith("/"))]
        if not allowed:
            raise InputError(f"{shown(uri)} is rejected: it is not below any of file_roots")
        for root, below in allowed:
            with suppress(FileNotFoundError, NotADirectoryError):
                return _plain_file(root, below, uri)
        for root, _ in allowed:
            if not root.is_dir():  # a disk that is gone is not a file that is gone
                raise StoreError(
                    f"{shown(uri)} cannot be found: the folder {str(root)!r} of file_roots no "
                    "longer exists: check whether its disk is mounted"
                )
        raise MissingFileError(f"{shown(uri)} does not exist")

    def _below(self, parts: list[str], *, absolute: bool) -> Iterator[tuple[Path, list[str]]]:
        """The roots that a path is below, and the way from each."""
        for root in self._folders:
            own = [*root.parts[1:]] if absolute else []
            if parts[: len(own)] == own and len(parts) > len(own):
                yield root, parts[len(own) :]

    def _from_bucket(self, uri: str) -> Iterator[bytes]:
        scheme, _, rest = uri.partition("://")
        bucket, _, key = rest.partition("/")
        place = f"{scheme.lower()}://{bucket}"
        if any(part in ("", ".", "..") for part in key.split("/")):
            raise InputError(f"{shown(uri)} is rejected: it is not a plain object name")
        if not any(place == own and key.startswith(prefix) for own, prefix in self._prefixes):
            raise InputError(f"{shown(uri)} is rejected: it is not below any of file_roots")
        if place not in self._stores:
            self._stores[place] = open_store(place, self._options.store)
        try:
            yield from self._stores[place].pieces(key, PIECE_BYTES)
        except KeyMissingError as error:
            raise MissingFileError(f"{shown(uri)} does not exist") from error
        except KeyExistsError as error:
            raise InputError(f"{shown(uri)} changed while it was read: run it again") from error


def _folder(root: str) -> Path:
    """Read a root on disk; a typing error must not make all its files missing ones."""
    try:
        path = Path(os.path.normpath(folder(in_project(root), "a folder of files")))
    except UsageError as error:
        raise UsageError(f"file_roots: {error}") from error
    if not path.is_dir():
        raise UsageError(
            f"file_roots: there is no folder {str(path)!r}: correct it, or mount its disk"
        )
    return path


def _prefix(root: str) -> tuple[str, str]:
    """Read a root in a bucket: the bucket as a URI, and how keys below it begin."""
    scheme, _, rest = root.partition("://")
    bucket, _, prefix = rest.rstrip("/").partition("/")
    prefix = prefix.strip("/")
    if not root.startswith(AZURE_ADDRESSES) and not _BUCKET.fullmatch(bucket):
        raise UsageError(  # not repeated: it may be an attempt to give credentials
            f"file_roots: what stands for the bucket in a {scheme}:// address cannot be the name "
            f"of one: write {scheme}://bucket/prefix; credentials belong in the settings"
        )
    return f"{scheme.lower()}://{bucket}", f"{prefix}/" if prefix else ""


def _plain_file(root: Path, parts: Sequence[str], uri: str) -> int:
    """Open a file.

    Raises:
        InputError: It is no plain file, or cannot be opened.
        FileNotFoundError: It is not there.
    """
    try:
        return files.open_file(root, parts)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except DamagedError as error:
        raise InputError(
            f"{shown(uri)} is rejected: it is a link, or not a regular file"
        ) from error
    except OSError as error:
        raise InputError(f"{shown(uri)} cannot be opened: {error.strerror}") from error


def pieces_of(handle: int, name: str) -> Iterator[bytes]:
    """Read a file of a disk, piece by piece, and close it.

    Args:
        handle: Its descriptor.
        name: What messages call it.

    Raises:
        InputError: It cannot be read, or changed while it was.
    """
    try:
        before = os.fstat(handle)
        read = 0
        # As much memory is taken as is asked for, however little there is to read. One byte more
        # than there should be shows a file that grows, which is refused, and may never end.
        while piece := os.read(handle, min(PIECE_BYTES, before.st_size - read + 1)):
            read += len(piece)
            if read > before.st_size:
                break
            yield piece
        after = os.fstat(handle)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from error
    finally:
        os.close(handle)
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, read):
        raise InputError(f"{name} changed while it was read: run it again")


def shown(uri: str) -> str:
    """Return how a file is called in messages: short, without what may be a password."""
    if uri[:5].lower() == "data:":
        return "the file in a data: URI"
    text = re.sub(r"(?<=//)[^/@]*@", "", uri.partition("?")[0])
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def is_inline(uri: str) -> bool:
    """Tell whether a URI holds the file itself."""
    return uri[:5].lower() == "data:"


def _file_uri_path(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError as error:  # brackets, which are of addresses alone
        raise InputError(f"{shown(uri)} is not a URI: {error}") from error
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise InputError(f"{shown(uri)} is not a file on this machine: write file:///path")
    return unquote(parts.path)


def _inline(uri: str) -> bytes:
    """Return what a ``data:`` URI holds (RFC 2397)."""
    head, comma, body = uri[len("data:") :].partition(",")
    if not comma:
        raise InputError("a data: URI has no comma, and so no content")
    if not head.lower().endswith(";base64"):
        return unquote_to_bytes(body)
    try:
        return base64.b64decode(unquote_to_bytes(body), validate=True)
    except binascii.Error as error:
        raise InputError(f"a data: URI is not Base64: {error}") from error
