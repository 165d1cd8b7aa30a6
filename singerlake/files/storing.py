"""Files that records name stored in the lake, and the records that say where they lie."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from io import BytesIO
from typing import Any

import msgspec
from msgspec import Raw

from singerlake.errors import InputError
from singerlake.files.contents import SIDE_BY_SIDE, Contents, Stored
from singerlake.files.handed_on import received
from singerlake.files.sources import MissingFileError, Sources, is_inline, shown
from singerlake.format import file_paths
from singerlake.format.content import Place, spelled
from singerlake.format.names import TableName
from singerlake.log.table_state import TableState
from singerlake.rows.lines.members import patched
from singerlake.storage.base import Store

_SHOWN = 60


class _Line(msgspec.Struct, gc=False):
    record: Raw = Raw(b"{}")


_LINE = msgspec.json.Decoder(_Line)
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_ANY = msgspec.json.Decoder()


class FileStorer:
    """Stores the files that a table's records name, each content once.

    Args:
        store: The lake's store.
        table: The table.
        begin: Gives the snapshot that the next commit goes on from; asked for once, with the
            first file.
        sources: Opens files.
        missing: What becomes of a record whose file is not there: ``fail`` raises, ``null`` puts
            null in the place of the file, ``keep`` leaves the record as it is.
        check: Called now and then, from any thread; may raise to end the run.
    """

    def __init__(
        self,
        store: Store,
        table: TableName,
        begin: Callable[[], TableState],
        sources: Sources,
        missing: str = "fail",
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._table = table
        self._contents = Contents(store, table, begin, check)
        self._sources = sources
        self._missing = missing
        self._pool: ThreadPoolExecutor | None = None
        self._mutex = threading.Lock()
        self.missed = 0

    def take(
        self,
        text: bytes,
        place: Place,
        refusal: Callable[[bytes], str] = lambda _record: "",
        keys: Sequence[str] = (),
    ) -> bytes:
        """Store the files that some RECORD lines name.

        Args:
            text: The lines, each with its newline; valid under their schema.
            place: Where they name files.
            refusal: Says of a record that has null in the place of a file why its schema does not
                allow that; empty where it does.
            keys: The members by which a message names a record.

        Returns:
            The same lines, each file's object with its ``checksum``, ``size`` and ``path``.

        Raises:
            InputError: A file is not there, may not be read, or is not what the record says; or
                null may not be in its place.
            StoreError: The store refused.
        """
        lines = BytesIO(text).readlines()
        records = [_MEMBERS.decode(_LINE.decode(line).record) for line in lines]
        wanted: dict[bytes, Future[bytes]] = {}
        whose: list[str] = []
        try:
            for record in records:
                for name, inner in place.members.items():
                    for raw in inner.files(record[name]) if name in record else ():
                        if raw not in wanted:
                            wanted[raw] = self._submit(raw)
                            whose.append(self._whose(record, keys, name))
            self._wait([*wanted.values()], whose)
        finally:
            for future in wanted.values():
                future.cancel()
            wait(wanted.values())
        if not wanted:
            return text
        if any(future.result() == b"null" for future in wanted.values()):
            self._check_nulls(records, place, wanted, refusal, keys)
        return b"".join(
            self._spelled(line, record, place, lambda raw: wanted[raw].result())
            for line, record in zip(lines, records, strict=True)
        )

    def close(self) -> None:
        """Stop what is under way, and let go of everything."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._contents.close()

    def _submit(self, raw: bytes) -> Future[bytes]:
        self._contents.load()  # on this thread: others wait for it
        if self._pool is None:
            self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, "files")
        return self._pool.submit(self._one, raw)

    def _wait(self, futures: list[Future[bytes]], whose: list[str]) -> None:
        wait(futures, return_when=FIRST_EXCEPTION)
        for future, who in zip(futures, whose, strict=True):
            if future.done() and not future.cancelled():
                try:
                    future.result()  # raises what went wrong first in the order of the lines
                except MissingFileError as error:
                    way_out = "set missing_files to null or keep to continue without such files"
                    raise InputError(f"{who}: {error}: {way_out}") from error
                except InputError as error:
                    raise InputError(f"{who}: {error}") from error

    def _whose(self, record: dict[str, Raw], keys: Sequence[str], name: str) -> str:
        own = [f"{key} {_short(record[key])}" for key in keys if key in record]
        by_key = f" with {', '.join(own)}" if own else ""
        return f"a file that a record of stream {self._table.stream!r}{by_key} names in {name!r}"

    def _check_nulls(
        self,
        records: list[dict[str, Raw]],
        place: Place,
        wanted: dict[bytes, Future[bytes]],
        refusal: Callable[[bytes], str],
        keys: Sequence[str],
    ) -> None:
        """Refuse what a schema does not allow once null is where a file is missing."""

        def null_or_as_it_was(raw: bytes) -> bytes:
            return b"null" if wanted[raw].result() == b"null" else raw

        for record in records:
            new = {
                name: inner.replaced(record[name], null_or_as_it_was)
                for name, inner in place.members.items()
                if name in record
            }
            changed = [name for name, value in new.items() if value != bytes(record[name])]
            if changed and (why := refusal(spelled({**record, **new}))):
                raise InputError(
                    f"{self._whose(record, keys, changed[0])} does not exist, and missing_files: "
                    f"null cannot replace it by null: {why}"
                )

    def _spelled(
        self,
        line: bytes,
        record: dict[str, Raw],
        place: Place,
        change: Callable[[bytes], bytes],
    ) -> bytes:
        changed: dict[str, bytes | None] = {}
        for name, inner in place.members.items():
            if name in record and (new := inner.replaced(record[name], change)) != record[name]:
                changed[name] = new
        return patched(line[:-1], changed) + b"\n" if changed else line

    def _one(self, raw: bytes) -> bytes:
        """Store the file that one object says of; what is to stand in its place."""
        members = _MEMBERS.decode(raw)
        said = {name: _ANY.decode(members[name]) for name in _OWN if name in members}
        uri = said.get("uri")
        if not isinstance(uri, str) or not uri:
            return _without_path(raw, members)
        passed = received(raw, members)
        names_itself = is_inline(uri)
        if passed is not None:
            raw, names_itself = passed.raw, passed.names_itself
            members = _MEMBERS.decode(raw)
        try:
            stored = self._stored(uri, said, passed.path if passed else "")
        except MissingFileError:
            if self._missing == "fail":
                raise
            with self._mutex:
                self.missed += 1
            return b"null" if self._missing == "null" else _without_path(raw, members)
        return _with(raw, members, stored, names_itself=names_itself)

    def _stored(self, uri: str, said: dict[str, Any], wanted: str) -> Stored:
        digest = _digest_said(uri, said.get("checksum"))
        size = said.get("size")
        if size is not None and (type(size) is not int or size < 0):
            raise InputError(f"{shown(uri)} has a size that is not a number of bytes")
        found = self._contents.find(digest, wanted) if digest else None
        if found is not None and size in (None, found.size):
            return found

        def compare(actual: str, read: int) -> None:
            if size not in (None, read):
                raise InputError(f"{shown(uri)} has {read:,} bytes, and its record says {size:,}")
            if digest not in ("", actual):
                raise InputError(f"{shown(uri)} has another SHA-256 than in its record")

        return self._contents.put(self._sources.pieces(uri), compare, wanted)


def _short(value: Raw) -> str:
    text = bytes(value).decode("utf-8", "replace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_OWN = ("uri", "size", "checksum")


def _digest_said(uri: str, checksum: object) -> str:
    """The SHA-256 that a record says; empty where it says none."""
    if checksum is None:
        return ""
    match = file_paths.CHECKSUM.fullmatch(checksum) if isinstance(checksum, str) else None
    if match is None:
        raise InputError(f"{shown(uri)} has a checksum that is not SHA-256: and 64 digits")
    return match[1].lower()


def _without_path(raw: bytes, members: dict[str, Raw]) -> bytes:
    """An object that names no file of the lake, whatever it came with."""
    if "path" not in members:
        return raw
    return spelled({name: value for name, value in members.items() if name != "path"})


def _with(raw: bytes, members: dict[str, Raw], stored: Stored, *, names_itself: bool) -> bytes:
    """An object with what is known of its file, all other bytes as they were."""
    known = {
        "checksum": b'"%b"' % stored.checksum.encode(),
        "size": b"%d" % stored.size,
        "path": b'"%b"' % stored.path.encode(),
    }
    if names_itself:  # what is in the lake is not in the record as well
        known["uri"] = known["path"]
    own = {n: value for n, value in known.items() if _ANY.decode(value) != _said(members, n)}
    if members.keys().isdisjoint(own):
        added = b", ".join(b"%b: %b" % (msgspec.json.encode(n), v) for n, v in own.items())
        return b"%b, %b}" % (raw.rstrip()[:-1].rstrip(), added) if own else raw
    return spelled({**members, **own})


def _said(members: dict[str, Raw], name: str) -> object:
    return _ANY.decode(members[name]) if name in members else None
