"""The lake's own log: one JSON object a lake version, write-once.

A lake version is a number that means one version of each of its tables, for ever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from singerlake.errors import DamagedError
from singerlake.format import names, sealed
from singerlake.format.names import TableName
from singerlake.format.sealed import PLAIN
from singerlake.format.version_notes import Count, Salt

ALGORITHM = "lv1"
"""Stands before a lake version's fingerprint; one of another make gets another word."""


class LakeTable(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A table in a lake version.

    Attributes:
        tap: The tap.
        stream: The stream, as Singer has it.
        head: The table's last transaction at the moment of the cut.
        version: The number of its table version, of the state at ``head``.
        transaction: The transaction that the table version is of: ``head``, or an earlier one
            with the same state.
        rows: Rows in it.
        fingerprint: The table version's, over the rows' values.
        record_fingerprint: The same over the records as they were written.
    """

    tap: str
    stream: str
    head: Count
    version: Count
    transaction: Count
    rows: Count
    fingerprint: str
    record_fingerprint: str

    @property
    def name(self) -> TableName:
        """The table."""
        return TableName(self.tap, self.stream)


class LakeErasure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An erasure for which a lake version says another fingerprint of a table than it said.

    Attributes:
        tap: The table's tap.
        stream: Its stream, as Singer has it.
        transaction: The table's ``erase-start``, the newest where there were several.
    """

    tap: str
    stream: str
    transaction: Count


class LakeVersion(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True
):
    """A lake version, which is an entry of the lake's log.

    Attributes:
        format: The entry's own format; it counts for itself, and not for the tables.
        number: 1, 2, 3, … in the lake with no gap.
        commit: An id no other commit has, by which a lost reply is recognised.
        salt: As an entry of a table's log has one.
        time: When it was committed, ISO 8601 in UTC, by the writer's clock.
        cut: The moment at which all tables were at their ``head``, in the same form.
        writer: The writer's id.
        software: Who wrote it, with version.
        by: Who froze it.
        label: A name that can stand for the number; unique among the lake's versions.
        comment: Free text.
        tables: Its tables, by tap and stream.
        fingerprint: Over their names, versions and fingerprints; see :func:`fingerprint`.
        previous: The chain id of the entry before; empty in the first.
        stands_for: The chain id that it had before an erasure had it rewritten.
        rewritten: The erasures for which it was.
        hash: SHA-256 of the file before the line with this.
    """

    format: int
    number: int
    commit: str
    salt: Salt = ""
    time: str
    cut: str
    writer: str = ""
    software: str = ""
    by: str = ""
    label: str | None = None
    comment: str | None = None
    tables: list[LakeTable] = []
    fingerprint: str = ""
    previous: str = ""
    stands_for: str = ""
    rewritten: list[LakeErasure] = []
    hash: str = ""

    def __repr__(self) -> str:
        from singerlake.quantities import count

        label = "" if self.label is None else f" {self.label!r}"
        facts = [f"{self.number}{label}", count(len(self.tables), "table"), count(self.rows, "row")]
        facts += [f"fingerprint {self.fingerprint}"] if self.fingerprint else []
        return f"LakeVersion({', '.join(facts)})"

    def _repr_html_(self) -> str:
        """Show the lake version and its tables in a notebook."""
        from singerlake.cards import card

        facts = {
            "label": self.label,
            "comment": self.comment,
            "moment": self.cut,
            "fingerprint": self.fingerprint,
        }
        lines = [(t.name, str(t.version), t.rows, t.fingerprint) for t in self.tables]
        head = ("table", "version", "rows", "fingerprint")
        return card(f"Lake version {self.number}", facts, head, lines)

    @property
    def chain(self) -> str:
        """Its chain id: what the next entry must say that it follows."""
        return self.stands_for or self.hash

    @property
    def rows(self) -> int:
        """Rows of all its tables."""
        return sum(table.rows for table in self.tables)

    def table(self, name: TableName) -> LakeTable | None:
        """Return what it says of a table; None where that is not in it."""
        return next((table for table in self.tables if table.name == name), None)

    def __str__(self) -> str:
        return f"lake version {self.number}" + (f" ({self.label})" if self.label else "")


_ENTRY = sealed.Reader(LakeVersion)


def in_order(tables: Iterable[LakeTable]) -> list[LakeTable]:
    """Return tables by tap and stream, as a lake version has them."""
    return sorted(tables, key=lambda table: (table.tap, table.stream))


def fingerprint(tables: Iterable[LakeTable]) -> str:
    """Return one fingerprint over tables: of their names, versions and fingerprints.

    It is the SHA-256 of one line of text a table, in order of these lines' bytes.
    """
    lines = sorted(_line(table) for table in tables)
    return f"{ALGORITHM}:{hashlib.sha256(b''.join(lines)).hexdigest()}"


def _line(table: LakeTable) -> bytes:
    """Return the text of a table that is hashed: ASCII without doubt, whatever its name."""
    name = f"{names.encode(table.tap)}/{names.encode(table.stream)}"
    text = f"{name} {table.version} {table.fingerprint} {table.record_fingerprint}\n"
    return text.encode("ascii", "backslashreplace")


def decode(data: bytes, number: int, where: str) -> LakeVersion:
    """Read an entry of the lake's log.

    Args:
        number: The number that its name says.

    Raises:
        DamagedError: It is cut, altered, of another shape, says another number, or names a table
            twice.
    """
    form = sealed.check_format(data, where)
    own_hash = sealed.check_seal(data, where)
    entry: LakeVersion = _ENTRY.read(data, form, where)
    if entry.number != number:
        raise DamagedError(f"{where} contains the number of lake version {entry.number}")
    if form == PLAIN or bool(entry.previous) is (number == 1):
        raise DamagedError(f"{where} cannot be read: it does not contain the entry that it follows")
    if len({table.name for table in entry.tables}) != len(entry.tables):
        raise DamagedError(f"{where} cannot be read: it names a table twice")
    if bool(entry.rewritten) is not bool(entry.stands_for):
        raise DamagedError(f"{where} cannot be read: no erasure rewrites an entry like that")
    return msgspec.structs.replace(entry, hash=own_hash)


def seal(entry: LakeVersion) -> tuple[LakeVersion, bytes]:
    """Spell an entry: readable JSON, indented, its hash in a line of its own at the end.

    Returns:
        The entry with its hash, and the file's bytes.
    """
    plain = msgspec.json.encode(msgspec.structs.replace(entry, hash=""))
    data, own_hash = sealed.seal(msgspec.json.format(plain, indent=1) + b"\n")
    return msgspec.structs.replace(entry, hash=own_hash), data
