"""A record without a value in its key is refused on every road in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from target_singerlake.errors import MissingKeyError
from tests.target.batches import FORMS, batch
from tests.target.harness import record, records_of, run, schema, state, tables

KEYS: dict[str, Any] = {
    "nullable": {"type": ["null", "integer"]},
    "any": {},
    "no type": {"description": "of the source"},
    "only null": {"type": "null"},
    "enum": {"enum": [1, 2, 3, None]},
    "any of": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "beyond types": {"type": ["null", "integer"], "multipleOf": 1},
    "decimal": {"type": ["null", "number"], "multipleOf": 0.01},
    "object": {"type": ["null", "object", "integer"], "properties": {"a": {}}},
}
NAME = {"type": ["null", "string"]}
NULLS = [{"id": None, "n": "x"}, {"n": "y"}, {"id": None}]
ROWS = [{"id": 1, "n": "z"}, *NULLS, {"id": 2, "n": "z"}]


@pytest.mark.parametrize("settings", [{}, {"validate_records": False}], ids=["", "unchecked"])
@pytest.mark.parametrize("key", KEYS)
def test_a_null_key_is_put_aside_and_no_row_replaces_another(
    tmp_path: Path, key: str, settings: dict[str, Any]
) -> None:
    lake = tmp_path / "lake"
    good = [] if key == "only null" and not settings else [1, 2]
    begin = schema("a", {"id": KEYS[key], "n": NAME}, ["id"])
    data = [begin, *(record("a", row) for row in ROWS), state(1)]
    assert run(lake, data, invalid_records="quarantine", **settings) == [1]
    assert [row["id"] for row in records_of(lake, "a")] == good
    refused = {row["line"]: row["reason"] for row in records_of(lake, "a__rejected")}
    assert refused.keys() >= {3, 4, 5}
    assert "the record of stream 'a' has null for its key 'id', so" in refused[3]
    assert "the record of stream 'a' has no value for its key 'id', so" in refused[4]


@pytest.mark.parametrize("before", [0, 1, 30_000])
def test_a_null_key_ends_the_run_and_is_named_by_its_line(tmp_path: Path, before: int) -> None:
    begin = schema("a", {"id": KEYS["nullable"], "n": NAME}, ["n", "id"])
    data = [begin, *[record("a", {"id": 1, "n": "z"})] * before, record("a", {"id": None, "n": ""})]
    said = (
        rf"^line {before + 2}: the record of stream 'a' has null for its key 'id', so its row "
        r"could not .*: have the tap send a value, or choose another key \(key_properties"
    )
    with pytest.raises(MissingKeyError, match=said):
        run(tmp_path / "lake", data)
    assert tables(tmp_path / "lake") == {}


def test_of_many_streams_each_is_held_to_its_own_key(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    properties = {"id": KEYS["nullable"], "n": NAME}
    data = [
        schema("a", properties, ["id"]),
        schema("b", properties, ["n"]),
        schema("c", properties),
    ]
    row = {"id": None, "n": "x"}
    data += [record(stream, row) for stream in "abc"] * 20
    run(lake, data, invalid_records="quarantine")
    assert [len(records_of(lake, stream)) for stream in "bc"] == [20, 20]
    assert len(records_of(lake, "a__rejected")) == 20
    assert records_of(lake, "a") == []


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_null_key_in_a_file_is_named_by_its_place_there(tmp_path: Path, form: str) -> None:
    lake, file = tmp_path / "lake", tmp_path / "rows"
    file.write_bytes(FORMS[form]([{"id": 1, "n": "z"}, {"id": None, "n": "x"}]))
    data = [schema("a", {"id": KEYS["nullable"], "n": NAME}, ["id"]), batch("a", file)]
    run(lake, data, invalid_records="quarantine")
    assert [row["id"] for row in records_of(lake, "a")] == [1]
    [row] = records_of(lake, "a__rejected")
    assert (row["line"], row["file"]) == (2, str(file))
    assert row["reason"].endswith("__key_properties__ in stream_maps)")


def test_a_key_that_a_map_chose_counts(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    data = [schema("a", {"id": KEYS["nullable"], "n": NAME}, ["id"])]
    data += [record("a", {"id": None, "n": "x"}), record("a", {"id": 1, "n": None})]
    maps = {"a": {"__key_properties__": ["n"]}}
    run(lake, data, invalid_records="quarantine", stream_maps=maps)
    assert [row["n"] for row in records_of(lake, "a")] == ["x"]
    [row] = records_of(lake, "a__rejected")
    assert "null for its key 'n'" in row["reason"]


def test_a_deletion_needs_its_key_too(tmp_path: Path) -> None:
    begin = schema("a", {"id": KEYS["nullable"], "_sdc_deleted_at": NAME}, ["id"])
    data = [begin, record("a", {"id": None, "_sdc_deleted_at": "2026-01-01T00:00:00Z"})]
    with pytest.raises(MissingKeyError, match="null for its key"):
        run(tmp_path / "lake", data)


def test_a_null_inside_of_a_key_is_a_value(tmp_path: Path) -> None:
    begin = schema("a", {"id": {"type": "object", "properties": {"a": NAME}}}, ["id"])
    rows = [{"id": {"a": None}}, {"id": {}}]
    run(tmp_path / "lake", [begin, *(record("a", row) for row in rows)])
    assert records_of(tmp_path / "lake", "a") == rows


def test_a_stream_without_a_key_may_have_any_null(tmp_path: Path) -> None:
    begin = schema("a", {"id": KEYS["nullable"]})
    run(tmp_path / "lake", [begin, *[record("a", {"id": None})] * 3])
    assert len(records_of(tmp_path / "lake", "a")) == 3
