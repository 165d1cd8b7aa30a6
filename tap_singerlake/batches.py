"""RECORD lines on their way out, kept in files that BATCH messages name."""

from __future__ import annotations

import io
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec
from isal import isal_zlib
from msgspec import Raw

from singerlake.errors import DamagedError, StoreError, UsageError
from singerlake.format.names import RAW, STAGING
from singerlake.plugins import batch_places
from singerlake.plugins.settings import batch_options, lake_uri
from singerlake.storage.keys import is_key
from singerlake.storage.opening import FORMS, folder, in_project, is_remote, open_store
from tap_singerlake.output import Output

ROWS = 10_000
"""Records of a file, as the SDK has it."""
BYTES = 32 << 20
"""Bytes of RECORD lines that a file is made of at most, unless a single one has more."""
LEVEL = 2
"""isal's, as for blocks."""
_PLACE = "a place of batches"
_OTHER = re.compile(r"[^\w.-]")


class _Line(msgspec.Struct, gc=False):
    type: str
    stream: str = ""
    version: int | None = None
    record: Raw = Raw(b"")


_LINES = msgspec.json.Decoder(_Line)


class Place(Protocol):
    """Where files are put."""

    def put(self, name: str, data: bytes) -> str:
        """Keep a file under a name that nobody has taken, and return its URI.

        Raises:
            StoreError: It cannot be kept.
        """


class Folder:
    """A folder of this machine.

    Args:
        path: The folder; made where it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, name: str, data: bytes) -> str:
        """Keep a file; see :class:`Place`."""
        path = self._path / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(data)
        except OSError as error:
            raise StoreError(f"cannot write the batch {path}: {error.strerror}") from error
        return path.as_uri()


class Bucket:
    """A bucket, or what lies below a prefix of one.

    Args:
        uri: ``s3://bucket/prefix`` and the like.
        config: The tap's settings, which say how it is reached.
    """

    def __init__(self, uri: str, config: Mapping[str, Any]) -> None:
        self._store = open_store(uri, batch_options(config))

    def put(self, name: str, data: bytes) -> str:
        """Keep a file; see :class:`Place`."""
        self._store.replace(name, data, None)
        return f"{self._store.uri}/{name}"


@dataclass(frozen=True)
class BatchOptions:
    """How records are put into files.

    Attributes:
        format: ``jsonl`` or ``parquet``.
        gzip: Whether they are compressed by gzip.
        place: Where the files go.
        prefix: What their names begin with.
        rows: Records of one.
    """

    format: str
    gzip: bool
    place: Place
    prefix: str
    rows: int

    @property
    def encoding(self) -> dict[str, str]:
        """What a message says of the files."""
        return {"format": self.format, "compression": "gzip" if self.gzip else "none"}

    @property
    def ending(self) -> str:
        """What their names end in."""
        if self.format == "parquet":
            return ".parquet"
        return ".json.gz" if self.gzip else ".json"


def options_of(config: Mapping[str, Any]) -> BatchOptions | None:
    """Read ``batch_config``; None where records go out line by line.

    Raises:
        UsageError: It cannot be used.
    """
    said = config.get("batch_config")
    if not said:
        return None
    encoding, storage = said.get("encoding") or {}, said.get("storage") or {}
    format_ = encoding.get("format") or "jsonl"
    compression = encoding.get("compression") or "none"
    if format_ not in ("jsonl", "parquet") or compression not in ("gzip", "none"):
        raise UsageError(
            f"batch_config.encoding is {format_!r} and {compression!r}: the format is jsonl or "
            "parquet, the compression gzip or none"
        )
    rows = ROWS if (size := said.get("batch_size")) is None else size
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise UsageError(f"batch_config.batch_size is {rows!r}: it must be a number above 0")
    prefix = storage.get("prefix") or ""
    return BatchOptions(
        format_, compression == "gzip", _place(config, storage.get("root"), prefix), prefix, rows
    )


def _place(config: Mapping[str, Any], root: str | None, prefix: str) -> Place:
    """Find where files go.

    Raises:
        UsageError: It is no place, or one where they may not be.
    """
    if not root:
        raise UsageError(f"batch_config.storage.root is missing: {FORMS}")
    if not is_key(f"{prefix}x"):
        raise UsageError(
            f"batch_config.storage.prefix is {prefix!r}: names begin with it below the root, so it "
            "cannot have an empty part, . or .. between its slashes"
        )
    lake = lake_uri(config)
    if batch_places.in_bucket(root):
        bucket, base = batch_places.split(root, _PLACE)
        if batch_places.in_bucket(lake):
            own, inner = batch_places.split(lake, "a lake")
            key = f"{base}/{prefix}" if base else prefix
            below = f"{inner}/" if inner else ""
            if (own, key[: len(below)]) == (bucket, below):
                _check_apart(f"{key[len(below) :]}x")
        return Bucket(f"{bucket}/{base}" if base else bucket, config)
    batch_places.refuse_elsewhere(root, "batch_config.storage.root")
    path = folder(in_project(root), _PLACE)
    if not is_remote(lake):
        named = os.path.relpath((path / f"{prefix}x").resolve(), folder(lake).resolve())
        _check_apart(Path(named).as_posix())
    return Folder(path)


def _check_apart(name: str) -> None:
    """Make sure that a name relative to the lake is none of the lake's own.

    Raises:
        UsageError: It is.
    """
    if name.startswith((RAW, STAGING)):
        raise UsageError(
            f"batch_config.storage.root is in the lake's own {name.partition('/')[0]}/: give "
            "a folder or a prefix of its own"
        )


@dataclass
class _Pending:
    """Records of one stream and one Singer version that are in no file yet."""

    version: int | None = None
    rows: int = 0
    size: int = 0
    records: list[Raw] = field(default_factory=list)


class BatchOutput:
    """Takes lines as :class:`Output` does; RECORDs go into files.

    What else there is goes out as it is, once all before it is in files whose names are out.

    Args:
        tap: What the files' names say of where they come from.
        options: How files are made.
        output: Where the messages go.
    """

    def __init__(self, tap: str, options: BatchOptions, output: Output) -> None:
        self._options = options
        self._output = output
        self._name = f"{options.prefix}{_OTHER.sub('_', tap)}"
        self._run = uuid.uuid4().hex
        self._files = 0
        self._pending: dict[str, _Pending] = {}
        self._schemas: dict[str, bytes] = {}

    def write(self, data: bytes, start: int = 0) -> None:
        """Take whole lines.

        Args:
            data: Lines, each with its newline.
            start: Leave out the bytes before this one.

        Raises:
            DamagedError: A line is no Singer message.
            StoreError: A file cannot be written.
        """
        data = data[start:] if start else data
        try:
            messages = _LINES.decode_lines(data)
        except msgspec.DecodeError as error:
            raise DamagedError(f"a line is not a Singer message: {error}") from error
        if {message.type for message in messages} == {"RECORD"}:
            self._records(messages)
            return
        lines = (line for line in io.BytesIO(data) if line.strip())
        for line, message in zip(lines, messages, strict=True):
            if message.type == "RECORD":
                self._records([message])
                continue
            self.flush()
            if message.type == "SCHEMA":
                self._schemas[message.stream] = line
            self._output.write(line)

    @property
    def waiting(self) -> bool:
        """Whether records wait for more, so that files are not all too small."""
        least = self._options.rows // 2
        return any(0 < one.rows < least for one in self._pending.values())

    def flush(self) -> None:
        """Put all that waits into files, and their names out."""
        for stream in list(self._pending):
            self._cut(stream)

    def _records(self, messages: list[_Line]) -> None:
        if len({(one.stream, one.version) for one in messages}) == 1:
            self._add(messages[0].stream, messages[0].version, [one.record for one in messages])
            return
        for one in messages:
            self._add(one.stream, one.version, [one.record])

    def _add(self, stream: str, version: int | None, records: list[Raw]) -> None:
        pending = self._pending.setdefault(stream, _Pending(version))
        if pending.version != version and pending.rows:
            self._cut(stream)
            pending = self._pending[stream] = _Pending(version)
        pending.version = version
        at = 0
        while at < len(records):
            part = records[at : at + self._options.rows - pending.rows]
            pending.records += part
            pending.rows += len(part)
            pending.size += sum(map(_length, part))
            at += len(part)
            if pending.rows >= self._options.rows or pending.size >= BYTES:
                self._cut(stream)
                pending = self._pending.setdefault(stream, _Pending(version))

    def _cut(self, stream: str) -> None:
        pending = self._pending.pop(stream, None)
        if pending is None or not pending.rows:
            return
        self._files += 1
        part = _OTHER.sub("_", stream)
        name = f"{self._name}--{part}-{self._run}-{self._files}{self._options.ending}"
        uri = self._options.place.put(name, self._content(stream, pending.records))
        message: dict[str, Any] = {
            "type": "BATCH",
            "stream": stream,
            "encoding": self._options.encoding,
            "manifest": [uri],
        }
        if pending.version is not None:
            message["version"] = pending.version
        self._output.write(msgspec.json.encode(message) + b"\n")

    def _content(self, stream: str, records: list[Raw]) -> bytes:
        if self._options.format == "parquet":
            from tap_singerlake.parquet_batches import parquet_of  # late: it brings pyarrow

            return parquet_of(self._schemas[stream], records, gzip=self._options.gzip)
        text = b"\n".join((*records, b""))
        return isal_zlib.compress(text, LEVEL, 31) if self._options.gzip else text


def _length(raw: Raw) -> int:
    return len(memoryview(raw))
