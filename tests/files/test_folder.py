"""A folder's files as they are found, and the rows that they make, on a disk and in a bucket."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import InputError, NotDurableError, StoreError
from singerlake.files import contents
from singerlake.files.folder import Folder
from singerlake.files.folder_rows import SCHEMA, FolderRows
from singerlake.files.stored import of_value, targets
from singerlake.format import content, file_paths
from singerlake.log.table_state import TableState
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from singerlake.storage.local.together import LocalTogether
from tests.files.photos import NAME, listed, stored, sync, table_of
from tests.files.test_files_on_s3 import folder as bucket
from tests.storage.conftest import no_aws_settings, s3_port

__all__ = ["bucket", "no_aws_settings", "s3_port"]
BODIES = {
    "a.txt": b"same",
    ".hidden": b"",
    "sub/b.txt": b"same",
    "sub/deep/ü c.JPG": bytes(range(256)) * 30,
    "sub/.hidden/d.txt": b"d",
    "sub/data:,e": b"e",
}

SAME = hashlib.sha256(b"same").hexdigest()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, body in BODIES.items():
        path = Path("docs", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return tmp_path / "docs"


def named(text: str) -> Folder:
    folder = Folder.named(text)
    assert folder is not None
    return folder


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("docs", {*BODIES}),
        ("docs/", {*BODIES}),
        ("docs/*", {"a.txt"}),
        ("docs/**", {"a.txt", "sub/b.txt", "sub/deep/ü c.JPG", "sub/data:,e"}),
        ("docs/**/*.txt", {"a.txt", "sub/b.txt"}),
        ("docs/sub/*", {"b.txt", "data:,e"}),
        ("docs/*/[ab].txt", {"sub/b.txt"}),
        ("docs/.h*", {".hidden"}),
        ("docs/**/.hidden/*", {"sub/.hidden/d.txt"}),
        ("*/a.txt", {"docs/a.txt"}),
    ],
)
def test_what_a_folder_or_a_pattern_names(place: Path, text: str, found: set[str]) -> None:
    folder = named(text)
    assert {one.path for one in folder.files()} == found
    seen = folder.look()
    assert seen.files == len(found)
    assert seen.bytes == sum(one.size for one in folder.files())


@pytest.mark.parametrize("text", ["docs/a.txt", "none", "none/*.txt", "docs/none.csv"])
def test_what_is_neither(place: Path, text: str) -> None:
    assert Folder.named(text) is None


def _link(path: Path) -> None:
    path.symlink_to("a.txt")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(path.relative_to(Path.cwd())))


ODD: list[tuple[str, Any, str]] = [
    ("x", _link, "'x' is a link"),
    ("sub/x", lambda path: path.symlink_to("deep"), "'sub/x' is a link"),
    ("x", os.mkfifo, "'x' is a pipe"),
    ("x", _socket, "'x' is a socket"),
    ("a\nb", Path.touch, "'a\\nb' has a name with control characters"),
    (os.fsdecode(b"\xff.txt"), Path.touch, "'\\xff.txt' has a name that is not UTF-8"),
    (os.fsdecode(b"\xff"), Path.mkdir, "'\\xff' has a name that is not UTF-8"),
]


@pytest.mark.parametrize(("name", "make", "says"), ODD)
def test_what_cannot_be_stored_is_named_and_nothing_is_left_out(
    place: Path, name: str, make: Any, says: str
) -> None:
    folder = named("docs")
    make(place / name)
    with pytest.raises(InputError) as caught:
        folder.look()
    assert says in str(caught.value)
    with pytest.raises(InputError, match="changed while it was read"):
        list(folder.files())
    # Who says by a pattern what is meant has no trouble with what is beside it.
    assert {one.path for one in named("docs/a.tx?").files()} == {"a.txt"}


def test_links_to_folders_on_a_patterns_way_and_the_lake_are_not_followed(place: Path) -> None:
    (place / "other").symlink_to(place / "sub")
    with pytest.raises(InputError, match="'other' is a link"):
        named("docs/*/b.txt").look()
    with pytest.raises(InputError, match="'sub' is the lake itself"):
        Folder("docs", "docs", place, None, place / "sub").look()
    (place.parent / "way").symlink_to(place)
    assert named("way/sub").look().files == 4  # what somebody names may be a link


@pytest.mark.parametrize(
    ("text", "base", "offered"),
    [
        ("docs/", "docs", "docs/**/*.pdf"),
        (".", ".", "**/*.pdf"),
        ("*/*", ".", "**/*.pdf"),
        ("docs/sub/../sub", "docs/sub/../sub", "docs/sub/../sub/**/*.pdf"),
        ("docs/su*/*", "docs", "docs/**/*.pdf"),
    ],
)
def test_the_pattern_that_is_offered_is_one_from_here(
    place: Path, text: str, base: str, offered: str
) -> None:
    _link(place / "sub/link")
    _link(place / "link")
    folder = named(text)
    assert folder.base == base
    with pytest.raises(InputError, match="is a link") as caught:
        folder.look()
    assert str(caught.value).endswith(f" such as '{offered}'")
    assert named(offered).root == folder.root


def test_empty_folders_and_folders_that_cannot_be_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "empty/more").mkdir(parents=True)
    for text in ("docs/empty", "docs/empty/more/*.png"):
        with pytest.raises(InputError, match="has no files"):
            named(text).look()
    with pytest.raises(InputError, match=r"no file matches docs/\*\.png: nothing was changed"):
        named("docs/*.png").look()
    folder = named("docs")
    rest = folder.files()
    next(rest)

    def scandir(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        with pytest.raises(InputError, match="cannot be read: Permission denied"):
            folder.look()
    place.rename(place.parent / "moved")
    with pytest.raises(InputError, match="changed while it was read"):
        list(rest)
    with pytest.raises(InputError, match="changed while it was read"):
        folder.look()


def test_a_file_that_is_not_what_was_found_is_refused(place: Path) -> None:
    folder = named("docs")
    found = {one.path: one for one in folder.files()}
    large = found["sub/deep/ü c.JPG"]
    pieces = folder.pieces(large)
    next(pieces)
    (place / large.path).write_bytes(b"other")
    with pytest.raises(InputError, match="changed while it was read"):
        list(pieces)
    with pytest.raises(InputError, match="changed while docs was read"):
        list(folder.pieces(large))
    for change, says in (
        (lambda path: path.unlink(), "was deleted"),
        (lambda path: path.symlink_to("sub/b.txt"), "not a regular file"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "not a regular file"),
    ):
        change(place / "a.txt")
        with pytest.raises(InputError, match=says):
            list(folder.pieces(found["a.txt"]))


def rows_of(
    store: Store, folder: Folder, before: TableState | None = None, *, dry_run: bool = False
) -> tuple[list[dict[str, Any]], FolderRows]:
    rows = FolderRows(store, NAME, lambda: before or TableState(NAME), folder, dry_run=dry_run)
    try:
        return [json.loads(line) for line in rows.lines()], rows
    finally:
        rows.contents.close()


def _check_rows(store: Store, folder: Folder) -> None:
    found, rows = rows_of(store, folder)
    assert {row["path"] for row in found} == {*BODIES}
    for row in found:
        body = BODIES[row["path"]]
        assert row["name"] == row["path"].rpartition("/")[2]
        assert row["size"] == row["file"]["size"] == len(body)
        checksum = f"SHA-256:{hashlib.sha256(body).hexdigest()}"
        assert row["checksum"] == row["file"]["checksum"] == checksum
        assert b"".join(store.pieces(NAME.key(row["file"]["path"]), 1 << 20)) == body
    types = {row["path"]: row["content_type"] for row in found}
    assert types["a.txt"] == "text/plain"
    assert types["sub/deep/ü c.JPG"] == "image/jpeg"
    assert types[".hidden"] is types["sub/data:,e"] is None
    # Two files have the same bytes, and are one in the lake.
    assert (rows.done, rows.contents.stored) == (6, 5)
    assert rows.bytes == sum(map(len, BODIES.values()))
    assert {row["file"]["path"] for row in found} == stored(store)
    # They can be taken out under the names that they have here.
    names = targets(file for row in found if (file := of_value(row["file"])))
    assert {"/".join(parts) for parts in names} == {*BODIES}


def test_rows_and_content(place: Path, tmp_path: Path) -> None:
    _check_rows(LocalStore(tmp_path / "lake"), named("docs"))


def test_rows_and_content_in_a_bucket(place: Path, bucket: Any) -> None:
    _check_rows(bucket, named("docs"))


def test_a_file_whose_name_looks_like_an_address(place: Path, tmp_path: Path) -> None:
    (place / "s3:").mkdir()
    (place / "s3:/x").write_bytes(b"x")
    found, _ = rows_of(LocalStore(tmp_path / "lake"), named("docs/s*/x"))
    [row] = found
    assert (row["path"], row["file"]["uri"]) == ("s3:/x", "./s3:/x")
    [(parts, _)] = targets([of_value(row["file"])]).items()  # type: ignore[list-item]
    assert parts == ("s3:", "x")


def test_what_the_table_has_is_neither_copied_nor_staged(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    sync(lake, {1: "data:,same", 2: "data:,d"})
    table = table_of(lake)
    before = stored(table.store)
    staged: list[None] = []
    stage = LocalStore.stage

    def counted(self: LocalStore) -> Any:
        staged.append(None)
        return stage(self)

    monkeypatch.setattr(LocalStore, "stage", counted)
    found, rows = rows_of(table.store, named("docs"), table.snapshot())
    assert rows.contents.stored == len(staged) == len(BODIES) - 3
    own = {row["path"]: row["file"]["path"] for row in found}
    assert {own["a.txt"], own["sub/b.txt"], own["sub/.hidden/d.txt"]} == before == listed(table)


@pytest.mark.parametrize("cut", [False, True])
def test_what_the_lake_has_lost_is_stored_again(place: Path, tmp_path: Path, cut: bool) -> None:
    lake = tmp_path / "lake"
    sync(lake, {1: "data:,same", 2: "data:,d"})
    table = table_of(lake)
    [lost] = {path for path in stored(table.store) if file_paths.digest_in(path) == SAME}
    where = lake / table.name.key(lost)
    where.chmod(0o600)
    _ = where.write_bytes(b"sam") if cut else where.unlink()
    dry, _ = rows_of(table.store, named("docs"), table.snapshot(), dry_run=True)
    assert lost not in {row["file"]["path"] for row in dry}
    found, rows = rows_of(table.store, named("docs"), table.snapshot())
    assert rows.contents.stored == len(BODIES) - 2
    paths = {row["path"]: row["file"]["path"] for row in found}
    assert paths["a.txt"] == paths["sub/b.txt"] != lost
    assert table.store.get(table.name.key(paths["a.txt"])).data == b"same"
    assert paths["sub/.hidden/d.txt"] in listed(table)  # this one was there


def test_a_dry_run_stores_nothing_and_says_the_same_of_what_is_there(
    place: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    sync(lake, {1: "data:,same"})
    table = table_of(lake)
    before = {*tmp_path.rglob("lake/raw/**/*")}
    found, rows = rows_of(table.store, named("docs"), table.snapshot(), dry_run=True)
    assert {*tmp_path.rglob("lake/raw/**/*")} == before
    assert rows.contents.stored == 0
    paths = {row["path"]: row["file"]["path"] for row in found}
    assert {paths["a.txt"]} == stored(table.store)
    assert paths[".hidden"] not in stored(table.store)


def test_a_file_that_cannot_be_read_ends_it_and_what_is_under_way_soon(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    pieces = Folder.pieces

    def endless(self: Folder, file: Any) -> Iterator[bytes]:
        if file.path == "a.txt":
            raise InputError("a.txt changed")
        read.append(file.path)
        while True:
            yield b"x"

    monkeypatch.setattr(Folder, "pieces", endless)
    with pytest.raises(InputError, match=r"a\.txt changed"):
        rows_of(LocalStore(tmp_path / "lake"), named("docs/**"))
    assert read
    monkeypatch.setattr(Folder, "pieces", pieces)

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(contents, "publish_file", full)
    with pytest.raises(StoreError, match="full"):
        rows_of(LocalStore(tmp_path / "lake"), named("docs"))


def test_rows_end_only_once_their_files_are_settled(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: LocalTogether) -> None:
        raise NotDurableError("the disk failed")

    monkeypatch.setattr(LocalTogether, "settle", fails)
    with pytest.raises(NotDurableError):
        rows_of(LocalStore(tmp_path / "lake"), named("docs"))


def test_many_files_come_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for n in range(300):
        (folder / f"{n:03}").write_bytes(b"%d" % (n % 7))
    found, rows = rows_of(LocalStore(tmp_path / "lake"), named(str(folder)))
    assert [row["path"] for row in found] == [f"{n:03}" for n in range(300)]
    assert rows.contents.stored == 7


def test_the_schema_has_its_file_where_files_are_looked_for() -> None:
    place = content.place_in(SCHEMA.schema)
    assert place is not None
    assert place.members.keys() == {"file"}
