"""The derived files: manifest, catalogue, lake, lock, index. Lost, they can be made again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from singerlake.errors import DamagedError
from singerlake.format import sealed
from singerlake.format.annotations import Annotations, Publication, TableEntry, TapEntry
from singerlake.format.log import (
    Block,
    BlockBytes,
    Crc32,
    FileList,
    FrozenVersion,
    Operation,
    SchemaEntry,
)
from singerlake.format.names import TableName
from singerlake.format.overlay import Overlay
from singerlake.format.packed import Noted, Packed, PackedTransactions, with_lists_unread
from singerlake.format.sealed import PLAIN, UNREADABLE, check_format
from singerlake.format.version_notes import BlockedKeys, Count
from singerlake.version import FORMAT

T = TypeVar("T", bound=msgspec.Struct)


class TransactionSummary(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    kw_only=True,
    gc=False,
    forbid_unknown_fields=True,
):
    """The summary of a log entry in the manifest: enough to write the entry again.

    ``gc=False`` here, and for blocks: there may be hundreds of thousands of them, none can be
    part of a circle, and a table of 200,000 blocks opens in 0.18 s instead of 0.42 s of
    processor when the collector does not look at each again and again.
    """

    number: int
    commit: str
    operation: str
    time: str
    writer: str = ""
    software: str = ""
    schema_hash: str = ""
    rows: int = 0
    bytes: int = 0
    blocks: int = 0
    last_block: int = 0


def last_sync(transactions: Sequence[TransactionSummary]) -> str | None:
    """Return when a sync brought records last: what people change makes no table fresh.

    Of a table that no sync ever brought records to, when anything did.
    """
    writes = [one for one in reversed(transactions) if one.rows]
    syncs = (one for one in writes if one.operation == Operation.SYNC)
    last = next(syncs, writes[0] if writes else None)
    return last.time if last is not None else None


class BlockRow(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A block in the manifest, where its file is said once for all its blocks."""

    number: Count
    offset: Count
    length: BlockBytes
    rows: Count
    bytes: BlockBytes
    first: str
    last: str
    activations: list[tuple[Count, int]] = []
    first_version: Count = 0
    crc: Crc32 | None = None


class FileEntry(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A data file in the manifest."""

    path: str
    blocks: list[BlockRow]


class DroppedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data file that the log named once and names no more; it waits to be deleted.

    Attributes:
        path: ``<hash>/<name>`` within the table's folder.
        transaction: The one that dropped it.
        time: When, ISO 8601 in UTC.
        bytes: What blocks it still held then.
    """

    path: str
    transaction: int
    time: str
    bytes: int = 0


class Manifest(msgspec.Struct, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """The log folded up to one transaction (a checkpoint).

    Attributes:
        format: That of the entry it is folded up to.
        versions: Schema hashes in order of appearance: ``{"<hash>": "v1", …}``.
        transaction: The transaction it is folded up to.
        floor: The history floor; 0 where no history was ever dropped.
        dropped: Files that wait to be deleted.
        pending_deletes: Files that a vacuum is about to delete, with the transaction that said
            so; ``doomed`` on disk.
        file_lists: The lists of files that rows name, by the number of their block.
        pending_lists: Lists of such files that a vacuum is about to delete, each with the
            transaction that said so; ``doomed_lists`` on disk.
        overlays: What people said of the columns, by the transaction that said it.
        restorable: The files of a table that was dropped, as ``files`` has them, as long as it
            can be brought back; None where it cannot, and where it is there.
        blocked: The keys that no row may come with; None where there are none.
        chain: The chain id of the entry it is folded up to; not in format 1.
        hash: SHA-256 of the file before the line with this; not in format 1, and set only
            in what was read.
    """

    format: int
    tap: str
    stream: str
    transaction: int
    versions: dict[str, str] = {}
    schemas: dict[str, SchemaEntry] = {}
    transactions: list[TransactionSummary] = []
    table_versions: list[FrozenVersion] = []
    files: list[FileEntry] = []
    floor: int = 0
    dropped: list[DroppedFile] = []
    pending_deletes: dict[str, Count] = msgspec.field(name="doomed", default={})
    file_lists: dict[int, FileList] = {}
    pending_lists: list[tuple[Count, FileList]] = msgspec.field(name="doomed_lists", default=[])
    overlays: dict[int, Overlay] = {}
    restorable: list[FileEntry] | None = None
    blocked: BlockedKeys | None = None
    chain: str = ""
    hash: str = ""


LAKE_FORMAT = 1
"""The number of the lake's file. It counts for itself: an earlier release opens the tables that
this one has not written to, as long as it can read this file."""


class LakeFile(Annotations, frozen=True, kw_only=True, omit_defaults=False):
    """``raw/singerlake.json``.

    Attributes:
        format: The number of this file's own format.
        taps: The taps, and what is said of them.
        conditional_writes: What a probe of the store found; None where none was needed, or
            none was made yet.
        probed: The place that it was found of: a lake that was copied is probed again.
        lock_settle_seconds: On a store that ignores conditions, how long all writers wait
            after a write before they trust it; None leaves it to the software.
        published: What is published of the lake, by the projections' names; not there where
            nothing was ever.
    """

    format: int = LAKE_FORMAT
    taps: dict[str, TapEntry] = msgspec.field(default_factory=dict)
    conditional_writes: bool | None = None
    probed: str | None = None
    lock_settle_seconds: float | None = None
    published: dict[str, Publication] = msgspec.field(default_factory=dict)

    def tap(self, name: str) -> TapEntry:
        """Return what it says of a tap; an empty entry where that is nothing."""
        return self.taps.get(name, TapEntry())

    def table(self, name: TableName) -> TableEntry:
        """Return what it says of a table; an empty entry where that is nothing."""
        return self.tap(name.tap).tables.get(name.stream, TableEntry())

    def requirements_of(self, name: TableName, *, own: bool = False) -> list[str]:
        """Return what each snapshot of a table must meet, as of the lake, the tap and the table.

        Args:
            own: Leave out those of the lake and the tap.
        """
        said = (self.table(name),) if own else (self, self.tap(name.tap), self.table(name))
        return [text for one in said for text in one.requirements]

    def published_from(self, name: TableName) -> dict[str, Publication]:
        """Return what it says is published of a table, by the projections' names."""
        return {key: one for key, one in self.published.items() if str(name) in one.tables}


class CatalogueEntry(msgspec.Struct, kw_only=True):
    """One stream in a Singer catalog."""

    tap_stream_id: str
    stream: str
    key_properties: list[str]
    schema: dict[str, Any]
    metadata: list[dict[str, Any]]


class Catalogue(msgspec.Struct, kw_only=True):
    """``raw/<tap>/catalogue.json``: a Singer catalog, for any Singer tool."""

    streams: list[CatalogueEntry] = []


class Lock(msgspec.Struct, kw_only=True, rename={"writer_id": "writer-id"}):
    """``singerlake.lock``, as the layout's first publication has it, and a count.

    Attributes:
        writer_id: Who holds it.
        acquired: When it was taken.
        refreshed: When it was last said to live.
        beat: Another number each time, for a clock may stand still.
    """

    writer_id: str
    acquired: str
    refreshed: str
    beat: Count = 0


class Lease(msgspec.Struct, kw_only=True, rename={"reader_id": "reader-id"}):
    """A reader's lease, like a lock: what vacuum must leave until it ends.

    Attributes:
        reader_id: Who reads.
        transaction: What was referenced after this transaction, or later, may be read.
        acquired: When it was taken.
        refreshed: When it was last said to live.
        beat: As a lock's.
    """

    reader_id: str
    transaction: int
    acquired: str
    refreshed: str
    beat: Count = 0


INDEX_FORMAT = 2
"""The number of the indexes this release makes. Those of format 1 have neither digests of the
records nor hashes of the files; a cache of another kind is left aside and made again."""


class IndexFile(msgspec.Struct, frozen=True):
    """One Parquet file of an index.

    Attributes:
        path: Its name in the index's folder.
        rows: Rows in it.
        bytes: Its size.
        hash: The BLAKE3 hash of its bytes, found by who wrote them, in hexadecimal digits.
    """

    path: str
    rows: int
    bytes: int
    hash: str = ""


class IndexMarker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``_index.json``: names the files of a finished index; without it there is none.

    Attributes:
        format: The number of the index's own format.
        transaction: Whose state it is.
        commit: The transaction's.
        schema_hash: The schema in effect.
        rows: Rows of the state; None in a layer, whose files do not tell.
        files: Its files.
        base: The transaction of the index that this one is a layer on; 0 for a whole state.
        misfits: How many values of a column do not fit it, for the columns that have such.
        types: The number of the rules by which its columns are read.
        erased: The last erasure of rows that whoever made it knew of; 0 where there was none.
        hash: As a manifest's: only there where the marker is a file.
    """

    format: int
    transaction: int
    commit: str
    schema_hash: str
    rows: int | None
    files: list[IndexFile]
    base: int = 0
    misfits: dict[str, Count] = {}
    types: int = 1
    erased: Count = 0
    hash: str = ""


BOOKMARK_FORMAT = 1


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """The transactions of a table that a bookmark depends on.

    Attributes:
        since: The table's last one when the run read the bookmark that it began with.
        until: The table's last one when the bookmark was written.
    """

    since: Count = 0
    until: Count = 0


class Bookmark(msgspec.Struct, frozen=True, kw_only=True):
    """The bookmark of a pipeline: the STATE with which its tap resumes.

    Attributes:
        format: The number of the bookmark's own format.
        tap: The tap whose tables the STATE is about; empty if no table of the lake is.
        time: When it was written.
        completed: What completed runs emitted, as the scheduler spelled it; an object or null.
        partial: What runs emitted since that did not complete, or only took some streams.
        tables: The tap's tables, by stream.
    """

    format: int = BOOKMARK_FORMAT
    id: str = ""
    tap: str = ""
    time: str = ""
    completed: msgspec.Raw = msgspec.Raw(b"null")
    partial: msgspec.Raw = msgspec.Raw(b"null")
    tables: dict[str, Span] = {}


_MANIFEST = sealed.Reader(Manifest)
_PACKED_BYTES = 4 << 20
"""In a larger manifest the two long lists are packed."""
_LONG = ("transactions", "files")
_LARGE = sealed.Reader(with_lists_unread(Manifest, _LONG))
_SUMMARIES = msgspec.json.Decoder(list[TransactionSummary])
_FILES = msgspec.json.Decoder(list[FileEntry])


KINDS = (LakeFile, Catalogue, Lock, Lease, IndexMarker, Bookmark)
"""What :func:`decode` reads beside the manifest."""

# Built here, once: msgspec does not survive two threads that build a type at the same time
# (docs/decisions/027-types-are-built-at-import.md).
_DECODERS: dict[type[msgspec.Struct], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in KINDS
}


_OWN_FORMATS: dict[type[msgspec.Struct], int] = {
    LakeFile: LAKE_FORMAT,
    IndexMarker: INDEX_FORMAT,
    Bookmark: BOOKMARK_FORMAT,
}
"""The greatest format numbers of files that have numbers of their own."""


def decode(data: bytes, kind: type[T], where: str) -> T:
    """Read a metadata file.

    Args:
        kind: :class:`Manifest`, or one of :data:`KINDS`.

    Raises:
        DamagedError: It is cut, of another shape, or not what its own hash says.
    """
    if issubclass(kind, Manifest):
        return _decode_manifest(data, where)  # type: ignore[return-value]
    most = _OWN_FORMATS.get(kind, FORMAT)
    number = check_format(data, where, most) if "format" in kind.__struct_fields__ else PLAIN
    if issubclass(kind, IndexMarker) and number > PLAIN:
        sealed.check_seal(data, where)
    try:
        content: T = _DECODERS[kind].decode(data)
    except UNREADABLE as error:
        raise DamagedError(f"{where} cannot be read: {error}") from error
    return (
        msgspec.structs.replace(content, hash="") if isinstance(content, IndexMarker) else content
    )


def _decode_manifest(data: bytes, where: str) -> Manifest:
    number = check_format(data, where)
    if number > PLAIN:
        sealed.check_seal(data, where)
    if number == PLAIN or len(data) <= _PACKED_BYTES:
        manifest: Manifest = _MANIFEST.read(data, number, where)
    else:
        manifest = _packed(_LARGE.read(data, number, where), where)
    if (number > PLAIN) is not bool(manifest.chain):
        raise DamagedError(f"{where} cannot be read: it does not contain its last log entry")
    return manifest


def _packed(large: Any, where: str) -> Manifest:
    """Return a large manifest whose long lists are packed; nothing of its bytes is kept."""
    members = {name: getattr(large, name) for name in Manifest.__struct_fields__}
    summaries, files = (memoryview(members.pop(name)) for name in _LONG)
    noted = Noted()
    packed = Packed(summaries, "number", _SUMMARIES, where, noted.take)
    transactions = PackedTransactions(packed, noted)
    packed_files = Packed(files, "path", _FILES, where)  # gone through once, and seldom again
    return Manifest(**members, transactions=transactions, files=packed_files)  # type: ignore[arg-type]


def encode(value: msgspec.Struct | dict[str, Any], *, indent: bool = True) -> bytes:
    """Spell a metadata file as JSON with a newline at its end; some with their hash."""
    data = msgspec.json.encode(value)
    data = (msgspec.json.format(data, indent=1) if indent else data) + b"\n"
    if isinstance(value, Manifest | IndexMarker) and value.format > PLAIN:
        return sealed.seal(data)[0]
    return data


def group_by_file(blocks: Sequence[Block]) -> list[FileEntry]:
    """The manifest's form of a list of blocks, files in order of first appearance."""
    files: dict[str, list[BlockRow]] = {}
    for b in blocks:
        row = (b.number, b.offset, b.length, b.rows, b.bytes, b.first, b.last, b.activations)
        files.setdefault(b.file, []).append(BlockRow(*row, b.first_version, b.crc))
    return [FileEntry(path, rows) for path, rows in files.items()]


def lists_of(blocks: Iterable[Block]) -> dict[int, FileList]:
    """Return the lists of files that rows of some blocks name, by the blocks' numbers."""
    return {block.number: block.files for block in blocks if block.files is not None}


def ungroup(files: Iterable[FileEntry], lists: Mapping[int, FileList]) -> list[Block]:
    """Undo :func:`group_by_file` and :func:`lists_of`; blocks come in order of number."""
    none: list[tuple[Count, int]] = []  # one for all: there are very many blocks
    blocks: list[Block] = []
    add = blocks.append
    for file in files:
        path = file.path
        for r in file.blocks:
            first, last = r.first, r.last
            last = first if last == first else last  # one text for both
            of, made = lists.get(r.number) if lists else None, r.activations or none
            add(Block(r.number, path, r.offset, r.length, r.rows, r.bytes, first, last, made, r.first_version, r.crc, of))  # noqa: E501  # fmt: skip
    blocks.sort(key=attrgetter("number"))
    return blocks
