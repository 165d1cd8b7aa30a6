"""Whether records are what their schema says: proven by types, else decided in full."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import jsonschema_rs
import msgspec
import orjson
from msgspec import Raw

from target_singerlake import typed
from target_singerlake.errors import InvalidRecordError, InvalidSchemaError, MissingKeyError

# orjson reads integers past 64 bits as doubles and refuses numbers past a double's range;
# where one may be, the standard library reads the record instead.
_BIG_NUMBER = re.compile(rb"\d{16}|[eE][+-]?\d{3}")


class Validator:
    """Checks the records of one stream under one schema.

    Args:
        stream: The stream's name, for errors.
        schema: Its JSON Schema, read as draft 2020-12 as the SDK does.
        keys: Its key properties; a record must have them whatever the schema says.
        records: Whether records are validated at all; the keys always are.
        formats: Whether ``format`` must hold.

    Raises:
        InvalidSchemaError: The schema is none.
    """

    def __init__(
        self,
        stream: str,
        schema: dict[str, Any],
        keys: list[str],
        *,
        records: bool = True,
        formats: bool = False,
    ) -> None:
        self._stream = stream
        self._keys = keys
        self._full: jsonschema_rs.Draft202012Validator | None = None
        self._fast: msgspec.json.Decoder[Any] | None = typed.key_decoder(keys)
        if records:
            try:
                self._full = jsonschema_rs.Draft202012Validator(
                    schema, validate_formats=formats, offline=True
                )
            except (ValueError, jsonschema_rs.ReferencingError) as error:
                raise InvalidSchemaError(
                    f"the schema of stream {stream!r} is no JSON Schema: {_first_line(error)}"
                ) from error
            self._fast = typed.record_decoder(schema, keys, formats=formats)

    def accept(self, records: Sequence[Raw]) -> bool:
        """Whether all of these are valid; for the reason, ask :meth:`check` one by one."""
        if self._fast is not None:
            try:
                self._fast.decode_lines(b"\n".join(records))
                return True
            except msgspec.DecodeError:
                pass
        return self._full is not None and all(self._accept_in_full(raw) for raw in records)

    def check(self, raw: Raw, line: int) -> None:
        """Check one record.

        Args:
            raw: Its bytes.
            line: Its line number, for the error.

        Raises:
            MissingKeyError: A key property is not there.
            InvalidRecordError: The schema does not allow it.
        """
        if self.accept([raw]):
            return
        record = _read(raw)
        if not isinstance(record, dict):
            raise InvalidRecordError(f"{self._where(line)} holds no object as its record", {})
        missing = [key for key in self._keys if key not in record]
        if missing:
            raise MissingKeyError(
                f"{self._where(line)} has no value for its key "
                + ", ".join(repr(key) for key in missing)
            )
        if self._full is None:
            return
        for error in self._full.iter_errors(record):
            path = ".".join(str(part) for part in error.instance_path)
            field = f"field {path!r}: " if path else ""
            raise InvalidRecordError(f"{self._where(line)}, {field}{error.message}", record)

    def _accept_in_full(self, raw: Raw) -> bool:
        record = _read(raw)
        return (
            isinstance(record, dict)
            and all(key in record for key in self._keys)
            and self._full is not None
            and self._full.is_valid(record)
        )

    def _where(self, line: int) -> str:
        return f"line {line}: the record of stream {self._stream!r}"


def _read(raw: Raw) -> Any:
    data = bytes(raw)
    return json.loads(data) if _BIG_NUMBER.search(data) else orjson.loads(data)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
