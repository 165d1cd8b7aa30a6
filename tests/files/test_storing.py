"""Files that records name: stored once, checked, and named by the record that came."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import InputError, UsageError
from singerlake.files.sources import Sources
from singerlake.format import file_paths
from singerlake.log import staging
from singerlake.storage.base import Listed
from singerlake.storage.local.store import LocalStore
from tests.files.photos import (
    FILE,
    listed,
    lists,
    named_by_rows,
    stored,
    sync,
    table_of,
)
from tests.target.harness import lines_of, record, records_of, run, schema


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jpg").write_bytes(b"aaa")
    (tmp_path / "b.jpg").write_bytes(b"b" * 5000)
    return tmp_path


def photos() -> list[Any]:
    return [one["photo"] for one in records_of("lake", "photos")]


def content(photo: dict[str, Any]) -> bytes:
    store = table_of("lake").store
    return store.get(table_of("lake").name.key(photo["path"])).data


def test_files_are_stored_and_records_say_where(folder: Path) -> None:
    uris = ["a.jpg", "./b.jpg", (folder / "a.jpg").as_uri(), str(folder / "b.jpg")]
    sync("lake", dict(enumerate(uris)))
    found = photos()
    assert [photo["uri"] for photo in found] == uris
    assert [content(photo) for photo in found] == [b"aaa", b"b" * 5000] * 2
    for photo in found:
        digest = hashlib.sha256(content(photo)).hexdigest()
        assert photo["checksum"] == f"SHA-256:{digest}"
        assert photo["size"] == len(content(photo))
        assert file_paths.is_content(photo["path"])
    table = table_of("lake")
    assert stored(table.store) == listed(table) == {*named_by_rows(table)}
    assert len(stored(table.store)) == 2
    assert table.snapshot().format == 5


def test_lines_keep_their_bytes_but_for_what_is_inserted() -> None:
    line = (
        b'{"type":"RECORD",  "stream": "photos","record": {"id" :1.0e0, "photo":'
        b' {"uri": "a\\u002ejpg" , "content_type":null, "n": 1.10 } ,"x":"\\u00e9"},'
        b'"time_extracted": "2026-01-02T03:04:05Z"}'
    )
    properties = {"id": {"type": "number"}, "photo": FILE, "x": {"type": "string"}}
    run("lake", [schema("photos", properties), line])
    [photo] = photos()
    inserted = b', "checksum": "%b", "size": 3, "path": "%b"}' % (
        photo["checksum"].encode(),
        photo["path"].encode(),
    )
    assert lines_of("lake", "photos") == [line.replace(b" } ,", inserted + b" ,")]


def test_content_is_stored_once_and_named_again(folder: Path) -> None:
    sync("lake", {1: "a.jpg", 2: "b.jpg"})
    first = photos()
    (folder / "copy.jpg").write_bytes(b"aaa")
    sync("lake", {3: "copy.jpg", 4: "b.jpg", 5: "copy.jpg"}, block_rows=2)
    again = photos()[2:]
    assert [photo["path"] for photo in again] == [first[n]["path"] for n in (0, 1, 0)]
    assert len(stored(table_of("lake").store)) == 2
    assert len(lists(table_of("lake").store)) == 3  # one a block


def test_a_file_whose_hash_is_known_is_not_read_again(folder: Path) -> None:
    sync("lake", {1: "a.jpg"})
    (folder / "a.jpg").unlink()
    [photo] = photos()
    sync("lake", {2: {"uri": "a.jpg", "checksum": photo["checksum"], "size": 3}})
    assert photos()[1] == {**photo}


@pytest.mark.parametrize("cut", [False, True], ids=["gone", "cut off"])
def test_what_the_lake_has_lost_is_stored_again(folder: Path, cut: bool) -> None:
    sync("lake", {1: "a.jpg", 2: "b.jpg"})
    first = photos()
    table = table_of("lake")
    lost, whole = (photo["path"] for photo in first)
    where = Path(table.store.uri, table.name.key(lost))
    where.write_bytes(b"a") if cut else where.unlink()
    said = {"uri": "a.jpg", "checksum": first[0]["checksum"], "size": 3}
    sync("lake", {3: "a.jpg", 4: said, 5: "b.jpg"})
    again = photos()[2:]
    assert again[0]["path"] == again[1]["path"] != lost
    assert again[2]["path"] == whole
    assert [content(photo) for photo in again] == [b"aaa", b"aaa", b"b" * 5000]
    where.unlink(missing_ok=True)
    (folder / "a.jpg").unlink()
    sync("lake", {6: said})  # the copy that is there counts, and not the one that is not
    assert photos()[5]["path"] == again[0]["path"]


def test_a_hash_of_what_the_lake_has_lost_is_not_enough(folder: Path) -> None:
    sync("lake", {1: "a.jpg"})
    [photo] = photos()
    (folder / "a.jpg").unlink()
    Path(table_of("lake").store.uri, table_of("lake").name.key(photo["path"])).unlink()
    with pytest.raises(InputError, match=r"a\.jpg' does not exist"):
        sync("lake", {2: {"uri": "a.jpg", "checksum": photo["checksum"]}})
    assert len(photos()) == 1


def test_what_is_there_is_looked_for_once_for_all_hashes_that_begin_alike(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {n: f"data:,{n}" for n in range(300)}
    sync("lake", texts)
    asked: list[str] = []
    works = LocalStore.list

    def watched(store: LocalStore, prefix: str) -> Iterator[Listed]:
        asked.append(prefix)
        return works(store, prefix)

    monkeypatch.setattr(LocalStore, "list", watched)
    sync("lake", {**texts, 300: "data:,300"})
    looks = [prefix for prefix in asked if "/files/" in prefix]
    beginnings = {hashlib.sha256(b"%d" % n).hexdigest()[:2] for n in range(300)}
    assert sorted(looks) == [f"{table_of('lake').name.content}{two}/" for two in sorted(beginnings)]
    assert len(stored(table_of("lake").store)) == 301


def test_what_the_file_itself_is_in_is_not_stored_twice() -> None:
    body = bytes(range(256))
    inline = f"data:image/png;base64,{base64.b64encode(body).decode()}"
    sync("lake", {1: inline, 2: "data:,a%20b"})
    one, two = photos()
    assert (content(one), content(two)) == (body, b"a b")
    assert (one["uri"], two["uri"]) == (one["path"], two["path"])
    with pytest.raises(InputError, match="Base64"):
        sync("lake", {1: "data:;base64,%%%"})


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"size": 4}, "has 3 bytes, and its record says 4"),
        ({"size": "3"}, "not a number of bytes"),
        ({"checksum": "SHA-256:" + "0" * 64}, "another SHA-256"),
        ({"checksum": "md5:00"}, "not SHA-256:"),
    ],
)
def test_what_the_tap_says_of_a_file_is_checked(said: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        sync("lake", {1: {"uri": "a.jpg", **said}})


def test_a_path_of_the_taps_own_means_nothing() -> None:
    forged = f"files/00/{'0' * 64}-{'0' * 16}"
    sync("lake", {1: {"uri": "a.jpg", "path": forged}, 2: {"path": forged, "size": 1}, 3: {}})
    one, two, three = photos()
    assert one["path"] != forged
    assert (two, three) == ({"size": 1}, {})


def test_missing_files(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InputError, match=r"gone\.jpg' does not exist"):
        sync("lake", {1: "gone.jpg"})
    sync("lake", {1: "gone.jpg", 2: "a.jpg"}, missing_files="null")
    sync("lake", {3: {"uri": "gone.jpg", "n": 1.0}}, missing_files="keep")
    assert "1 file that records name was not there" in caplog.text
    kept = photos()
    assert kept[0] is None
    assert kept[2] == {"uri": "gone.jpg", "n": 1.0}
    with pytest.raises(InputError, match="below any of file_roots"):
        sync("lake", {1: "/etc/passwd"}, missing_files="null")
    assert folder.exists()
    with pytest.raises(UsageError, match="no folder .*/unmounted"):
        sync("other", {1: "a.jpg"}, missing_files="null", file_roots=["unmounted"])
    assert not (folder / "other").exists()
    with pytest.raises(InputError, match="below any of file_roots"):
        sync("other", {1: "a.jpg"}, missing_files="null", file_roots=[])


def test_files_in_arrays_and_objects() -> None:
    properties = {
        "id": {"type": "integer"},
        "all": {"type": "array", "items": {"$ref": "#/$defs/file"}},
        "in": {"type": "object", "properties": {"one": {"anyOf": [{"type": "null"}, FILE]}}},
    }
    body = {"id": 1, "all": [{"uri": "a.jpg"}, {"uri": "b.jpg"}], "in": {"one": {"uri": "a.jpg"}}}
    lines = [schema("photos", properties, ["id"], **{"$defs": {"file": FILE}})]
    run("lake", [*lines, record("photos", body)])
    [found] = records_of("lake", "photos")
    assert [content(photo) for photo in found["all"]] == [b"aaa", b"b" * 5000]
    assert found["in"]["one"]["path"] == found["all"][0]["path"]
    assert len(listed(table_of("lake"))) == 2


def test_null_is_put_only_where_the_schema_allows_it() -> None:
    strict = {"type": "object", "format": "singer.file", "additionalProperties": False}
    strict["properties"] = {"uri": {"type": "string"}}
    properties = {"id": {"type": "integer"}, "photo": strict, "all": {"items": FILE}}
    lines = [schema("photos", properties, ["id"])]
    lines.append(record("photos", {"id": 1, "photo": {"uri": "a.jpg"}, "all": [{"uri": "no"}]}))
    run("lake", lines, missing_files="null")
    assert records_of("lake", "photos")[0]["all"] == [None]
    lines.append(record("photos", {"id": 17, "photo": {"uri": "gone.jpg"}}))
    with pytest.raises(InputError, match=r"with id 17 names in 'photo' .* field 'photo': null is"):
        run("lake", lines, missing_files="null")
    run("unchecked", lines, missing_files="null", validate_records=False)
    assert records_of("unchecked", "photos")[1]["photo"] is None


def deep(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = FILE
    for _ in range(levels - 1):
        inner = {"type": "object", "properties": {"x": inner}}
    return inner


@pytest.mark.parametrize(
    ("photo", "why"),
    [
        ({"type": "object", "additionalProperties": FILE}, "under 'additionalProperties'"),
        ({"type": "object", "patternProperties": {"^x": FILE}}, "under 'patternProperties'"),
        ({"type": "array", "items": [FILE]}, "under a list of 'items'"),
        ({"type": "object", "additionalProperties": {"$ref": "#/$defs/file"}}, "under"),
        ({"type": "string", "format": "singer.file"}, "not the type"),
        ({"format": "singer.file"}, "not the type"),
        ({"type": ["object", "string"], "anyOf": [{"format": "singer.file"}]}, "not the type"),
        (deep(9), "more than 8 levels deep"),
        ({"$ref": "#/$defs/tree"}, "more than 8 levels deep"),
    ],
)
def test_a_schema_whose_files_would_not_be_stored_is_refused(
    folder: Path, photo: dict[str, Any], why: str
) -> None:
    tree = {"type": "object", "properties": {"file": FILE, "below": {"$ref": "#/$defs/tree"}}}
    defs = {"file": FILE, "tree": tree}
    lines = [schema("photos", {"id": {"type": "integer"}, "photo": photo}, **{"$defs": defs})]
    with pytest.raises(InputError, match=f"line 1: .* cannot be used: .*{why}"):
        run("lake", lines)
    assert not list(folder.glob("lake/raw/*/photos/*"))


def test_files_of_all_branches_are_stored() -> None:
    one, two = ({"properties": {"in": {"properties": {name: FILE}}}} for name in "ab")
    properties = {
        "id": {"type": "integer"},
        "photo": {"type": "object", "anyOf": [one, two]},
        "typed": {"type": ["object", "null"], "anyOf": [{"format": "singer.file"}]},
        "deep": deep(8),
        "enum": {"type": "object", "additionalProperties": {"enum": [FILE]}},
    }
    file = {"uri": "a.jpg"}
    body = {"id": 1, "photo": {"in": {"a": file, "b": file}}, "typed": file}
    body["deep"] = file
    for _ in range(7):
        body["deep"] = {"x": body["deep"]}
    run("lake", [schema("photos", properties), record("photos", body)])
    assert lines_of("lake", "photos")[0].count(b'"path"') == 4


def test_flattening_takes_no_files_apart() -> None:
    flat = {"flattening_enabled": True, "flattening_max_depth": 2}
    maps = {"photos": {"photo": "__NULL__"}}
    for more in ({}, {"stream_maps": {"photos": {"pic": "photo", "photo": "__NULL__"}}}):
        with pytest.raises(InputError, match="flattening_enabled would flatten"):
            sync("lake", {1: "a.jpg"}, **flat, **more)
    sync("lake", {1: "a.jpg"}, **flat, stream_maps=maps)
    assert records_of("lake", "photos") == [{"id": 1}]


def test_a_table_without_files_is_of_its_old_format() -> None:
    run("lake", [schema("photos"), record("photos", {"id": 1})])
    table = table_of("lake")
    assert table.snapshot().format == 5
    assert "file_lists" not in json.loads(table.store.get(table.name.manifest).data)


@pytest.mark.parametrize("in_memory", [1 << 20, 1], ids=["in memory", "on disk"])
def test_many_small_files_in_one_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(staging, "_IN_MEMORY", in_memory)  # of lists that wait for the commit
    (folder / "many").mkdir()
    for n in range(300):
        (folder / "many" / f"{n}").write_bytes(b"%d" % (n // 2))
    sync("lake", {n: f"many/{n}" for n in range(300)}, block_rows=100)
    table = table_of("lake")
    assert stored(table.store) == listed(table)
    assert len(stored(table.store)) == 150
    assert sum(block.files.files for block in table.snapshot().blocks if block.files) == 150


def test_eight_files_are_read_side_by_side(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(8, timeout=20)
    reading: list[int] = []

    def pieces(_self: Sources, uri: str) -> Iterator[bytes]:
        reading.append(threading.get_ident())
        together.wait()  # passes only while eight are here
        yield uri.encode()

    monkeypatch.setattr(Sources, "pieces", pieces)
    sync("lake", {n: f"{n}.jpg" for n in range(16)})
    assert len(stored(table_of("lake").store)) == len(reading) == 16
    assert len(set(reading)) == 8
