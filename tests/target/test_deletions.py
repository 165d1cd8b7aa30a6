"""Only a time in ``_sdc_deleted_at`` deletes; others are told, and the run counts deletions."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake
from singerlake.snapshot import from_blocks as blocks_read
from target_singerlake import run as deletions
from target_singerlake.errors import InvalidRecordError
from target_singerlake.values import ValueCheck
from tests.target.batches import batch, jsonl
from tests.target.harness import TAP, record, run, schema

TIMES = ["2026-01-02T03:04:05Z", "2024-01-01 00:00:00", "2026-01-02", " 2026-01-02T03:04+02:00 "]
OTHERS: list[Any] = ["", "no", False, True, 0, 1700000000, 1.5, {}, []]
MARKS: list[Any] = [
    None,
    {"type": ["null", "string"]},
    {"type": ["null", "string"], "format": "date-time"},
    {},
    {"type": ["null", "boolean", "integer", "number", "object", "array", "string"]},
]


def ids(lake: Path) -> list[int]:
    table = Lake.open(str(lake)).find(f"{TAP}.s")[0]
    rows = blocks_read.local_rows(table, table.snapshot(), digests=False)
    return sorted(row for batch in rows for row in batch.column(0).to_pylist())


def lines(mark: Any, values: list[Any]) -> list[bytes]:
    properties = {"id": {"type": "integer"}, **({"_sdc_deleted_at": mark} if mark else {})}
    rows = [record("s", {"id": n}) for n in range(len(values))]
    gone = [record("s", {"id": n, "_sdc_deleted_at": v}) for n, v in enumerate(values)]
    return [schema("s", properties, ["id"]), *rows, *gone]


@pytest.mark.parametrize("mark", MARKS)
def test_only_times_delete_and_are_counted(
    mark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    told = tmp_path / "told.json"
    values = [*TIMES, None]
    run(tmp_path / "lake", lines(mark, values), summary_file=str(told))
    assert ids(tmp_path / "lake") == [4]
    said = json.loads(told.read_text())
    assert said["deletions"] == len(TIMES) == said["tables"][0]["deletions"]
    assert "4 deletions among them" in caplog.text
    assert '"metric":"deletion_count","value":4' in caplog.text
    (entry,) = Lake.open(str(tmp_path / "lake")).find(f"{TAP}.s")[0].entries()
    assert entry.metrics["deletions"] == len(TIMES)
    assert "is not a time" not in caplog.text


@pytest.mark.parametrize("value", OTHERS, ids=repr)
@pytest.mark.parametrize("mark", [None, {}, {"type": ["null", "string", "integer", "boolean"]}])
def test_what_is_no_time_deletes_nothing_and_is_told(
    value: Any, mark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = tmp_path / "told.json"
    given = lines(mark, [value])
    if isinstance(mark, dict) and mark and not isinstance(value, str | int | bool):
        pytest.skip("the schema does not allow it")
    run(tmp_path / "lake", given, summary_file=str(told))
    assert ids(tmp_path / "lake") == [0]
    assert json.loads(told.read_text())["deletions"] == 0
    assert "deletion_count" not in caplog.text
    (entry,) = Lake.open(str(tmp_path / "lake")).find(f"{TAP}.s")[0].entries()
    assert "deletions" not in entry.metrics
    assert "1 value of '_sdc_deleted_at' that is not a time" in caplog.text
    with pytest.raises(InvalidRecordError, match="is not a time, so it deletes no row"):
        run(tmp_path / "other", given, check_values=True)


@pytest.mark.parametrize("form", ["lines", "batch"])
@pytest.mark.parametrize("size", [7, 50])
@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("value", ["", "9999-12-31T23:59:59-05:00", False, {}])
def test_no_mark_that_is_no_time_is_passed_over_among_many_records(
    value: Any, mark: Any, size: int, form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if mark and not isinstance(value, str) and len(mark.get("type", MARKS[-1]["type"])) < 6:
        pytest.skip("the schema does not allow it")
    head, *rows = lines(mark, [None] * size)
    rows = [*rows[:size], record("s", {"id": 0, "_sdc_deleted_at": value})]
    given = [head, *rows]
    if form == "batch":
        file = tmp_path / "rows.jsonl"
        file.write_bytes(jsonl([json.loads(row)["record"] for row in rows]))
        given = [head, batch("s", file)]
    run(tmp_path / "lake", given)
    assert len(ids(tmp_path / "lake")) == size
    assert re.search("1 value .*'_sdc_deleted_at'", caplog.text)
    with pytest.raises(InvalidRecordError, match="'_sdc_deleted_at'"):
        run(tmp_path / "other", given, check_values=True)


@pytest.mark.parametrize("declared", [{"type": "boolean"}, {"type": ["integer"]}, {"enum": ["no"]}])
def test_mark_that_can_be_no_time_is_told_of_every_record(
    declared: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    value = {"type": True, "enum": "no"}.get(next(iter(declared)))
    value = 1 if declared == {"type": ["integer"]} else value
    properties = {"id": {"type": "integer"}, "_sdc_deleted_at": declared}
    rows = [record("s", {"id": n, "_sdc_deleted_at": value}) for n in range(30)]
    run(tmp_path / "lake", [schema("s", properties, ["id"]), *rows])
    assert len(ids(tmp_path / "lake")) == 30
    assert "30 values of '_sdc_deleted_at' that is not a time" in caplog.text


@pytest.mark.parametrize("mark", MARKS)
def test_times_among_many_records_are_taken_without_a_look(
    mark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ValueCheck, "look", None)
    head, *rows = lines(mark, [TIMES[0], None] * 20)
    run(tmp_path / "lake", [head, *rows])
    assert len(ids(tmp_path / "lake")) == 20


@pytest.mark.parametrize("type_", ["boolean", "integer"])
def test_mark_of_another_type_deletes_nothing_and_is_told(
    type_: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    value = {"boolean": True, "integer": 1700000000}[type_]
    run(tmp_path / "lake", lines({"type": ["null", type_]}, [value, None]))
    assert ids(tmp_path / "lake") == [0, 1]
    assert "1 value of '_sdc_deleted_at' that is not a time" in caplog.text


def test_deletions_are_counted_whatever_the_spelling() -> None:
    texts = [record("s", {"id": 1, "_sdc_deleted_at": value}) for value in (*TIMES, *OTHERS, None)]
    assert deletions.deletions_in(b"".join(text + b"\n" for text in texts)) == len(TIMES)
    assert (
        deletions.deletions_in(b'{"type": "RECORD", "record": {"note": "_sdc_deleted_at"}}\n') == 0
    )
