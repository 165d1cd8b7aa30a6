"""What lies at a destination: which files, in what order, and which state of the lake they show."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from singerlake.errors import DamagedError


@dataclass(frozen=True)
class SourceState:
    """The state of one table of the lake that was read.

    Attributes:
        table: ``tap.stream``.
        transaction: Whose state it is.
        commit: That transaction's id: another table of the same name has another.
        version: The frozen version that was asked for; None for the head.
        erased: The last transaction that had erased rows of the table by then: what was read
            before it may have had them.
    """

    table: str
    transaction: int
    commit: str
    version: int | None = None
    erased: int = 0


@dataclass(frozen=True)
class Position:
    """How far something is up to date. It is part of the very commit that makes it so.

    Attributes:
        projection: The projection's name.
        definition: Its hash, see ``Projection.definition``.
        lake: Which lake, by its location without credentials.
        sources: The states that were read, by table.
    """

    projection: str
    definition: str
    lake: str
    sources: tuple[SourceState, ...]

    def to_json(self) -> str:
        """Spell it for a commit's metadata."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, where: str) -> Position:
        """Read what :meth:`to_json` wrote; members that a newer release adds are left out.

        Args:
            text: The text.
            where: Where it was found, for the message.

        Raises:
            DamagedError: It is something else.
        """
        try:
            said = json.loads(text)
            sources = tuple(
                SourceState(
                    str(one["table"]),
                    int(one["transaction"]),
                    str(one["commit"]),
                    one["version"],
                    int(one.get("erased", 0)),
                )
                for one in said["sources"]
            )
            return cls(str(said["projection"]), str(said["definition"]), str(said["lake"]), sources)
        except (ValueError, LookupError, TypeError) as error:
            raise DamagedError(
                f"{where} does not contain the snapshot of the lake that it shows: {text[:200]!r}"
            ) from error


@dataclass(frozen=True)
class DataFile:
    """A published file.

    Attributes:
        path: Its key on the destination's store.
        bytes: Its size.
        rows: How many rows it has.
        partition: The values that keep it apart, as the names of its folders have them
            (``country=DE``); empty without partitions.
        low: Of the first column of the order, a value that none in the file is below; None if
            all are null. As pyarrow gives it in Python.
        high: A value that none is above. Formats that shorten bounds may give less for ``low``,
            and more for ``high``.
        nulls: Whether that column has nulls in this file.
        facts: What the format wants to know of it at the commit, and nobody else.
    """

    path: str
    bytes: int
    rows: int
    partition: tuple[str, ...] = ()
    low: Any = None
    high: Any = None
    nulls: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Published:
    """What a destination holds.

    Attributes:
        position: What it shows.
        schema: The columns.
        files: The files that readers see.
        token: By what the destination knows its own commit: an etag, a snapshot, a version.
        versions: The frozen versions that are published, and how readers find each.
    """

    position: Position
    schema: pa.Schema
    files: Sequence[DataFile]
    token: Any = None
    versions: Mapping[int, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class Commit:
    """What is to be published, as one step that readers see whole or not at all.

    One that has a version changes nothing of what readers see who name none: the rows of its files
    become readable as that version, beside the rest. Where all its files are kept ones, that is
    another name for what is there.

    Attributes:
        position: What it will show.
        schema: The columns.
        kept: Files that stay as they are.
        added: New files, which lie on the store already.
        removed: Files that readers no longer see.
        version: The frozen version that this is, where it is one.
    """

    position: Position
    schema: pa.Schema
    kept: Sequence[DataFile]
    added: Sequence[DataFile]
    removed: Sequence[DataFile] = ()
    version: int | None = None

    def gone(self, base: Published | None) -> list[DataFile]:
        """List the files of a state that are none of this one, said to be removed or not."""
        kept = {file.path for file in self.kept}
        return [file for file in (base.files if base else ()) if file.path not in kept]

    def is_nothing(self, base: Published) -> bool:
        """Tell whether all that it would publish is there already."""
        if self.version is not None:
            return self.version in base.versions
        changed = self.added or self.gone(base) or self.position != base.position
        return not changed and self.schema.equals(base.schema)
