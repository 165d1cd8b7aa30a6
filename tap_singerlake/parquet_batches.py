"""Records as a Parquet file, under the types of their SCHEMA."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Raw

from singerlake.errors import DamagedError
from singerlake.format.log import SchemaEntry
from singerlake.format.messages import DELETED
from singerlake.format.types import Columns, Kind, Type, columns_of
from singerlake.format.values import shown
from singerlake.rows.blocks import exact_decoding, fast_decoding
from singerlake.rows.lines.arrow_lines import JSON_TYPE

_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_JSON = {"ARROW:extension:name": JSON_TYPE, "ARROW:extension:metadata": ""}
_AROUND = b'{"type":"RECORD","stream":"","record":'
_LONG = r"[0-9][0-9.]{15}|[eE]-[0-9]{3}|:[0-9]{2}[.,][0-9]{7}|\\u00"
"""What there is in lines of which a number or a time may have more digits than its column."""
_NULL = Raw(b"null")
_FINE = re.compile(r"[.,]\d{6}\d*[1-9]")
"""In a time: digits behind those of microseconds."""


def parquet_of(schema_line: bytes, records: Sequence[Raw], *, gzip: bool) -> bytes:
    """Write records.

    A column that may be of several types, or an object of any members, or has such in it, holds
    each value as JSON, and says so by Arrow's own type for that. Besides the schema's columns
    there is that of deletions, where a record has one.

    Args:
        schema_line: The SCHEMA that they are of.
        records: Their JSON.
        gzip: Whether pages are compressed by gzip instead of Snappy.

    Raises:
        DamagedError: A value does not fit its column, so that it would be lost or rounded.
    """
    message = json.loads(schema_line)
    entry = SchemaEntry(message["schema"], message.get("key_properties") or [])
    columns = columns_of(entry)
    typed = tuple(column for column in columns if not _has(column[1], Kind.TEXT))
    lines = b"".join(b"%b%b}\n" % (_AROUND, bytes(record)) for record in records)
    found = _typed(lines, typed, len(records), str(message.get("stream")))
    # Arrow's expressions are several times as fast as Python's.
    if pc.match_substring_regex(pa.array([lines], pa.binary()), _LONG)[0].as_py():
        _check_exact(records, typed, str(message.get("stream")))
    others = [name for name, type_ in columns if _has(type_, Kind.TEXT)]
    if DELETED.encode() in lines and DELETED not in dict(columns):
        others.append(DELETED)
    found |= _as_json(others, records)
    names = [*(name for name, _ in columns), *(name for name in others if name == DELETED)]
    fields = [
        pa.field(name, found[name].type, metadata=_JSON if name in others else None)
        for name in dict.fromkeys(names)
    ]
    table = pa.Table.from_arrays([found[field.name] for field in fields], schema=pa.schema(fields))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="gzip" if gzip else "snappy")
    return sink.getvalue()


def _typed(lines: bytes, columns: Columns, count: int, stream: str) -> dict[str, pa.Array]:
    rows = fast_decoding.read(lines, columns, count)
    if rows is None:
        rows = exact_decoding.read(lines, columns, f"a batch of {stream}")
    if rows.misfits:
        errors = next(iter(rows.misfits.values()))
        name, reason = next(iter(errors.items()))
        raise _misfit(stream, name, reason)
    return {name: array for (name, _), array in zip(columns, rows.columns, strict=True)}


def _misfit(stream: str, name: str, reason: str) -> DamagedError:
    return DamagedError(
        f"column {name!r} of {stream} has a value that cannot be in a Parquet file: {reason}; "
        "set batch_config.encoding.format to jsonl"
    )


def _has(type_: Type, *kinds: Kind) -> bool:
    """Tell whether a type is of one of some kinds, or has a part that is."""
    return type_.kind in kinds or any(_has(one, *kinds) for one in type_.parts)


def _check_exact(records: Sequence[Raw], columns: Columns, stream: str) -> None:
    """Make sure that no number and no time was rounded.

    Raises:
        DamagedError: One was.
    """
    columns = tuple(one for one in columns if _has(one[1], Kind.NUMBER, Kind.TIMESTAMP))
    for number, record in enumerate(records) if columns else ():
        members = _MEMBERS.decode(record)
        for name, type_ in columns:
            if (raw := members.get(name)) is None or raw == _NULL:
                continue
            text = bytes(raw)
            if type_.kind is Kind.NUMBER and repr(float(text)).encode() == text:
                continue  # as nearly all are, and quickly seen
            value = json.loads(text, parse_float=Decimal, parse_int=Decimal)
            if _is_rounded(value, type_):
                raise _misfit(
                    stream,
                    name,
                    f"row {number} of a batch of {stream}: the value {shown(text)} would be "
                    "rounded",
                )


def _is_rounded(value: Any, type_: Type) -> bool:
    """Tell whether a value is another in a column of its type."""
    if isinstance(value, Decimal):
        return type_.kind is Kind.NUMBER and Decimal(repr(float(value))) != value
    if isinstance(value, str):
        return type_.kind is Kind.TIMESTAMP and _FINE.search(value) is not None
    if isinstance(value, dict):
        return any(_is_rounded(value[name], one) for name, one in type_.fields if name in value)
    if isinstance(value, list) and type_.item is not None:
        return any(_is_rounded(one, type_.item) for one in value)
    return False


def _as_json(names: Sequence[str], records: Sequence[Raw]) -> dict[str, pa.Array]:
    if not names:
        return {}
    values: dict[str, list[str | None]] = {name: [] for name in names}
    for record in records:
        members = _MEMBERS.decode(record)
        for name, texts in values.items():
            text = bytes(members[name]).decode() if name in members else None
            texts.append(None if text in (None, "null") else text)
    return {name: pa.array(texts, pa.string()) for name, texts in values.items()}
