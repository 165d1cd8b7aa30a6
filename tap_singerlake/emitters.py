"""Blocks to messages: as bytes where they may stay as they are, line by line where not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from singer_sdk.helpers._catalog import get_selected_schema, pop_deselected_record_properties
from singer_sdk.mapper import PluginMapper, RemoveRecordTransform, StreamMap
from singer_sdk.singerlib import SelectionMask
from singer_sdk.singerlib.json import serialize_json

from singerlake.format.log import SchemaEntry
from singerlake.format.messages import schema_line
from tap_singerlake.schemas import plain, read_line, read_schema_line

CHUNK_CHARACTERS = 1 << 20
"""Text gathered before it is written."""


class Lines(Protocol):
    """A receiver of lines."""

    def write(self, data: bytes, start: int = 0) -> None:
        """Take whole lines, but for the bytes before ``start``."""


class Emitter(ABC):
    """Puts a stream's blocks out, each SCHEMA once."""

    def __init__(self, stream: str, output: Lines) -> None:
        self.stream = stream
        self.output = output
        self._last = b""

    def block(self, text: bytes, where: str) -> None:
        """Put a block out.

        Args:
            text: Its lines; the first is its SCHEMA.

        Raises:
            DamagedError: It has a line that is no Singer message.
        """
        start = text.find(b"\n") + 1
        self._schema(text[:start], where)
        if text[-1:] != b"\n":
            text += b"\n"  # else a STATE would continue its last line
        self._rest(text, start, where)

    def schema(self, entry: SchemaEntry, where: str) -> None:
        """Put a schema out that no block is written under."""
        self._schema(schema_line(self.stream, entry), where)

    def _schema(self, line: bytes, where: str) -> None:
        if line != self._last:
            self._new_schema(line, read_schema_line(line, where))
            self._last = line

    @abstractmethod
    def _new_schema(self, line: bytes, message: dict[str, Any]) -> None: ...

    @abstractmethod
    def _rest(self, text: bytes, start: int, where: str) -> None: ...


class RawEmitter(Emitter):
    """Puts blocks out byte for byte."""

    def _new_schema(self, line: bytes, message: dict[str, Any]) -> None:  # noqa: ARG002
        self.output.write(line)

    def _rest(self, text: bytes, start: int, where: str) -> None:  # noqa: ARG002
        if start < len(text):
            self.output.write(text, start)


class MappedEmitter(Emitter):
    """Applies selection, stream maps and flattening to every line.

    A message keeps all fields around its record (``version``, ``time_extracted``, …). Types
    are not conformed: the SDK would drop what the schema does not name.

    Args:
        mask: What is selected. Key properties always are, as ``automatic`` would have it.
        check_limit: Is told of each record, counted from 0, before it is put out; raises where
            there must be no more.
    """

    def __init__(
        self,
        stream: str,
        output: Lines,
        mapper: PluginMapper,
        mask: SelectionMask,
        check_limit: Callable[[int], None],
    ) -> None:
        super().__init__(stream, output)
        self._mapper = mapper
        self._mask = SelectionMask(mask)
        self._maps: list[StreamMap] = []
        self._schema_dict: dict[str, Any] = {}
        self._check_limit = check_limit
        self._records = 0

    def _new_schema(self, line: bytes, message: dict[str, Any]) -> None:  # noqa: ARG002
        keys = list(message.get("key_properties") or [])
        self._mask.update({("properties", key): True for key in keys})
        self._schema_dict = plain(message["schema"])
        selected = get_selected_schema(self.stream, self._schema_dict, self._mask)
        self._mapper.register_raw_stream_schema(self.stream, selected, keys)
        self._maps = [
            stream_map
            for stream_map in self._mapper.stream_maps[self.stream]
            if not isinstance(stream_map, RemoveRecordTransform)
        ]
        for stream_map in self._maps:
            schema = stream_map.transformed_schema
            mapped = {
                **message,
                "stream": stream_map.stream_alias,
                "schema": schema,
                "key_properties": list(stream_map.transformed_key_properties or []),
            }
            if bookmarks := message.get("bookmark_properties"):
                kept = [name for name in bookmarks if name in schema.get("properties", {})]
                mapped["bookmark_properties"] = kept
            self.output.write(serialize_json(mapped).encode() + b"\n")

    def _rest(self, text: bytes, start: int, where: str) -> None:
        lines: list[str] = []
        size = 0
        try:
            for line in text[start:].split(b"\n"):
                if not line:
                    continue
                for mapped in self._mapped(read_line(line, where)):
                    lines.append(mapped)
                    size += len(mapped)
                if size >= CHUNK_CHARACTERS:
                    self._write(lines)
                    size = 0
        finally:
            self._write(lines)

    def _write(self, lines: list[str]) -> None:
        if lines:
            text = "\n".join(lines)
            lines.clear()
            self.output.write(text.encode() + b"\n")

    def _mapped(self, message: dict[str, Any]) -> list[str]:
        if message.get("type") == "ACTIVATE_VERSION":
            return [serialize_json({**message, "stream": m.stream_alias}) for m in self._maps]
        self._check_limit(self._records)
        self._records += 1
        record = message["record"]
        pop_deselected_record_properties(record, self._schema_dict, self._mask)
        mapped = ((m.stream_alias, m.transform(record)) for m in self._maps)
        return [
            serialize_json({**message, "stream": alias, "record": result})
            for alias, result in mapped
            if result is not None
        ]
