"""`singerlake files`: what rows name, listed, given out and written into folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import singerlake
from singerlake.errors import DamagedError, InputError, UsageError
from singerlake.files import stored as stored_files
from singerlake.files.stored import StoredFile, targets
from singerlake_cli import results
from tests.cli.call import run, run_json
from tests.files.photos import FILE, NAME, stored, sync, table_of
from tests.target.harness import record, schema
from tests.target.harness import run as target

TABLE = str(NAME)
BODIES = {"photos/a b.jpg": b"aaa", "photos/ü.png": bytes(range(256)) * 40}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    for name, body in BODIES.items():
        Path(name).write_bytes(body)
    said: dict[int, Any] = {n: {"uri": name} for n, name in enumerate(BODIES)}
    said[2] = {"uri": "data:text/plain,within", "content_type": "text/plain"}
    said[3] = None
    sync("lake", said)
    return tmp_path


def test_list_get_and_export(folder: Path) -> None:
    found = run_json("lake", "files", "ls", TABLE)
    assert {one["name"]: one["size"] for one in found if one["uri"] in BODIES} == {
        name: len(body) for name, body in BODIES.items()
    }
    [within] = [one["name"] for one in found if one["uri"] == one["path"]]
    assert within.endswith(".txt")
    shown = run("lake", "files", "ls", TABLE)
    assert "photos/a b.jpg" in shown.stdout
    assert "3 files, 10.2 kB" in shown.stdout
    for name, body in BODIES.items():
        assert run("lake", "files", "get", TABLE, name).stdout_bytes == body
    digest = found[0]["checksum"]
    assert run("lake", "files", "get", TABLE, digest, "--out", "out").exit_code == 0
    assert Path("out").stat().st_size == found[0]["size"]
    assert run("lake", "files", "get", TABLE, digest, "--out", "out").exit_code == 2
    assert run("lake", "files", "get", TABLE, "photos/none").exit_code == 3
    short = run("lake", "files", "get", TABLE, digest.partition(":")[2][:7])
    assert short.exit_code == 3
    assert "at least 8 digits are needed" in short.stderr
    result = run("lake", "files", "export", TABLE, "all")
    assert result.stdout == "3 files written to all\n"
    for name, body in BODIES.items():
        assert Path("all", name).read_bytes() == body
    assert Path("all", within).read_bytes() == b"within"
    Path("all", within).unlink()
    again = run_json("lake", "files", "export", TABLE, "all")
    assert again == {"folder": "all", "files": 3, "written": 1}
    files = [path for path in folder.joinpath("all").rglob("*") if path.is_file()]
    assert len(files) == 3


def test_earlier_states_and_tables_without_files(folder: Path) -> None:
    (folder / "photos/a b.jpg").write_bytes(b"new")
    sync("lake", {0: "photos/a b.jpg"})
    now, before = (
        run("lake", "files", "get", name, "photos/a b.jpg").stdout_bytes
        for name in (TABLE, f"{TABLE}.@1")
    )
    assert (now, before) == (b"new", b"aaa")
    target("lake", [schema("plain"), record("plain", {"id": 1})])
    refused = run("lake", "files", "ls", f"{NAME.tap}.plain")
    assert refused.exit_code == 2
    assert "has no files" in refused.stderr


def test_what_is_in_the_way_of_an_export(folder: Path) -> None:
    Path("all/photos").mkdir(parents=True)
    Path("all/photos/a b.jpg").write_bytes(b"mine")
    result = run("lake", "files", "export", TABLE, "all")
    assert result.exit_code == 5
    assert "with other bytes" in result.stderr
    assert Path("all/photos/a b.jpg").read_bytes() == b"mine"
    for odd in ("link", "pipe"):
        place = Path(odd, "photos/a b.jpg")
        place.parent.mkdir(parents=True)
        os.mkfifo(place) if odd == "pipe" else place.symlink_to(folder / "elsewhere")
        assert run("lake", "files", "export", TABLE, odd).exit_code == 5
    Path("out").mkdir()
    Path("linked").mkdir()
    Path("linked/photos").symlink_to(folder / "out")
    assert run("lake", "files", "export", TABLE, "linked").exit_code == 5
    assert not Path("elsewhere").exists()
    assert not list(Path("out").iterdir())


def test_what_comes_in_the_way_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = singerlake.open("lake")[TABLE].at(engine="local").files()[0]

    def link(part: str, name: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        Path("all", "photos", name).write_bytes(b"theirs")
        raise FileExistsError

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(InputError, match="with other bytes"):
        stored_files.export(table_of("lake").store, NAME, targets([file]), folder / "all")
    assert [path.name for path in Path("all/photos").iterdir()] == [Path(file.uri).name]


@pytest.mark.parametrize(
    "uri", ["../x", "a/../../x", "file:///a/%2e%2e/x", "a\0b", "/", "s3://b/../x"]
)
def test_names_that_leave_the_folder(uri: str) -> None:
    with pytest.raises(InputError, match="is outside of the folder"):
        targets([_file(0, uri)])


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("/data/a.jpg", "data/a.jpg"),
        ("./a//b.jpg", "a/b.jpg"),
        ("file:///data/a%20b", "data/a b"),
        ("s3://bucket/a", "bucket/a"),
        ("https://user:secret@host/a.jpg?token=x", "host/a.jpg"),
    ],
)
def test_names_in_the_folder(uri: str, place: str) -> None:
    assert ["/".join(parts) for parts in targets([_file(0, uri), _file(0, uri)])] == [place]


def test_names_of_two_files() -> None:
    with pytest.raises(InputError, match="two different files"):
        targets([_file(0, "a"), _file(1, "./a")])
    with pytest.raises(InputError, match="of a folder"):
        targets([_file(0, "a/b"), _file(1, "a")])


def _file(digit: int, uri: str) -> StoredFile:
    digest = str(digit) * 64
    return StoredFile(f"files/{digest[:2]}/{digest}-{'0' * 16}", uri)


def test_what_a_query_shows_of_a_file() -> None:
    file = _file(7, "photos/17.jpg")
    said = {"uri": file.uri, "content_type": "image/jpeg", "size": 48211, "path": file.path}
    words = "photos/17.jpg, 48.2 kB, image/jpeg, sha-256 7777777777777777"
    assert results.glanced_at(json.dumps(said)) == results.glanced_at(said) == words
    assert results.glanced_at({"path": file.path}) == "7777777777777777, sha-256 7777777777777777"
    for other in (None, "files/x", 7, {"path": "files/x"}, '{"files/', {"uri": "files/17.jpg"}):
        assert results.glanced_at(other) == results.shown(other)


def test_streams(folder: Path) -> None:
    table = singerlake.open("lake")[TABLE]
    rows = table.at(engine="local").to_arrow().to_pylist()
    [text] = [row["photo"] for row in rows if row["id"] == 1]
    for said in (text, json.loads(text), json.loads(text)["path"]):
        with singerlake.open_file(said, table) as file:
            assert file.read() == BODIES["photos/ü.png"]
            assert file.seek(-6, os.SEEK_END) == 10234
            assert file.read() == bytes(range(250, 256))
            assert file.seek(3) == 3
            assert file.read(2) == b"\3\4"
    for said in (None, {}, "x", {"path": "../../x"}, "{"):
        with pytest.raises(UsageError, match="not a file of the lake"):
            singerlake.open_file(said, table)


def test_damage_is_found(folder: Path) -> None:
    for path in stored(table_of("lake").store):
        Path("lake", NAME.key(path)).write_bytes(b"damaged")
    result = run("lake", "files", "get", TABLE, "photos/a b.jpg", "--out", "out")
    assert result.exit_code == 5
    assert "another SHA-256" in result.stderr
    assert run("lake", "files", "export", TABLE, "all").exit_code == 5
    left = [path for path in folder.rglob("*") if path.suffix == ".part" or path.name == "out"]
    assert left == []
    assert not [path for path in Path("all").rglob("*") if path.is_file()]
    for path in stored(table_of("lake").store):
        Path("lake", NAME.key(path)).unlink()
    with pytest.raises(DamagedError, match="is missing"):
        stored_files.opened(table_of("lake").store, NAME, StoredFile(path))


def test_files_within_arrays_and_objects(folder: Path) -> None:
    properties = {
        "id": {"type": "integer"},
        "all": {"type": "array", "items": FILE},
        "in": {"type": "object", "properties": {"one": FILE}},
    }
    body = {"id": 1, "all": [{"uri": "data:,x"}, None], "in": {"one": {"uri": "data:,y"}}}
    target("lake", [schema("nested", properties, ["id"]), record("nested", body)])
    found = run_json("lake", "files", "ls", f"{NAME.tap}.nested")
    assert len(found) == 2


def test_columns_that_do_not_show_the_path(folder: Path) -> None:
    members = {"uri": {"type": "string"}, "checksum": {"type": "string"}}
    listed = {**FILE, "properties": members}
    bare = {**FILE, "properties": {"uri": {"type": "string"}}}
    properties = {"id": {"type": "integer"}, "a": listed, "in": {"type": "array", "items": listed}}
    body = {"id": 1, "a": {"uri": "data:,x"}, "in": [{"uri": "photos/ü.png"}, None], "b": None}
    lines = [schema("shown", {**properties, "b": bare}, ["id"]), record("shown", body)]
    target("lake", [*lines, record("shown", {"id": 2, "b": {"uri": "photos/a b.jpg"}})])
    name = f"{NAME.tap}.shown"
    found = run_json("lake", "files", "ls", name)
    paths = {one["path"] for one in found}
    assert len(paths) == 2
    assert all(Path("lake/raw", NAME.tap, "shown", path).is_file() for path in paths)
    assert run("lake", "files", "get", name, "photos/ü.png").stdout_bytes == BODIES["photos/ü.png"]
