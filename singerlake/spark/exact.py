"""The exact way to read records: value by value, and never a guess.

The values are those of ``singerlake.format.values``. The fast way in ``rows.py`` must give the
same or step aside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from singerlake.errors import DamagedError
from singerlake.format import values
from singerlake.format.names import TableName
from singerlake.format.types import TEXT, Columns, Type
from singerlake.maintenance import misfits as misfits_words
from singerlake.spark import canonical
from singerlake.spark.columns import arrow_type

DELETED = "_sdc_deleted_at"
_INT64 = (-(1 << 63), (1 << 63) - 1)


class _Line(msgspec.Struct):
    type: str
    record: dict[str, msgspec.Raw] | None = None
    version: int | None = None


_LINE = msgspec.json.Decoder(_Line)


Misfits: TypeAlias = dict[int, dict[str, str]]


@dataclass
class Gathered:
    """The rows of a block, column by column.

    Attributes:
        columns: The values; null where one does not fit.
        versions: The rows' Singer versions.
        deleted: Which rows are deletions.
        misfits: By row and column, what is said of a value that does not fit.
    """

    columns: list[pa.Array]
    versions: pa.Array
    deleted: pa.Array
    misfits: Misfits = field(default_factory=dict)


def read(
    lines: bytes,
    columns: Columns,
    where: str,
    keys: frozenset[str] = frozenset(),
    table: TableName | None = None,
) -> Gathered:
    """Read a block's lines after its SCHEMA line.

    A value that does not fit its column harms nobody if a later row has replaced it. So it
    becomes a misfit, which names the row and the column and shows the value.

    Args:
        lines: RECORD and ACTIVATE_VERSION lines.
        columns: The columns of the block's own schema that are wanted.
        where: What to call the block in an error.
        keys: Columns by which rows are told apart: here a value must fit.
        table: Whose block it is; named in what is said of a key that does not fit.

    Raises:
        DamagedError: A line is no Singer message, or a key does not fit its column.
    """
    readers = [(name, _reader(type_)) for name, type_ in columns]
    cells: list[list[Any]] = [[] for _ in columns]
    versions: list[int | None] = []
    deleted: list[bool] = []
    misfits: Misfits = {}
    for line in lines.split(b"\n"):
        if not line:
            continue
        message = _message(line, where, len(versions))
        if message is None:
            continue
        record = message.record or {}
        for (name, read_value), column in zip(readers, cells, strict=True):
            raw = record.get(name)
            value = None
            if raw is not None:
                try:
                    value = read_value(bytes(raw))
                except ValueError as error:
                    said = values.why(bytes(raw), name, error)
                    said = f"row {len(versions)} of {where}: {said}"
                    if name in keys:
                        ways_out = misfits_words.key_ways_out(table, name)
                        raise DamagedError(f"{said}, {ways_out}") from error
                    misfits.setdefault(len(versions), {})[name] = said
            column.append(value)
        mark = record.get(DELETED)
        deleted.append(mark is not None and bytes(mark) != b"null")
        versions.append(message.version)
    arrays = [
        pa.array(column, arrow_type(type_))
        for column, (_, type_) in zip(cells, columns, strict=True)
    ]
    return Gathered(arrays, pa.array(versions, pa.int64()), pa.array(deleted, pa.bool_()), misfits)


def _reader(type_: Type) -> values.Converter:
    if type_.own is None:
        return values.converter(type_)
    own, read_own, read_text = type_.own, values.converter(type_.own), values.converter(TEXT)

    def read_value(raw: bytes) -> Any:
        try:
            value = read_own(raw)
        except ValueError:
            return read_text(raw)
        return None if value is None else read_text(canonical.value_text(value, own).encode())

    return read_value


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
