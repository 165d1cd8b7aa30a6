"""The record in a copy of which tables of other lake versions it does not have."""

from __future__ import annotations

import msgspec

from singerlake.format import sealed
from singerlake.format.names import TableName
from singerlake.format.version_notes import Count


class AbsentTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table that is not there at its version in a lake version.

    Attributes:
        tap: Its tap.
        stream: The stream, as Singer has it.
    """

    tap: str
    stream: str

    @property
    def name(self) -> TableName:
        """The table."""
        return TableName(self.tap, self.stream)


class Absence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables that a copy lacks of a lake version.

    Attributes:
        number: The lake version's.
        chain: The chain id of its entry, so that the absence is that of no other one.
        tables: Those that are not there, by tap and stream.
    """

    number: Count
    chain: str
    tables: list[AbsentTable]


class NotCopied(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``versions/not-copied.json``.

    Attributes:
        format: The file's own format; it counts for itself.
        lake_versions: Those that are not whole, in order of number.
        hash: SHA-256 of the file before the line with this.
    """

    format: int = 2
    lake_versions: list[Absence] = []
    hash: str = ""


_FILE = sealed.Reader(NotCopied)


def decode(data: bytes, where: str) -> NotCopied:
    """Read the file.

    Raises:
        DamagedError: It is cut, altered or of another shape.
    """
    found: NotCopied = _FILE.read_sealed(data, where)
    return msgspec.structs.replace(found, hash="")


def encode(content: NotCopied) -> bytes:
    """Spell the file: readable JSON, indented, its hash in a line of its own at the end."""
    members = msgspec.to_builtins(content)
    del members["hash"]
    plain = msgspec.json.format(msgspec.json.encode(members), indent=1)
    return sealed.seal(plain + b"\n")[0]
