"""What a record must be to become a row today: the table's schema, overrides and constraints.

The rules are those of a sync: constraints of the kinds ``unique`` and ``check`` wait for a freeze.
Unlike a sync by default, a value that no query of its column could read is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
from msgspec import Raw

from singerlake.errors import UsageError
from singerlake.format import values
from singerlake.format.bound import bound, contradiction
from singerlake.format.content import place_in
from singerlake.format.types import Kind, Type, columns_of, type_of
from singerlake.log.table_state import TableState
from singerlake.rows.batches.problems import RowProblem
from singerlake.rows.validation.full_validation import UnreadableError, read
from singerlake.rows.validation.schema_check import SchemaCheck

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
        held = bound(entry, overlay)
        self._keys = held.key_properties
        self._check = SchemaCheck(held, formats=formats)
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

    def problem(self, record: bytes) -> str | None:
        """Return why a record cannot be a row of the table; None if it can.

        Args:
            record: Its JSON.
        """
        return next(self._problems(record), None)

    def _problems(self, record: bytes) -> Iterator[str]:
        try:
            read(record)
            members = _RECORD.decode(record)
        except UnreadableError as error:
            yield f"the record cannot be read: {error}"
            return
        except msgspec.DecodeError:
            yield "the record is not an object"
            return
        for key in self._keys:
            if bytes(members.get(key, b"null")) == b"null":
                yield f"the record has no value for its key {key!r}"
        yield from map(_words, self._check.problems([record]))
        for name, type_, convert in self._columns:
            if (raw := members.get(name)) is None:
                continue
            reason = values.misfit(bytes(raw), convert, name)
            if reason and not (name in self._keys and values.only_rounds(bytes(raw), type_)):
                yield f"{reason}, so queries of the column would fail"


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
