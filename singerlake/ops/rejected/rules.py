"""What a record must be to become a row today: the table's schema, overrides and constraints.

The rules are those of a sync: constraints of the kinds ``unique`` and ``check`` wait for a freeze.
Two things differ. A record that its tap's schema refuses passes if it fits the types that overrides
give its columns, except those of the key; a dropped column takes any value. And a value that no
query of its column could read is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from singerlake.errors import UsageError
from singerlake.format import values
from singerlake.format.bound import bound, contradiction
from singerlake.format.content import place_in
from singerlake.format.json_schema import resolved
from singerlake.format.log import SchemaEntry
from singerlake.format.types import Kind, Type, columns_of, type_of
from singerlake.format.written import written_under
from singerlake.log.table_state import TableState
from singerlake.rows.batches.problems import RowProblem
from singerlake.rows.validation.full_validation import UnreadableError, read
from singerlake.rows.validation.schema_check import SchemaCheck


@dataclass(frozen=True)
class _Way:
    """A schema that a record may be written under, and what is asked of it then."""

    entry: SchemaEntry
    check: SchemaCheck


_RECORD = msgspec.json.Decoder(dict[str, Raw])
_MOST_SHOWN = 200
"""Characters of a value that a reason shows."""


class Rules:
    """The rules of a table as it is.

    Args:
        formats: Whether ``format`` must hold.

    Raises:
        UsageError: Records of the table cannot be replayed.
    """

    def __init__(self, head: TableState, *, formats: bool) -> None:
        entry, overlay = head.tap_schema, head.overlay
        if wrong := contradiction(entry, overlay):
            raise UsageError(
                f"the schema of {head.table} contradicts its overrides: {wrong}; correct the "
                "overrides with singerlake alter"
            )
        if place_in(entry.schema) is not None:
            raise UsageError(
                f"records of {head.table} have attached files, which only a sync stores: write "
                f"them with singerlake rejected {head.table} --export, and pipe them into "
                "target-singerlake"
            )
        under = written_under(entry, overlay, head.rules)
        keys = {*entry.key_properties, *under.check.key_properties}
        # A dropped column is not read; once it is restored, its type is what its rows have.
        open_ = {m for m, one in overlay.columns.items() if one.type == "text" or one.dropped}
        texts = open_ - keys
        self._ways = [_Way(entry, SchemaCheck(held := bound(entry, overlay), formats=formats))]
        if texts or under.entry != entry:
            check = _as_texts(under.check, under.entry, texts)
            now = _as_texts(under.entry, under.entry, texts)
            self._ways.append(_Way(now, SchemaCheck(check, formats=formats)))
        self._keys = held.key_properties
        said = {name: one for name, one in overlay.columns.items() if one.type or one.dropped}
        self._columns: list[tuple[str, Type, values.Converter]] = [
            (name, type_, values.converter(type_))
            for name, type_ in columns_of(entry)
            if name not in said and type_.kind is not Kind.TEXT
        ]
        retyped = {
            **{name: one.type for name, one in said.items() if not one.dropped},
            **{name: one.schema for name, one in overlay.added.items()},
        }
        for name, schema in retyped.items():
            if isinstance(schema, dict):
                type_ = type_of(schema)
                self._columns.append((name, type_, values.converter(type_, loose=True)))

    def under(self, record: bytes) -> SchemaEntry | str:
        """Return the schema under which a record can be a row; or why it cannot be one.

        Args:
            record: Its JSON.
        """
        try:
            read(record)
            members = _RECORD.decode(record)
        except UnreadableError as error:
            return f"the record cannot be read: {error}"
        except msgspec.DecodeError:
            return "the record is not an object"
        for key in self._keys:
            if bytes(members.get(key, b"null")) == b"null":
                return f"the record has no value for its key {key!r}"
        found: list[RowProblem] = []
        for way in self._ways:
            found = way.check.problems([record])
            if not found:
                return self._misfit(members) or way.entry
        return _words(found[0])

    def _misfit(self, members: Mapping[str, Raw]) -> str | None:
        """Say which value its column cannot hold; None if all can be read."""
        for name, type_, convert in self._columns:
            if (raw := members.get(name)) is None:
                continue
            reason = values.misfit(bytes(raw), convert, name)
            if reason and not (name in self._keys and values.only_rounds(bytes(raw), type_)):
                return f"{reason}, so queries of the column would fail"
        return None


def _as_texts(entry: SchemaEntry, declared: SchemaEntry, texts: set[str]) -> SchemaEntry:
    """Return a schema in which some properties may have any value.

    Args:
        declared: The schema without constraints: what ``entry`` says besides stays.
    """
    if not texts:
        return entry
    own, bare = (resolved(one.schema, one.schema)["properties"] for one in (entry, declared))
    open_ = {
        name: {word: said for word, said in own[name].items() if bare[name].get(word) != said}
        for name in texts & own.keys() & bare.keys()
        if isinstance(own[name], dict) and isinstance(bare[name], dict)
    }
    return SchemaEntry({**entry.schema, "properties": {**own, **open_}}, entry.key_properties)


def _words(problem: RowProblem) -> str:
    if problem.column is None:
        return problem.reason
    if problem.value is None:
        return f"field {problem.column!r} {problem.reason}"
    value = problem.value
    if len(value) > _MOST_SHOWN:
        value = f"{value[:_MOST_SHOWN]}…"
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        value = json.dumps(value, ensure_ascii=False)  # JSON, so that its end is seen
    return f"field {problem.column!r}: {value} {problem.reason}"
