"""Proofs that the values of lines have the JSON types of their columns, by decoding them.

Lenient parsers make a value of what is none: 1 of ``1.5``, or of ``"1"``. What decodes here has, in
every column of one of these types, null or just what the type is made of: a whole number without
point and exponent and within 64 bits, a number that a double can hold, a string without a lone
surrogate, a boolean, an object or an array of such. So does what the target's decoders take, which
are narrower still. Of decimals and of JSON kept as text nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from singerlake.errors import SingerlakeError
from singerlake.format import block as format_block
from singerlake.format.schema_hash import schema_hash
from singerlake.format.sealed import UNREADABLE
from singerlake.format.types import INT64, Columns, Kind, Type, columns_of
from singerlake.rows.blocks.line_types import Activation, schema_entry

_WHOLE = Annotated[int, msgspec.Meta(ge=INT64[0], le=INT64[-1])]
_PLAIN: dict[Kind, Any] = {
    Kind.INTEGER: _WHOLE,
    Kind.NUMBER: float,
    Kind.STRING: str,
    Kind.DATE: str,
    Kind.TIMESTAMP: str,
    Kind.BOOLEAN: bool,
}
LEAST_BYTES = 1 << 20
"""Lines of fewer bytes are not proved for their own sake: to read them takes no time either way."""


def provable(type_: Type) -> bool:
    """Tell whether a proof says all of a column's values."""
    if type_.kind is Kind.STRUCT:
        return all(provable(inner) for _, inner in type_.fields)
    if type_.kind is Kind.LIST:
        return type_.item is not None and provable(type_.item)
    return type_.kind in _PLAIN


def proves(texts: Iterable[bytes | memoryview], columns: Columns) -> bool:
    """Tell whether lines are certain to have values of some columns' types.

    Args:
        texts: RECORD and ACTIVATE_VERSION lines, each one JSON object and ended by a newline.
        columns: Of the schema that they were written under, by ``types.RULES``.
    """
    decoder = _decoder_of(columns)
    if decoder is None:
        return False
    try:
        for text in texts:
            # What a decoder skips over it does not look at.
            if text and str(text, "utf-8"):
                decoder.decode_lines(text)
    except (*UNREADABLE, ValueError):
        return False
    return True


def proved_by(schema_line: bytes, texts: Sequence[bytes | memoryview]) -> str:
    """Prove the types of a new block's lines, where that is worth it.

    Args:
        schema_line: Its SCHEMA line.
        texts: Its other lines.

    Returns:
        The hash of its schema; empty where nothing is proved.
    """
    if sum(map(len, texts)) < LEAST_BYTES:
        return ""
    hash_, columns = _schema_of(schema_line)
    return hash_ if hash_ and proves(texts, columns) else ""


def block_proves(text: bytes) -> bool:
    """Tell whether the lines of an inflated block have the types of its SCHEMA line."""
    schema_line, lines = format_block.lines(text)
    hash_, columns = _schema_of(schema_line)
    return bool(hash_) and proves([lines], columns)


@lru_cache(maxsize=64)
def _schema_of(schema_line: bytes) -> tuple[str, Columns]:
    """The hash of a schema, and its columns, by its SCHEMA line; none if it cannot be read."""
    try:
        entry = schema_entry(schema_line)
        return schema_hash(entry.schema, entry.key_properties), columns_of(entry)
    except (*UNREADABLE, SingerlakeError, ValueError, TypeError, KeyError, AttributeError):
        return "", ()


@lru_cache(maxsize=64)
def _decoder_of(columns: Columns) -> msgspec.json.Decoder[Any] | None:
    """Build what decodes such lines alone; None for odd names."""
    try:
        record = _struct(columns)
        fields: list[Any] = [("record", record), ("version", _WHOLE | None, None)]
        line = msgspec.defstruct("Record", fields, tag="RECORD", tag_field="type", gc=False)
        return msgspec.json.Decoder(line | Activation)
    except (ValueError, RecursionError):  # a name with a quote or a control character in it
        return None


def _struct(columns: Columns) -> Any:
    fields: list[Any] = []
    names: dict[str, str] = {}
    for number, (name, type_) in enumerate(columns):
        if (kind := _kind(type_)) is not msgspec.Raw:
            fields.append((f"f{number}", kind | None, None))
            names[f"f{number}"] = name
    return msgspec.defstruct("Values", fields, rename=names, gc=False)


def _kind(type_: Type) -> Any:
    """Build the type of a value; ``Raw`` where nothing is said of it."""
    if type_.kind is Kind.STRUCT:
        return _struct(type_.fields)
    if type_.item is not None:
        item = _kind(type_.item)
        return list[item if item is msgspec.Raw else item | None]  # type: ignore[misc]
    return _PLAIN.get(type_.kind, msgspec.Raw)
