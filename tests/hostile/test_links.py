"""Pipes and symbolic links planted in a lake: nobody hangs, and nothing outside is touched."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake.errors import DamagedError, SingerlakeError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.vacuum.leftovers import plan_leftovers, remove_leftovers
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake.storage.local.store import LocalStore
from singerlake_cli.main import cli
from tests.build import commit_rows
from tests.tap.run import run as run_tap
from tests.target.harness import record, run, schema, state

BAD = TableName("tap", "bad")
ID = {"id": {"type": "integer"}}
NOTHING = VacuumOptions(retain_seconds=0, guard=False)
AT_ONCE = 60
"""Seconds until something is taken to hang."""


def data_file(root: Path) -> Path:
    return next((root / BAD.folder).rglob("*.singer.gz"))


FILES: dict[str, Callable[[Path], Path]] = {
    "manifest": lambda root: root / BAD.manifest,
    "last entry": lambda root: root / BAD.transaction(1),
    "next entry": lambda root: root / BAD.transaction(2),
    "data": data_file,
    "catalogue": lambda root: root / "raw/tap/catalogue.json",
    "lake file": lambda root: root / "raw/singerlake.json",
    "lock": lambda root: data_file(root).parent / "singerlake.lock",
}
FOLDERS: dict[str, Callable[[Path], Path]] = {
    "raw": lambda root: root / "raw",
    "tap": lambda root: root / "raw/tap",
    "table": lambda root: root / BAD.folder.rstrip("/"),
    "log": lambda root: root / BAD.log.rstrip("/"),
    "data folder": lambda root: data_file(root).parent,
    "staging": lambda root: root / ".staging",
}
NEVER_NEEDED = {"manifest", "catalogue", "lake file"}
"""Derived: read around, with a warning."""


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A file beside the lake; the test fails where it changed, or something came beside it."""
    file = tmp_path / "outside" / "secret"
    file.parent.mkdir()
    file.write_bytes(b"secret")
    yield file
    assert [path.name for path in file.parent.iterdir()] == ["secret"]
    assert file.read_bytes() == b"secret"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    commit_rows(lake, str(BAD), ID, ["id"], [{"id": 1}])
    commit_rows(lake, "tap.good", ID, ["id"], [{"id": 1}])
    return tmp_path / "lake"


@contextmanager
def at_once() -> Iterator[None]:
    """Fail where something hangs or goes round in circles."""

    def give_up(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(AT_ONCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def use(root: Path) -> list[str]:
    """What tap, command and target say of the harmed table: empty where all went well."""
    lines = [schema("bad", ID, ["id"]), record("bad", {"id": 5}), state(5)]
    show = ["--lake", str(root), "show", str(BAD)]

    def shown() -> None:
        result = CliRunner().invoke(cli, show)
        assert result.exit_code in (0, 5), result.output
        if result.exit_code:
            raise DamagedError(result.output)

    said = []
    for work in (
        lambda: run_tap(Lake.open(str(root), create=True)),
        shown,
        lambda: run(root, lines, tap_id="tap"),
    ):
        words = ""
        with at_once():
            try:
                work()
            except SingerlakeError as error:
                words = str(error)
                assert error.exit_code == 5, words
        said.append(words)
    return said


def place_of(root: Path, kind: str) -> Path:
    """Where to plant something, so that everybody meets it."""
    if kind == "last entry":
        (root / BAD.manifest).unlink()
    return FILES[kind](root)


def plant_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def plant_socket(path: Path) -> None:
    path.unlink(missing_ok=True)
    here = Path.cwd()
    os.chdir(path.parent)  # the whole path may be longer than a socket's name can be
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize("kind", FILES)
def test_a_pipe_holds_nobody_up(root: Path, kind: str) -> None:
    plant_pipe(place_of(root, kind))
    said = use(root)
    assert all("is a pipe where a file should be: remove it" in one for one in said if one), said
    needed = kind not in NEVER_NEEDED and kind != "data"
    assert bool(said[-1]) == needed, "a sync reads no data"
    assert run(root, [schema("good", ID, ["id"]), state(1)], tap_id="tap") == [1]


@pytest.mark.parametrize("plant", [plant_pipe, plant_socket])
def test_what_is_no_file_is_refused_by_the_store(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    store = LocalStore(tmp_path)
    etag = store.put_if_absent("raw/one", b"1")
    plant(tmp_path / "raw/one")
    for use in (
        lambda: store.get("raw/one"),
        lambda: store.get_range("raw/one", 0, 1),
        lambda: store.exists("raw/one"),
        lambda: store.replace("raw/one", b"2", etag),
    ):
        with pytest.raises(DamagedError, match="raw/one is a (pipe|socket) where a file"):
            use()
    assert list(store.list("raw/")) == []
    store.replace("raw/one", b"2", None)
    assert store.get("raw/one").data == b"2"
    plant(tmp_path / "raw/one")
    store.delete("raw/one")
    assert not any((tmp_path / "raw").iterdir())


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("kind", FILES)
def test_a_link_in_the_place_of_a_file(
    root: Path, outside: Path, kind: str, dangling: bool
) -> None:
    path = place_of(root, kind)
    path.unlink(missing_ok=True)
    path.symlink_to(outside.with_name("none") if dangling else outside)
    store = LocalStore(root)
    key = path.relative_to(root).as_posix()
    for read in (lambda: store.get(key), lambda: list(store.list("raw/"))):
        with pytest.raises(DamagedError, match="is a symbolic link, which is not followed"):
            read()
    said = use(root)
    assert all("is a symbolic link" in one for one in said if one), said
    assert bool(said[-1]) == (kind not in NEVER_NEEDED and kind != "data")


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_link_in_the_place_of_a_folder(root: Path, tmp_path: Path, kind: str) -> None:
    """It leads to the very files, moved elsewhere; nobody reads or writes them there."""
    path = FOLDERS[kind](root)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    before = {p: p.read_bytes() for p in elsewhere.rglob("*") if p.is_file()}
    said = use(root)
    assert all("is a symbolic link" in one for one in said if one), said
    assert said[-1]
    if kind != "staging":  # readers have no need of it
        assert said[0]
    assert {p: p.read_bytes() for p in elsewhere.rglob("*") if p.is_file()} == before


def test_the_lake_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    assert run(link, [schema("bad", ID, ["id"]), record("bad", {"id": 2}), state(2)], tap_id="tap")
    assert Lake.open(str(link)).find("tap.bad")[0].snapshot().number == 2
    assert Lake.open(str(root)).find("tap.bad")[0].snapshot().number == 2


@pytest.mark.parametrize("target", ["elsewhere", "lake/raw"])
def test_a_staging_folder_that_is_a_link_is_never_emptied(
    root: Path, tmp_path: Path, target: str
) -> None:
    precious = tmp_path / target / "precious"
    precious.parent.mkdir(exist_ok=True)
    precious.write_text("precious")
    shutil.rmtree(root / ".staging")
    (root / ".staging").symlink_to(precious.parent)
    store = LocalStore(root)
    with pytest.raises(DamagedError, match="symbolic link"):
        plan_leftovers(store, NOTHING, now=1e12)
    with pytest.raises(DamagedError, match="symbolic link"):
        store.delete(".staging/precious")
    with pytest.raises(DamagedError, match="symbolic link"):
        store.put_if_absent("raw/x", b"")
    assert precious.read_text() == "precious"


def test_a_folder_swapped_for_a_link_while_leftovers_are_looked_at(
    root: Path, tmp_path: Path
) -> None:
    """What was found in the real folder is not deleted in the one that stands there now."""
    store = LocalStore(root)
    (root / ".staging" / "dead").write_text("leftover")
    plan = plan_leftovers(store, NOTHING, now=1e12)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "dead").write_text("precious")
    shutil.rmtree(root / ".staging")
    (root / ".staging").symlink_to(elsewhere)
    with pytest.raises(SingerlakeError):
        remove_leftovers(store, plan)
    assert (elsewhere / "dead").read_text() == "precious"


def test_a_link_in_staging_is_a_leftover_like_any_other(root: Path, outside: Path) -> None:
    store = LocalStore(root)
    (root / ".staging" / "link").symlink_to(outside)
    (root / ".staging" / "link.alive").symlink_to(outside)
    pipe = root / ".staging" / "pipe.alive"
    os.mkfifo(pipe)
    os.utime(pipe, (0, 0))  # no writer that has just begun
    plan = plan_leftovers(store, NOTHING, now=1e12)
    assert len(remove_leftovers(store, plan)) == 3
    assert {path.name for path in (root / ".staging").iterdir()} <= {"replace.lock"}


def test_the_lock_of_replacements_is_no_way_out(root: Path, outside: Path) -> None:
    lock = root / ".staging" / "replace.lock"
    lock.unlink(missing_ok=True)
    lock.symlink_to(outside.with_name("made"))
    with pytest.raises(DamagedError, match="symbolic link"):
        LocalStore(root).replace("raw/x", b"1", None)
