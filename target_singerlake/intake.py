"""From chunks of input to a run: decode, validate, route; one error, with its line number."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import UNSET, Raw

from singerlake.errors import InputError
from singerlake.format import times
from singerlake.format.messages import time_member, with_time
from target_singerlake import messages, non_finite
from target_singerlake.batches.late import LateBatches
from target_singerlake.chunk import Chunk
from target_singerlake.errors import InvalidLineError
from target_singerlake.line_places import Line
from target_singerlake.mapped_streams import MappedStreams
from target_singerlake.messages import ActivateVersion, Batch, Message, Record, Schema, State
from target_singerlake.progress import Progress
from target_singerlake.quarantine import Quarantine
from target_singerlake.run import Run
from target_singerlake.streams import Streams

_STREAM = attrgetter("stream")
_RECORD = attrgetter("record")
STRETCH_LINES = 8
"""Stretches of RECORDs shorter than this on average are not worth a decoding each."""

G = TypeVar("G", bound=Hashable)
V = TypeVar("V")


class Intake:
    """Takes a run's input, chunk by chunk.

    Args:
        streams: Takes the messages that say what records mean.
        mapped_streams: Takes the records of the streams with a map, flattening or added metadata.
        batches: Takes the messages that name files of records.
        how: What becomes of a record that holds what JSON has not: see :mod:`non_finite`.
        quarantine: Takes lines that are refused; None where the first of them ends the run.
    """

    def __init__(
        self,
        run: Run,
        streams: Streams,
        mapped_streams: MappedStreams,
        batches: LateBatches,
        progress: Progress,
        how: str = non_finite.FAIL,
        quarantine: Quarantine | None = None,
    ) -> None:
        self._run = run
        self._streams = streams
        self._mapped_streams = mapped_streams
        self._batches = batches
        self._progress = progress
        self._how = how
        self._quarantine = quarantine
        self._as_sent: dict[int, bytes] = {}
        self._several = False
        self._line = 0
        self.counts: Counter[str] = Counter()

    @property
    def incremental(self) -> set[str]:
        """Streams that go by a replication key, as their SCHEMA says."""
        return self._streams.incremental

    def feed(self, data: bytes) -> None:
        """Take whole lines.

        Raises:
            InputError: A line cannot be accepted.
        """
        chunk = Chunk(data)
        self._as_sent.clear()
        if self._several:
            _ = chunk.lines  # they will be needed, so they may as well be counted
        if chunk.records:
            self._decode(chunk)
        elif chunk.plain:
            self._mixed(chunk)
        else:
            self._one_by_one(chunk.lines)
        self._progress.advance(len(data))

    def _mixed(self, chunk: Chunk) -> None:
        """Take lines that are one object each, the stretches of RECORDs in the fastest way."""
        others = chunk.not_records()
        if len(others) * STRETCH_LINES > chunk.count:
            self._decode(chunk, proof=False)
            return
        start = 0
        for end in [*others, chunk.count]:
            if start < end:
                self._decode(Chunk.of(chunk.lines[start:end]))
            self._one_by_one(chunk.lines[end : end + 1])
            start = end + 1

    def _decode(self, chunk: Chunk, *, proof: bool = True) -> None:
        if proof and self._proven(chunk):
            return
        decoded = chunk.decode(messages.ANY)
        if decoded is not None:
            self._many(chunk.lines, decoded)
        elif (whole := self._mended(chunk)) is not None:
            self._decode(whole, proof=proof)
        else:
            self._one_by_one(chunk.lines)

    def _mended(self, chunk: Chunk) -> Chunk | None:
        """Lines that do not decode, all as JSON; None where there is nothing to mend."""
        if self._how == non_finite.FAIL:
            return None
        wrong = chunk.not_records()
        lines = [non_finite.mended(line, self._how) for line in chunk.lines]
        changed = [n for n, line in enumerate(lines) if line is not chunk.lines[n]]
        # Of messages that are no RECORDs nothing is changed: one by one they are refused.
        if not changed or not set(wrong).isdisjoint(changed):
            return None
        self._progress.mended += len(changed)
        for n in changed:
            self._as_sent.setdefault(self._line + 1 + n, chunk.lines[n])
        return Chunk.of(lines)

    def _proven(self, chunk: Chunk) -> bool:
        """Take lines if one decoding proves that all are valid RECORDs, as nearly always."""
        decoders = self._streams.prover.decoders()
        if not decoders:
            return False
        if self._streams.prover.may_leave_the_calendar(chunk.data):
            return False
        timed, any_time = decoders
        records = chunk.decode(timed)
        if not records:
            records = chunk.decode(any_time)
            if not records:
                return False
            chunk = timed_chunk(chunk, records)
        kinds = set(map(type, records))
        self._several = len(kinds) > 1
        streams = self._streams.prover.streams
        if self._several:
            names = map(streams.__getitem__, map(type, records))
            self._run.add_mixed(names, chunk.lines, len(chunk.data), proved=True)
        else:
            stream = streams[kinds.pop()]
            keys = self._streams.prover.keys(stream, records)
            self._run.add_text(stream, chunk.data, chunk.count, keys, proved=True)
        self._count(chunk.count)
        return True

    def _one_by_one(self, lines: list[bytes]) -> None:
        for line in lines:
            if not line.strip():
                self._line += 1
                continue
            try:
                whole, message = self._one(line)
            except InvalidLineError as error:
                self._line += 1
                self._put_aside(line, self._line, error)
            else:
                self._many([whole], [message])

    def _one(self, line: bytes) -> tuple[bytes, Message]:
        """Decode a line, made JSON first if it is none and the settings say so."""
        number = self._line + 1
        try:
            return line, messages.decode_line(line[:-1], number)
        except InvalidLineError as error:
            how = non_finite.NULL if self._how == non_finite.FAIL else self._how
            whole = non_finite.mended(line, how)
            if whole is line:
                raise
            try:
                message = messages.decode_line(whole[:-1], number)
            except InvalidLineError:
                raise error from error.__cause__
            if type(message) is not Record:
                raise
            if self._how == non_finite.FAIL:
                raise InvalidLineError(
                    f"{error}; set non_finite to null or string to accept NaN, infinities and lone "
                    "surrogates in records"
                ) from error
        self._progress.mended += 1
        self._as_sent.setdefault(number, line)
        return whole, message

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
        total = len(lines)
        streams = list(map(_STREAM, records))
        refused = self._check(_grouped(streams, records), records)
        if not self._streams.mapped.isdisjoint(streams):
            self._mapped_records(lines, records, refused)
        else:
            if refused:
                lines, records = self._accepted(lines, records, refused)
                streams = list(map(_STREAM, records))
            timed = timed_lines(lines, records)
            self._run.add_mixed(streams, timed, sum(map(len, timed)))
        self._count(total)

    def _accepted(
        self, lines: list[bytes], records: list[Record], refused: Mapping[int, InputError]
    ) -> tuple[list[bytes], list[Record]]:
        """Put the refused lines aside and return the others."""
        first = self._line + 1
        for number, error in refused.items():
            self._put_aside(lines[number - first], number, error, records[number - first])
        good = [n for n in range(len(lines)) if first + n not in refused]
        return [lines[n] for n in good], [records[n] for n in good]

    def _mapped_records(
        self, lines: list[bytes], records: list[Record], refused: Mapping[int, InputError]
    ) -> None:
        """One by one, for a map may put two streams into one, and an error names a line."""
        for number, (line, record) in enumerate(
            zip(lines, records, strict=True), start=self._line + 1
        ):
            try:
                if number in refused:
                    raise refused[number]
                if record.stream in self._streams.mapped:
                    self._mapped_streams.record(line, number)
                    continue
            except InputError as error:
                self._put_aside(line, number, error, record)
            else:
                [timed] = timed_lines([line], [record])
                self._run.add_text(record.stream, timed, rows=1)

    def _put_aside(
        self, line: bytes, number: int, error: InputError, record: Record | None = None
    ) -> None:
        """Keep a refused line where it harms nobody, if the settings say so.

        Raises:
            InputError: They do not, or not this one.
        """
        if self._quarantine is None:
            raise error
        sent = self._as_sent.get(number)
        if record is None or record.stream not in self._streams.lines:
            self._quarantine.line(sent or line, number, error, self._streams.lines)
        else:
            raw = sent or bytes(record.record)
            keyed = bool(self._streams.schemas[record.stream].key_properties)
            self._quarantine.record(record.stream, sent or line, number, raw, error, keyed=keyed)

    def _count(self, lines: int) -> None:
        self._line += lines
        self.counts["RECORD"] += lines
        self._progress.records += lines

    def _check(
        self, groups: dict[str, list[Record]], records: list[Record]
    ) -> Mapping[int, InputError]:
        """Validate records, stream by stream; only of streams in doubt go through them in order.

        Args:
            groups: The records by stream.
            records: The same in the order of their lines, for the first error is to be named.

        Returns:
            Why lines are refused, by their numbers, where that does not end the run.
        """
        tries: dict[str, Callable[[Raw, Line], None]] = {}
        for stream in groups.keys() - self._streams.mapped:
            if attempt := self._streams.doubt(stream, list(map(_RECORD, groups[stream]))):
                tries[stream] = attempt
        refused: dict[int, InputError] = {}
        if not tries:
            return refused
        for number, record in enumerate(records, start=self._line + 1):
            if (attempt := tries.get(record.stream)) is not None:
                try:
                    attempt(record.record, number)
                except InputError as error:
                    if self._quarantine is None:
                        raise
                    refused[number] = error
        return refused

    def _other(self, line: bytes, message: Message) -> None:
        match message:
            case Schema():
                self.counts["SCHEMA"] += 1
                self._streams.schema(line, message, self._line)
            case State():
                self.counts["STATE"] += 1
                self._run.state(bytes(message.value))
            case ActivateVersion():
                self.counts["ACTIVATE_VERSION"] += 1
                self._streams.activate(line, message, self._line)
            case Batch():
                self.counts["BATCH"] += 1
                self._batches.take(message, self._line)


def _grouped(keys: Iterable[G], values: list[V]) -> dict[G, list[V]]:
    """Values by key, in order within each."""
    groups: defaultdict[G, list[V]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        groups[key].append(value)
    return groups


# The ``time_extracted`` of RECORD lines that came without one.

_TIME = attrgetter("time_extracted")
_NAME = b"_sdc_extracted_at"
_LETTERS = (b"\\u005", b"\\u006", b"\\u007")
"""How an escape begins that stands for a letter of it, or for its underscores."""


def timed_chunk(chunk: Chunk, records: list[Any]) -> Chunk:
    """Give each line of a decoded chunk its ``time_extracted``."""
    if UNSET not in map(_TIME, records):
        return chunk
    if chunk.records and set(map(_TIME, records)) == {UNSET} and _say_nothing(chunk):
        # The commonest case, of a tap that leaves times to others: one for all the lines.
        return chunk.appended(time_member(times.iso(times.now())))
    return Chunk.of(timed_lines(chunk.lines, records))


def _say_nothing(chunk: Chunk) -> bool:
    """Tell whether no record has an ``_sdc_extracted_at``."""
    # From the right: Python then looks for a name in two thirds of the time.
    named = chunk.data.rfind(_NAME) >= 0 or (
        chunk.data.find(b"\\") >= 0 and any(chunk.data.rfind(one) >= 0 for one in _LETTERS)
    )
    if not named:
        return True
    extracted = chunk.decode(messages.EXTRACTED)
    return extracted is not None and all(map(messages.says_nothing, extracted))


def timed_lines(lines: list[bytes], records: list[Any]) -> list[bytes]:
    """Give each decoded line its ``time_extracted``."""
    if UNSET not in map(_TIME, records):
        return lines
    received = times.iso(times.now())
    return [
        line
        if record.time_extracted is not UNSET
        else with_time(line, messages.time_of(line, received))
        for line, record in zip(lines, records, strict=True)
    ]
