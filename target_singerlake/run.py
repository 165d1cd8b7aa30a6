"""One run of the target: lines to blocks, blocks to transactions, and STATE only after both."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from io import BytesIO

import msgspec
from msgspec import Raw

from singerlake.errors import ConflictError, NotFoundError
from singerlake.format import tap_state, times
from singerlake.format.block import BLOCK_BYTES
from singerlake.format.content import Place, place_in
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.messages import DELETED
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.format.types import Columns
from singerlake.format.values import is_deletion
from singerlake.lake import Lake
from singerlake.log.commit import new_writer_id
from singerlake.log.staging import FILE_BYTES, StagedTable
from singerlake.log.table_state import TableState
from singerlake.log.writer import TableWriter, WriteOptions, update_lake
from singerlake.rows.blocks import bounded_keys
from target_singerlake.blocked_counts import BlockedCounts
from target_singerlake.buffer import Compressor, Keys, StreamBuffer, pieces, some
from target_singerlake.committing import SideBySide
from target_singerlake.files import FileOptions, StreamFiles, refuse_files
from target_singerlake.lost_columns import LostColumns
from target_singerlake.mixed_lines import MixedLines
from target_singerlake.overlays import Overlays
from target_singerlake.progress import Progress

BUFFER_BYTES = 48 * 1024 * 1024
"""Lines kept over all streams before the longest buffers are cut to blocks early."""


@dataclass(frozen=True)
class RunOptions:
    """The options of a run; the target's settings of the same names explain them.

    Attributes:
        file_bytes: Compressed size of a file.
        commit_bytes: Input gathered before a STATE commits.
        commit_seconds: Time passed before a STATE commits.
        atomic: Commit only at the end of the run.
        files: From where files that records name are taken.
    """

    tap_id: str
    block_rows: int = 25_000
    file_bytes: int = FILE_BYTES
    commit_bytes: int = 1024**3
    commit_seconds: float = 300.0
    atomic: bool = False
    files: FileOptions = field(default_factory=FileOptions)
    write: WriteOptions = field(default_factory=WriteOptions)


@dataclass
class Committed:
    """The commits of a run to one table.

    Attributes:
        size: Compressed bytes.
        deletions: Those of the lines that delete a row.
    """

    transaction: int = 0
    rows: int = 0
    size: int = 0
    deletions: int = 0


class _Stream:
    """The state of one stream in a run."""

    def __init__(self, writer: TableWriter, table: TableName, *, ahead: bool) -> None:
        self.writer = writer
        self.table = table
        self.ahead = ahead
        self.schema_hash = ""
        self.schema = SchemaEntry({})
        self.buffer = StreamBuffer(b"")
        self.staged: StagedTable | None = None
        self.bytes = 0
        self.deletions = 0
        self.place: Place | None = None
        self.lost = LostColumns()


class Run:
    """Gathers, commits, acknowledges.

    Args:
        emit: Takes each STATE value once everything before it is committed.
        check: Called before each table of a commit, from any thread; may raise to end the run.
        done: Called after each, from any thread.
    """

    def __init__(
        self,
        lake: Lake,
        options: RunOptions,
        *,
        emit: Callable[[bytes], None],
        progress: Progress,
        check: Callable[[], None],
        done: Callable[[], None] = lambda: None,
    ) -> None:
        self.lake = lake
        self.overlays = Overlays(lake, options.tap_id)
        self._options = options
        self._emit = emit
        self._progress = progress
        self._check = check
        self._done = done
        self._writer_id = new_writer_id()
        self._streams: dict[str, _Stream] = {}
        self.files = StreamFiles(lake.store, options.files, check)
        self._compressor = Compressor()
        self._committing = SideBySide(lake.store)
        self._mixed = MixedLines()
        self._buffered = 0
        self._gathered = 0
        self._committed_at = time.monotonic()
        self._state: bytes | None = None
        self._afterwards: list[Callable[[], None]] = []
        self._written = 0
        self.committed: defaultdict[TableName, Committed] = defaultdict(Committed)
        self.put_aside: Counter[TableName] = Counter()
        self.left_out = BlockedCounts(lake.store)
        self.snapshots: dict[TableName, TableState] = {}

    def set_schema(
        self,
        name: str,
        line: bytes,
        schema: SchemaEntry,
        *,
        columns: Columns | None = None,
        proves: bool = False,
        ahead: bool = False,
    ) -> None:
        """Put a SCHEMA line into effect.

        Args:
            line: The line; blocks from now on begin with it.
            schema: What it says.
            columns: Its columns, if they are known.
            proves: Whether its records come proved to have the types of these, as a rule.
            ahead: Whether its lines are those that others refused: their table is committed
                before others are, so that none of these is ever without them.

        Raises:
            InvalidNameError: The stream's name or the schema cannot be stored in a lake.
            InvalidSchemaError: It has files where none can be stored.
        """
        self._sort()
        place = place_in(schema.schema, refuse_files)
        stream = self._streams.get(name)
        if stream is None:
            table = TableName(self._options.tap_id, name)
            _ = table.folder  # raises for a name that cannot be stored, before anything is written
            writer = self.lake.table(table).writer(self._options.write, self._writer_id)
            stream = self._streams[name] = _Stream(writer, table, ahead=ahead)
        stream.ahead |= ahead  # the tap may bring such a table from another lake
        if stream.buffer.schema_line == line:
            return
        self._cut(stream)
        stream.lost.begin(schema, columns)
        stream.buffer.schema_line = line
        stream.buffer.members = bounded_keys.members(schema, columns)
        stream.schema_hash = schema_hash(schema.schema, schema.key_properties)
        # What is said of files is put into the lines behind the proof.
        stream.buffer.types = stream.schema_hash if proves and place is None else ""
        stream.buffer.columns = columns or ()
        stream.schema = schema
        stream.place = place
        self._staged(stream)

    def lost_columns(self) -> dict[TableName, list[str]]:
        """Return the columns that the last SCHEMAs of the run took from tables."""
        known = [one for one in self._streams.values() if one.table in self.committed]
        return {one.table: one.lost.found(self.overlays.of(one.table.stream)) for one in known}

    def shown(self, stream: str, member: str) -> str:
        """Return what people call a column of a stream, by its name in records."""
        said = self.overlays.of(stream).columns.get(member)
        return (said.name if said is not None else None) or member

    def retyped(self, name: str) -> frozenset[str]:
        """Find the columns of a stream that a person has given another type, or dropped.

        Raises:
            DamagedError: The table's log cannot be read.
        """
        try:
            overlay = self.lake.table(self._streams[name].table).snapshot().overlay
        except (KeyError, NotFoundError):  # a table that is not there yet
            return frozenset()
        # What has another type by a person's word, or is no column, is not the tap's to fit.
        return frozenset(m for m, said in overlay.columns.items() if said.type or said.dropped)

    def add_mixed(
        self, names: Iterable[str], lines: list[bytes], size: int, *, proved: bool = False
    ) -> None:
        """Append RECORD lines of streams whose schemas are set.

        Args:
            names: Each line's stream.
            lines: Each with its newline, valid, and with its ``time_extracted``.
            size: Bytes in them.
            proved: Whether their types are.
        """
        if proved is not self._mixed.proved:
            self._sort()
            self._mixed.proved = proved
        if self._mixed.add(names, lines, size):
            self._sort()

    def add_text(
        self, name: str, text: bytes, rows: int, keys: Keys | None = None, *, proved: bool = False
    ) -> None:
        """Append RECORD lines of one stream that stand one behind the other.

        Args:
            name: The stream.
            text: The lines, as :meth:`add_mixed` takes them.
            keys: What each has in the members that a block has bounds of; None if not known.
            proved: Whether their types are.
        """
        self._sort()
        self._add_text(self._streams[name], text, rows, keys, proved=proved)

    def _sort(self) -> None:
        """Give gathered lines to their streams' buffers, before whatever comes behind them."""
        proved = self._mixed.proved
        for name, lines in self._mixed.taken().items():
            text = b"".join(lines)
            self._add_text(self._streams[name], text, len(lines), None, proved=proved)

    def _add_text(
        self, stream: _Stream, text: bytes, rows: int, keys: Keys | None, *, proved: bool
    ) -> None:
        if stream.place is not None:
            text = self.files.take(stream.table, stream.writer, stream.place, text, stream.schema)
        stream.deletions += deletions_in(text)
        buffer, most, at = stream.buffer, self._options.block_rows, 0
        stream.lost.used = True
        for piece, count in pieces(text, rows, most - buffer.rows, most):
            buffer.add_records(piece, count, some(keys, at, count), proved=proved)
            self._add_size(stream, len(piece))
            at += count
            if buffer.rows >= most:
                self._cut(stream)
        if buffer.size >= BLOCK_BYTES:
            self._cut(stream)
        if self._buffered > BUFFER_BYTES:
            self._make_room()

    def activate_version(self, name: str, line: bytes, version: int) -> None:
        """Append an ACTIVATE_VERSION line of a stream whose schema is set."""
        self._sort()
        stream = self._streams[name]
        stream.buffer.add_activation(line, version)
        self._add_size(stream, len(line))
        if stream.buffer.size >= BLOCK_BYTES:
            self._cut(stream)

    def state(self, value: bytes) -> None:
        """Take a STATE's value; it goes out with the next commit."""
        self._state = value
        due = (
            self._gathered + self._mixed.size >= self._options.commit_bytes
            or time.monotonic() - self._committed_at >= self._options.commit_seconds
        )
        if due and not self._options.atomic:
            self.commit()

    def commit(self) -> None:
        """Commit everything gathered, one transaction a table, then let the STATE out.

        Raises:
            SingerlakeError: A table could not be committed. Those before it are, and the
                STATE stays in, so that a rerun brings the rest.
        """
        self._sort()
        for stream in self._streams.values():
            self._cut(stream)
        self._compressor.drain()
        for ahead in (True, False):
            streams = [s for s in self._streams.values() if s.ahead is ahead]
            self._commit_tables([s for s in streams if s.staged is not None])
        self._gathered = 0
        self._committed_at = time.monotonic()
        if self._state is not None:
            self._emit(self._state)
            self._state = None
        for work in self._afterwards:
            work()

    def after_commits(self, work: Callable[[], None]) -> None:
        """Have something done each time when all is committed and the STATE is out."""
        self._afterwards.append(work)

    def close(self) -> None:
        """Drop what was not committed. May be called after :meth:`commit` as well."""
        self.files.close()
        self._compressor.close()
        self._committing.close()
        for stream in self._streams.values():
            if stream.staged is not None:
                stream.staged.discard()

    def _commit_tables(self, streams: list[_Stream]) -> None:
        """Commit tables side by side. Within a table the order of writing holds."""
        if not streams:
            return

        def one(stream: _Stream) -> TableState | None:
            self._check()
            snapshot = self._commit_stream(stream)
            self._done()
            return snapshot

        def size(stream: _Stream) -> int:
            return stream.staged.size if stream.staged is not None else 0

        futures = self._committing.commit(streams, one, size)
        done = [future.result() for future in futures if future.exception() is None]
        known = self.lake.file.taps if self.lake.file is not None else ()
        update_lake(self.lake.store, [one for one in done if one is not None], known)
        for future in futures:
            future.result()  # raises what went wrong

    def _commit_stream(self, stream: _Stream) -> TableState | None:
        staged = stream.staged
        assert staged is not None, "only streams with something staged"  # noqa: S101
        overlay = None if stream.ahead else self.overlays.of(stream.table.stream)
        try:
            snapshot = stream.writer.commit(
                staged,
                metrics={
                    "input_bytes": stream.bytes,
                    **({"deletions": stream.deletions} if stream.deletions else {}),
                },
                catalogue=False,
                overlay=overlay,
                # The one that goes out once all tables of this commit are in the log.
                acknowledges=tap_state.noted(self._state),
                leave_out=self.left_out,
            )
        except ConflictError:
            self.overlays.mend(stream.table)
            raise
        deleted, stream.deletions = stream.deletions, 0
        stream.staged, stream.bytes = None, 0
        if snapshot is not None:
            done = self.committed[stream.table]
            done.transaction = snapshot.number
            done.rows += staged.rows
            done.size += staged.size
            done.deletions += deleted
            if stream.ahead:
                self.put_aside[stream.table] += staged.rows
                self._progress.put_aside(staged.rows)
            else:
                self._progress.committed(staged.rows, staged.size, deleted)
            self.snapshots[stream.table] = snapshot
        return snapshot

    def _staged(self, stream: _Stream) -> StagedTable:
        if stream.staged is None:
            stream.staged = StagedTable(self.lake.store, stream.table, self._options.file_bytes)
        stream.staged.set_schema(stream.schema_hash, stream.schema)
        return stream.staged

    def _add_size(self, stream: _Stream, size: int) -> None:
        stream.bytes += size
        self._buffered += size
        self._gathered += size

    def _cut(self, stream: _Stream) -> None:
        buffer = stream.buffer
        if not buffer.size:
            return
        staged, hash_ = self._staged(stream), stream.schema_hash

        def done(data: bytes, block: Block) -> None:
            staged.add(hash_, data, block)

        # Blocks of one writer never share a time, nor go back in it: where the log is lost,
        # their order is known by it.
        self._written = max(self._written + 1, times.micros(times.now()))
        size = buffer.size
        self._buffered -= size
        self._compressor.submit(size, buffer.cut(self._written), done)

    def _make_room(self) -> None:
        """Cut the longest buffers until half the room is free."""
        for stream in sorted(self._streams.values(), key=lambda s: -s.buffer.size):
            if self._buffered <= BUFFER_BYTES // 2:
                break
            self._cut(stream)


# How many records of some lines are deletions.

_NAME = DELETED.encode()
_NULLS = (_NAME + b'": null', _NAME + b'":null')


class _Record(msgspec.Struct):
    mark: Raw = msgspec.field(name=DELETED, default=Raw(b"null"))


class _Line(msgspec.Struct):
    record: _Record


_LINE = msgspec.json.Decoder(_Line)


def deletions_in(text: bytes) -> int:
    """Count the deletions among RECORD lines, each valid and with its newline."""
    named = text.count(_NAME)
    if not named or named == sum(map(text.count, _NULLS)):
        return 0
    marked = (line for line in BytesIO(text) if _NAME in line)
    return sum(is_deletion(bytes(_LINE.decode(line).record.mark)) for line in marked)
