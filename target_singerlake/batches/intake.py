"""From a BATCH message to a run: the records of its files, as if they had come line by line.

A line of JSON becomes the record of a RECORD line with its bytes unchanged, once one decoding has
proven a whole chunk of them valid; where it does not, line by line, as others are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from singerlake.errors import InputError
from singerlake.format import messages as built
from singerlake.format import times
from singerlake.format.nesting import MAX_LEVELS, too_deep
from target_singerlake import messages, non_finite
from target_singerlake.batches import proving
from target_singerlake.batches.clean_up import CleanUp
from target_singerlake.batches.contents import Encoding, opened
from target_singerlake.batches.files import BatchFile
from target_singerlake.batches.late import BYTES
from target_singerlake.batches.roots import Roots, shown
from target_singerlake.batches.wrapped import Wrapped
from target_singerlake.chunk import Chunk
from target_singerlake.errors import InvalidLineError, RecordBeforeSchemaError
from target_singerlake.line_places import FileLine
from target_singerlake.mapped_streams import MappedStreams
from target_singerlake.messages import Batch
from target_singerlake.progress import Progress
from target_singerlake.quarantine import Quarantine
from target_singerlake.run import Run
from target_singerlake.streams import Streams

_RAW = msgspec.json.Decoder(Raw)


class _Said(msgspec.Struct):
    format: Any = None
    compression: Any = None


_ENCODING = msgspec.json.Decoder(_Said)


@dataclass
class _Source:
    """A file that is being read.

    Attributes:
        stream: Whose records are in it.
        message: The number of the line that names it.
        version: The Singer version of its records.
        stamp: Their ``time_extracted``; empty where the message says none.
        wrapped: Knows whole messages, which are no records.
        line: The last line that was taken.
    """

    stream: str
    name: str
    message: int
    version: int | None
    stamp: str
    file: BatchFile
    wrapped: Wrapped
    line: int = 0

    def around(self, stamp: str) -> tuple[bytes, bytes]:
        """Return what stands before and after a record in its line."""
        return built.around_record(self.stream, stamp, self.version)

    def place(self, number: int) -> FileLine:
        """Return where a line stands that comes so many behind the last."""
        return FileLine(self.line + number, self.name, self.message)


class BatchIntake:
    """Takes the BATCH messages of a run.

    Args:
        streams: Knows what a record of each stream must be.
        mapped_streams: Takes the records of the streams with a map.
        roots: Where files may lie.
        clean_up: Is told of each file that was read.
        check: Called now and then; may raise to end the run.
        how: What becomes of a record that holds what JSON has not: see :mod:`non_finite`.
        quarantine: Takes lines that are refused; None where the first of them ends the run.
        most: Bytes that a file may have, once it is inflated.
    """

    def __init__(
        self,
        run: Run,
        streams: Streams,
        mapped_streams: MappedStreams,
        roots: Roots,
        clean_up: CleanUp,
        progress: Progress,
        check: Callable[[], None],
        how: str = non_finite.FAIL,
        quarantine: Quarantine | None = None,
        most: int = BYTES,
    ) -> None:
        self._run = run
        self._streams = streams
        self._mapped_streams = mapped_streams
        self._roots = roots
        self._clean_up = clean_up
        self._progress = progress
        self._check = check
        self._how = how
        self._quarantine = quarantine
        self._most = most

    def take(self, message: Batch, number: int) -> None:
        """Take the records of all files that a message names.

        Args:
            number: The number of its line, for errors.

        Raises:
            InputError: A file is not to be read, is not there or is damaged, or a record in it
                cannot be accepted.
            SingerlakeError: A file cannot be read.
        """
        stream = message.stream
        if stream not in self._streams.lines:
            raise RecordBeforeSchemaError(
                f"line {number}: a BATCH of stream {stream!r} comes before its SCHEMA"
            )
        where = f"line {number}: the BATCH of stream {stream!r}"
        said = _encoding(message, where)
        version = message.version
        if version is None:  # the SDK's taps leave it out here, where their RECORDs say it
            version = self._streams.versions.get(stream)
        instant = times.parse(message.time_extracted) if message.time_extracted else None
        stamp = "" if instant is None else times.iso(instant)
        files = self._found(message.manifest, where)
        validator = self._streams.validator(stream)
        wrapped = Wrapped(self._streams.schemas[stream])
        sources = [
            _Source(stream, shown(file.name), number, version, stamp, file, wrapped)
            for file in files
        ]
        for source, data in self._pieces(sources, said, where):
            self._check()
            known = proving.DOUBTFUL if validator is None else proving.prove(validator, data)
            self._chunk(source, data, known)
            self._progress.advance(len(data))
            del data

    def _found(self, manifest: Sequence[str], where: str) -> list[BatchFile]:
        """Find the files of a manifest, all of them before the first is read."""
        found: dict[object, int] = {}
        files = []
        for number, uri in enumerate(manifest, start=1):
            try:
                file = self._roots.find(uri)
            except InputError as error:
                raise InvalidLineError(f"{where}: {error}") from error
            if (first := found.setdefault(file.identity, number)) != number:
                raise InvalidLineError(
                    f"{where} names {shown(uri)} twice, as its files {first:,} and {number:,}: "
                    "its records would be doubled; correct the tap"
                )
            files.append(file)
        return files

    def _pieces(
        self, sources: Sequence[_Source], said: Encoding, where: str
    ) -> Iterator[tuple[_Source, bytes]]:
        """Yield the lines of all files, some at a time."""
        for source in sources:
            for data in self._lines(said, source, where):
                if data:
                    yield source, data
                del data
            self._clean_up.read(source.file)

    def _lines(self, said: Encoding, source: _Source, where: str) -> Iterator[bytes]:
        """Yield a file's records, each on a line.

        What is wrong with the file as a whole is told by the message that names it.
        """
        try:
            with opened(source.file, said, self._most) as content:
                if isinstance(content, Iterator):
                    yield from content
                    return
                # Late: it brings pyarrow.
                from singerlake.rows.lines.arrow_lines import ArrowLines

                lines = ArrowLines(self._streams.schemas[source.stream])
                for batch in content.batches():
                    yield lines.lines(batch)
        except InputError as error:
            name = "" if source.name in str(error) else f"{source.name}: "
            raise InvalidLineError(f"{where}: {name}{error}") from error

    def _chunk(self, source: _Source, data: bytes, known: int) -> None:
        if known == proving.DOUBTFUL or source.wrapped.may_be_in(data):
            chunk = Chunk(data)
            self._doubtful(source, chunk)
            source.line += chunk.count
        elif known == proving.PROVEN and not source.stamp:
            lines = Chunk(data).lines
            self._add(source, [line.strip() for line in lines], proved=True)
            source.line += len(lines)
        else:
            self._add_whole(source, data)

    def _add_whole(self, source: _Source, data: bytes) -> None:
        """Take lines that are known to be valid, with one time for all of them."""
        before, after = source.around(source.stamp or times.iso(times.now()))
        end = b"\r\n" if data.endswith(b"\r\n") else b"\n"
        replaced = data.replace(end, after + before)
        count = (len(replaced) - len(data)) // (len(after) + len(before) - len(end))
        text = memoryview(replaced)
        text = text[: -len(before)]  # without a copy of it all
        self._run.add_text(source.stream, b"".join((before, text)), count, proved=True)
        self._progress.records += count
        source.line += count

    def _add(self, source: _Source, records: list[bytes], *, proved: bool) -> None:
        """Take records that are known to be valid, each with its time."""
        if not records:
            return
        now = times.iso(times.now())
        lines = [self._line(source, record, now) for record in records]
        self._run.add_text(source.stream, b"".join(lines), len(lines), proved=proved)
        self._progress.records += len(lines)

    def _line(self, source: _Source, record: bytes, now: str) -> bytes:
        stamp = source.stamp
        if not stamp:
            stamp = messages.time_of(b'{"record":%b}' % record, now)
        before, after = source.around(stamp)
        return b"".join((before, record, after))

    def _doubtful(self, source: _Source, chunk: Chunk) -> None:
        """Take lines of which not all are certain to be good, in order."""
        found = self._read_all(source, chunk)
        raws = [raw for raw in found.values() if isinstance(raw, Raw)]
        mapped = source.stream in self._streams.mapped
        attempt = self._streams.doubt(source.stream, raws) if raws and not mapped else None
        now = times.iso(times.now())
        taken = []
        for number, raw in found.items():
            place = source.place(number + 1)
            try:
                if isinstance(raw, InputError):
                    raise raw
                source.wrapped.refuse(raw, place)
                if mapped:
                    line = self._line(source, bytes(raw).strip(), now)
                    self._mapped_streams.record(line, place)
                    self._progress.records += 1
                    continue
                if attempt is not None:
                    attempt(raw, place)
            except InputError as error:
                self._put_aside(source, chunk.lines[number], raw, place, error)
            else:
                taken.append(bytes(raw).strip())
        self._add(source, taken, proved=False)

    def _read_all(self, source: _Source, chunk: Chunk) -> dict[int, Raw | InvalidLineError]:
        """Read lines as one JSON text each; by their indexes, or why they are none."""
        whole = chunk.decode(_RAW) if chunk.plain else None
        if whole is not None:
            return dict(enumerate(whole))
        found: dict[int, Raw | InvalidLineError] = {}
        for number, line in enumerate(chunk.lines):
            if line.strip():
                try:
                    found[number] = self._read(line, source.place(number + 1))
                except InvalidLineError as error:
                    found[number] = error
        return found

    def _read(self, line: bytes, place: FileLine) -> Raw:
        """Read a line that is JSON, or is made so if the settings say so."""
        try:
            line.decode("utf-8")
            raw = _RAW.decode(line)
        except UnicodeDecodeError as error:
            raise InvalidLineError(f"line {place} is not UTF-8 text: {error.reason}") from error
        except RecursionError:
            raw = None
        except msgspec.DecodeError as error:
            raw = self._mended(line)
            if raw is None:
                shown_ = line[:80].decode("utf-8", "replace").strip()
                raise InvalidLineError(f"line {place} is not JSON: {error}: {shown_}") from error
        if raw is None or too_deep(bytes(raw), 1):
            raise InvalidLineError(f"line {place} is nested more than {MAX_LEVELS} levels deep")
        return raw

    def _mended(self, line: bytes) -> Raw | None:
        """Read a line that is JSON but for NaN and infinities, if the settings say so."""
        if self._how == non_finite.FAIL:
            return None
        try:
            raw = _RAW.decode(non_finite.mended(line, self._how))
        except (msgspec.DecodeError, RecursionError):
            return None
        self._progress.mended += 1
        return raw

    def _put_aside(
        self,
        source: _Source,
        line: bytes,
        raw: Raw | InputError,
        place: FileLine,
        error: InputError,
    ) -> None:
        """Keep a refused line where it harms nobody, if the settings say so.

        Raises:
            InputError: They do not.
        """
        if self._quarantine is None:
            raise error
        own = bytes(raw) if isinstance(raw, Raw) else line
        keyed = bool(self._streams.schemas[source.stream].key_properties)
        self._quarantine.record(source.stream, line, place, own.strip(), error, keyed=keyed)
        self._progress.records += 1


def _encoding(message: Batch, where: str) -> Encoding:
    """Read what a message says of its files.

    Raises:
        InvalidLineError: It is no object.
    """
    try:
        said = _ENCODING.decode(message.encoding)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidLineError(f"{where} has an encoding that is not an object: {error}") from error
    words = (said.format, said.compression)
    return Encoding(*(one.lower() if isinstance(one, str) else "" for one in words))
