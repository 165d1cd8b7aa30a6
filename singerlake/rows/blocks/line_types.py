"""The types of a block's lines that are alike for all schemas, for decoders of the rest."""

from __future__ import annotations

from typing import Any

import msgspec

from singerlake.format.log import SchemaEntry


class _SchemaLine(msgspec.Struct):
    schema: dict[str, Any]
    key_properties: list[str] | None = None


class Activation(msgspec.Struct, tag="ACTIVATE_VERSION", tag_field="type", gc=False):
    """An ACTIVATE_VERSION line, of which nothing is wanted."""


_SCHEMA = msgspec.json.Decoder(_SchemaLine)
_ = msgspec.json.Decoder(Activation)  # built here, by one thread: decoders of several have it


def schema_entry(schema_line: bytes) -> SchemaEntry:
    """Read a SCHEMA line as far as it tells of columns and the key.

    Raises:
        msgspec.DecodeError: It is none.
        UnicodeDecodeError: It is not UTF-8.
        RecursionError: It is nested too deeply.
    """
    line = _SCHEMA.decode(schema_line)
    return SchemaEntry(line.schema, line.key_properties or [])
