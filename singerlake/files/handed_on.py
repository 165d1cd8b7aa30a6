"""Files from lake to lake: what a tap says of them, and what a target makes of that.

In a lake, ``uri`` says where a file came from, and nobody may be able to read that any more. On the
way out it becomes what the next target can read, and what it was before stands in a member behind
all others. A target of ours puts it back, byte for byte, so that a copied row is the same row.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format import file_paths
from singerlake.format.content import Place
from singerlake.format.names import TableName
from singerlake.rows.lines.members import patched
from singerlake.storage.base import READERS, KeyMissingError, Store

CAME_AS = "singerlake.uri"
"""The member that has the ``uri`` of the row in the lake; null where it had none."""
PART_BYTES = 16 << 20
"""Files that go out within records are read for about so many bytes of lines at a time."""
_ANY = msgspec.json.Decoder()
_BEFORE = b'{"record": '


class _Line(msgspec.Struct, gc=False):
    type: str
    record: Raw = Raw(b"{}")


class _File(msgspec.Struct, gc=False):
    path: Any = None
    size: Any = None
    content_type: Any = None


_LINE = msgspec.json.Decoder(_Line)
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_FILE = msgspec.json.Decoder(_File)


def address(store: Store, table: TableName, path: str) -> str:
    """Return a URI by which others can read a stored file.

    Args:
        store: The lake's store.
        table: The file's table.
        path: Where it lies within the table's folder.
    """
    local = store.local_path(table.key(path))
    return Path(local).absolute().as_uri() if local else f"{store.uri}/{table.key(path)}"


@dataclass(frozen=True)
class HandedOn:
    """Makes records say where others can read their files.

    Attributes:
        store: The lake's store.
        table: The records' table.
        inline_bytes: Files up to this size go out within the records, as ``data:`` URIs.
    """

    store: Store
    table: TableName
    inline_bytes: int = 0

    def parts(self, text: bytes, place: Place) -> Iterator[bytes]:
        """Yield a block's lines part by part, each with the SCHEMA line first.

        Args:
            text: Its lines, the SCHEMA first.
            place: Where they name files.

        Raises:
            DamagedError: A file that goes out within its record is gone, or damaged.
        """
        try:
            yield from self._parts(text, place)
        except msgspec.DecodeError as error:
            raise DamagedError(
                f"a block of {self.table} has a line that is not a Singer message: {error}"
            ) from error

    def _parts(self, text: bytes, place: Place) -> Iterator[bytes]:
        schema, rest = format_block.lines(text)
        part: list[bytes] = []
        size = 0
        for line in BytesIO(rest):
            part.append(line)
            size += len(line) + (self._inline_size(line, place) if self.inline_bytes else 0)
            if size >= PART_BYTES:
                yield b"".join((schema, *self._lines(part, place)))
                part, size = [], 0
        yield b"".join((schema, *self._lines(part, place)))

    def _lines(self, lines: list[bytes], place: Place) -> Iterator[bytes]:
        inline = self._read(lines, place) if self.inline_bytes else {}
        for line in lines:
            message = _LINE.decode(line)
            changed: dict[str, bytes | None] = {}
            if message.type == "RECORD":
                record = _MEMBERS.decode(message.record)
                for name, inner in place.members.items():
                    if name not in record:
                        continue
                    new = inner.replaced(record[name], lambda raw: self._outgoing(raw, inline))
                    if new != bytes(record[name]):
                        changed[name] = new
            yield patched(line.rstrip(b"\n"), changed) + b"\n" if changed else line

    def _outgoing(self, raw: bytes, inline: dict[str, str]) -> bytes:
        file = _FILE.decode(raw)
        if not _is_stored(file.path):
            return raw
        body = inline.get(file.path)
        if body is None:
            uri = address(self.store, self.table, file.path)
        else:
            media = file.content_type if isinstance(file.content_type, str) else ""
            uri = f"data:{media.partition(',')[0]};base64,{body}"
        came_as = _MEMBERS.decode(raw).get("uri", Raw(b"null"))
        return _set(raw, {"uri": msgspec.json.encode(uri), CAME_AS: bytes(came_as)})

    def _files(self, line: bytes, place: Place) -> Iterator[_File]:
        for raw in place.files(_LINE.decode(line).record):
            file = _FILE.decode(raw)
            if _is_stored(file.path) and type(file.size) is int and file.size <= self.inline_bytes:
                yield file

    def _inline_size(self, line: bytes, place: Place) -> int:
        return sum(file.size * 4 // 3 for file in self._files(line, place))

    def _read(self, lines: list[bytes], place: Place) -> dict[str, str]:
        paths = list({file.path: 0 for line in lines for file in self._files(line, place)})
        with ThreadPoolExecutor(READERS, "files") as pool:
            return dict(zip(paths, pool.map(self._body, paths), strict=True))

    def _body(self, path: str) -> str:
        key = self.table.key(path)
        try:
            data = self.store.get(key).data
        except KeyMissingError as error:
            raise DamagedError(
                f"the file {key}, which a row of {self.table} names, is missing"
            ) from error
        if hashlib.sha256(data).hexdigest() != file_paths.digest_in(path):
            raise DamagedError(f"the file {key} is damaged: its bytes have another SHA-256")
        return base64.b64encode(data).decode("ascii")


@dataclass(frozen=True)
class Received:
    """What a tap of ours said of a file.

    Attributes:
        raw: The object as it was in the lake that it comes from.
        path: Where the file lay in that lake's table; empty where that is no such path.
        names_itself: Whether its ``uri`` was just this path.
    """

    raw: bytes
    path: str
    names_itself: bool


def received(raw: bytes, members: dict[str, Raw]) -> Received | None:
    """Take back what :class:`HandedOn` did to an object; None where it comes from elsewhere.

    Args:
        raw: The object's JSON.
        members: Its members.
    """
    if CAME_AS not in members:
        return None
    came_as = bytes(members[CAME_AS])
    own = _set(raw, {"uri": None if came_as == b"null" else came_as, CAME_AS: None})
    path = _ANY.decode(members["path"]) if "path" in members else ""
    path = path if _is_stored(path) else ""
    return Received(own, path, bool(path) and _ANY.decode(came_as) == path)


def _is_stored(path: object) -> bool:
    return isinstance(path, str) and file_paths.is_content(path)


def _set(raw: bytes, changed: dict[str, bytes | None]) -> bytes:
    """Set members of an object, every other byte as it was."""
    return patched(b"%b%b}" % (_BEFORE, raw), changed)[len(_BEFORE) : -1]
