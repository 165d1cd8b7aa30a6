"""RECORD messages in files, where records alone should stand: no column would have their values."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from singerlake.format.json_schema import resolved
from singerlake.format.log import SchemaEntry
from target_singerlake.errors import InvalidLineError
from target_singerlake.line_places import FileLine
from target_singerlake.messages import Record

_RECORD = msgspec.json.Decoder(Record)
_MEMBERS = frozenset(("type", "stream", "record"))


class Wrapped:
    """Knows such messages by what the schema of their stream says of records."""

    def __init__(self, entry: SchemaEntry) -> None:
        declared = resolved(entry.schema, entry.schema).get("properties", {})
        self._possible = not declared.keys() >= _MEMBERS
        # Where there is another key, a message is no valid record of the stream.
        self._valid = self._possible and _MEMBERS.issuperset(entry.key_properties)

    def may_be_in(self, data: bytes) -> bool:
        """Tell whether lines that are valid records may be such messages."""
        return self._valid and data.rfind(b'"RECORD"') >= 0  # from the right it is found sooner

    def refuse(self, raw: Raw, place: FileLine) -> None:
        """Look at one record.

        Raises:
            InvalidLineError: It is such a message.
        """
        if not self._possible:
            return
        try:
            message = _RECORD.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return
        if bytes(message.record).startswith(b"{"):
            raise InvalidLineError(
                f"line {place}: it is a whole RECORD message of stream {message.stream!r}, where a "
                "file of a BATCH has records alone: let the tap write what stands behind "
                '"record", or send the messages themselves'
            )
