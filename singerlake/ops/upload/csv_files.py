"""CSV files read by tasks of an engine: a range each, placed by what stands before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from singerlake.engine.base import Engine
from singerlake.errors import InputError
from singerlake.format.types import Columns
from singerlake.rows.batches import problems
from singerlake.rows.batches.problems import FIRST, MOST
from singerlake.rows.input.byte_sources import ByteSource
from singerlake.rows.input.csv import guess as csv_guess
from singerlake.rows.input.csv import ranges as csv_ranges
from singerlake.rows.input.csv.dialect import Dialect
from singerlake.rows.input.csv.file import CsvFile, open_csv
from singerlake.rows.input.csv.guess import GuessedRows
from singerlake.rows.input.csv.ranges import Counts, Range
from singerlake.rows.input.csv.rows import (
    COUNTS,
    SUMMARIES,
    CsvCounter,
    CsvRows,
    CsvSummarizer,
    check_names,
    decode_summaries,
    layouts,
)
from singerlake.rows.input.values.inference import Summary, merge_all

_MOST_IN_ALL = 1_000_000
"""Problems that all tasks together may send to the driver."""


class CsvFiles:
    """CSV files that are one set of rows.

    Args:
        sources: The files' bytes.
        dialect: How they are written.
        task_bytes: Bytes of a file that a task should not exceed.

    Raises:
        RejectedRowsError: One is empty, or its header cannot be read.
        InputError: One has a header and no rows.
    """

    def __init__(
        self,
        sources: Sequence[ByteSource],
        dialect: Dialect,
        task_bytes: int = csv_ranges.TASK_BYTES,
    ) -> None:
        self._task_bytes = task_bytes
        self.files: list[CsvFile] = [open_csv(source, dialect) for source in sources]
        self._parts: list[Range] | None = None
        for file in self.files:
            if not file.has_rows():
                raise InputError(f"{file.source.name} has a header and no rows: nothing to do")

    def check_names(self) -> None:
        """Make sure that the files can make a table; see ``csv.rows.check_names``."""
        check_names(self.files)

    def indexes(self, columns: Columns, keys: Sequence[str] = ()) -> list[int]:
        """Return the indexes of a table's columns that the files name, rising.

        Args:
            keys: Names of its key, which the files must have.

        Raises:
            RejectedRowsError: A header is not what it is to be.
            UsageError: The files name different columns.
        """
        return list(layouts(self.files, columns, keys)[0].cells)

    def step(self, engine: Engine[Any], columns: Columns) -> tuple[CsvRows, int]:
        """Return what reads the rows, and into how many tasks that is split."""
        found = layouts(self.files, columns)
        parts = self.parts(engine)
        return CsvRows(self.files, found, parts, columns, self._most_of(parts)), len(parts)

    def guess(self, engine: Engine[Any]) -> list[Summary] | None:
        """Sum up what some rows hold, column by column; None where they cannot be read."""
        return csv_guess.guess(self.files, self.parts(engine))

    def guessed_step(
        self, engine: Engine[Any], columns: Columns, guess: Sequence[Summary], keys: Sequence[str]
    ) -> tuple[GuessedRows, int]:
        """Return what reads the rows into guessed columns, and into how many tasks that is split.

        Args:
            engine: Reads the files.
            columns: Those of the table that the guess makes.
            guess: From :meth:`guess`.
            keys: Names of its key.
        """
        found, parts = layouts(self.files, columns), self.parts(engine)
        most = self._most_of(parts)
        return GuessedRows(self.files, found, parts, columns, most, guess, keys), len(parts)

    def summaries(self, engine: Engine[Any]) -> tuple[dict[str, Summary], int]:
        """Sum up what each column holds, by name, and count the rows.

        Raises:
            RejectedRowsError: Some are no rows.
        """
        parts = self.parts(engine)
        summarizer = CsvSummarizer(self.files, parts, self._most_of(parts))
        found = engine.collect(engine.map(engine.source([b""] * len(parts)), summarizer, SUMMARIES))
        found.sort(key=lambda row: row["part"])
        whole = problems.merged((problems.decode(row["problems"]) for row in found), MOST)
        if whole.total:
            raise problems.rejected(whole)
        columns = (decode_summaries(row["summaries"]) for row in found)
        return self.merged(columns), sum(row["rows"] for row in found)

    def merged(self, parts: Iterable[Sequence[Summary]]) -> dict[str, Summary]:
        """Sum up what parts of the files hold, column by column, by name."""
        columns = zip(*parts, strict=True)
        names = self.files[0].names
        return {name: merge_all(column) for name, column in zip(names, columns, strict=True)}

    def parts(self, engine: Engine[Any]) -> list[Range]:
        """Return the range of each task, placed; counted once, and only where there are several."""
        if self._parts is None:
            cut = [self._cut(index, engine.parts) for index in range(len(self.files))]
            counted = [part for parts in cut for part in parts[:-1]]
            counts = self._counts(engine, counted)
            self._parts = []
            for parts in cut:
                own, counts = counts[: len(parts) - 1], counts[len(parts) - 1 :]
                self._parts += csv_ranges.placed(parts, own)
        return self._parts

    def _most_of(self, parts: Sequence[Range]) -> int:
        return max(FIRST, min(MOST, _MOST_IN_ALL // len(parts)))

    def _cut(self, index: int, least: int) -> list[Range]:
        file = self.files[index]
        place = file.place(index)
        if not file.splittable:
            return [place]
        return csv_ranges.ranges(place, file.source.size, least, self._task_bytes)

    def _counts(self, engine: Engine[Any], parts: list[Range]) -> list[Counts]:
        if not parts:
            return []
        counter = CsvCounter(self.files, parts)
        found = engine.collect(engine.map(engine.source([b""] * len(parts)), counter, COUNTS))
        found.sort(key=lambda row: row["part"])
        return [Counts(row["quotes"], row["newlines"], row["line_start"]) for row in found]
