"""CSV that is read once: what is guessed from some rows holds only if all rows say so."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.format.log import SchemaEntry
from singerlake.format.types import Columns, columns_of
from singerlake.rows.input.csv import guess as csv_guess
from singerlake.rows.input.csv.file import CsvFile
from singerlake.rows.input.csv.guess import GuessedRows, Summed, decode
from singerlake.rows.input.csv.ranges import Range
from singerlake.rows.input.csv.rows import CsvRows, CsvSummarizer, decode_summaries, layouts
from singerlake.rows.input.rows import TYPES
from singerlake.rows.input.values.inference import Summary, cell_spec, merge_all, nullable
from singerlake.rows.lines.record_texts import RecordTexts
from tests.rows.csv_cases import cut, opened

CELLS = ["", '""', "1", "-7", "1.5", "2e3", "007", "true", "2026-01-01", "2026-01-01T00:00:00Z"]
CELLS += [
    "12345678901234567890",
    "0.1234567890123456789",
    "x",
    '"a\nb"',
    "-0",
    "-0.0",
    "1" + "0" * 199 + "e279",
]


def numbers(parts: list[Range]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(range(len(parts)))})


def columns_by(summaries: list[Summary]) -> Columns:
    properties = {f"n{n}": cell_spec(summary) for n, summary in enumerate(summaries)}
    return columns_of(SchemaEntry({"type": "object", "properties": properties}))


def in_two_readings(file: CsvFile, parts: list[Range]) -> tuple[list[Summary], int]:
    (*told,) = CsvSummarizer([file], parts)(iter([numbers(parts)]))
    rows = [row for batch in told for row in batch.to_pylist()]
    columns = zip(*(decode_summaries(row["summaries"]) for row in rows), strict=True)
    return [merge_all(column) for column in columns], sum(row["rows"] for row in rows)


def lines_of(batches: list[pa.RecordBatch], summaries: list[Summary]) -> list[list[object]]:
    """Each row's line and record; where from and with what problems must be the same as well."""
    properties = {f"n{n}": nullable(cell_spec(summary)) for n, summary in enumerate(summaries)}
    entry = SchemaEntry({"type": "object", "properties": properties})
    texts = RecordTexts(columns_of(entry), entry)
    found = []
    for batch in batches:
        written, problems = texts.lines(batch, range(len(texts.columns)))
        assert not problems
        known = [batch.column(name).to_pylist() for name in TYPES]
        found.append([written.to_pylist(), *known])
    return found


def in_one(
    file: CsvFile, parts: list[Range], guess: list[Summary]
) -> tuple[list[pa.RecordBatch], Summed]:
    columns = columns_by(guess)
    reader = GuessedRows([file], layouts([file], columns), parts, columns, 100, guess)
    batches = list(reader(iter([numbers(parts)])))
    return batches, decode(reader.summed())


@pytest.mark.usefixtures("many_cases")
@settings(deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(CELLS), min_size=2, max_size=2), min_size=1, max_size=8),
    st.integers(0, 40),
    st.integers(1, 3),
)
def test_one_reading_sums_up_and_reads_as_two_do(
    rows: list[list[str]], step: int, known: int
) -> None:
    head = "n0,n1\n"
    lines = [",".join(cells) + "\n" for cells in rows]
    first = opened((head + "".join(lines[:known])).encode())
    guess = csv_guess.guess([first], cut(first, 0))
    assert guess is not None
    file = opened((head + "".join(lines)).encode())
    parts = cut(file, step)
    batches, summed = in_one(file, parts, guess)
    summaries, count = in_two_readings(file, parts)
    assert summed.rows == count == len(rows)
    for one, other in zip(summed.summaries, summaries, strict=True):
        assert (one.nulls, one.values) == (other.nulls, other.values)
    assert columns_by(summed.summaries) == columns_by(summaries)
    holds = columns_by(summed.summaries) == columns_by(guess)
    if not summed.guessed:
        assert sum(batch.num_rows for batch in batches) < count
    elif holds:
        columns = columns_by(summaries)
        plain = CsvRows([file], layouts([file], columns), parts, columns)
        other_batches = list(plain(iter([numbers(parts)])))
        assert lines_of(batches, guess) == lines_of(other_batches, guess)
    if step == 0 and known >= len(rows):
        assert summed.guessed
        assert holds


def test_a_part_that_came_to_other_columns_says_so_even_if_all_come_to_the_guess_again() -> None:
    """A column without a value is text, and so is one of an integer and a text."""
    file = opened(b'n0,n1\n1,\n"2",5\n3,x\n')
    batches, summed = in_one(file, cut(file, 3), [Summary(kinds=1), Summary()])
    assert [batch.num_rows for batch in batches] == [1]
    assert columns_by(summed.summaries) == columns_by([Summary(kinds=1), Summary()])
    assert not summed.guessed


@pytest.mark.parametrize("text", ["n0,n1\n1\n", 'n0,n1\n1,a"b\n'])
def test_rows_that_cannot_be_read(text: str) -> None:
    file = opened(text.encode())
    assert csv_guess.guess([file], cut(file, 0)) is None
    batches, summed = in_one(file, cut(file, 0), [Summary(), Summary()])
    assert summed.unread.total == 1
    assert [batch.column("problems").null_count for batch in batches] == [0]
