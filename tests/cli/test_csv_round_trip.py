"""What ``query`` writes as CSV or TSV is read again as the same rows, of every type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from singerlake.errors import RejectedRowsError
from singerlake.format.types import Columns
from singerlake.rows.batches import problems
from singerlake.rows.batches.row_columns import alias, row_schema
from singerlake.rows.input.byte_sources import LocalFile
from singerlake.rows.input.csv.dialect import Dialect
from singerlake.rows.input.csv.file import open_csv
from singerlake.rows.input.csv.rows import CsvRows, layouts
from singerlake_cli import results
from tests.rows.test_cells import VALUES

COLUMNS: Columns = tuple((f"c {index}", type_) for index, (type_, _) in enumerate(VALUES))
ROW = st.tuples(*(st.none() | values for _, values in VALUES))


class Answer:
    """Rows as a query gives them."""

    def __init__(self, columns: Columns, rows: list[tuple[Any, ...]]) -> None:
        self.columns = [name for name, _ in columns]
        self._rows = rows

    def rows(self) -> Any:
        return iter(self._rows)


def read(
    path: Path, columns: Columns, form: str, *, safe_cells: bool | None = False
) -> list[dict[str, Any]]:
    dialect = Dialect("\t" if form == "tsv" else ",", safe_cells=safe_cells)
    file = open_csv(LocalFile.of(path), dialect)
    step = CsvRows([file], layouts([file], columns), [file.place(0)], columns)
    batches = list(step(iter([pa.RecordBatch.from_pydict({"id": [0]})])))
    refused = [row for batch in batches for row in batch["problems"].to_pylist() if row is not None]
    if refused and safe_cells is None:
        raise problems.rejected(problems.merged(map(problems.decode, refused)))
    assert not refused
    names = [alias(index) for index in range(len(columns))]
    return [row for batch in batches for row in batch.select(names).to_pylist()]


@pytest.mark.usefixtures("many_cases")
@pytest.mark.parametrize("form", ["csv", "tsv"])
@pytest.mark.parametrize("safe", [True, False])
def test_every_type(tmp_path: Path, form: str, safe: bool) -> None:
    @given(st.lists(ROW, max_size=4))
    @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def check(rows: list[tuple[Any, ...]]) -> None:
        answer: Any = Answer(COLUMNS, rows)
        results.write(answer, form, tmp_path / "rows", safe_cells=safe)
        columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(COLUMNS)
        schema = row_schema(COLUMNS, ())
        arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
        expected = pa.RecordBatch.from_arrays(arrays, schema=schema).to_pylist()
        assert read(tmp_path / "rows", COLUMNS, form, safe_cells=safe) == expected

    check()


@pytest.mark.parametrize("form", ["csv", "tsv"])
@given(texts=st.lists(st.none() | st.text('a"\r\n,\t\ufeff ', max_size=3)))
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_one_column_of_text(tmp_path: Path, form: str, texts: list[str | None]) -> None:
    """Where a row is one cell, null is a blank line, and an empty text is not."""
    columns: Columns = (("\ufeff", VALUES[5][0]),)
    answer: Any = Answer(columns, [(text,) for text in texts])
    results.write(answer, form, tmp_path / "rows")
    assert [row["c0"] for row in read(tmp_path / "rows", columns, form)] == texts


FORMULAS = st.text("'=+-@\t\r\n＝＠a\",1", max_size=4)


@pytest.mark.parametrize("form", ["csv", "tsv"])
@pytest.mark.parametrize("safe", [True, False])
@given(name=FORMULAS.filter(bool), texts=st.lists(st.none() | FORMULAS, max_size=4))
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_texts_that_look_like_formulas_come_back_or_are_refused(
    tmp_path: Path, form: str, safe: bool, name: str, texts: list[str | None]
) -> None:
    columns: Columns = ((name, VALUES[5][0]), ("n", VALUES[0][0]))
    answer: Any = Answer(columns, [(text, -1) for text in texts])
    results.write(answer, form, tmp_path / "rows", safe_cells=safe)
    written = read(tmp_path / "rows", columns, form, safe_cells=safe)
    assert [row["c0"] for row in written] == texts
    try:
        unsaid = read(tmp_path / "rows", columns, form, safe_cells=None)
    except RejectedRowsError as error:
        assert "--safe-cells" in str(error)
    else:
        assert unsaid == written
