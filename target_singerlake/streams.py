"""What a run knows of its streams: their SCHEMAs, and what a record of each must go through."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Raw

from singerlake.errors import InvalidNameError
from singerlake.format import json_schema
from singerlake.format.log import SchemaEntry
from singerlake.rows.validation.typed import as_list
from target_singerlake.errors import InvalidLineError, InvalidSchemaError, RecordBeforeSchemaError
from target_singerlake.mapped_streams import MappedStreams
from target_singerlake.messages import ActivateVersion, Schema
from target_singerlake.places import Line
from target_singerlake.prover import Prover
from target_singerlake.run import Run
from target_singerlake.validation import Validator

_ELSEWHERE = frozenset(("anyOf", "oneOf", "allOf"))
"""In these a schema may have properties, which become no columns."""


class Streams:
    """Takes the messages that say what the records behind them mean.

    Args:
        run: Where the lines go.
        mapped_streams: Takes the streams with a map, flattening or added metadata.
        validate: Makes a stream's validator from name, schema and keys.

    Attributes:
        lines: The SCHEMA line of each stream.
        schemas: The schema and the key of each stream, as the tap sent them.
        mapped: Streams that go through ``mapped_streams``.
        incremental: Streams that go by a replication key, as their SCHEMA says.
        versions: The version that each stream's last ACTIVATE_VERSION named.
        prover: Proves RECORD lines of the others.
    """

    def __init__(
        self,
        run: Run,
        mapped_streams: MappedStreams,
        validate: Callable[[str, dict[str, Any], list[str]], Validator],
    ) -> None:
        self._run = run
        self._mapped_streams = mapped_streams
        self._validate = validate
        self._validators: dict[str, Validator] = {}
        self.lines: dict[str, bytes] = {}
        self.schemas: dict[str, SchemaEntry] = {}
        self.mapped: set[str] = set()
        self.incremental: set[str] = set()
        self.versions: dict[str, int] = {}
        self.prover = Prover()

    def schema(self, line: bytes, message: Schema, number: int) -> None:
        """Put a SCHEMA line into effect.

        Args:
            line: The line with its newline.
            message: What it says.
            number: Its number, for errors.

        Raises:
            InputError: It cannot be used.
        """
        stream = message.stream
        if self.lines.get(stream) == line:
            return
        if message.incremental:
            self.incremental.add(stream)
        where = f"line {number}: the SCHEMA of stream {stream!r}"
        schema, whole = _read(message, where)
        keys = message.key_properties or []
        if missing := [key for key in keys if key not in whole["properties"]]:
            raise InvalidSchemaError(
                f"{where} names the key {', '.join(missing)}, but no such property: have the tap "
                "declare it, or correct its key_properties"
            )
        entry = SchemaEntry(schema, keys)
        try:
            if self._mapped_streams.takes(stream, whole, keys):
                self.mapped.add(stream)
                self.prover.learn(stream, None, None)
                self._mapped_streams.schema(stream)
            else:
                self.mapped.discard(stream)
                validator = self._validate(stream, schema, keys)
                self._validators[stream] = validator
                columns, proves = validator.values.columns, validator.proves_types
                self._run.set_schema(stream, line, entry, columns=columns, proves=proves)
                self.prover.learn(stream, lambda: validator.proof, validator.values, entry)
        except (InvalidSchemaError, InvalidNameError, RecursionError) as error:
            raise InvalidSchemaError(f"{where} cannot be used: {error}") from error
        self.lines[stream] = line
        self.schemas[stream] = entry

    def activate(self, line: bytes, message: ActivateVersion, number: int) -> None:
        """Pass an ACTIVATE_VERSION line on.

        Args:
            line: The line with its newline.
            message: What it says.
            number: Its number, for errors.

        Raises:
            RecordBeforeSchemaError: Its stream has no SCHEMA yet.
        """
        stream = message.stream
        if stream not in self.lines:
            raise RecordBeforeSchemaError(
                f"line {number}: ACTIVATE_VERSION of stream {stream!r} comes before its SCHEMA"
            )
        self.versions[stream] = message.version
        if stream in self.mapped:
            self._mapped_streams.activate_version(stream, message.version)
        else:
            self._run.activate_version(stream, line, message.version)

    def validator(self, stream: str) -> Validator | None:
        """Return what checks a stream's records; None of a stream that has no SCHEMA, or a map."""
        return None if stream in self.mapped else self._validators.get(stream)

    def doubt(self, stream: str, raws: Sequence[Raw]) -> Callable[[Raw, Line], None] | None:
        """Find what each record of a stream must go through; None where all are certain to be good.

        Args:
            stream: A stream without a map.
            raws: All its records of some lines.
        """
        validator = self._validators.get(stream)
        if validator is None:
            return functools.partial(_before_schema, stream)
        if not validator.accept(raws):
            return validator.check
        columns = validator.values.doubtful(raws)
        return functools.partial(validator.values.look, columns=columns) if columns else None


def _read(message: Schema, where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a schema; return it as it is, and with what it refers to put in its place."""
    try:
        schema = json.loads(bytes(message.schema))
    except (ValueError, RecursionError) as error:  # beyond what Python reads
        raise InvalidLineError(f"{where} cannot be read: {error}") from error
    whole = json_schema.resolved(schema, schema)
    if "object" in as_list(whole.get("type", ())) and _ELSEWHERE.isdisjoint(whole):
        whole = {"properties": {}, **whole}  # any object, as where it has no property in there
    if not isinstance(whole.get("properties"), dict):
        raise InvalidLineError(f"{where} has no properties, so it declares no columns")
    return schema, whole


def _before_schema(stream: str, _raw: Raw, line: Line) -> None:
    raise RecordBeforeSchemaError(
        f"line {line}: a RECORD of stream {stream!r} comes before its SCHEMA"
    )
