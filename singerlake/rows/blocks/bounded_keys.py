"""The bounds of the keys in a block's lines, for what writes these without having the keys."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from singerlake.format import block as format_block
from singerlake.format import key_bounds
from singerlake.format.key_bounds import Bounds
from singerlake.format.log import SchemaEntry
from singerlake.format.sealed import UNREADABLE
from singerlake.format.types import Columns, Kind, columns_of
from singerlake.rows.blocks.line_types import Activation, schema_entry

Members: TypeAlias = "tuple[tuple[str, Kind], ...]"
"""Members of records by which rows are told apart, and what they hold."""
PLAIN: dict[Kind, type] = {Kind.INTEGER: int, Kind.STRING: str}
"""Kinds of key columns whose values JSON spells in one way, and that compare as it has them."""


def members(entry: SchemaEntry, columns: Columns | None = None) -> Members:
    """Return the members of a schema's records whose bounds a block has.

    Args:
        entry: The schema and the key.
        columns: Its columns, if they are known.
    """
    types = dict(columns_of(entry) if columns is None else columns)
    keys = [(key, types[key].kind) for key in dict.fromkeys(entry.key_properties) if key in types]
    return tuple(one for one in keys if one[1] in PLAIN)[: key_bounds.MOST_COLUMNS]


def has_bounds(columns: Columns) -> bool:
    """Tell whether blocks have bounds of all columns of a key, where they have any."""
    return len(columns) <= key_bounds.MOST_COLUMNS and all(t.kind in PLAIN for _, t in columns)


@lru_cache(maxsize=64)
def members_of(schema_line: bytes) -> Members:
    """Do as :func:`members`, by a SCHEMA line; of one that cannot be read there are none."""
    try:
        return members(schema_entry(schema_line))
    except (*UNREADABLE, ValueError, TypeError, KeyError, AttributeError):
        return ()


def of_block(text: bytes) -> Bounds:
    """Find the bounds of the keys in an inflated block; what is not certain is left out."""
    schema_line, lines = format_block.lines(text)
    return of_lines([lines], members_of(schema_line)) or {}


def of_lines(texts: Iterable[bytes | memoryview], wanted: Members) -> Bounds | None:
    """Find the bounds of the keys in some lines.

    Args:
        texts: RECORD and ACTIVATE_VERSION lines, each ended by a newline.

    Returns:
        None where a value is not what its column says, or a line cannot be read.
    """
    bounds: Bounds = {}
    decoder = decoder_of(wanted) if wanted else None
    if decoder is None:
        return None
    for text in texts:
        try:
            messages = decoder.decode_lines(text) if text else []
        except (*UNREADABLE, ValueError, OverflowError):
            return None
        found = records(messages)
        for index, (name, _) in enumerate(wanted):
            values = list(map(attrgetter(f"record.c{index}"), found))
            key_bounds.widened(bounds, name, key_bounds.span(values))
    return bounds


def records(messages: Iterable[Any]) -> list[Any]:
    """Return the RECORDs among what :func:`decoder_of` decoded."""
    return [one for one in messages if type(one) is not Activation]


@lru_cache(maxsize=64)
def decoder_of(wanted: Members) -> msgspec.json.Decoder[Any] | None:
    """Build what decodes lines as far as some members of their records; None for odd names.

    A record has them as ``c0``, ``c1``, …
    """
    fields: list[tuple[str, Any, Any]] = [
        (f"c{index}", PLAIN[kind] | None, None) for index, (_, kind) in enumerate(wanted)
    ]
    own = {f"c{index}": name for index, (name, _) in enumerate(wanted)}
    try:
        record = msgspec.defstruct("Keys", fields, rename=own, gc=False)
        line = msgspec.defstruct(
            "Record", [("record", record)], tag="RECORD", tag_field="type", gc=False
        )
        return msgspec.json.Decoder(line | Activation)
    except ValueError:  # a name with a quote or a control character in it
        return None
