"""Validation of the records that a change writes, and the reasons.

The target has checked what taps sent; what a person changes is checked here, by the same rules.
Nearly all records are proven by types, many together; the others are looked at one by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from singerlake.format.log import SchemaEntry
from singerlake.rows.batches.problems import RowProblem
from singerlake.rows.validation import drafts, typed
from singerlake.rows.validation.full_validation import (
    FullValidator,
    NotASchemaError,
    Refusal,
    UnreadableError,
    read,
    validator_of,
)


class SchemaCheck:
    """Checks records against a schema as the target does.

    Args:
        entry: The schema; one that is none allows everything.
        formats: Whether ``format`` must hold.
    """

    def __init__(self, entry: SchemaEntry, *, formats: bool = False) -> None:
        newest = drafts.put_in_words_of(drafts.DRAFT_2020, entry.schema, lambda *_: None)
        self._fast = typed.record_decoder(newest, entry.key_properties, formats=formats)
        self._keys = entry.key_properties
        self._full: FullValidator | None = None
        with suppress(NotASchemaError):  # then the target took its records unchecked
            self._full = validator_of(entry.schema, formats=formats)

    def allows_all(self, records: bytes) -> bool:
        """Tell whether it is seen at a glance that nothing is wrong with records, a line each."""
        return self._full is None or self._proven(records)

    def problems(self, records: Sequence[bytes]) -> list[RowProblem]:
        """Find what is wrong with some records.

        Args:
            records: The JSON text of each.
        """
        if self._full is None or self.allows_all(b"\n".join(records)):
            return []
        return [
            problem
            for row, record in enumerate(records)
            if not self._proven(record)
            for problem in self._looked_at(self._full, row, record)
        ]

    def _proven(self, records: bytes) -> bool:
        if self._fast is None:
            return False
        try:
            self._fast.decode_lines(records)
        except (msgspec.DecodeError, RecursionError):
            return False
        return True

    def _looked_at(self, full: FullValidator, row: int, data: bytes) -> Iterator[RowProblem]:
        try:
            record, extreme = read(data)
        except UnreadableError as error:
            yield RowProblem(row, None, None, f"cannot be read as JSON: {error}")
            return
        for key in self._keys:
            if record.get(key) is None:
                what = "null" if key in record else "missing"
                yield RowProblem(row, key, None, f"is {what}, and it is of the key")
        if full.is_valid(record, extreme=extreme) or full.is_valid_exactly(data, extreme=extreme):
            return
        for refusal in full.refusals(record, data, extreme=extreme):
            yield _problem(row, record, refusal)


def _problem(row: int, record: Any, refusal: Refusal) -> RowProblem:
    path, message = refusal.path, refusal.message
    name = _REQUIRED.fullmatch(message) if refusal.keyword == "required" else None
    if name is not None and not path:
        return RowProblem(row, json.loads(name[1]), None, "is missing, and the schema requires it")
    if not path:
        return RowProblem(row, None, None, refusal.reason)
    value = record
    for part in path:
        value = value[part]
    said = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    within = f", at {'.'.join(map(str, path))}" if len(path) > 1 else ""
    reason = f"does not fit the schema: {refusal.reason}"
    for spelled in (said, repr(value)):  # as Rust and as Python begin what they say of a value
        if message.startswith(f"{spelled} "):
            reason = refusal._replace(message=message[len(spelled) + 1 :]).reason
    return RowProblem(row, str(path[0]), value if isinstance(value, str) else said, reason + within)


_REQUIRED = re.compile(r'(".*") is a required property', re.DOTALL)
