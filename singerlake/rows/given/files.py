"""Files of rows that somebody gives: found, told by format, inflated, hashed, and put within reach.

Everything that can be wrong with a file as a whole is found here, before anything else starts.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from singerlake.errors import InputError, NotFoundError, StoreError, UsageError
from singerlake.rows.given.byte_sources import (
    CHUNK,
    ByteSource,
    LocalFile,
    StoreFile,
    chunks,
    compression_of,
    inflated,
)
from singerlake.storage.base import Store
from singerlake.storage.opening import is_remote

CSV, TSV, JSONL, PARQUET = "csv", "tsv", "jsonl", "parquet"
FORMATS = (CSV, TSV, JSONL, PARQUET)
STDIN = "-"
_BY_SUFFIX = {
    ".csv": CSV,
    ".tsv": TSV,
    ".tab": TSV,
    ".jsonl": JSONL,
    ".ndjson": JSONL,
    ".parquet": PARQUET,
    ".pq": PARQUET,
}
_COMPRESSED = (".gz", ".gzip", ".zst", ".zstd")


@dataclass(frozen=True)
class GivenFile:
    """A file of rows.

    Attributes:
        source: Its bytes, inflated.
        format: One of :data:`FORMATS`.
        size: Its bytes as it was given.
        digest: Gives the SHA-256 of these, as hexadecimal digits.
    """

    source: ByteSource
    format: str
    size: int
    digest: Future[str]

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.source.name

    def described(self) -> dict[str, Any]:
        """Return what a log entry keeps of it: its name without folders, its size, its SHA-256."""
        name = self.name if self.name == _STDIN_NAME else PurePath(self.name).name
        return {"name": name, "size": self.size, "sha256": self.digest.result()}


_NO_BRACES = " (in a pattern, braces stand for themselves)"
_STDIN_NAME = "standard input"


@contextmanager
def open_files(
    paths: Sequence[str], stdin: BinaryIO, format_: str | None = None
) -> Iterator[list[GivenFile]]:
    """Find files, and keep what had to be made of them until the end.

    What is compressed is inflated into a temporary file, so that many tasks can read it at once;
    standard input is kept in one as well.

    Args:
        paths: Their paths; ``-`` is standard input.
        stdin: Standard input.
        format_: Their format, where their names do not say.

    Raises:
        NotFoundError: One is not there.
        UsageError: One is named twice, an address, no file, or of no known format.
        InputError: One is empty.
        DamagedError: One is compressed, and cut off.
        StoreError: The disk for temporary files is full.
    """
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"{path} is named twice: name each file once")
        if path.startswith(("http://", "https://")) or is_remote(path):
            raise UsageError(_piped(path, format_))
        if path != STDIN and _is_missing(path):
            raise NotFoundError(f"there is no file or folder {path}{_NO_BRACES * ('{' in path)}")
    formats = [format_ or format_of(path) for path in paths]
    if len(set(formats)) > 1:
        raise UsageError(
            f"{paths[0]} is {formats[0]}, and another file is "
            f"{next(one for one in formats if one != formats[0])}: upload files of one format at "
            "a time"
        )
    with ExitStack() as stack:
        pool = ThreadPoolExecutor(1, "sha256")
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        sources = [
            LocalFile.of(Path(path)) if path != STDIN else stack.enter_context(_kept(stdin))
            for path in paths
        ]
        files = []
        for source, known in zip(sources, formats, strict=True):
            digest = pool.submit(_sha256, source)
            whole = stack.enter_context(_inflated(source))
            if not whole.size:
                raise InputError(f"{source.name} is empty: there is nothing to upload")
            files.append(GivenFile(whole, known, source.size, digest))
        yield files


def _is_missing(path: str) -> bool:
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass  # who reads it says why
    return False


def format_of(path: str) -> str:
    """Tell a file's format by its name.

    Raises:
        UsageError: The name does not say.
    """
    if path == STDIN:
        raise UsageError(
            f"standard input has no file name: set its format with --format {'|'.join(FORMATS)}"
        )
    if (known := _by_suffix(path)) is None:
        raise UsageError(
            f"the name {path} does not specify a format: use --format {'|'.join(FORMATS)}; for "
            "documents, name the folder, or a pattern in quotes"
        )
    return known


def _by_suffix(path: str) -> str | None:
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    while suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return _BY_SUFFIX.get(suffixes[-1]) if suffixes else None


@contextmanager
def within_reach(files: Sequence[GivenFile], store: Store) -> Iterator[list[GivenFile]]:
    """Put files into a store for a while, from which executors on other machines can read them.

    They lie beside the store's other staged files, which no reader looks at.

    Args:
        files: On this machine.
        store: The lake's store, open for writing.
    """
    with ExitStack() as stack:
        found = []
        for file in files:
            staged = store.stage()
            stack.callback(staged.discard)
            for data in chunks(file.source):
                staged.write(data)
            source = StoreFile(file.name, store, staged.share(), file.source.size)
            found.append(replace(file, source=source))
        yield found


def _piped(url: str, format_: str | None) -> str:
    """Say how rows come in from an address; their credentials are other programs' concern."""
    fetch = "aws s3 cp {} -" if url.startswith("s3:") else "curl -fsS {}"
    fetch = "gcloud storage cat {}" if url.startswith("gs:") else fetch
    target = shlex.quote(url)
    if url.startswith("az:"):
        container, _, name = url.removeprefix("az://").partition("/")
        fetch = "az storage blob download --file /dev/stdout --no-progress --container-name {}"
        target = f"{shlex.quote(container)} --name {shlex.quote(name)}"
    known = format_ or _by_suffix(url.partition("?")[0]) or "|".join(FORMATS)
    return (
        f"{url} is an address, but files are read from this machine: download it first, or pipe "
        f"it, as in {fetch.format(target)} | singerlake … - --format {known}"
    )


def _sha256(source: ByteSource) -> str:
    digest = hashlib.sha256()
    for data in chunks(source):
        digest.update(data)
    return digest.hexdigest()


@contextmanager
def _kept(stdin: BinaryIO) -> Iterator[LocalFile]:
    with kept(iter(lambda: stdin.read(CHUNK), b""), _STDIN_NAME) as file:
        yield file


@contextmanager
def _inflated(source: LocalFile) -> Iterator[ByteSource]:
    compression = compression_of(source) if source.size else None
    if compression is None:
        yield source
        return
    with kept(inflated(source, compression), source.name) as file:
        yield file


@contextmanager
def kept(pieces: Iterable[bytes], name: str) -> Iterator[LocalFile]:
    """Keep bytes in a temporary file.

    Args:
        pieces: The bytes.
        name: What messages call the file.

    Raises:
        StoreError: The disk for temporary files is full.
    """
    path = None
    try:
        try:
            handle, text = tempfile.mkstemp(prefix="singerlake-", suffix=".upload")
            path = Path(text)
            with os.fdopen(handle, "wb") as file:
                for data in pieces:
                    file.write(data)
        except OSError as error:
            raise StoreError(
                f"cannot keep {name} in {tempfile.gettempdir()}: {error.strerror}: check that "
                "folder and its free space, or set TMPDIR to another"
            ) from error
        yield replace(LocalFile.of(path), name=name)
    finally:
        if path is not None:
            with suppress(OSError):
                path.unlink()
