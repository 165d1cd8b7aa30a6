"""Tells targets of rows that were erased from the lake behind their bookmark.

Of each such row a line goes out with its key, ``_sdc_deleted_at``, and null in every other column
that may be null, so that a target which only marks deleted rows loses what it had of them, too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Raw
from msgspec.json import encode

from singerlake.format import messages
from singerlake.format.laid import member_of
from singerlake.format.log import Entry, Operation, SchemaEntry
from singerlake.lake import Table
from singerlake.log import log, notices
from singerlake.log.deletion_schema import declaring
from singerlake.log.notices import Key
from singerlake.log.table_state import TableState
from singerlake.rows.lines.laid_lines import LaidLines

_ROOT = ("type", "properties", "definitions", "$defs", "$schema", "$id")
"""What the schema of such lines has of the table's: nothing that asks for more than a key."""
_NARROWING = ("enum", "const", "allOf", "anyOf", "oneOf", "not", "if", "$ref")


class Erased:
    """The erasures that a run comes by.

    Args:
        table: The table.
        snapshot: It, as far as it is read.
        laid: Lays over the lines what people said of the table; None where that is nothing.
        logger: Where it is said what cannot be told.
    """

    def __init__(
        self, table: Table, snapshot: TableState, laid: LaidLines | None, logger: logging.Logger
    ) -> None:
        self._table = table
        self._snapshot = snapshot
        self._laid = laid
        self._logger = logger
        self._numbers = [
            one.number
            for one in snapshot.transactions[snapshot.first - 1 :]
            if one.operation == Operation.ERASE
        ]

    def between(self, after: int, last: int) -> Iterator[tuple[bytes, int]]:
        """Yield what tells of the erasures of some transactions: lines, and their number of rows.

        Args:
            after: The transaction behind which they begin.
            last: The last of them.

        Raises:
            DamagedError: The log, or a notice, is lost or damaged.
        """
        numbers = [number for number in self._numbers if after < number <= last]
        for entry in log.sound_entries(self._table.store, self._table.name, numbers):
            keys = self._keys(entry)
            schema = _nullable(self._schema(entry))
            if keys is None or any(key.keys() != {*schema.key_properties} for key in keys):
                self._logger.warning(
                    "%s: rows were erased (transaction %d) without a valid deletion notice: "
                    "delete them in each target that has them",
                    self._table.name,
                    entry.number,
                )
                continue
            yield self._lines(entry, schema, keys), len(keys)

    def _keys(self, entry: Entry) -> Sequence[Key] | None:
        """The keys of the rows, by the names that their columns have by now."""
        keys = notices.read(self._table.store, self._table.name, entry)
        if keys is None or self._laid is None:
            return keys
        then, now = self._snapshot.overlay_at(entry.number), self._snapshot.overlay

        def name(column: str) -> str:
            member = member_of(then, column)
            said = now.columns.get(member)
            return (said.name if said is not None else None) or member

        return [{name(column): raw for column, raw in key.items()} for key in keys]

    def _schema(self, entry: Entry) -> SchemaEntry:
        schema_hash = self._snapshot.summary(entry.number).schema_hash
        if self._laid is not None:
            return self._laid.entry(schema_hash, entry.number)
        return self._snapshot.schema_of(schema_hash)

    def _lines(self, entry: Entry, schema: SchemaEntry, keys: Sequence[Key]) -> bytes:
        stream = self._table.name.stream
        blank = {
            name: Raw(b"null")
            for name, spec in schema.schema["properties"].items()
            if _takes_null(spec)
        }
        blank[messages.DELETED] = Raw(b'"%b"' % entry.time.encode())
        before, after = messages.around_record(stream, entry.time)
        lines = [b"".join((before, encode({**blank, **key}), after)) for key in keys]
        return b"".join((messages.schema_line(stream, schema), *lines))


def _nullable(entry: SchemaEntry) -> SchemaEntry:
    """Return the schema under which a key alone is a row, and other columns may be null."""
    whole = declaring(entry)
    kept = {word: value for word, value in whole.schema.items() if word in _ROOT}
    kept["properties"] = {
        name: spec if name in entry.key_properties else _or_null(spec)
        for name, spec in whole.schema.get("properties", {}).items()
    }
    return SchemaEntry(kept, entry.key_properties)


def _or_null(spec: Any) -> Any:
    """Return a property's schema that takes null as well, where that is plain to say."""
    if not isinstance(spec, dict) or any(word in spec for word in _NARROWING):
        return spec
    types = spec.get("type")
    listed = types if isinstance(types, list) else [types]
    if types is None or "null" in listed:
        return spec
    return {**spec, "type": ["null", *listed]}


def _takes_null(spec: Any) -> bool:
    if not isinstance(spec, dict) or any(word in spec for word in _NARROWING):
        return False
    types = spec.get("type", "null")
    return "null" in (types if isinstance(types, list) else [types])
