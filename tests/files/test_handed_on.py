"""Lakes with files copied through the tap and the target: the same rows, the same files."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import DamagedError, InputError
from singerlake.lake import Lake
from tests.files.photos import FILE, NAME, clean, forget, stored, sync, table_of
from tests.tap import run as tap
from tests.target.harness import lines_of, record, run, schema

PNG = "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 8).decode()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b#?%.jpg").write_bytes(b"aaa")
    return tmp_path


def copy(config: dict[str, Any] | None = None, **target: Any) -> tap.Run:
    out = tap.run(Lake.open("lake"), **(config or {}))
    run("copy", out.out, **{"file_roots": ["lake"], **target})
    return out


def assert_same() -> None:
    assert lines_of("copy", "photos") == lines_of("lake", "photos")
    assert stored(table_of("copy").store) == stored(table_of("lake").store)
    for path in stored(table_of("lake").store):
        one, other = (table_of(lake).store.get(NAME.key(path)).data for lake in ("lake", "copy"))
        assert one == other


def an_odd_line() -> bytes:
    return (
        b'{"type":"RECORD",  "stream": "photos","record": {"id" :7, "photo":'
        b' {"n": 1.10,"uri" : "a b#?\\u0025.jpg" , "content_type":null } ,"all":[ {"uri":'
        b'"data:,x"},null, {"uri": "data:,y"} ]}, "time_extracted": "2026-01-02T03:04:05Z"}'
    )


@pytest.mark.parametrize("inline", [0, 100, 10_000])
def test_a_copy_through_tap_and_target_is_byte_for_byte_the_same(inline: int) -> None:
    properties = {
        "id": {"type": "integer"},
        "photo": FILE,
        "all": {"type": "array", "items": FILE},
    }
    photos: list[Any] = [{"uri": "a b#?%.jpg"}, {"uri": PNG, "content_type": "image/png"}, None]
    lines = [schema("photos", properties, ["id"]), an_odd_line()]
    lines += [record("photos", {"id": n, "photo": one}) for n, one in enumerate(photos)]
    run("lake", lines)
    out = copy({"file_inline_max_bytes": inline})
    uris = [r["photo"]["uri"].partition(":")[0] for r in out.records() if r["photo"]]
    assert uris == ["data" if inline >= size else "file" for size in (3, 3, 2048)]
    assert_same()
    # And once more, from the copy: whatever a lake has, it hands on.
    again = tap.run(Lake.open("copy"))
    run("third", again.out, file_roots=["copy"])
    assert lines_of("third", "photos") == lines_of("lake", "photos")


def test_uris_are_read_by_others(folder: Path) -> None:
    sync("lake", {1: "a b#?%.jpg"})
    [row] = tap.run(Lake.open("lake")).records()
    assert row["photo"]["uri"].startswith(f"{folder.as_uri()}/lake/raw/")
    assert row["photo"]["singerlake.uri"] == "a b#?%.jpg"
    Path("elsewhere").mkdir()
    with pytest.raises(InputError, match="below any of file_roots"):
        copy(file_roots=["elsewhere"])


def test_two_copies_of_the_same_bytes_stay_two() -> None:
    sync("lake", {1: "data:,same"})
    [known] = stored(table_of("lake").store)
    # As two runs at the same time would leave it.
    other = known[:-16] + "0123456789abcdef"
    store = table_of("lake").store
    store.put_if_absent(NAME.key(other), b"same")
    text = tap.run(Lake.open("lake")).out
    forged = text.replace(b'"id": 1', b'"id": 2').replace(known.encode(), other.encode())
    run("copy", text + forged, file_roots=["lake"])
    assert stored(table_of("copy").store) == {known, other}


def test_names_from_elsewhere_are_not_taken_where_files_were_deleted() -> None:
    sync("lake", {1: "data:,one"})
    sync("copy", {1: "data:,old"})
    sync("copy", {1: "data:,new"})
    forget(table_of("copy"))
    clean(table_of("copy"))
    copy()
    name = next(iter(stored(table_of("lake").store)))
    taken = {path for path in stored(table_of("copy").store) if path[:73] == name[:73]}
    assert len(taken) == 1
    assert taken != {name}
    # The uri was its path: it says where the file lies now.
    row = json.loads(lines_of("copy", "photos")[-1])["record"]["photo"]
    assert row["uri"] == row["path"]
    assert {row["path"]} == taken


def test_a_forged_path_names_nothing(folder: Path) -> None:
    (folder / "own.jpg").write_bytes(b"own")
    wrong = f"files/00/{'0' * 64}-{'0' * 16}"
    for n, path in enumerate((wrong, "../../x", 7, None)):
        said = {"uri": "own.jpg", "path": path, "singerlake.uri": "kept"}
        sync("lake", {n: said})
    rows = [json.loads(line)["record"]["photo"] for line in lines_of("lake", "photos")]
    assert {row["uri"] for row in rows} == {"kept"}
    assert {row["path"] for row in rows} == stored(table_of("lake").store)
    assert len(stored(table_of("lake").store)) == 1


def test_a_leftover_of_a_run_that_failed_is_named_again() -> None:
    sync("lake", {1: "data:,one"})
    [path] = stored(table_of("lake").store)
    sync("copy", {0: None})
    store = Lake.open("copy").store
    store.put_if_absent(NAME.key(path), b"one")
    copy()
    assert stored(table_of("copy").store) == {path}


def test_a_damaged_file_does_not_go_out_within_a_record() -> None:
    sync("lake", {1: "data:,one"})
    [path] = stored(table_of("lake").store)
    Path("lake", NAME.key(path)).write_bytes(b"two")
    with pytest.raises(DamagedError, match="another SHA-256"):
        tap.run(Lake.open("lake"), file_inline_max_bytes=10)
    with pytest.raises(InputError, match="another SHA-256"):
        copy()
