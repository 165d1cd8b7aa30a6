"""CSV files read by an engine's tasks: the whole way from bytes to rows."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from singerlake.engine.base import Engine
from singerlake.errors import InputError, RejectedRowsError
from singerlake.format.types import DATE, INTEGER, STRING, Columns
from singerlake.ops.upload.csv_files import CsvFiles
from singerlake.rows.batches.problems import decode
from singerlake.rows.given.byte_sources import LocalFile
from singerlake.rows.given.csv.dialect import Dialect
from singerlake.rows.given.rows import given_schema

COLUMNS: Columns = (("id", INTEGER), ("note", STRING), ("day", DATE))


def _files(tmp_path: Path, *texts: str, task_bytes: int = 30) -> CsvFiles:
    sources = []
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(text.encode())
        sources.append(LocalFile.of(path))
    return CsvFiles(sources, Dialect(), task_bytes=task_bytes)


def test_many_small_ranges_give_every_row_once(engine: Engine[Any], tmp_path: Path) -> None:
    notes = [None, "", "a\n\nb", 'say "x",\r\n"y"', "é", ","]
    quoted = ["", '""', '"a\n\nb"', '"say ""x"",\r\n""y"""', "é", '","']
    texts, expected = [], []
    for source in range(2):
        text = "id,note,day\n"
        for row in range(12):
            line = text.count("\n") + 1
            text += f"{row},{quoted[row % 6]},15{row:02}-10-10\r\n"
            expected.append((source, line, row, notes[row % 6], date(1500 + row, 10, 10)))
        texts.append(text)
    files = _files(tmp_path, *texts)
    step, tasks = files.step(engine, COLUMNS)
    assert tasks > 10
    schema = given_schema(COLUMNS, files.indexes(COLUMNS, ["id"]))
    rows = engine.collect(engine.map(engine.source([b""] * tasks), step, schema))
    found = [(row["source"], row["line"], row["c0"], row["c1"], row["c2"]) for row in rows]
    assert found == expected
    summaries, count = files.summaries(engine)
    assert count == 24
    assert {name: summary.nulls for name, summary in summaries.items()} == {
        "id": 0,
        "note": 4,
        "day": 0,
    }


def test_problems_come_as_rows_and_rows_behind_a_stray_quote_are_not_guessed_at(
    engine: Engine[Any], tmp_path: Path
) -> None:
    good = "".join(f'{n},"a, b",\n' for n in range(30))
    files = _files(tmp_path, f'id,note,day\nx,a,\n1,5" pipe,\n{good}', f"id,note,day\ny,a,\n{good}")
    step, tasks = files.step(engine, COLUMNS)
    schema = given_schema(COLUMNS, [0, 1, 2])
    read = engine.map(engine.source([b""] * tasks), step, schema)
    rows = engine.collect(engine.having(read, "problems"))
    first = decode(bytes(rows[0]["problems"]))
    assert [(p.line, p.column) for p in first.first] == [(2, "id"), (3, "note")]
    assert first.misquoted == [str(tmp_path / "0.csv")]
    with pytest.raises(RejectedRowsError) as caught:
        files.summaries(engine)
    assert "0.csv, line 3, column 'note'" in str(caught.value)
    assert f"after the misplaced quote in {tmp_path / '0.csv'}" in str(caught.value)
    assert "1.csv" not in str(caught.value)  # a y is a text as any other, where types are found


def test_a_header_alone_is_said_before_java_is_asked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"0\.csv has a header and no rows"):
        _files(tmp_path, "id,note,day\n")
