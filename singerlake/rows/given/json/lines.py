"""Reads files of JSON lines on the executors: what their columns hold, and their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from singerlake.format import values
from singerlake.format.types import BOOLEAN, INTEGER, STRING, Columns
from singerlake.rows.batches.problems import Problem, Problems, kept
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks
from singerlake.rows.given.byte_sources import ByteSource
from singerlake.rows.given.json.line_ranges import Range, count_ends, line_blocks
from singerlake.rows.given.json.rows import BOM, JsonReader, JsonRows, Line, RowError, members_of
from singerlake.rows.given.rows import (
    DELETE_WORDS,
    DELETED,
    LINE,
    OMITTED,
    ROW_ID,
    ROW_VERSION,
    SOURCE,
    TYPES,
    SpecialNames,
    given_batch,
    given_schema,
    problems_batch,
    read_delete,
    special_names,
)
from singerlake.rows.given.values import json_summary
from singerlake.rows.given.values.inference import Summary

BATCH_LINES = 10_000
SUMMARIES = "part int, ends long, rows long, summary binary, problems binary"
"""What :class:`JsonSummarizer` puts out for each part."""


def lines_of(source: ByteSource, part: Range, first: int) -> Iterator[Line]:
    """Number the lines that begin in a range, those without anything in them left out."""
    number = first
    for block in line_blocks(source, part):
        lines = block.split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        for line in lines:
            text = line.removeprefix(BOM) if part.start == 0 and number == first else line
            if text and not text.isspace():
                yield number, text
            number += 1


@dataclass
class EndCounter:
    """Counts the ends of lines in ranges of files; one row ``part int, ends long`` for each.

    Attributes:
        sources: The files.
        parts: The range of each task.
    """

    sources: Sequence[ByteSource]
    parts: Sequence[Range]

    def __call__(self, numbers: Batches) -> Batches:
        """Count in the ranges whose numbers come in."""
        for number in block_tasks.numbers(numbers):
            part = self.parts[number]
            ends = count_ends(self.sources[part.source], part)
            yield pa.RecordBatch.from_pydict(
                {"part": pa.array([number], pa.int32()), "ends": pa.array([ends], pa.int64())}
            )


@dataclass
class JsonSummarizer:
    """Sums up what the columns of files hold; see :data:`SUMMARIES`.

    Lines in its problems are numbered from 0 within the part: what stands before is not known yet.

    Attributes:
        sources: The files.
        parts: The range of each task.
    """

    sources: Sequence[ByteSource]
    parts: Sequence[Range]

    def __call__(self, numbers: Batches) -> Batches:
        """Sum up the ranges whose numbers come in."""
        for number in block_tasks.numbers(numbers):
            part = self.parts[number]
            source = self.sources[part.source]
            summary, problems = Summary(), Problems()
            rows = 0
            for line, text in lines_of(source, part, 0):
                rows += 1
                try:
                    members_of(text)
                    members = json_summary.parse(text.decode())
                    json_summary.add_value(summary, members)
                except (RowError, ValueError, RecursionError) as error:
                    reason = (
                        str(error)
                        if isinstance(error, RowError)
                        else (f"is not valid JSON: {error}")
                    )
                    shown = kept(text.decode("utf-8", "replace"))
                    problems.add(Problem(source.name, line, None, shown, reason))
            yield pa.RecordBatch.from_pydict(
                {
                    "part": pa.array([number], pa.int32()),
                    "ends": pa.array([count_ends(source, part)], pa.int64()),
                    "rows": pa.array([rows], pa.int64()),
                    "summary": pa.array([msgspec.msgpack.encode(summary)], pa.binary()),
                    "problems": pa.array([problems.encode()], pa.binary()),
                }
            )


@dataclass
class JsonLines:
    """Reads rows into the columns of a table: batches of ``given.rows.given_schema``.

    Attributes:
        sources: The files.
        parts: The range of each task.
        firsts: The number of the first line of each.
        columns: The table's columns; a row may name any of them.
    """

    sources: Sequence[ByteSource]
    parts: Sequence[Range]
    firsts: Sequence[int]
    columns: Columns

    def __call__(self, numbers: Batches) -> Batches:
        """Read the ranges whose numbers come in."""
        names = special_names(name for name, _ in self.columns)
        schema = given_schema(self.columns, range(len(self.columns)))
        for number in block_tasks.numbers(numbers):
            part = self.parts[number]
            source = self.sources[part.source]
            reader = JsonReader(
                self.columns, _special(names), source.name, frozenset({names.transaction})
            )
            problems = Problems()
            for lines in _batched(lines_of(source, part, self.firsts[number])):
                rows = reader.read(lines)
                problems.merge(rows.problems)
                yield _batch(rows, part.source, names, schema)
            if problems.total:
                yield problems_batch(schema, problems)


def _batched(lines: Iterable[Line]) -> Iterator[list[Line]]:
    waiting: list[Line] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line[1])
        if len(waiting) >= BATCH_LINES or size >= _BATCH_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


_BATCH_BYTES = 8 << 20


def _special(names: SpecialNames) -> dict[str, values.Converter]:
    return {
        names.row_id: values.converter(STRING),
        names.row_version: values.converter(INTEGER),
        names.delete: _delete,
    }


def _delete(raw: bytes) -> bool | None:
    if raw in (b"true", b"false", b"null"):
        return bool(values.converter(BOOLEAN)(raw))
    word = read_delete(raw.decode().strip('"'))
    if word is None:
        raise values.MisfitError(DELETE_WORDS.removeprefix("is not a valid "))
    return word


def _batch(rows: JsonRows, source: int, names: SpecialNames, schema: pa.Schema) -> pa.RecordBatch:
    special = {
        column: pa.array(rows.special[name], TYPES[column])
        for column, name in (
            (ROW_ID, names.row_id),
            (ROW_VERSION, names.row_version),
            (DELETED, names.delete),
        )
    }
    count = len(rows.lines)
    known = {
        SOURCE: pa.array([source] * count, TYPES[SOURCE]),
        LINE: pa.array(rows.lines, TYPES[LINE]),
        OMITTED: pa.array(rows.omitted, TYPES[OMITTED]),
        **special,
    }
    return given_batch(schema, rows.arrays, known)
