"""Refused lines, kept beside the table that refused them, so that the run can go on."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Container
from typing import Any

import msgspec

from singerlake.errors import InputError, InvalidNameError, NotFoundError
from singerlake.format import messages, refused_lines, times
from singerlake.format.log import SchemaEntry
from singerlake.format.names import REJECTED, TableName
from singerlake.format.refused_lines import SCHEMA
from singerlake.quantities import count
from target_singerlake.errors import InvalidLineError, InvalidSchemaError
from target_singerlake.line_places import Line, input_line
from target_singerlake.run import Run

FAIL, QUARANTINE = "fail", "quarantine"

_TEXT_BYTES = 64 * 1024 * 1024
"""A longer line is kept in Base64: as text, each of its bytes may take six, and be no block."""

_TYPE = re.compile(rb'"type"\s*:\s*"([^"\\]*)"')
_STREAM = re.compile(rb'"stream"\s*:\s*"([^"\\]*)"')
_OTHERS = frozenset({"SCHEMA", "STATE", "ACTIVATE_VERSION", "BATCH"})


class _Envelope(msgspec.Struct):
    type: Any = None
    stream: Any = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)


class Quarantine:
    """Takes the lines that a run refuses.

    Attributes:
        first: The number of the first line that it took, for each table that has some.
    """

    def __init__(self, run: Run, tap: str, most: int) -> None:
        self._run = run
        self._tap = tap
        self._most = most
        self._total = 0
        self._free: dict[str, bool] = {}
        self._copies = Counter[tuple[str, str]]()
        self.first: dict[TableName, int] = {}

    def record(
        self,
        stream: str,
        line: bytes,
        number: Line,
        raw: bytes,
        error: InputError,
        *,
        keyed: bool,
    ) -> None:
        """Take a RECORD line, or a file's, of a stream whose SCHEMA came before.

        Args:
            line: The line with its newline, byte for byte.
            raw: What tells it from others.
            error: Why it was refused.
            keyed: Whether the tap's stream has a key, so that equal records are one row.

        Raises:
            InputError: It is one too many.
        """
        self._take(stream, stream, line, number, raw if keyed else self._copy(stream, raw), error)

    def _copy(self, stream: str, raw: bytes) -> bytes:
        """Tell equal records of a run apart, by how many came before; the first is as it is.

        So each of them is the same row again when the run is repeated.
        """
        of = stream, hashlib.sha256(raw).hexdigest()
        self._copies[of] += 1
        number = self._copies[of]
        return raw if number == 1 else b"%s\n%d" % (raw, number)

    def line(self, line: bytes, number: int, error: InputError, known: Container[str]) -> None:
        """Take a line that is no message, or a RECORD of a stream that has no SCHEMA.

        Args:
            line: The line with its newline, byte for byte.
            error: Why it was refused.

        Raises:
            InputError: It is one too many, or may be a message that says what those behind it mean.
        """
        stream = self._stream_of(line, error)
        of = stream if stream is not None and stream in known else ""
        self._take(of, stream, line, number, line, error)

    def _stream_of(self, line: bytes, error: InputError) -> str | None:
        """The stream that a line names, if nothing but a RECORD can be lost with it."""
        try:
            envelope = _ENVELOPE.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if not line.lstrip().startswith(b"{"):
                return None  # no message, nor the beginning of one
            kinds = [found[1].decode("utf-8", "replace") for found in _TYPE.finditer(line)]
            if not kinds or kinds[0] != "RECORD" or not _OTHERS.isdisjoint(kinds):
                raise error from error.__cause__
            named = _STREAM.search(line)
            return named[1].decode("utf-8", "replace") if named else None
        if isinstance(envelope.type, str) and envelope.type in _OTHERS:
            raise error from error.__cause__
        return envelope.stream if isinstance(envelope.stream, str) else None

    def _take(
        self, of: str, stream: str | None, line: bytes, number: Line, raw: bytes, error: InputError
    ) -> None:
        self._total += 1
        if self._total > self._most:
            raise InvalidLineError(
                f"{error}; with it, {count(self._total, 'line')} of this run would be quarantined, "
                f"and max_invalid allows {self._most:,}: correct the tap, or raise max_invalid"
            ) from error
        name = self._announced(of)
        self.first.setdefault(TableName(self._tap, name), input_line(number))
        row = _row(stream, line.removesuffix(b"\n"), number, raw, error)
        self._run.add_text(name, messages.record_line(name, row, times.iso(times.now())), rows=1)

    def _announced(self, stream: str) -> str:
        """Begin the stream of the lines that another refused; that of the tap, where it cannot."""
        for name in (stream + REJECTED, REJECTED):
            try:
                if self._is_free(name):
                    line = messages.schema_line(name, SCHEMA)
                    self._run.set_schema(name, line, SCHEMA, ahead=True)
                    return name
            except InvalidNameError:  # too long with what is behind it
                continue
        raise InvalidSchemaError(
            f"lines were rejected, and {TableName(self._tap, REJECTED)}, their dead-letter table, "
            "belongs to a stream of the tap: rename that stream with a stream map and drop the "
            f"table, or set invalid_records to {FAIL}"
        )

    def _is_free(self, name: str) -> bool:
        """Tell whether the lake has no table there that a tap filled with rows of its own."""
        if name not in self._free:
            try:
                present = self._run.lake.table(TableName(self._tap, name)).snapshot().tap_schema
                self._free[name] = refused_lines.are_in(present)
            except NotFoundError:
                self._free[name] = True
        return self._free[name]


def check_name(stream: str, schema: SchemaEntry) -> None:
    """Make sure that a tap's stream is not in the place of refused lines.

    Raises:
        InvalidSchemaError: It is, and is something else.
    """
    if stream.endswith(REJECTED) and not refused_lines.are_in(schema):
        raise InvalidSchemaError(
            f"names that end in {REJECTED} are reserved for rejected lines while invalid_records "
            f"is {QUARANTINE}: rename it with a stream map"
        )


def _row(stream: str | None, line: bytes, number: Line, raw: bytes, error: InputError) -> bytes:
    try:
        text: str | None = line.decode("utf-8") if len(line) <= _TEXT_BYTES else None
    except UnicodeDecodeError:
        text = None
    reason = str(error).removeprefix(f"line {number}").lstrip(" :")
    return msgspec.json.encode(
        {
            "digest": hashlib.sha256(raw).hexdigest(),
            "line": number if isinstance(number, int) else number.number,
            "file": None if isinstance(number, int) else _plain(number.file),
            "stream": _plain(stream),
            "reason": _plain(reason),
            "message": text,
            "message_base64": base64.b64encode(line).decode("ascii") if text is None else None,
        }
    )


def _plain(text: str | None) -> str | None:
    """Text without lone surrogates, which JSON in UTF-8 cannot have."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode("utf-8")
