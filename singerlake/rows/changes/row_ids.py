"""The ``_row_id``: the key of a row as text, or its position in a table without a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format.types import Columns, Kind, Type
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.columns import canonical_text
from singerlake.rows.input.values import cells

AT_BLOCK, AT_ROW = "at_block", "at_row"
"""The position that a row's id names; only in tables without a key."""
_POSITION = r"^(?P<block>[0-9]{1,18}):(?P<row>[0-9]{1,9})$"
_PARTS = msgspec.json.Decoder(list[str])
_MILLION = 10_000_000


def join_columns(keys: Sequence[int]) -> tuple[str, ...]:
    """Return the columns that a row of the table is found by."""
    return tuple(map(alias, keys)) or (AT_BLOCK, AT_ROW)


def positions(ids: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the blocks and ordinals that ids name; null where one names none."""
    found = pc.extract_regex(ids, _POSITION)
    return tuple(
        pc.if_else(found.is_valid(), pc.struct_field(found, name), None).cast(type_)
        for name, type_ in (("block", pa.int64()), ("row", pa.int32()))
    )


def key_values(ids: pa.Array, columns: Columns) -> list[pa.Array]:
    """Return the values of a key's columns that ids name; null where one names none."""
    if len(columns) == 1:
        return [cells.read(ids, columns[0][1])[0]]
    rows = [_parts(text, len(columns)) for text in ids.to_pylist()]
    return [
        cells.read(pa.array([row[n] for row in rows], pa.string()), type_)[0]
        for n, (_, type_) in enumerate(columns)
    ]


def _parts(text: str | None, count: int) -> Sequence[str | None]:
    try:
        parts = _PARTS.decode(text or "")
    except msgspec.DecodeError:
        parts = []
    return parts if len(parts) == count else [None] * count


def id_text(values: Sequence[Any], columns: Columns) -> str:
    """Spell the id of a row as a query shows it.

    Args:
        values: Those of the key's columns; of a table without a key, block and ordinal.
    """
    if not columns:
        return ":".join(str(value) for value in values if value is not None)
    texts = [value_text(value, type_) for value, (_, type_) in zip(values, columns, strict=True)]
    return texts[0] if len(texts) == 1 else msgspec.json.encode(texts).decode()


def value_text(value: Any, type_: Type) -> str:
    """Spell a value as an id of a row does."""
    if type_.kind in (Kind.STRING, Kind.TEXT):
        return str(value)
    if type_.kind is Kind.DECIMAL:
        return f"{value:f}"
    if type_.kind is Kind.TIMESTAMP:
        text = str(value.replace(tzinfo=None))
        return text.rstrip("0") if value.microsecond else text
    text = canonical_text.value_text(value, type_)
    if type_.kind is Kind.NUMBER and "." not in text and abs(value) < _MILLION:
        text += ".0"
    return str(text.strip('"'))
