"""The slower way, for streams with a map, flattening or added metadata: through the SDK.

The SDK's mapper changes each record, its sink adds the metadata, and the result is written
down as a line again. What an SDK sink takes out by itself when metadata is off, such as
``_sdc_deleted_at``, stays in: without it a delete would be lost.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Raw
from singer_sdk import Target
from singer_sdk.mapper import RemoveRecordTransform, SameRecordTransform
from singer_sdk.singerlib.json import deserialize_json, serialize_json

from singerlake.errors import InputError, SingerlakeError
from singerlake.format import messages, times
from singerlake.format.content import place_in
from singerlake.format.log import SchemaEntry
from target_singerlake.errors import InvalidLineError, InvalidSchemaError
from target_singerlake.places import Line
from target_singerlake.run import Run
from target_singerlake.validation import Validator

if TYPE_CHECKING:
    from target_singerlake.metadata_sink import MetadataSink


class MappedStreams:
    """Maps streams and writes them to a run.

    Args:
        target: The plugin, for its settings and its mapper.
        run: Where the lines go.
        validate: Makes a stream's validator from name, schema and keys.
    """

    def __init__(
        self,
        target: Target,
        run: Run,
        validate: Callable[[str, dict[str, Any], list[str]], Validator],
    ) -> None:
        self._target = target
        self._run = run
        self._validate = validate
        config = target.config
        self._all = bool(config.get("add_record_metadata") or config.get("flattening_enabled"))
        self._some = self._all or bool(config.get("stream_maps"))
        self._sinks: dict[str, MetadataSink] = {}
        self._validators: dict[str, Validator] = {}

    def takes(self, stream: str, schema: dict[str, Any], keys: list[str]) -> bool:
        """Tell whether the settings say something of a stream. Registers it with the mapper.

        Raises:
            InvalidSchemaError: The settings do not go with the schema.
        """
        if not self._some:
            return False
        mapper = self._target.mapper
        with _map_expression_errors("the stream map", InvalidSchemaError):
            mapper.register_raw_stream_schema(stream, schema, keys)
        maps = mapper.stream_maps[stream]
        return self._all or len(maps) != 1 or not isinstance(maps[0], SameRecordTransform)

    def names(self, stream: str) -> set[str]:
        """Return the names under which a stream of the tap is stored."""
        maps = self._target.mapper.stream_maps.get(stream, ()) if self._some else ()
        return {one.stream_alias for one in maps} or {stream}

    def schema(self, stream: str) -> None:
        """Put the mapped schemas of a stream into effect.

        Raises:
            InvalidSchemaError: The map makes no schema of it.
        """
        from target_singerlake.metadata_sink import MetadataSink  # late: few runs have maps

        self._refuse_flat_files(stream)
        for stream_map in self._target.mapper.stream_maps[stream]:
            if isinstance(stream_map, RemoveRecordTransform):
                continue
            alias = stream_map.stream_alias
            keys = list(stream_map.transformed_key_properties or [])
            with _map_expression_errors("the mapped schema", InvalidSchemaError):
                sink = MetadataSink(
                    target=self._target,
                    stream_name=alias,
                    schema=copy.deepcopy(stream_map.transformed_schema),
                    key_properties=keys,
                )
                schema = json.loads(serialize_json(sink.schema))
            entry = SchemaEntry(schema, keys)
            self._sinks[alias] = sink
            self._validators[alias] = self._validate(alias, schema, keys)
            self._run.set_schema(alias, messages.schema_line(alias, entry), entry)

    def _refuse_flat_files(self, stream: str) -> None:
        """Refuse to flatten objects that name files, which then would not be stored.

        Raises:
            InvalidSchemaError: A map leaves some in, and the settings flatten them.
        """
        mapper = self._target.mapper
        maps = mapper.stream_maps[stream]
        if mapper.flattening_options is None or place_in(maps[0].raw_schema) is None:
            return
        plain: Any = copy.copy(mapper)
        plain.flattening_options, plain.stream_maps = None, {}
        with _map_expression_errors("the stream map", InvalidSchemaError):
            plain.register_raw_stream_schema(stream, maps[0].raw_schema, maps[0].raw_key_properties)
        if any(place_in(one.transformed_schema) for one in plain.stream_maps[stream]):
            raise InvalidSchemaError(
                "flattening_enabled would flatten the objects that reference files, and the files "
                "would not be stored: turn it off, or leave them out with a stream map"
            )

    def record(self, line: bytes, number: Line) -> None:
        """Map one RECORD line.

        Args:
            line: As it arrived.
            number: Where it stands, for errors.

        Raises:
            InputError: What the map makes of it is not valid.
        """
        where = f"line {number}: the record"
        with _map_expression_errors(where, InvalidLineError):
            message = deserialize_json(line)
        where = f"line {number}: the record of stream {message['stream']!r}"
        if not isinstance(message["record"], dict):
            raise InvalidLineError(f"{where} is not an object")
        lines: list[tuple[str, bytes]] = []  # all of them or, where one is refused, none
        for stream_map in self._target.mapper.stream_maps[message["stream"]]:
            alias = stream_map.stream_alias
            with _map_expression_errors(where, InvalidLineError):
                record = stream_map.transform(copy.copy(message["record"]))
                if record is None:
                    continue  # filtered out, or the whole stream is
                record = self._sinks[alias].metadata_added(record, message)
                text = serialize_json(record).encode("utf-8")
            self._validators[alias].check(Raw(text), number)
            lines.append((alias, _line(alias, text, message)))
        for alias, mapped in lines:
            self._run.add_text(alias, mapped, rows=1)

    def activate_version(self, stream: str, version: int) -> None:
        """Pass an ACTIVATE_VERSION on to what a stream is mapped to."""
        for stream_map in self._target.mapper.stream_maps[stream]:
            if not isinstance(stream_map, RemoveRecordTransform):
                alias = stream_map.stream_alias
                line = messages.activate_version_line(alias, version)
                self._run.activate_version(alias, line, version)


@contextmanager
def _map_expression_errors(what: str, kind: type[InputError]) -> Iterator[None]:
    """Name the line or map in whatever a user's expression makes the SDK raise."""
    try:
        yield
    except SingerlakeError:
        raise
    except Exception as error:  # the expression may raise anything
        cause = error.__cause__ or error
        reason = str(error) if cause is error else f"{error} ({cause})"
        raise kind(f"{what} cannot be mapped: {reason or type(error).__name__}") from error


def _line(alias: str, record: bytes, message: dict[str, Any]) -> bytes:
    stamp = message.get("time_extracted") or message["record"].get("_sdc_extracted_at")
    instant = times.parse(stamp) if isinstance(stamp, str) else None
    time = times.iso(instant or times.now())
    return messages.record_line(alias, record, time, message.get("version"))
