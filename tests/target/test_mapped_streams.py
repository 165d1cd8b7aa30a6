"""Streams with a map, flattening or added metadata go through the SDK and come out as it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import InputError
from singerlake.lake import Lake
from target_singerlake.errors import InvalidRecordError, MissingKeyError
from tests.target.harness import (
    NOW,
    TAP,
    activate,
    lines_of,
    record,
    records_of,
    run,
    schema,
    state,
    tables,
)

PROPERTIES = {"id": {"type": "integer"}, "name": {"type": ["string", "null"]}}
LINES = [
    schema("a", PROPERTIES, ["id"]),
    record("a", {"id": 1, "name": "x"}, version=3),
    schema("b"),
    record("b", {"id": 7}),
    record("a", {"id": 2, "name": "y"}, time_extracted="absent"),
]


def table_schema(lake: Path, stream: str) -> dict[str, Any]:
    table, _ = Lake.open(str(lake)).find(f"{TAP}.{stream}")
    return table.snapshot().schema.schema["properties"]  # type: ignore[no-any-return]


def test_a_mapped_stream_is_re_encoded_and_others_pass_unchanged(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    maps = {"a": {"loud": "name.upper()", "name": "__NULL__"}}
    assert run(lake, [*LINES, state(1)], stream_maps=maps) == [1]
    assert lines_of(lake, "b") == [LINES[3]]
    assert records_of(lake, "a") == [{"id": 1, "loud": "X"}, {"id": 2, "loud": "Y"}]
    assert set(table_schema(lake, "a")) == {"id", "loud"}
    first, second = (json.loads(line) for line in lines_of(lake, "a"))
    assert (first["version"], first["time_extracted"]) == (3, NOW)
    assert "version" not in second
    assert second["time_extracted"].endswith("Z")


def test_an_unmapped_stream_beside_a_mapped_one_gets_its_times(tmp_path: Path) -> None:
    bare = record("b", {"id": 8}, time_extracted="absent")
    run(tmp_path / "lake", [*LINES, bare], stream_maps={"a": {"loud": "name.upper()"}})
    kept, timed = lines_of(tmp_path / "lake", "b")
    assert kept == LINES[3]
    assert timed.startswith(bare[:-1] + b', "time_extracted": "')


def test_alias_copy_filter_and_removal(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    maps = {
        "a": {"__alias__": "renamed"},
        "copy": {"__source__": "a", "__filter__": "id > 1", "id": "id", "__else__": None},
        "b": None,
    }
    run(lake, [*LINES, activate("a", 3)], stream_maps=maps)
    assert set(tables(lake)) == {"renamed", "copy"}
    assert [r["id"] for r in records_of(lake, "renamed")] == [1, 2]
    assert records_of(lake, "copy") == [{"id": 2}]
    for stream in ("renamed", "copy"):
        last = json.loads(lines_of(lake, stream)[-1])
        assert last == {"type": "ACTIVATE_VERSION", "stream": stream, "version": 3}


def test_flattening(tmp_path: Path) -> None:
    properties = {"o": {"type": "object", "properties": {"x": {"type": "number"}}}}
    lines = [schema("a", properties), record("a", {"o": {"x": 1.5}})]
    run(tmp_path / "lake", lines, flattening_enabled=True, flattening_max_depth=2)
    assert records_of(tmp_path / "lake", "a") == [{"o__x": 1.5}]
    assert set(table_schema(tmp_path / "lake", "a")) == {"o__x"}


def test_metadata(tmp_path: Path) -> None:
    run(tmp_path / "lake", LINES, add_record_metadata=True)
    [found] = records_of(tmp_path / "lake", "b")
    assert found["id"] == 7
    assert found["_sdc_extracted_at"].startswith("2026-01-02T03:04:05.000006")
    assert {"_sdc_received_at", "_sdc_batched_at", "_sdc_sequence"} <= set(found)
    assert {"_sdc_extracted_at", "_sdc_deleted_at"} <= set(table_schema(tmp_path / "lake", "b"))


def test_a_delete_of_a_mapped_stream_is_not_lost(tmp_path: Path) -> None:
    properties = {**PROPERTIES, "_sdc_deleted_at": {"type": ["string", "null"]}}
    gone = {"id": 1, "name": None, "_sdc_deleted_at": "2026-01-01T00:00:00Z"}
    lines = [schema("a", properties, ["id"]), record("a", gone)]
    run(tmp_path / "lake", lines, stream_maps={"a": {"name": "'z'"}})
    assert records_of(tmp_path / "lake", "a") == [{**gone, "name": "z"}]


def test_numbers_keep_their_digits_where_the_map_leaves_them(tmp_path: Path) -> None:
    line = b'{"type":"RECORD","stream":"a","record":{"id":1,"n":1.10,"b":12345678901234567890.5}}'
    properties = {"id": {}, "n": {"type": "number"}, "b": {"type": "number"}}
    run(tmp_path / "lake", [schema("a", properties), line], stream_maps={"a": {"one": "int('1')"}})
    [landed] = lines_of(tmp_path / "lake", "a")
    assert b'"n":1.10' in landed
    assert b"12345678901234567890.5" in landed


def test_a_schema_change_of_a_mapped_stream(tmp_path: Path) -> None:
    wider = {**PROPERTIES, "extra": {"type": "integer"}}
    lines = [*LINES, schema("a", wider, ["id"]), record("a", {"id": 3, "name": "z", "extra": 1})]
    run(tmp_path / "lake", lines, stream_maps={"a": {"loud": "name.upper()"}})
    assert [r["loud"] for r in records_of(tmp_path / "lake", "a")] == ["X", "Y", "Z"]
    assert set(table_schema(tmp_path / "lake", "a")) == {"id", "name", "extra", "loud"}
    assert tables(tmp_path / "lake")["a"] == 1


@pytest.mark.parametrize(
    ("bad", "kind", "words"),
    [
        (record("a", {"id": "x", "name": "x"}), InvalidRecordError, "field 'id'"),
        (record("a", {"name": "x"}), MissingKeyError, "'id'"),
        (record("a", {"id": 5, "name": None}), InputError, "cannot be mapped"),
        (record("a", [5]), InputError, "not an object"),
        (record("a", {"id": 5}, time_extracted="never"), InputError, "cannot be mapped"),
    ],
)
def test_an_error_names_its_own_line_among_many_streams(
    tmp_path: Path, bad: bytes, kind: type[Exception], words: str
) -> None:
    lines = [*LINES]
    for n in range(10):
        lines += [record("b", {"id": n}), record("a", {"id": n, "name": "x"})]
    lines[17] = bad
    maps = {"a": {"loud": "name.upper()"}}
    with pytest.raises(kind, match=f"line 18: .*'a'.*{words}"):
        run(tmp_path / "lake", lines, stream_maps=maps, add_record_metadata=True)
    assert tables(tmp_path / "lake") == {}


def test_two_streams_mapped_into_one_keep_their_order(tmp_path: Path) -> None:
    maps = {"a": {"__alias__": "both"}, "b": {"__alias__": "both"}}
    lines = [schema("a"), schema("b")]
    lines += [record("ab"[n % 2], {"id": n}) for n in range(20)]
    run(tmp_path / "lake", lines, stream_maps=maps)
    assert [r["id"] for r in records_of(tmp_path / "lake", "both")] == list(range(20))


@pytest.mark.parametrize(
    "maps",
    [
        {"a": {"id": None}},  # a key may not be removed
        {"a": {"x": "1 +"}},
        {"a": {"__key_properties__": ["nothing"]}},
    ],
)
def test_a_map_that_does_not_go_with_the_schema(tmp_path: Path, maps: Any) -> None:
    with pytest.raises(InputError, match="line 1: .*'a'"):
        run(tmp_path / "lake", LINES, stream_maps=maps)
    assert not (tmp_path / "lake" / "raw").exists()
