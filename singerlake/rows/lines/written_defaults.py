"""Rows that are written again show what they showed, in columns that a person added.

What such a column has where no record says it goes by the block that a row came in. A row that a
revert puts back, or that a new key has written again, comes in a new block; so where the defaults
of then and now differ, its line says the value itself, under a schema that declares the column.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from singerlake.format import messages
from singerlake.format.json_schema import resolved
from singerlake.format.log import SchemaEntry
from singerlake.format.overlay import AddedColumn
from singerlake.format.schema_hash import schema_hash
from singerlake.log.table_state import TableState


@dataclass(frozen=True)
class AddedDefaults:
    """An added column, as records under one schema have it.

    Attributes:
        declared: Whether the schema declares it.
        first_block: The first block whose records may have it.
        starts: The blocks from which on defaults hold, rising.
        values: The defaults, as JSON.
    """

    name: str
    declared: bool
    first_block: int
    starts: Sequence[int]
    values: Sequence[bytes]

    @classmethod
    def of(cls, name: str, added: AddedColumn, *, declared: bool) -> AddedDefaults:
        """Take it from the overlay."""
        starts = [first for first, _ in added.defaults]
        values = [msgspec.json.encode(value) for _, value in added.defaults]
        return cls(name, declared, added.first_block, starts, values)

    def homonym(self, version: int) -> bool:
        """Tell whether what a row has under the name is of another column, before this one."""
        return version < self.first_block

    def default(self, version: int) -> bytes | None:
        """Return the value of a row whose record has none; None if it has one."""
        if self.declared and version >= self.first_block:
            return None
        return self.values[bisect_right(self.starts, version) - 1]


@dataclass(frozen=True)
class DefaultsWritten:
    """The defaults to write into rows under one schema.

    Attributes:
        entry: A schema that declares all the added columns.
        schema_line: Its SCHEMA line.
    """

    entry: SchemaEntry
    hash: str
    schema_line: bytes
    columns: tuple[AddedDefaults, ...]

    def members(self, version: int) -> dict[str, bytes]:
        """Return what the record of a row must say itself; nothing where a new block tells.

        Args:
            version: The block that the row came in.
        """
        shown = {column.name: column.default(version) for column in self.columns}
        same = all(
            shown[column.name] is None or (shown[column.name] == column.values[-1])
            for column in self.columns
            if not (column.declared and version < column.first_block)
        )
        homonyms = any(c.declared and version < c.first_block for c in self.columns)
        if same and not homonyms:
            return {}
        return {name: value for name, value in shown.items() if value is not None}


def defaults_written(snapshot: TableState, hashes: Iterable[str]) -> dict[str, DefaultsWritten]:
    """Return how rows are written again, for each schema that they may be under.

    Args:
        snapshot: Knows the schemas, and the overlay.
    """
    added = snapshot.overlay.added
    return {name: _of(snapshot, name) for name in hashes} if added else {}


def _of(snapshot: TableState, name: str) -> DefaultsWritten:
    added, stated = snapshot.overlay.added, snapshot.schema_of(name)
    own = resolved(stated.schema, stated.schema).get("properties")
    declared = own if isinstance(own, dict) else {}
    properties = {member: one.schema for member, one in added.items()}
    stated_here = stated.schema.get("properties", {})
    schema = {**stated.schema, "properties": {**stated_here, **properties}}
    entry = SchemaEntry(schema, stated.key_properties)
    return DefaultsWritten(
        entry=entry,
        hash=schema_hash(entry.schema, entry.key_properties),
        schema_line=messages.schema_line(snapshot.table.stream, entry),
        columns=tuple(
            AddedDefaults.of(member, one, declared=member in declared)
            for member, one in added.items()
        ),
    )
