"""The log: one JSON object a transaction, write-once, the truth about a table."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Annotated, Any

import msgspec

from singerlake.errors import DamagedError
from singerlake.format import sealed
from singerlake.format.block import MAX_BLOCK_BYTES
from singerlake.format.overlay import Overlay
from singerlake.format.sealed import (
    PLAIN,
)
from singerlake.format.version_notes import (
    BlockedKeys,
    Count,
    Deleted,
    ErasedVersion,
    Erasure,
    PointerMove,
    PointerNote,
    Salt,
    SignatureNote,
    VersionDeletion,
    VersionErasure,
    VersionSignature,
)


class Operation(str, Enum):
    """An operation, by the word that the log has for it.

    A later release may bring more, so :class:`Entry` takes any word, and what none of these
    rules names counts as a change of rows.
    """

    SYNC = "sync"
    CREATE = "create"
    FREEZE = "freeze"
    DELETE_VERSION = "delete-version"
    """A version is no more; its number is not used again."""
    POINT = "point"
    """A pointer names another version from then on, or is removed."""
    SIGN = "sign"
    """A version has one more signature."""
    REVERT = "revert"
    ALTER = "alter"
    CHANGE = "change"
    """Rows became as a person asked, and perhaps the overlay, and perhaps that was frozen."""
    REPLAY = "replay"
    """Rejected records that are rows now; or, among these records, what became of them."""
    ADOPT = "adopt"
    """A rebuild takes files in whose log entries are lost."""
    DROP = "drop"
    """The table is gone, until an undrop; what comes next instead begins another."""
    UNDROP = "undrop"
    VACUUM_START = "vacuum-start"
    COMBINE = "combine"
    DROP_HISTORY = "drop-history"
    VACUUM = "vacuum"
    """A vacuum is done: what it was about to delete is gone, or stays."""
    ERASE_START = "erase-start"
    ERASE = "erase"
    """Blocks are elsewhere without the lines of some rows, under frozen versions too."""
    BLOCK_KEYS = "block-keys"
    """It changes which keys no row may come with."""

    def __str__(self) -> str:
        return self.value


FREEZES_ITSELF = frozenset({Operation.CHANGE, Operation.CREATE})
"""Operations whose entry may carry a version of what they leave."""


BlockBytes = Annotated[int, msgspec.Meta(ge=0, le=MAX_BLOCK_BYTES)]


Crc32 = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class SchemaEntry(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A schema under its hash: what a SCHEMA message said of the stream."""

    schema: dict[str, Any]
    key_properties: list[str] = []


class FileList(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A list of files that rows name, kept as an object of its own; see ``format/content.py``.

    Attributes:
        path: ``files/lists/<digits>.gz`` within the table's folder.
        files: How many it lists.
        bytes: Their bytes together.
        hash: SHA-256 of the list's own bytes.
    """

    path: str
    files: Count
    bytes: Count
    hash: str


class Block(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """The place of a block, and its content.

    Attributes:
        number: 1, 2, 3, … per table, by commit order; the row version of all its rows.
        file: ``<hash>/<name>`` within the table's folder.
        offset: Byte where the member begins in the file.
        length: Bytes of the member.
        rows: RECORD lines.
        bytes: Bytes it inflates to.
        first: ``time_extracted`` of the first record, ISO 8601 in UTC.
        last: The same of the last record.
        activations: ACTIVATE_VERSION messages: how many rows of the block come before it,
            and the version it names.
        first_version: 0 for a block as it was written: its number is the version of all its
            rows. A block that a vacuum put together from what it kept of several has the
            number of the last of them, each line says its own version and place, and this is
            the lowest number that went into it.
        crc: CRC-32 of what it inflates to, as its member's trailer has it: by that a reader
            knows that what it found in the file is what was committed. None in entries of
            format 1, which do not say.
        files: The list of the files that its rows name; None where they name none.
    """

    number: Count
    file: str
    offset: Count
    length: BlockBytes
    rows: Count
    bytes: BlockBytes
    first: str = ""
    last: str = ""
    activations: list[tuple[Count, int]] = []
    first_version: Count = 0
    crc: Crc32 | None = None
    files: FileList | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The objects that are there for it: its file, and the list of files that its rows name."""
        return (self.file,) if self.files is None else (self.file, self.files.path)

    @property
    def rewritten(self) -> bool:
        """Whether its lines say where they came from; see ``format/rewritten.py``."""
        return self.first_version > 0

    @property
    def lowest_version(self) -> int:
        """The lowest row version that its rows may have; the highest is its number."""
        return self.first_version or self.number

    @property
    def schema_hash(self) -> str:
        """The schema the block was written under: the folder its file lies in."""
        return self.file.partition("/")[0]


class FrozenVersion(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    kw_only=True,
    forbid_unknown_fields=True,
):
    """A table version: one number that means one transaction for ever.

    Attributes:
        number: 1, 2, 3, … per table.
        transaction: The transaction whose state it is.
        schema_hash: The schema of that state.
        rows: Rows in the state.
        fingerprint: Over the rows' values, in no order; 32 hexadecimal digits alone are those
            of a release that knew no better than to sum.
        record_fingerprint: Over the records as they were written; empty beside such digits.
        label: A name that can stand for the number; unique in the table.
        comment: Free text.
        time: When it was frozen, ISO 8601 in UTC.
        by: Who froze it.
        types: The number of the rules by which its columns are read.
        violations: The names of the constraints that its rows do not keep, where it was frozen all
            the same.
        requirements: The requirements that its rows met when it was frozen.
        deleted: That it is no more; never in a log entry, whose version always is a new one.
        erased: Each erasure of rows that it had, in order; never in a log entry either.
        pointed: Each move of a pointer to it, and each removal of one, in order; never in a log
            entry either.
        signed: Each signature of it, in order; never in a log entry either.
    """

    number: int
    transaction: int
    schema_hash: str
    rows: int
    fingerprint: str
    record_fingerprint: str = ""
    label: str | None = None
    comment: str | None = None
    time: str = ""
    by: str = ""
    types: int = 1
    violations: list[str] = []
    requirements: list[str] = []
    deleted: Deleted | None = None
    erased: list[VersionErasure] = []
    pointed: list[PointerNote] = []
    signed: list[SignatureNote] = []

    def __repr__(self) -> str:
        facts = [self.described(), f"transaction {self.transaction}"]
        facts += [f"frozen {self.time}"] if self.time else []
        facts += ["deleted"] if self.deleted is not None else []
        return f"FrozenVersion({', '.join(facts)})"

    def described(self) -> str:
        """Return the version's number, label, rows and fingerprint, as ``repr`` shows them."""
        from singerlake.quantities import count

        label = "" if self.label is None else f" {self.label!r}"
        facts = [f"{self.number}{label}", count(self.rows, "row")]
        facts += [f"fingerprint {self.fingerprint}"] if self.fingerprint else []
        return ", ".join(facts)

    def _repr_html_(self) -> str:
        """Show the version in a notebook."""
        from singerlake.cards import card

        shown = ("label", "rows", "fingerprint", "comment", "time", "by")
        facts: dict[str, object] = {"transaction": str(self.transaction)}
        facts |= {name: getattr(self, name) for name in shown}
        facts["violations"] = ", ".join(self.violations)
        facts["requirements"] = ", ".join(self.requirements)
        return card(f"Version {self.number}", facts)

    @property
    def only_against_accident(self) -> bool:
        """Whether who may choose rows can make others of the same fingerprint."""
        return ":" not in self.fingerprint


class Entry(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True
):
    """One transaction.

    Attributes:
        format: The format's number.
        number: 1, 2, 3, … per table with no gap.
        commit: An id no other commit has, by which a lost reply is recognised.
        salt: 32 random hexadecimal digits, which go when an erasure rewrites the entry, so that the
            chain id of what it was confirms no guess at erased rows.
        operation: One of :class:`Operation`, or a later release's.
        stream: The stream's name as Singer has it.
        time: When it was committed, by the writer's clock; for people, never for order.
        writer: The writer's id.
        software: Who wrote it, with version.
        schema_hash: The schema in effect after it.
        schemas: The schemas that the table sees for the first time, by hash.
        blocks: The blocks it adds, in order.
        version: The table version it makes (``freeze``, ``change``).
        deletion: The table version that it deletes (``delete-version``).
        pointer: The pointer that it moves (``point``, ``freeze``).
        signature: The signature of a version that it adds (``sign``).
        erasure: With ``erase-start`` and ``erase``: that rows go for good, and why.
        blocked: With ``erase`` and ``block-keys``: the keys that no row may come with from then on;
            None leaves them as they are.
        erased: With ``erase``: what each version that had such rows is without them.
        lanes: What that version's fingerprints are the hashes of, in Base64.
        metadata: What the user said of it.
        metrics: Counts and durations.
        moved: Blocks that lie elsewhere from now on, each with the number that it had.
        removed: Ranges of block numbers, ends included, that are no more.
        floor: The history floor: of earlier transactions only frozen ones can be read now.
        deletes: Files that a vacuum is about to delete; until it is done no other's commit
            may name them, and those who began before may not even then.
        deletes_listed: The same of files that rows named, in a list of their own.
        deleted: Files that it did delete since the vacuum before.
        last_block: The table's last block after it, where a rebuild wrote an entry whose
            blocks no longer tell.
        overlay: With ``alter`` or ``change``: what people said of the table, all of it.
        previous: The chain id of the entry before; empty in the first, and in format 1.
        stands_for: The chain id of a lost entry that a rebuild wrote this one in place of,
            where the entry after it, or the manifest, still tells; or that it had itself
            before an erasure had it rewritten.
        rewritten: The ``erase-start`` for whose erasure it was; 0 for an entry as it was written.
        hash: SHA-256 of the file before the line with this; in format 1, which has no such
            line, of the whole file. Set by :func:`decode_entry` and :func:`seal_entry`.
    """

    format: int
    number: int
    commit: str
    salt: Salt = ""
    operation: str
    stream: str
    time: str
    writer: str = ""
    software: str = ""
    schema_hash: str = ""
    schemas: dict[str, SchemaEntry] = {}
    blocks: list[Block] = []
    version: FrozenVersion | None = None
    deletion: VersionDeletion | None = None
    pointer: PointerMove | None = None
    signature: VersionSignature | None = None
    erasure: Erasure | None = None
    blocked: BlockedKeys | None = None
    erased: list[ErasedVersion] = []
    lanes: dict[str, str] = {}
    metadata: dict[str, Any] = {}
    metrics: dict[str, int | float] = {}
    moved: list[Block] = []
    removed: list[tuple[int, int]] = []
    floor: int = 0
    deletes: list[str] = []
    deletes_listed: FileList | None = None
    deleted: list[str] = []
    last_block: int = 0
    overlay: Overlay | None = None
    previous: str = ""
    stands_for: str = ""
    rewritten: Count = 0
    hash: str = ""

    @property
    def chain(self) -> str:
        """Its chain id: what the next entry must say that it follows."""
        return self.stands_for or self.hash

    @property
    def rows(self) -> int:
        """RECORD lines that the transaction adds."""
        return sum(block.rows for block in self.blocks)

    @property
    def bytes(self) -> int:
        """Compressed bytes that the transaction adds."""
        return sum(block.length for block in self.blocks)


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of numbers in order, ends included; those that meet are put together."""
    merged: list[tuple[int, int]] = []
    for first, last in ranges:
        if merged and merged[-1][1] == first - 1:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged


_ENTRY = sealed.Reader(Entry)
_BLOCK = msgspec.json.Decoder(Block)


def decode_entry(data: bytes, number: int, where: str) -> Entry:
    """Read a log entry.

    Args:
        number: The number that its name says.

    Raises:
        DamagedError: It is cut, altered, of another shape, or says another number.
    """
    form = sealed.check_format(data, where)
    own_hash = sealed.digest(data) if form == PLAIN else sealed.check_seal(data, where)
    entry: Entry = _ENTRY.read(data, form, where)
    if entry.number != number:
        raise DamagedError(f"{where} contains the number of transaction {entry.number}")
    if form == PLAIN and (entry.previous or entry.stands_for or entry.hash):
        raise DamagedError(f"{where} cannot be read: an entry of format 1 has no hash")
    if form > PLAIN and bool(entry.previous) is (number == 1):
        raise DamagedError(f"{where} cannot be read: it does not contain the entry that it follows")
    version = entry.version
    if version is not None and (
        version.deleted or version.erased or version.pointed or version.signed
    ):
        raise DamagedError(
            f"{where} cannot be read: it makes a version that was deleted, erased from, pointed "
            "to or signed already"
        )
    if entry.rewritten and (not entry.stands_for or entry.rewritten <= number):
        raise DamagedError(f"{where} cannot be read: no erasure rewrites an entry like that")
    return msgspec.structs.replace(entry, hash=own_hash)


def seal_entry(entry: Entry) -> tuple[Entry, bytes]:
    """Spell a log entry: readable JSON, indented, its hash in a line of its own at the end.

    Returns:
        The entry with its hash, and the file's bytes.
    """
    plain = msgspec.json.encode(msgspec.structs.replace(entry, hash=""))
    data = msgspec.json.format(plain, indent=1) + b"\n"
    if entry.format == PLAIN:
        own_hash = sealed.digest(data)
    else:
        data, own_hash = sealed.seal(data)
    return msgspec.structs.replace(entry, hash=own_hash), data


def decode_block(data: bytes) -> Block:
    """Read a block's description that an executor sent."""
    return _BLOCK.decode(data)
