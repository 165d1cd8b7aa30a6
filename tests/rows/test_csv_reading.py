"""CSV, read exactly: in any ranges, against what was written and against Python's own reader."""

from __future__ import annotations

import csv
import io
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from singerlake.rows.input.csv import fast as csv_fast
from singerlake.rows.input.csv.dialect import Dialect
from singerlake.rows.input.csv.exact import records
from singerlake.rows.input.csv.reader import CsvReader
from tests.rows.csv_cases import Made, made, opened, read_in


@pytest.mark.usefixtures("many_cases")
@given(made(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_split_point_gives_the_same_rows(case: Made, mark: bool) -> None:
    file = opened((b"\xef\xbb\xbf" if mark else b"") + case.text.encode())
    whole, problems = read_in(file, [])
    assert (whole, problems) == (case.rows, [])
    for point in range(file.start + 1, file.source.size):
        assert read_in(file, [point]) == (case.rows, []), point
    for step in (1, 2, 3):
        points = list(range(file.start + step, file.source.size, step))
        assert read_in(file, points) == (case.rows, []), step


@given(made())
@settings(max_examples=150, deadline=None)
def test_python_reads_the_same_texts(case: Made) -> None:
    assume("\0" not in case.text or sys.version_info >= (3, 11))  # Python 3.10 refuses it
    rows, _ = read_in(opened(case.text.encode()), [])
    reader = csv.reader(io.StringIO(case.text, newline=""), strict=True)
    ours = [[cell or "" for cell in cells] for _, cells in rows]
    # To Python a blank line is no row; to us it is null, in a file of one column.
    assert [cells or [""] for cells in reader][1:] == ours


@given(
    st.text('a,"\r\n\ufeff', min_size=1, max_size=12),
    st.integers(1, 3),
    st.sampled_from(["", "a", "aa"]),
)
@settings(max_examples=600, deadline=None)
def test_the_fast_way_steps_aside_or_gives_what_the_exact_way_gives(
    text: str, width: int, null: str
) -> None:
    dialect = Dialect(null=null, names=tuple(f"n{index}" for index in range(width)))
    rows = csv_fast.read(text.encode(), 1, width, dialect)
    if rows is None:
        return
    found = list(records(iter([text.encode()]), 1, dialect))
    assert not any(record.faults for record in found)
    assert [len(record.cells) for record in found] == [width] * len(found)
    assert rows.lines.tolist() == [record.line for record in found]
    for index, cells in enumerate(rows.cells):
        assert cells.to_pylist() == [
            None if r.bare[index] and r.cells[index].decode() == null else r.cells[index].decode()
            for r in found
        ]


@given(st.text('a,"\r\n', max_size=14))
@settings(max_examples=300, deadline=None)
def test_what_is_wrong_is_the_same_at_every_split_point(text: str) -> None:
    file = opened(text.encode(), Dialect(names=("a", "b")))
    reader = CsvReader(file, file.place(0))
    list(reader)
    rows, problems = read_in(file, [])
    for point in range(1, file.source.size):
        cut_rows, cut_problems = read_in(file, [point])
        if reader.problems.misquoted:
            # Behind the first quote out of place, other ranges may see anything.
            assert cut_problems[:1] == problems[:1], point
        else:
            assert (cut_rows, cut_problems) == (rows, problems), point
