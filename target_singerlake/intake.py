"""From chunks of input to a run: decode, validate, route; one error, with its line number."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import UNSET

from singerlake.errors import InvalidNameError
from singerlake.format import times
from singerlake.format.log import SchemaEntry
from target_singerlake import messages
from target_singerlake.errors import InvalidLineError, InvalidSchemaError, RecordBeforeSchemaError
from target_singerlake.messages import ActivateVersion, Batch, Message, Record, Schema, State
from target_singerlake.progress import Progress
from target_singerlake.prover import Prover
from target_singerlake.run import Run
from target_singerlake.sdk_way import SdkWay
from target_singerlake.validation import Validator

_STREAM = attrgetter("stream")
_RECORD = attrgetter("record")
_TIME = attrgetter("time_extracted")
RUN_LINES = 8
"""Runs of RECORDs shorter than this on average are not worth a decoding each."""

G = TypeVar("G", bound=Hashable)
V = TypeVar("V")


class Intake:
    """Takes a run's input, chunk by chunk.

    Args:
        run: Where it goes.
        sdk_way: Takes the streams with a map, flattening or added metadata.
        progress: Counts.
        validate: Makes a stream's validator from name, schema and keys.
    """

    def __init__(
        self,
        run: Run,
        sdk_way: SdkWay,
        progress: Progress,
        validate: Callable[[str, dict[str, Any], list[str]], Validator],
    ) -> None:
        self._run = run
        self._sdk_way = sdk_way
        self._progress = progress
        self._validate = validate
        self._validators: dict[str, Validator] = {}
        self._prover = Prover()
        self._schema_lines: dict[str, bytes] = {}
        self._mapped: set[str] = set()
        self._line = 0
        self.counts: Counter[str] = Counter()

    def feed(self, data: bytes) -> None:
        """Take whole lines.

        Raises:
            InputError: A line cannot be accepted.
        """
        lines = messages.split(data)
        if lines is None:
            self._one_by_one(data.split(b"\n")[:-1])
        else:
            self._plain(lines, data)
        self._progress.advance(len(data))

    def _plain(self, lines: list[bytes], data: bytes) -> None:
        """Take lines that are one object each, the runs of RECORDs by the fastest way."""
        others = messages.not_records(lines)
        if not others:
            self._run_of_lines(lines, data)
        elif len(others) * RUN_LINES > len(lines):
            self._run_of_lines(lines, data, proof=False)
        else:
            start = 0
            for end in [*others, len(lines)]:
                run = lines[start:end]
                if run:
                    self._run_of_lines(run, b"\n".join(run))
                if end < len(lines):
                    self._one_by_one(lines[end : end + 1])
                start = end + 1

    def _run_of_lines(self, lines: list[bytes], data: bytes, *, proof: bool = True) -> None:
        if proof and self._proven(lines, data):
            return
        decoded = messages.decode_lines(data, len(lines), messages.ANY)
        if decoded is None:
            self._one_by_one(lines)
        else:
            self._many(lines, decoded)

    def _proven(self, lines: list[bytes], data: bytes) -> bool:
        """Take lines if one decoding proves that all are valid RECORDs, as nearly always."""
        decoder = self._prover.decoder()
        records = decoder and messages.decode_lines(data, len(lines), decoder)
        if not records:
            return False
        for kind, some in _grouped(map(type, records), _timed(lines, records)).items():
            self._run.add_records(self._prover.stream(kind), some)
        self._count(len(lines))
        return True

    def _one_by_one(self, lines: list[bytes]) -> None:
        for line in lines:
            if not line.strip():
                self._line += 1
                continue
            self._many([line], [messages.decode_line(line, self._line + 1)])

    def _many(self, lines: list[bytes], decoded: list[Message]) -> None:
        """Split at everything that is no RECORD: what is between can be taken in any grouping."""
        start = 0
        for end, message in enumerate(decoded):
            if type(message) is not Record:
                self._records(lines[start:end], decoded[start:end])  # type: ignore[arg-type]
                self._line += 1
                self._other(lines[end], message)
                start = end + 1
        if start:
            lines, decoded = lines[start:], decoded[start:]
        self._records(lines, decoded)  # type: ignore[arg-type]

    def _records(self, lines: list[bytes], records: list[Record]) -> None:
        if not records:
            return
        streams = list(map(_STREAM, records))
        for stream, own in _grouped(streams, records).items():
            self._check(stream, own, records, self._line + 1)
        if self._mapped.isdisjoint(streams):
            for stream, some in _grouped(streams, _timed(lines, records)).items():
                self._run.add_records(stream, some)
        else:
            self._mapped_records(lines, records)
        self._count(len(lines))

    def _mapped_records(self, lines: list[bytes], records: list[Record]) -> None:
        """One by one, for a map may put two streams into one, and an error names a line."""
        for number, (line, record) in enumerate(
            zip(lines, records, strict=True), start=self._line + 1
        ):
            if record.stream in self._mapped:
                self._sdk_way.record(line, number)
            else:
                self._run.add_records(record.stream, _timed([line], [record]))

    def _count(self, lines: int) -> None:
        self._line += lines
        self.counts["RECORD"] += lines
        self._progress.records += lines

    def _check(self, stream: str, records: list[Record], around: list[Record], first: int) -> None:
        """Validate a group; where it fails, go through all around it for the first error."""
        if stream in self._mapped:
            return
        validator = self._validators.get(stream)
        if validator is not None and validator.accept(list(map(_RECORD, records))):
            return
        for number, record in enumerate(around, start=first):
            if record.stream in self._mapped:
                continue
            known = self._validators.get(record.stream)
            if known is None:
                raise RecordBeforeSchemaError(
                    f"line {number}: a RECORD of stream {record.stream!r} comes before its SCHEMA"
                )
            known.check(record.record, number)

    def _other(self, line: bytes, message: Message) -> None:
        match message:
            case Schema():
                self.counts["SCHEMA"] += 1
                self._schema(line, message)
            case State():
                self.counts["STATE"] += 1
                self._run.state(bytes(message.value))
            case ActivateVersion():
                self.counts["ACTIVATE_VERSION"] += 1
                self._activate(line, message)
            case Batch():
                self.counts["BATCH"] += 1
                raise InvalidLineError(
                    f"line {self._line} is a BATCH message, and this target takes records "
                    "line by line: remove batch_config from the tap's settings"
                )

    def _schema(self, line: bytes, message: Schema) -> None:
        if self._schema_lines.get(message.stream) == line:
            return
        where = f"line {self._line}: the SCHEMA of stream {message.stream!r}"
        try:
            schema = json.loads(bytes(message.schema))
        except (ValueError, RecursionError) as error:  # beyond what Python reads
            raise InvalidLineError(f"{where} cannot be read: {error}") from error
        if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
            raise InvalidLineError(f"{where} has no properties")
        keys = message.key_properties or []
        if missing := [key for key in keys if key not in schema["properties"]]:
            raise InvalidSchemaError(
                f"{where} names the key {', '.join(missing)}, and has no such property: rows could "
                "not be told apart; mend key_properties in the tap"
            )
        try:
            if self._sdk_way.takes(message.stream, schema, keys):
                self._mapped.add(message.stream)
                self._prover.learn(message.stream, None)
                self._sdk_way.schema(message.stream)
            else:
                self._mapped.discard(message.stream)
                validator = self._validate(message.stream, schema, keys)
                self._validators[message.stream] = validator
                self._run.set_schema(message.stream, line, SchemaEntry(schema, keys))
                self._prover.learn(message.stream, validator.proof)
        except (InvalidSchemaError, InvalidNameError, RecursionError) as error:
            raise InvalidSchemaError(f"{where} cannot be used: {error}") from error
        self._schema_lines[message.stream] = line

    def _activate(self, line: bytes, message: ActivateVersion) -> None:
        if message.stream not in self._schema_lines:
            raise RecordBeforeSchemaError(
                f"line {self._line}: ACTIVATE_VERSION of stream {message.stream!r} comes before "
                "its SCHEMA"
            )
        if message.stream in self._mapped:
            self._sdk_way.activate_version(message.stream, message.version)
        else:
            self._run.activate_version(message.stream, line, message.version)


def _grouped(keys: Iterable[G], values: list[V]) -> dict[G, list[V]]:
    """Values by key, in order within each."""
    groups: defaultdict[G, list[V]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        groups[key].append(value)
    return groups


def _timed(lines: list[bytes], records: list[Any]) -> list[bytes]:
    """The lines, each with its ``time_extracted``."""
    if UNSET not in map(_TIME, records):
        return lines
    received = times.iso(times.now())
    return [
        line
        if record.time_extracted is not UNSET
        else messages.with_time(line, messages.time_of(line, received))
        for line, record in zip(lines, records, strict=True)
    ]
