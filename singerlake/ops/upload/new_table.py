"""A table made of files: types found in all rows, one transaction.

The files are read once for what their columns hold. What is found may be shown, and corrected,
before the rows are read as such and written: a task reads its part and writes blocks of it. Only
where the values of a key do not rise from row to row are
they read once more, and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from singerlake.engine.base import Engine
from singerlake.errors import InputError, SingerlakeError, UsageError
from singerlake.format.block import MAX_ROWS
from singerlake.format.log import Block, Entry, FrozenVersion, SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.format.types import Columns, Kind, columns_of
from singerlake.lake import Lake
from singerlake.lineage import told
from singerlake.log.commit import current_user
from singerlake.log.staging import FILE_BYTES
from singerlake.log.table_state import TableState
from singerlake.ops.change.plan import ChangeOptions, with_version
from singerlake.ops.change.version import Freezing
from singerlake.ops.create import create as plans
from singerlake.ops.create.first_blocks import FirstBlocks, in_order
from singerlake.ops.create.record_writer import RecordWriter
from singerlake.ops.upload.given_readers import CsvReader, GivenReader, Inferred, typed
from singerlake.rows.batches import packing, problems
from singerlake.rows.batches.problems import MOST, Problem, Problems, Stages, decode
from singerlake.rows.batches.row_columns import aliases
from singerlake.rows.batches.steps import Batches, Step
from singerlake.rows.blocks import block_tasks
from singerlake.rows.columns.canonical_text import Around
from singerlake.rows.given.csv import guess as csv_guess
from singerlake.rows.given.csv.guess import GuessedRows
from singerlake.rows.given.key_runs import KeyRuns, all_differ
from singerlake.rows.given.repeated_keys import FIRST, LAST, KeyParts, RepeatedKeys, place
from singerlake.rows.given.rows import LINE, PROBLEMS, SOURCE
from singerlake.rows.given.values.inference import Spec, Summary, nullable
from singerlake.rows.lines.record_texts import RecordTexts
from singerlake.rows.state.newest_rows import SPLIT_KEYS

PART_BYTES = 128 << 20
"""Bytes of files that one task writes the rows of, about."""


@dataclass(frozen=True)
class NewTable:
    """A table that files are going to make.

    Attributes:
        table: Its name.
        entry: Its schema.
        reader: Reads the files.
        inferred: What these hold.
        said: Names of the columns whose types somebody said.
    """

    table: TableName
    entry: SchemaEntry
    reader: GivenReader
    inferred: Inferred
    said: frozenset[str] = frozenset()

    @property
    def columns(self) -> Columns:
        """Its columns."""
        return columns_of(self.entry)

    def nulls(self, column: str) -> int | None:
        """How many rows have no value; empty texts are null in a column that is no text."""
        found = self.inferred.nulls.get(column)
        if found is None or dict(self.columns)[column].kind in (Kind.STRING, Kind.TEXT):
            return found
        return found + self.inferred.empty.get(column, 0)

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.source.size for file in self.reader.files)

    @property
    def keys(self) -> list[int]:
        """Indexes of its key's columns."""
        names = [name for name, _ in self.columns]
        return [names.index(key) for key in self.entry.key_properties]


def plan_new(
    engine: Engine[Any],
    table: TableName,
    reader: GivenReader,
    *,
    keys: Sequence[str] = (),
    types: Mapping[str, Spec] | None = None,
) -> NewTable:
    """Find out what files hold, and what table that makes.

    Args:
        engine: Reads the files, and writes blocks.
        table: Its name.
        reader: Reads the files.
        keys: Columns that are the table's key.
        types: The JSON Schema of columns whose types somebody says, null not among the values.

    Raises:
        UsageError: There is no such column, or it cannot be a key.
        RejectedRowsError: Some rows cannot be read.
        InputError: There are none.
    """
    return _new_table(table, reader, reader.infer(engine), keys, types or {})


def _new_table(
    table: TableName,
    reader: GivenReader,
    inferred: Inferred,
    keys: Sequence[str],
    types: Mapping[str, Spec],
) -> NewTable:
    name = ", ".join(reader.names)
    specs = typed(inferred, types, keys, name)
    if not inferred.rows:
        raise InputError(
            f"{name} has no rows, so the types of its columns are unknown: create the table with "
            f'singerlake create-table {table} --columns "…", and upload into that'
        )
    properties = {
        column: spec if column in keys else nullable(spec) for column, spec in specs.items()
    }
    entry = SchemaEntry({"type": "object", "properties": properties}, list(keys))
    for column, type_ in columns_of(entry):
        if column in keys and type_.kind in (Kind.STRUCT, Kind.LIST, Kind.TEXT):
            raise UsageError(f"{column!r} cannot be a key: it is {type_}")
    return NewTable(table, entry, reader, inferred, frozenset(types))


@dataclass(frozen=True)
class Made:
    """A table that was made of files, or would be.

    Attributes:
        transaction: Its first transaction, 1; None in a dry run.
        rows: Its rows.
        version: The version of them, where one was asked for.
    """

    transaction: int | None
    rows: int
    version: FrozenVersion | None = None


def make(
    engine: Engine[Any], lake: Lake, new: NewTable, options: ChangeOptions | None = None
) -> Made:
    """Make a table of files.

    Args:
        engine: Reads the files, and writes blocks.
        lake: The lake that gets the table.
        new: What :func:`plan_new` gave.
        options: How; ``if_transaction`` and ``overwrite`` mean nothing here.

    Raises:
        RejectedRowsError: The key is null or there twice, or a value does not fit.
        ConflictError: Somebody else made the table meanwhile.
    """
    options, table = options or ChangeOptions(), lake.table(new.table)
    with told(table, "create", active=not options.dry_run) as telling:
        made = _Job(engine, lake, new, options).run()
        telling.wrote(table.snapshot, rows=made.rows, version=made.version)
    return made


def make_at_once(
    engine: Engine[Any],
    lake: Lake,
    table: TableName,
    reader: CsvReader,
    keys: Sequence[str],
    options: ChangeOptions,
    show: Callable[[NewTable], None],
) -> tuple[NewTable, Made | None]:
    """Make a table of CSV that is read once, if all of it is what some of it seems to be.

    Args:
        engine: Reads the files, and writes blocks.
        lake: The lake that gets the table.
        table: Its name.
        reader: Reads the files.
        keys: Columns that are the table's key.
        options: How; not a dry run.
        show: Is shown the table before it is made.

    Returns:
        What the files hold; and what was made of them, None where they hold something else than
        they seemed to: then nothing is left, and :func:`make` has to read them once more.

    Raises:
        SingerlakeError: As :func:`plan_new` and :func:`make`.
    """
    guess = reader.guess(engine)
    if guess is None:
        return plan_new(engine, table, reader, keys=keys), None
    seen = _new_table(table, reader, reader.inferred(guess, 1), keys, {})
    job = _AtOnce(engine, lake, seen, options, reader, guess, show)
    try:
        made = job.run()
    except _SeemedOtherwiseError:
        return job.new, None
    with told(lake.table(table), "create") as telling:  # not before: it might have been in vain
        telling.wrote(lake.table(table).snapshot, rows=made.rows, version=made.version)
    return job.new, made


@dataclass
class _Job:
    engine: Engine[Any]
    lake: Lake
    new: NewTable
    options: ChangeOptions

    def run(self) -> Made:
        new = self.new
        step, tasks = self._step()
        if self.options.dry_run:
            return Made(None, self._check_rows(step, tasks))
        hash_ = schema_hash(new.entry.schema, new.entry.key_properties)
        blocks = FirstBlocks(self.engine, self.lake, new.table, hash_, self.options.writing)
        done = blocks.commit(
            lambda: self._write(blocks, step, tasks), self._draft(hash_), self._with_version
        )
        version = done.frozen[-1] if done.frozen else None
        return Made(done.number, done.transactions[-1].rows, version)

    def _step(self) -> tuple[Step, int]:
        return self.new.reader.step(self.engine, self.new.columns)

    def _check_rows(self, step: Step, tasks: int) -> int:
        """Count the rows, unless something is wrong with one."""
        new = self.new
        checker = GivenRowsChecker(step, new.columns, new.entry, new.reader.names)
        engine = self.engine
        read = engine.map(engine.source(tasks_of(tasks, tasks)), checker, CHECKED)
        rows = engine.collect(read)
        self._refuse_any(rows)
        return sum(row["rows"] for row in rows)

    def _refuse_any(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Refuse the files if tasks have found something wrong, or a key is there twice."""
        new = self.new
        told = sorted((row["part"], row[PROBLEMS], row[RUNS]) for row in rows if row[RUNS])
        found = problems.merged(problems.decode(encoded) for _, encoded, _ in told)
        wrong = Stages(new.reader.names, found)
        # Of rows with problems nobody followed all keys.
        if new.keys and (found.total or not all_differ(runs for _, _, runs in told)):
            wrong.add(self._repeated_keys(), of_read_cells=True)
        if wrong.total:
            raise problems.rejected(wrong.whole())

    def _repeated_keys(self) -> Problems:
        """Find keys that are there twice; both lines of each are named."""
        new = self.new
        engine = self.engine
        step, tasks = new.reader.step(engine, new.columns)
        # A part's keys fit into memory, as they fill a fraction of the files.
        parts = max(engine.parts, -(-new.size // PART_BYTES))
        split = KeyParts(step, new.columns, new.keys, parts)
        read = engine.map(engine.source([b""] * tasks), split, SPLIT_KEYS)
        shared = engine.exchange(read, parts, "part")
        told = engine.collect(engine.map(shared, _FirstRepeated(len(new.keys)), _REPEATED))
        found = pa.concat_tables([packing.unpack(row["first"]) for row in told]) if told else None
        if found is None:
            return Problems()
        first = found.sort_by(LAST).slice(0, MOST).to_pylist()
        return Problems(sum(row["keys"] for row in told), [self._repeated(row) for row in first])

    def _repeated(self, row: Mapping[str, Any]) -> Problem:
        names = self.new.reader.names
        cells = [str(row[name]) for name in aliases(len(self.new.keys))]
        (source, line), (first_source, first_line) = place(row[LAST]), place(row[FIRST])
        here, there = names[source], names[first_source]
        where = f"line {first_line:,}" if here == there else f"{there}, line {first_line:,}"
        column = ", ".join(self.new.entry.key_properties)
        reason = f"is a key that occurred before, in {where}"
        return Problem(here, line, column, ", ".join(cells), reason)

    def _write(self, blocks: FirstBlocks, step: Step, tasks: int) -> list[Block]:
        new = self.new
        writer = GivenRowsWriter(
            store=self.lake.store,
            table=new.table,
            columns=new.columns,
            schema=new.entry,
            schema_hash=blocks.schema_hash,
            micros=blocks.micros,
            block_rows=MAX_ROWS,
            file_bytes=FILE_BYTES,
            reader=step,
            names=new.reader.names,
        )
        engine = self.engine
        side_by_side = max(1, engine.parts // 2)
        rounds = max(2, -(-new.size // (PART_BYTES * side_by_side)))  # none with idle cores
        parts = max(1, min(tasks, rounds * side_by_side))
        made = engine.map(engine.source(tasks_of(tasks, parts)), writer, WRITTEN)
        rows = blocks.collect(made, parts)
        self._refuse_any(rows)
        return in_order(rows)

    def _draft(self, hash_: str) -> Callable[[list[Block], str], Entry]:
        options, new = self.options, self.new
        said = {} if options.comment is None else {"comment": options.comment}
        files = [file.described() for file in new.reader.files]

        def draft(blocks: list[Block], writer_id: str) -> Entry:
            rows = sum(block.rows for block in blocks)
            return plans.draft(
                new.table,
                hash_,
                new.entry,
                blocks,
                writer_id=writer_id,
                metadata={**options.metadata, "by": current_user(), **said, "files": files},
                metrics={"inserted": rows},
            )

        return draft

    def _with_version(self, first: Entry) -> Entry:
        if not self.options.new_version:
            return first
        table = self.lake.table(self.new.table)
        version, lanes = Freezing(self.engine, table, self.options)(TableState(table.name), first)
        return with_version(first, version, lanes)


_REPEATED = "keys long, first binary"


@dataclass
class _FirstRepeated:
    """Counts the keys of a part that are there twice, and packs the first, by their last places.

    Attributes:
        count: How many columns the key has.
    """

    count: int

    def __call__(self, batches: Batches) -> Batches:
        """Take all keys of one part."""
        found = [*RepeatedKeys(self.count)(batches)]
        if found:
            twice = pa.Table.from_batches(found).sort_by(LAST)
            row = {"keys": [len(twice)], "first": [packing.pack(twice.slice(0, MOST))]}
            yield pa.RecordBatch.from_pydict(row)


class _SeemedOtherwiseError(SingerlakeError):
    """Files hold something else than some of their rows do."""


@dataclass
class _AtOnce(_Job):
    """Writes rows as the table that some of them make, and looks whether all of them make it."""

    csv: CsvReader
    guess: Mapping[str, Summary]
    show: Callable[[NewTable], None]

    def _step(self) -> tuple[Step, int]:
        keys = self.new.entry.key_properties
        return self.csv.guessed_step(self.engine, self.new.columns, self.guess, keys)

    def _refuse_any(self, rows: Iterable[Mapping[str, Any]]) -> None:
        rows, guessed = list(rows), self.new
        told = sorted((row["part"], row[SUMMED]) for row in rows if row[SUMMED])
        parts = [csv_guess.decode(summed) for _, summed in told]
        unread = problems.merged(part.unread for part in parts)
        if unread.total:
            raise problems.rejected(unread)
        keys = guessed.entry.key_properties
        self.new = _new_table(guessed.table, self.csv, self.csv.merged(parts), keys, {})
        if self.new.entry != guessed.entry or not all(part.guessed for part in parts):
            raise _SeemedOtherwiseError("the files contain something else than they seemed to")
        super()._refuse_any(rows)
        self.show(self.new)


# Writes rows that somebody gives as the first rows of a new table.
#
# Reading and writing are one step: rows never leave Python on their way from the file to the block.

RUNS, SUMMED = "runs", "summed"
WRITTEN = f"part int, block binary, {PROBLEMS} binary, {RUNS} binary, {SUMMED} binary"
"""What comes back for each block, and one row of each task: with the problems it found, with what
``key_runs.py`` saw of its keys, and, where the table is guessed, with what its rows hold."""


def tasks_of(tasks: int, parts: int) -> list[bytes]:
    """Share the numbers of tasks that read out to parts, neighbours to the same one."""
    ends = [tasks * part // parts for part in range(parts + 1)]
    return [b"%d %d" % both for both in pairwise(ends)]


def numbers_of(sent: bytes | None) -> Batches:
    """Give the numbers that a part of :func:`tasks_of` has, as readers take them."""
    first, stop = map(int, (sent or b"0 0").split())
    yield pa.RecordBatch.from_pydict({"id": pa.array(range(first, stop), pa.int64())})


@dataclass
class GivenRowsWriter(RecordWriter):
    """Reads rows, and writes them as blocks. Sent to tasks by value.

    Attributes:
        reader: Gives batches of ``given.rows.given_schema`` with all of the table's columns.
        names: What messages call the rows' sources.
    """

    reader: Step
    names: Sequence[str]

    def __call__(self, batches: Batches) -> Batches:
        """Read what parts are sent, and write it; files are durable when it ends."""
        for part, sent in block_tasks.given(batches):
            yield from self._part(part, numbers_of(sent))

    def _part(self, part: int, numbers: Batches) -> Batches:
        self._noted = _Noted.of(self.columns, self.schema, self.names)
        for written in self.write(self._noted.sound(self.reader(numbers)), part):
            for name in (PROBLEMS, RUNS, SUMMED):
                written = written.append_column(  # noqa: PLW2901
                    name, pa.nulls(written.num_rows, pa.binary())
                )
            yield written
        summed = self.reader.summed() if isinstance(self.reader, GuessedRows) else None
        yield pa.RecordBatch.from_pydict(
            {
                "part": pa.array([part], pa.int32()),
                "block": pa.array([None], pa.binary()),
                PROBLEMS: pa.array([self._noted.problems.encode()], pa.binary()),
                RUNS: pa.array([self._noted.runs.encode()], pa.binary()),
                SUMMED: pa.array([summed], pa.binary()),
            }
        )

    def lines(self, batch: pa.RecordBatch, around: Around) -> pa.Array:
        """Return the lines of a batch's rows; see :class:`RecordWriter`."""
        return self._noted.lines(batch, around)


CHECKED = f"part int, rows long, {PROBLEMS} binary, {RUNS} binary"


@dataclass
class GivenRowsChecker:
    """Reads rows as :class:`GivenRowsWriter` does, and writes none; see :data:`CHECKED`.

    Attributes:
        reader: As there.
        columns: The new table's.
        schema: Its schema.
        names: As there.
    """

    reader: Step
    columns: Columns
    schema: SchemaEntry
    names: Sequence[str]

    def __call__(self, batches: Batches) -> Batches:
        """Read what parts are sent."""
        for part, sent in block_tasks.given(batches):
            yield self._part(part, numbers_of(sent))

    def _part(self, part: int, numbers: Batches) -> pa.RecordBatch:
        noted = _Noted.of(self.columns, self.schema, self.names)
        rows = sum(len(noted.lines(batch)) for batch in noted.sound(self.reader(numbers)))
        return pa.RecordBatch.from_pydict(
            {
                "part": pa.array([part], pa.int32()),
                "rows": pa.array([rows], pa.int64()),
                PROBLEMS: pa.array([noted.problems.encode()], pa.binary()),
                RUNS: pa.array([noted.runs.encode()], pa.binary()),
            }
        )


@dataclass
class _Noted:
    """Records of rows; what is wrong with rows is noted, and how their keys follow each other."""

    texts: RecordTexts
    names: Sequence[str]
    runs: KeyRuns
    problems: Problems = field(default_factory=Problems)

    @classmethod
    def of(cls, columns: Columns, schema: SchemaEntry, names: Sequence[str]) -> _Noted:
        runs = KeyRuns(columns, schema.key_properties)
        return cls(RecordTexts(columns, schema), names, runs)

    def lines(self, batch: pa.RecordBatch, around: Around = ("", "")) -> pa.Array:
        self.runs.take(batch)
        written, problems = self.texts.lines(batch, range(len(self.texts.columns)), None, around)
        if problems:
            lines, sources = batch.column(LINE).to_pylist(), batch.column(SOURCE).to_pylist()
            for problem in problems:
                name = self.names[sources[problem.row]]
                self.problems.add(problem.at(name, lines[problem.row]))
        return written

    def sound(self, batches: Batches) -> Batches:
        """The rows without what readers say of them; those behind a problem do not matter."""
        for batch in batches:
            told = batch.column(PROBLEMS)
            if told.null_count < batch.num_rows:
                for one in told.drop_null().to_pylist():
                    self.problems.merge(decode(one))
            else:
                yield batch
