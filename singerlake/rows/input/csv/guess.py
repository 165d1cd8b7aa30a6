"""CSV rows for a table that is guessed from some of them: read once, for their types and as rows.

What all rows hold is summed up on the way. Only where that comes to the same columns were the rows
read as what they are. A part that sees it come to others goes on summing up, and gives no more
rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from singerlake.rows.batches import problems
from singerlake.rows.batches.problems import Problems
from singerlake.rows.batches.steps import Batches
from singerlake.rows.input.csv.decimals import pointed
from singerlake.rows.input.csv.fast import TextRows
from singerlake.rows.input.csv.file import CsvFile
from singerlake.rows.input.csv.ranges import Range
from singerlake.rows.input.csv.reader import CsvReader
from singerlake.rows.input.csv.rows import CsvRows
from singerlake.rows.input.values import cell_summary, cells, json_cells
from singerlake.rows.input.values.inference import Summary, cell_spec, merge


class Summed(msgspec.Struct):
    """The summary of a part of some files.

    Attributes:
        summaries: Of each column of the first file.
        guessed: Whether its columns are, as far as it goes, those that were guessed.
        unread: What is wrong with rows that could not be read.
    """

    summaries: list[Summary]
    rows: int = 0
    guessed: bool = True
    unread: Problems = msgspec.field(default_factory=Problems)

    def take(self, rows: TextRows, file: CsvFile, names: Sequence[str]) -> None:
        """Take in some rows.

        Args:
            names: The columns of the first file, which this one may have in another order.
        """
        self.rows += len(rows)
        places = {name: place for place, name in enumerate(file.names)}
        for name, summary in zip(names, self.summaries, strict=True):
            texts = pointed(rows.cells[places[name]], file.dialect)
            cell_summary.add_cells(summary, texts)


decode = msgspec.msgpack.Decoder(Summed).decode
"""Decode what :meth:`GuessedRows.summed` gave."""


@dataclass
class GuessedRows(CsvRows):
    """Reads rows as :class:`CsvRows` does, into columns that were guessed.

    Where the JSON of cells is to be had without their values, a batch has that instead of them;
    see ``json_cells.py``.

    Attributes:
        guess: What the columns of the first file were seen to hold.
        keys: Names of columns whose values are wanted in any case.
    """

    guess: Sequence[Summary] = field(default_factory=list)
    keys: Sequence[str] = ()

    def __call__(self, numbers: Batches) -> Batches:
        """Read a part's ranges, which alone are summed up."""
        self.__post_init__()
        yield from super().__call__(numbers)

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self._summed = Summed([Summary() for _ in self.guess])
        names = self.files[0].names if self.files else ()
        self._places = {name: place for place, name in enumerate(names)}

    def summed(self) -> bytes:
        """Encode what was summed up."""
        return msgspec.msgpack.encode(self._summed)

    def column(self, index: int, texts: pa.Array) -> tuple[dict[str, pa.Array], cells.Reasons]:
        """Turn texts into JSON if that is all that has to be done, else into values."""
        name, type_ = self.columns[index]
        kinds = self._summed.summaries[self._places[name]].kinds
        spelled = json_cells.spelled(texts, type_, kinds)
        if spelled is None:
            return super().column(index, texts)
        found, reasons = super().column(index, texts) if name in self.keys else ({}, {})
        return {**found, **json_cells.put(index, spelled)}, reasons

    def rows(self, reader: CsvReader, source: int) -> Iterator[TextRows]:
        """Give the rows of a range, as long as their columns are those that were guessed."""
        summed = self._summed
        for rows in reader:
            summed.take(rows, self.files[source], self.files[0].names)
            summed.guessed = summed.guessed and all(
                cell_spec(merge(guess, own)) == cell_spec(guess)
                for guess, own in zip(self.guess, summed.summaries, strict=True)
            )
            if summed.guessed:
                yield rows
        summed.unread = problems.merged((summed.unread, reader.problems), self.most)


def guess(files: Sequence[CsvFile], parts: Sequence[Range]) -> list[Summary] | None:
    """Sum up the first rows of the first range and of the last; None where some are no rows."""
    names = files[0].names
    summed = Summed([Summary() for _ in names])
    for part in dict.fromkeys((parts[0], parts[-1])):
        reader = CsvReader(files[part.source], part)
        rows = next(iter(reader), None)
        if reader.problems.total:
            return None
        if rows is not None:
            summed.take(rows, files[part.source], names)
    return summed.summaries if summed.rows else None
