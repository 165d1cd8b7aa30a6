"""CSV files that are made with what they say, and read in ranges."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

from singerlake.rows.batches.problems import Problem
from singerlake.rows.input.csv.dialect import Dialect
from singerlake.rows.input.csv.file import CsvFile, open_csv
from singerlake.rows.input.csv.ranges import Range, count, placed
from singerlake.rows.input.csv.reader import CsvReader

SPECIAL = 'a,"\r\n;\té\ufeff😀\0 '


@dataclass(frozen=True)
class InMemory:
    """A source of bytes for tests."""

    data: bytes
    name: str = "a.csv"

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, start: int, length: int) -> bytes:
        return self.data[start : start + length]


@dataclass(frozen=True)
class Made:
    """A file and what it says: of each row its line and its cells."""

    text: str
    width: int
    rows: list[tuple[int, list[str | None]]]


def _cell(text: str | None, quoted: bool, delimiter: str) -> str:
    if text is None:
        return ""
    if quoted or text == "" or any(one in text for one in f'"\r\n{delimiter}'):
        return '"' + text.replace('"', '""') + '"'
    return text


@st.composite
def made(draw: st.DrawFn, delimiter: str = ",", alphabet: str = SPECIAL) -> Made:
    """A file of a few rows below a header, with every kind of cell and end of line."""
    width = draw(st.integers(1, 3))
    cell = st.tuples(st.none() | st.text(alphabet, max_size=4), st.booleans())
    row = st.lists(cell, min_size=width, max_size=width)
    rows = draw(st.lists(row, max_size=5))
    end = st.sampled_from(["\n", "\r\n"])
    text = delimiter.join(f"n{index}" for index in range(width)) + draw(end)
    said = []
    for cells in rows:
        said.append((text.count("\n") + 1, [one for one, _ in cells]))
        text += delimiter.join(_cell(one, quoted, delimiter) for one, quoted in cells) + draw(end)
    last = said and said[-1][1] != [None]  # else the last row would be nothing at all
    if last and draw(st.booleans()):
        text = text.removesuffix("\n").removesuffix("\r")
    return Made(text, width, said)


def opened(data: bytes, dialect: Dialect | None = None) -> CsvFile:
    """Look into a file that is in memory."""
    return open_csv(InMemory(data), dialect or Dialect())


def read_in(
    file: CsvFile, ends: list[int]
) -> tuple[list[tuple[int, list[str | None]]], list[Problem]]:
    """Read a file in ranges that end at some bytes, each on its own: its rows, and problems."""
    whole = file.place(0)
    starts = [whole.start, *ends]
    cut = [
        Range(0, a, b, line=whole.line) for a, b in zip(starts, [*ends, whole.stop], strict=True)
    ]
    data = b"".join(file.text(0))
    counts = [count([data[one.start : one.stop]]) for one in cut]
    rows, problems = [], []
    for one in placed(cut, counts):
        reader = CsvReader(file, one)
        for some in reader:
            columns = zip(*(cells.to_pylist() for cells in some.cells), strict=True)
            rows += [(int(n), list(c)) for n, c in zip(some.lines, columns, strict=True)]
        problems += reader.problems.first
    return rows, problems


def cut(file: CsvFile, step: int) -> list[Range]:
    """Cut a file into ranges of some bytes, placed; into one for 0."""
    whole = file.place(0)
    if not step:
        return [whole]
    ends = [*range(whole.start + step, file.source.size, step), file.source.size]
    ranges = [Range(0, a, b, line=whole.line) for a, b in pairwise([whole.start, *ends])]
    data = b"".join(file.text(0))
    return placed(ranges, [count([data[one.start : one.stop]]) for one in ranges])
