"""Records out in files, as any target that takes batches reads them, and back in."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import DamagedError, InputError, StoreError, UsageError
from singerlake.lake import Lake
from singerlake.storage.s3.store import S3Store
from tap_singerlake.batches import options_of
from tap_singerlake.emitters import MappedEmitter
from tests import batch_plugins as sdk
from tests.batch_plugins import ROWS
from tests.storage.conftest import BUCKET, s3_port, s3_store
from tests.storage.plugins import s3_settings
from tests.tap.run import Run, catalog_of, select
from tests.tap.run import run as tap
from tests.target import harness
from tests.target.batches import rows_of
from tests.target.harness import activate, record, schema, state

__all__ = ["s3_port", "s3_store"]

SPEC: dict[str, Any] = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "place": {"type": ["null", "object"], "properties": {"zip": {"type": ["null", "string"]}}},
    "any": {},
}
FIRST = [
    {"id": 1, "name": "é", "at": "2020-01-02T03:04:05+01:00", "any": {"b": [1, None], "a": "x"}},
    {"id": 2, "name": None, "place": {"zip": "z"}, "any": "text"},
    {"id": 3, "any": 5},
]


def filled(folder: Path) -> Lake:
    """A lake of three transactions, a deletion and a change of version."""
    path = folder / "lake"
    start = schema("s", SPEC, ["id"])
    harness.run(path, [start, *(record("s", row) for row in FIRST), state(1)])
    more = schema("s", {**SPEC, "new": {"type": ["null", "integer"]}}, ["id"])
    rows = [{"id": n, "new": n} for n in range(2, 9)]
    lines = [record("s", row, version=3) for row in rows]
    harness.run(path, [more, *lines, activate("s", 3), state(2)])
    gone = {"id": 8, "_sdc_deleted_at": "2020-01-01T00:00:00Z"}
    harness.run(path, [more, record("s", gone, version=3), state(3)])
    return Lake.open(str(path))


def files_of(run: Run) -> list[Path]:
    return [Path(uri.removeprefix("file://")) for m in run.of("BATCH") for uri in m["manifest"]]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("compression", ["gzip", "none"])
@pytest.mark.parametrize("size", [2, 10_000])
def test_there_and_back(tmp_path: Path, form: str, compression: str, size: int) -> None:
    lake = filled(tmp_path)
    config = sdk.config(tmp_path / "files", form, batch_size=size)
    config["batch_config"]["encoding"]["compression"] = compression
    out = tap(lake, **config)
    assert not out.records()
    assert {m["encoding"]["format"] for m in out.of("BATCH")} == {form}
    assert out.state == tap(lake).state
    back = {"batch_roots": [str(tmp_path)], "batch_clean_up": True}
    harness.run(tmp_path / "back", out.out, **back)
    harness.run(tmp_path / "lines", tap(lake).out)
    assert rows_of(tmp_path / "back", "s") == rows_of(tmp_path / "lines", "s")
    assert not any(path.is_file() for path in (tmp_path / "files").rglob("*"))
    assert set(tap(lake, out.state, **config).kinds) == {"SCHEMA", "STATE"}


ANY = ["5", '"x"', '{"a":1}', "null", '"null"', "true", "[1,null]"]


def test_json_of_any_type_comes_back_as_it_was(tmp_path: Path) -> None:
    spec: dict[str, Any] = {
        "id": {"type": "integer"},
        "any": {},
        "object": {"type": ["object", "null"]},
        "list": {"type": ["array", "null"]},
        "in": {"type": ["object", "null"], "properties": {"any": {}}},
    }
    start = schema("s", spec, ["id"], required=["any"])
    objects = ', "object": {"x": "5"}, "list": [1, "a"]'
    lines = [
        b'{"type":"RECORD","stream":"s","record":{"id":%d,"any":%s,"in":{"any":%s}%s}}'
        % (n, one.encode(), one.encode(), objects.encode() * (n % 2))
        for n, one in enumerate(ANY)
    ]
    gone = record("s", {"id": 99, "any": 1, "_sdc_deleted_at": "2024-01-01T00:00:00Z"})
    harness.run(tmp_path / "lake", [start, *lines, gone])
    out = tap(Lake.open(str(tmp_path / "lake")), **sdk.config(tmp_path / "files", "parquet"))
    harness.run(tmp_path / "back", out.out, batch_roots=[str(tmp_path)])
    was, found = (harness.records_of(tmp_path / name, "s") for name in ("lake", "back"))
    there = [{k: v for k, v in row.items() if v is not None or k == "any"} for row in found]
    assert there == was


@pytest.mark.parametrize(
    ("spec", "value", "fits"),
    [
        ({"type": "number"}, "9007199254740993", False),
        ({"type": "number"}, "12345678901234567890.123456789012345", False),
        ({"type": "number"}, "0.30000000000000004", True),
        ({"type": "number"}, "1e-400", False),
        ({"type": "array", "items": {"type": "number"}}, "[1, 0.1234567890123456789]", False),
        ({"type": "object", "properties": {"x": {"type": "number"}}}, '{"x": 1e22}', True),
        ({"type": "integer"}, "9007199254740993", True),
        ({"type": "string", "format": "date-time"}, '"2024-01-01T00:00:00.1234567Z"', False),
        ({"type": "string", "format": "date-time"}, '"2024-01-01T00:00:00.123456000Z"', True),
    ],
)
def test_nothing_is_rounded(tmp_path: Path, spec: dict[str, Any], value: str, fits: bool) -> None:
    line = b'{"type":"RECORD","stream":"s","record":{"v":%s}}' % value.encode()
    harness.run(tmp_path / "lake", [schema("s", {"v": spec}), record("s", {}), line])
    lake = Lake.open(str(tmp_path / "lake"))
    if not fits:
        with pytest.raises(DamagedError, match="row 1 .*would be rounded.*format to jsonl"):
            tap(lake, **sdk.config(tmp_path / "files", "parquet"))
        return
    out = tap(lake, **sdk.config(tmp_path / "files", "parquet"))
    harness.run(tmp_path / "back", out.out, batch_roots=[str(tmp_path)])
    assert rows_of(tmp_path / "back", "s") == rows_of(tmp_path / "lake", "s")


@pytest.mark.parametrize(
    ("root", "prefix", "words"),
    [
        ("files", "../../evil-", "storage.prefix is"),
        ("files", "/evil-", "storage.prefix is"),
        ("lake/raw/tap-test/s", "", "the lake's own raw/"),
        ("lake", "raw/x-", "the lake's own raw/"),
        ("link", "", "the lake's own raw/"),
        ("lake/.staging", "", r"the lake's own \.staging/"),
    ],
)
def test_files_go_neither_elsewhere_nor_into_the_lake(
    tmp_path: Path, root: str, prefix: str, words: str
) -> None:
    harness.run(tmp_path / "lake", [schema("s"), record("s", {"id": 1})])
    (tmp_path / "link").symlink_to(tmp_path / "lake" / "raw")
    before = sorted(tmp_path.rglob("*"))
    config = sdk.config(tmp_path / root, "jsonl")
    config["batch_config"]["storage"]["prefix"] = prefix
    with pytest.raises(UsageError, match=words):
        tap(Lake.open(str(tmp_path / "lake")), **config)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
@pytest.mark.parametrize(
    ("root", "prefix"),
    [("one/lake/raw/x", ""), ("one", "lake/.staging/"), ("one/lake/", "raw/x-")],
)
def test_files_go_not_into_a_lake_in_a_bucket(scheme: str, root: str, prefix: str) -> None:
    storage = {"root": f"{scheme}://{root}", "prefix": prefix}
    with pytest.raises(UsageError, match="in the lake's own"):
        options_of({"lake": f"{scheme}://one/lake", "batch_config": {"storage": storage}})


def test_files_hold_the_records_bytes(tmp_path: Path) -> None:
    odd = [b'{"id": 1 , "x":1.10, "x":1e5}', b'{"id":2,"big":123456789012345678901234567890}']
    start = b'{"type": "RECORD", "stream": "s", "record": '
    lines = [start + text + b', "time_extracted": "2026-01-01T00:00:00Z"}' for text in odd]
    harness.run(tmp_path / "lake", [schema("s"), *lines])
    out = tap(Lake.open(str(tmp_path / "lake")), **sdk.config(tmp_path / "files", "jsonl"))
    [file] = files_of(out)
    assert file.name.startswith("b-tap-test--s-")
    assert gzip.decompress(file.read_bytes()).splitlines() == odd


def test_small_transactions_share_files(tmp_path: Path) -> None:
    for n in range(12):
        harness.run(tmp_path / "lake", [schema("s"), record("s", {"id": n})])
    lake = Lake.open(str(tmp_path / "lake"))
    out = tap(lake, **sdk.config(tmp_path / "files", "jsonl", batch_size=8))
    assert out.kinds == ["SCHEMA", *["BATCH", "STATE"] * 3]
    # Each STATE stands for just the files before it.
    for n, message in enumerate(out.of("STATE")):
        texts = [gzip.decompress(file.read_bytes()) for file in files_of(out)[: n + 1]]
        count = sum(len(text.splitlines()) for text in texts)
        assert message["value"]["bookmarks"]["s"]["transaction"] == count


def test_selection_and_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = filled(tmp_path)
    catalog = select(catalog_of(lake), "s", "properties", "name", selected=False)
    config = sdk.config(tmp_path / "files", "jsonl")
    maps = {"stream_maps": {"s": {"twice": "str(id)", "__alias__": "t", "__filter__": "id < 4"}}}
    out = tap(lake, catalog=catalog, **config, **maps)
    lines = tap(lake, catalog=catalog, **maps)
    text = b"".join(gzip.decompress(file.read_bytes()) for file in files_of(out))
    found = [json.loads(line) for line in text.splitlines()]
    assert found == lines.records()
    assert "name" not in found[0]
    assert {message["stream"] for message in out.of("BATCH")} == {"t"}
    monkeypatch.setattr(MappedEmitter, "_rest", None)
    assert files_of(tap(lake, **config)), "whole blocks are not read record by record"


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_target_of_the_sdk_takes_them(tmp_path: Path, form: str) -> None:
    lines = [schema("rows", sdk.SdkStream.schema["properties"], ["id"])]
    harness.run(tmp_path / "lake", [*lines, *(record("rows", row) for row in ROWS)])
    lake = Lake.open(str(tmp_path / "lake"))
    out = tap(lake, **sdk.config(tmp_path / "files", form, batch_size=10))
    assert len(out.of("BATCH")) == 3
    assert sdk.taken(out.out) == {"rows": ROWS}


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_tap_of_the_sdk_is_taken(tmp_path: Path, form: str) -> None:
    data = sdk.tap_output(sdk.config(tmp_path / "files", form, batch_size=10))
    messages = [json.loads(line) for line in data.splitlines()]
    assert sum(m["type"] == "BATCH" for m in messages) == 3
    states = harness.run(tmp_path / "lake", data, batch_roots=[str(tmp_path)])
    assert states == [[m["value"] for m in messages if m["type"] == "STATE"][-1]]
    plain = sdk.tap_output({})
    harness.run(tmp_path / "lines", plain)
    assert rows_of(tmp_path / "lake", "rows") == rows_of(tmp_path / "lines", "rows")
    assert len(rows_of(tmp_path / "lake", "rows")) == len(ROWS)


def test_buckets_both_ways(tmp_path: Path, s3_store: S3Store, s3_port: int) -> None:
    lake = filled(tmp_path)
    reach = {"batch_s3": s3_settings(s3_port)}
    for form in ("jsonl", "parquet"):
        root = f"s3://{BUCKET}/batches/{form}"
        out = tap(lake, **sdk.config(root, form, batch_size=4), **reach)
        config = {**reach, "batch_roots": [f"s3://{BUCKET}/batches"], "batch_clean_up": True}
        assert all(uri.startswith(f"{root}/b-") for m in out.of("BATCH") for uri in m["manifest"])
        harness.run(tmp_path / form, out.out, **config)
        harness.run(tmp_path / "lines", tap(lake).out)
        assert rows_of(tmp_path / form, "s") == rows_of(tmp_path / "lines", "s")
        with pytest.raises(InputError, match="does not exist"):
            harness.run(tmp_path / f"{form}-again", out.out, **config)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"storage": {}}, "storage.root is missing"),
        (
            {"storage": {"root": "wasb://c@a.blob.core.windows.net/y"}},
            "storage.root .*give a folder",
        ),
        ({"storage": {"root": "az://?/y"}}, "^a place of batches on Azure .* is named az://"),
        ({"storage": {"root": "s3://?/y"}}, "^a place of batches on S3 is named"),
        ({"storage": {"root": "x"}, "batch_size": 0}, "batch_size"),
        ({"storage": {"root": "x"}, "batch_size": True}, "batch_size"),
    ],
)
def test_settings_are_checked_first(tmp_path: Path, said: dict[str, Any], words: str) -> None:
    lake = filled(tmp_path)
    with pytest.raises(UsageError, match=words):
        tap(lake, batch_config=said)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write the batch"):
        tap(lake, **sdk.config(tmp_path / "file" / "x", "jsonl"))
    late = [schema("s", SPEC, ["id"]), record("s", {"id": 1, "at": "10000-01-01T00:00:00Z"})]
    harness.run(tmp_path / "misfits", late)
    with pytest.raises(DamagedError, match="column 'at'.*format to jsonl"):
        tap(Lake.open(str(tmp_path / "misfits")), **sdk.config(tmp_path / "files", "parquet"))
