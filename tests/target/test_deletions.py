"""Only a time in ``_sdc_deleted_at`` deletes; others are told, and the run counts deletions."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake
from singerlake.reading import small_state
from target_singerlake import deletions
from target_singerlake.errors import InvalidRecordError
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
    rows = small_state.rows(table, table.snapshot(), digests=False)
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
    assert "is no time" not in caplog.text


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
    assert "1 value of '_sdc_deleted_at' that is no time" in caplog.text
    with pytest.raises(InvalidRecordError, match="is no time, so it deletes no row"):
        run(tmp_path / "other", given, check_values=True)


@pytest.mark.parametrize("type_", ["boolean", "integer"])
def test_mark_of_another_type_deletes_nothing_and_is_told(
    type_: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    value = {"boolean": True, "integer": 1700000000}[type_]
    run(tmp_path / "lake", lines({"type": ["null", type_]}, [value, None]))
    assert ids(tmp_path / "lake") == [0, 1]
    assert "1 value of '_sdc_deleted_at' that is no time" in caplog.text


def test_deletions_are_counted_whatever_the_spelling() -> None:
    texts = [record("s", {"id": 1, "_sdc_deleted_at": value}) for value in (*TIMES, *OTHERS, None)]
    assert deletions.count(b"".join(text + b"\n" for text in texts)) == len(TIMES)
    assert deletions.count(b'{"type": "RECORD", "record": {"note": "_sdc_deleted_at"}}\n') == 0
