"""Rows of every type go out as CSV with their provenance, are edited, and come back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake, Table
from tests.build import commit_rows
from tests.cli.call import run, run_json

pytestmark = pytest.mark.usefixtures("each_operation")
TEXT = {"type": ["null", "string"]}
PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "i": {"type": ["null", "integer"]},
    "big": {"type": ["null", "integer"], "maximum": 10**30},
    "n": {"type": ["null", "number"]},
    "d": {"type": ["null", "number"], "multipleOf": 0.01},
    "sd": {**TEXT, "format": "singer.decimal", "scale": 3},
    "s": TEXT,
    "day": {**TEXT, "format": "date"},
    "at": {**TEXT, "format": "date-time"},
    "b": {"type": ["null", "boolean"]},
    "o": {"type": ["null", "object"], "properties": {"city": TEXT, "n": {"type": "integer"}}},
    "l": {"type": ["null", "array"], "items": {"type": ["null", "number"]}},
    "any": {},
    "json": {"type": ["null", "array"]},
}
LINES = [
    '{"id": 1, "i": 1.0, "big": 123456789012345678901, "n": 1.10, "d": 1.10, "sd": "1.500",'
    ' "s": "plain", "day": "1066-10-14", "at": "1582-10-10T10:00:00.5+01:00", "b": true,'
    ' "o": {"city": "Ulm", "n": 1, "hidden": 7}, "l": [1.0, null], "any": {"a":  1.10},'
    ' "json": [1, "x"], "outside":  1.10}',
    '{"id": 2, "i": -9223372036854775808, "n": 1e21, "s": "", "any": "", "o": {"city": null}}',
    r'{"id": 3, "n": -0.0, "s": "a \"quoted\"\r\nline, and\ttab", "any": "12", "l": []}',
    '{"id": 4, "s": null, "any": null, "o": {}, "json": []}',
    r'{"id": 5, "s": " spaced \u00e4\ud83d\ude42 ", "any": 12, "b": false, "at": "0001-01-01"}',
    '{"id": 6}',
]
ROWS = "select * from tap.s order by id"


@pytest.fixture
def table(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], list(LINES), block_rows=2)
    monkeypatch.chdir(tmp_path)
    return lake.find("tap.s")[0]


def take_out(lake: Lake, form: str) -> Path:
    path = Path(f"rows.{form}")
    path.unlink(missing_ok=True)
    assert run(lake, "query", ROWS, "--row-metadata", "--out", path.name).exit_code == 0
    return path


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "parquet"])
def test_what_nobody_edits_changes_nothing(lake: Lake, table: Table, form: str) -> None:
    path = take_out(lake, form)
    done = run_json(lake, "upload", "tap.s", path.name)
    assert (done["transaction"], done["unchanged"]) == (None, len(LINES))
    assert table.snapshot().number == 1


def test_edits_write_those_rows_and_leave_every_other_byte(lake: Lake, table: Table) -> None:
    path = take_out(lake, "csv")
    text = path.read_bytes().decode()
    edits = {
        "1066-10-14": "0732-10-10",
        '""city"": ""Ulm""': '""city"": ""Bonn""',
        ',"a ""quoted""\r\nline, and\ttab",': ',"another ""quoted""\nline, and ""tab""",',
    }
    for old, new in edits.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_bytes(text.encode())
    before = run_json(lake, "query", ROWS)["rows"]
    done = run_json(lake, "upload", "tap.s", path.name)
    assert {k: done[k] for k in ("inserted", "updated", "deleted", "unchanged")} == {
        "inserted": 0,
        "updated": 2,
        "deleted": 0,
        "unchanged": 4,
    }
    written = b"".join(table.read_block(block) for block in table.snapshot().blocks_after(1))
    records = [line for line in written.splitlines() if b'"RECORD"' in line]
    assert sorted(json.loads(line)["record"]["id"] for line in records) == [1, 3]
    (first,) = [line for line in records if b'"outside"' in line]
    old = LINES[0].replace("1066-10-14", "0732-10-10")
    assert old.partition(' "o"')[0].encode() in first
    assert old.partition('"hidden": 7}')[2].encode() in first
    after = run_json(lake, "query", ROWS)["rows"]
    assert [row for row in after if row not in before] == [after[0], after[2]]
    assert after[2][6] == 'another "quoted"\nline, and "tab"'
    assert [row[6] for row in after] == [
        "plain", "", 'another "quoted"\nline, and "tab"', None, " spaced ä🙂 ", None
    ]  # fmt: skip
    stale = run(lake, "upload", "tap.s", path.name)
    assert stale.exit_code == 4
    assert table.snapshot().number == 2


def test_rows_without_a_key_go_by_their_ids(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that has none is a new one."""
    monkeypatch.chdir(tmp_path)
    commit_rows(lake, "tap.k", {"id": {"type": "integer"}, "s": TEXT}, [], ['{"id": 1}'] * 2)
    query = ("query", "select * from tap.k", "--row-metadata", "--out", "k.csv")
    assert run(lake, *query).exit_code == 0
    done = run_json(lake, "upload", "tap.k", "k.csv")
    assert (done["transaction"], done["unchanged"], done["mode"]) == (None, 2, "upsert")
    header, first, second = Path("k.csv").read_text().splitlines()
    Path("k.csv").write_text(f"{header}\n{first}edited\n{second}\n,,,3,new\n")
    done = run_json(lake, "upload", "tap.k", "k.csv")
    assert [done[name] for name in ("inserted", "updated", "unchanged")] == [1, 1, 1]
    rows = run_json(lake, "query", "select * from tap.k order by id, s")["rows"]
    assert rows == [[1, None], [1, "edited"], [3, "new"]]
    Path("k.csv").write_text("id\n1\n")
    assert run_json(lake, "upload", "tap.k", "k.csv")["inserted"] == 1


def test_safe_cells_come_back_as_they_were_or_are_refused(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts: list[Any] = [
        {"id": "+15551234", "formula": "=SUM(A1)", "at": "'@home"},
        {"id": "-5", "formula": "plain", "at": None},
    ]
    properties = {name: TEXT if name != "id" else {"type": "string"} for name in texts[0]}
    commit_rows(lake, "tap.f", properties, ["id"], texts)
    query = ["query", "select * from tap.f", "--row-metadata", "--safe-cells", "--out", "f.csv"]
    assert run(lake, *query).exit_code == 0
    result = run(lake, "upload", "tap.f", "f.csv")
    assert result.exit_code == 5
    assert "--safe-cells" in result.stderr
    assert run_json(lake, "upload", "tap.f", "f.csv", "--safe-cells")["unchanged"] == 2
    Path("f.csv").write_text(Path("f.csv").read_text().replace("plain", "'=1"))
    done = run_json(lake, "upload", "tap.f", "f.csv", "--safe-cells")
    assert (done["updated"], done["unchanged"]) == (1, 1)
    found = run_json(lake, "query", "select id, formula, at from tap.f order by id")["rows"]
    assert found == [["+15551234", "=SUM(A1)", "'@home"], ["-5", "=1", None]]
    gone = ["delete", "tap.f", "--from", "f.csv", "--safe-cells", "--overwrite"]
    assert run_json(lake, *gone)["deleted"] == 2
