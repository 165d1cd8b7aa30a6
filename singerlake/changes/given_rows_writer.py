"""Writes rows that somebody gives as the first rows of a new table.

Reading and writing are one step: rows never leave Python on their way from the file to the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from singerlake.changes.record_writer import RecordWriter
from singerlake.format.log import SchemaEntry
from singerlake.format.types import Columns
from singerlake.records.blocks import block_tasks
from singerlake.records.columns.canonical_text import Around
from singerlake.records.given.csv.guess import GuessedRows
from singerlake.records.given.key_runs import KeyRuns
from singerlake.records.given.rows import LINE, PROBLEMS, SOURCE
from singerlake.records.lines.record_texts import RecordTexts
from singerlake.records.rows.problems import Problems, decode
from singerlake.records.rows.steps import Batches, Step

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
