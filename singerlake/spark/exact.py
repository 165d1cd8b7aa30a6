"""The exact way to read records: value by value, and never a guess.

It defines what a value of a lake is. The fast way in ``rows.py`` must give the same or step
aside.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from singerlake.errors import DamagedError
from singerlake.format import times
from singerlake.spark.columns import DIGITS, TEXT, Columns, Kind, Type, arrow_type

DELETED = "_sdc_deleted_at"
SHOWN = 60

_INTEGER = re.compile(rb"-?\d{1,4000}")
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,6})?")
_TOKENS = b"-0123456789"
_LONGEST = 4000
_CONTEXT = Context(prec=_LONGEST + 1, Emax=9_999_999, Emin=-9_999_999)
_INT64 = (-(1 << 63), (1 << 63) - 1)

Converter: TypeAlias = Callable[[bytes], Any]


class _Line(msgspec.Struct):
    type: str
    record: dict[str, msgspec.Raw] | None = None
    version: int | None = None


_LINE = msgspec.json.Decoder(_Line)
_TEXT = msgspec.json.Decoder(str)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


class MisfitError(ValueError):
    """A value that its column cannot hold. Caught where the row is known."""


@dataclass
class Gathered:
    """The rows of a block, column by column.

    Attributes:
        columns: The values; null where one does not fit.
        versions: The rows' Singer versions.
        deleted: Which rows are deletions.
        misfits: By row, what is said of the first value that does not fit.
    """

    columns: list[pa.Array]
    versions: pa.Array
    deleted: pa.Array
    misfits: dict[int, str] = field(default_factory=dict)


def read(
    lines: bytes, columns: Columns, where: str, keys: frozenset[str] = frozenset()
) -> Gathered:
    """Read a block's lines after its SCHEMA line.

    A value that does not fit its column harms nobody if a later row has replaced it. So it
    becomes a misfit, which names the row and the column and shows the value.

    Args:
        lines: RECORD and ACTIVATE_VERSION lines.
        columns: The columns of the block's own schema that are wanted.
        where: What to call the block in an error.
        keys: Columns by which rows are told apart: here a value must fit.

    Raises:
        DamagedError: A line is no Singer message, or a key does not fit its column.
    """
    readers = [(name, converter(type_)) for name, type_ in columns]
    values: list[list[Any]] = [[] for _ in columns]
    versions: list[int | None] = []
    deleted: list[bool] = []
    misfits: dict[int, str] = {}
    for line in lines.split(b"\n"):
        if not line:
            continue
        message = _message(line, where, len(versions))
        if message is None:
            continue
        record = message.record or {}
        for (name, read_value), cells in zip(readers, values, strict=True):
            raw = record.get(name)
            try:
                cells.append(
                    None
                    if raw is None
                    else _cell(bytes(raw), read_value, name, where, len(versions))
                )
            except DamagedError as error:
                if name in keys:
                    raise
                misfits.setdefault(len(versions), str(error))
                cells.append(None)
        mark = record.get(DELETED)
        deleted.append(mark is not None and bytes(mark) != b"null")
        versions.append(message.version)
    arrays = [
        pa.array(cells, arrow_type(type_))
        for cells, (_, type_) in zip(values, columns, strict=True)
    ]
    return Gathered(arrays, pa.array(versions, pa.int64()), pa.array(deleted, pa.bool_()), misfits)


def _message(line: bytes, where: str, row: int) -> _Line | None:
    """A RECORD line; None for an ACTIVATE_VERSION line."""
    try:
        message = _LINE.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(f"row {row} of {where} is no Singer message: {error}") from error
    if message.type == "ACTIVATE_VERSION":
        return None
    if message.type != "RECORD" or message.record is None:
        raise DamagedError(f"row {row} of {where} is a {message.type[:40]!r} line without a record")
    if message.version is not None and not _INT64[0] <= message.version <= _INT64[1]:
        raise DamagedError(f"row {row} of {where} has a version past 64 bits")
    return message


def _cell(raw: bytes, read_value: Converter, name: str, where: str, row: int) -> Any:
    try:
        return read_value(raw)
    except ValueError as error:  # MisfitError, msgspec's and Unicode's are all ValueErrors
        kind = error.args[0] if isinstance(error, MisfitError) else f"{error}"
        raise DamagedError(
            f"row {row} of {where}: the value {shown(raw)} of column {name!r} is no {kind}"
        ) from error


def shown(raw: bytes) -> str:
    """A value for an error message: its beginning."""
    text = raw.decode("utf-8", "replace")
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def converter(type_: Type, *, loose: bool = False) -> Converter:
    """Something that reads the JSON text of a value.

    Args:
        type_: The column's type.
        loose: For a value of another schema: a string column takes any value's text, and
            numbers and booleans may come as strings.

    Returns:
        A function from JSON text to what Arrow takes. It raises a ``ValueError`` where the
        value does not fit.
    """
    read_value = _build(type_, loose)

    def nullable(raw: bytes) -> Any:
        return None if raw == b"null" else read_value(raw)

    return nullable


def _build(type_: Type, loose: bool) -> Converter:
    kind = type_.kind
    if kind is Kind.STRUCT:
        return _struct(type_, loose)
    if kind is Kind.LIST:
        return _list(type_, loose)
    if kind is Kind.DECIMAL:
        return _bare(_decimal(type_.scale), True)
    if kind is Kind.STRING and loose:
        return _text
    simple = {
        Kind.INTEGER: _bare(_integer, loose),
        Kind.NUMBER: _bare(_number, loose),
        Kind.BOOLEAN: _bare(_boolean, loose),
        Kind.STRING: _string,
        Kind.DATE: _date,
        Kind.TIMESTAMP: _timestamp,
        Kind.TEXT: _text,
    }
    return simple[kind]


def _bare(inner: Converter, unquote: bool) -> Converter:
    if not unquote:
        return inner

    def read_value(raw: bytes) -> Any:
        return inner(_TEXT.decode(raw).encode() if raw[:1] == b'"' else raw)

    return read_value


def _integer(raw: bytes) -> int:
    if _INTEGER.fullmatch(raw):
        number = int(raw)
    else:
        # 1.0 and 1e3 are integers by JSON Schema.
        value = _parsed(raw, "integer")
        if value.adjusted() > DIGITS or value != value.to_integral_value():
            raise MisfitError("integer")
        number = int(value)
    if not _INT64[0] <= number <= _INT64[1]:
        raise MisfitError("64-bit integer")
    return number


def _number(raw: bytes) -> float:
    if raw[:1] not in _TOKENS or not _NUMBER.fullmatch(raw):
        raise MisfitError("number")
    value = float(raw)
    if value in (float("inf"), float("-inf")):
        raise MisfitError("number that a double can hold")
    return value


def _parsed(raw: bytes, kind: str) -> Decimal:
    if len(raw) > _LONGEST or not _NUMBER.fullmatch(raw):
        raise MisfitError(kind)
    return Decimal(raw.decode())


def _decimal(scale: int) -> Converter:
    whole = DIGITS - scale
    step = Decimal(1).scaleb(-scale)

    def read_value(raw: bytes) -> Decimal:
        # Zeros behind the point carry nothing: 1.500 fits two digits.
        value = _parsed(raw, "decimal").normalize(_CONTEXT)
        if not value:
            return Decimal(0)
        if value.adjusted() >= whole or value != value.quantize(step, context=_CONTEXT):
            raise MisfitError(f"decimal({DIGITS},{scale})")
        return value

    return read_value


def _boolean(raw: bytes) -> bool:
    if raw not in (b"true", b"false"):
        raise MisfitError("boolean")
    return raw == b"true"


def _string(raw: bytes) -> str:
    if raw[:1] != b'"':
        raise MisfitError("string")
    return _TEXT.decode(raw)


def _text(raw: bytes) -> str:
    return _TEXT.decode(raw) if raw[:1] == b'"' else raw.decode("utf-8")


def _timestamp(raw: bytes) -> datetime:
    instant = times.parse(_string(raw)) if raw[:1] == b'"' else None
    if instant is None:
        raise MisfitError("timestamp")
    return instant


def _date(raw: bytes) -> date:
    instant = times.parse(_string(raw)) if raw[:1] == b'"' else None
    if instant is None or instant.time() != time():
        raise MisfitError("date")
    return instant.date()


def _struct(type_: Type, loose: bool) -> Converter:
    fields = [(name, converter(inner, loose=loose)) for name, inner in type_.fields]

    def read_value(raw: bytes) -> dict[str, Any]:
        if raw[:1] != b"{":
            raise MisfitError("object")
        members = _OBJECT.decode(raw)
        return {
            name: None if (member := members.get(name)) is None else inner(bytes(member))
            for name, inner in fields
        }

    return read_value


def _list(type_: Type, loose: bool) -> Converter:
    item = converter(type_.item or TEXT, loose=loose)

    def read_value(raw: bytes) -> list[Any]:
        if raw[:1] != b"[":
            raise MisfitError("array")
        return [item(bytes(member)) for member in _ARRAY.decode(raw)]

    return read_value
