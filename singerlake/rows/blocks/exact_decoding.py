"""The exact way to read records: value by value, and never a guess.

The values are those of ``singerlake.format.values``. The fast way (``fast_decoding.py``) must
give the same or step aside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from singerlake.errors import DamagedError
from singerlake.format import values
from singerlake.format.names import TableName
from singerlake.format.types import INT64, RULES, Columns, Type
from singerlake.rows.blocks.misfits import key_ways_out
from singerlake.rows.columns import key_text
from singerlake.rows.columns.arrow_types import arrow_type

DELETED_AT = "_sdc_deleted_at"
_NO_NAMES: Mapping[str, str] = MappingProxyType({})


class _Line(msgspec.Struct):
    type: str
    record: dict[str, msgspec.Raw] | None = None
    version: int | None = None


_LINE = msgspec.json.Decoder(_Line)


Misfits: TypeAlias = dict[int, dict[str, str]]


@dataclass
class DecodedRows:
    """The rows of a block, column by column.

    Attributes:
        columns: The values; null where one does not fit.
        deleted: Which rows are deletions.
        misfits: By row and column, the error about a value that does not fit.
    """

    columns: list[pa.Array]
    versions: pa.Array
    deleted: pa.Array
    misfits: Misfits = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.versions)


def read(
    lines: bytes,
    columns: Columns,
    where: str,
    keys: frozenset[str] = frozenset(),
    table: TableName | None = None,
    *,
    lenient: bool = False,
    rules: int = RULES,
    shown: Mapping[str, str] = _NO_NAMES,
) -> DecodedRows:
    """Read a block's lines after its SCHEMA line.

    A value that does not fit its column becomes a misfit, which names the row and the column and
    shows the value: it harms nobody if a later row has replaced it.

    Args:
        lines: RECORD and ACTIVATE_VERSION lines.
        columns: The columns of the block's own schema that are wanted.
        where: What to call the block in an error.
        keys: Columns by which rows are told apart: here a value must fit.
        table: Whose block it is; named in the error about a key that does not fit.
        lenient: Whether a key that its column would only have to round is a misfit as others are.
        rules: The number of the rules by which they are read.
        shown: What people call those columns whose names are others in records.

    Raises:
        DamagedError: A line is no Singer message, or a key does not fit its column.
    """
    readers = [(name, type_, _reader(type_)) for name, type_ in columns]
    cells: list[list[Any]] = [[] for _ in columns]
    versions: list[int | None] = []
    deleted: list[bool] = []
    misfits: Misfits = {}
    for line in filter(None, lines.split(b"\n")):
        message = _message(line, where, len(versions))
        if message is None:
            continue
        record = message.record or {}
        for (name, type_, read_value), column in zip(readers, cells, strict=True):
            raw = record.get(name)
            value = None
            if raw is not None:
                try:
                    value = read_value(bytes(raw))
                except ValueError as error:
                    said = values.why(bytes(raw), shown.get(name, name), error)
                    text = f"row {len(versions)} of {where}: {said}"
                    if name in keys:
                        rounds = values.only_rounds(bytes(raw), type_)
                        if not (lenient and rounds):
                            way = key_ways_out(table, shown.get(name, name), rounds=rounds)
                            raise DamagedError(f"{text}, {way}") from error
                    misfits.setdefault(len(versions), {})[shown.get(name, name)] = text
            column.append(value)
        deleted.append(values.is_deletion(bytes(record.get(DELETED_AT, b"null")), rules))
        versions.append(message.version)
    types = [arrow_type(type_) for _, type_ in columns]
    arrays = [pa.array(column, type_) for column, type_ in zip(cells, types, strict=True)]
    flags = pa.array(deleted, pa.bool_())
    return DecodedRows(arrays, pa.array(versions, pa.int64()), flags, misfits)


def _reader(type_: Type) -> values.Converter:
    return values.converter(type_) if type_.own is None else key_text.reader(type_.own)


def _message(line: bytes, where: str, row: int) -> _Line | None:
    """A RECORD line; None for an ACTIVATE_VERSION line."""
    try:
        message = _LINE.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(f"row {row} of {where} is not a Singer message: {error}") from error
    if message.type == "ACTIVATE_VERSION":
        return None
    if message.type != "RECORD" or message.record is None:
        raise DamagedError(f"row {row} of {where} is a {message.type[:40]!r} line without a record")
    if message.version is not None and message.version not in INT64:
        raise DamagedError(f"row {row} of {where} has a version past 64 bits")
    return message
