"""Folders of a lake entered in one call of the system, and what is done where there is none."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import time
from pathlib import Path

import pytest

from singerlake.errors import DamagedError
from singerlake.storage.base import Store
from singerlake.storage.local import beneath, files
from singerlake.storage.local.store import LocalStore
from tests.storage.contract import StoreContract

WAY = beneath.whole_way()
linux = pytest.mark.skipif(WAY is None, reason="this system has no such call")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "a lake, not yet there"


@pytest.fixture
def store(root: Path) -> Store:
    return LocalStore(root)


class TestStepByStep(StoreContract):
    """The contract where each folder is opened from the one before it."""

    @pytest.fixture(autouse=True)
    def no_such_call(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "_whole_way", None)


class TestALakeThatIsALink(StoreContract):
    """The contract in a lake whose own folder is a link."""

    @pytest.fixture(autouse=True)
    def link(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        root.symlink_to(tmp_path / "elsewhere")


@pytest.fixture
def way() -> beneath.WholeWay:
    found = beneath.whole_way()
    assert found is not None
    return found


def where(handle: int | None) -> str | None:
    """The folder that a descriptor leads into."""
    if handle is None:
        return None
    try:
        return str(Path(f"/proc/self/fd/{handle}").readlink())
    finally:
        os.close(handle)


@pytest.fixture(params=["a folder", "a link"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A lake of three folders, once reached by a link."""
    (tmp_path / "lake/raw/tap/table").mkdir(parents=True)
    if request.param == "a folder":
        return tmp_path / "lake"
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    return tmp_path / "link"


@linux
def test_what_is_there_is_entered(way: beneath.WholeWay, lake: Path, tmp_path: Path) -> None:
    for parts in (["raw"], ["raw", "tap"], ["raw", "tap", "table"]):
        assert where(way.enter(lake, parts)) == str(tmp_path.joinpath("lake", *parts))
    for missing in (["raw", "other"], ["other", "tap", "table"]):
        with pytest.raises(FileNotFoundError):
            way.enter(lake, missing)
    with pytest.raises(FileNotFoundError):
        way.enter(lake / "other", ["raw"])


@linux
def test_no_other_way_is_gone(way: beneath.WholeWay, lake: Path) -> None:
    (lake / "raw/file").touch()
    others = [[], [".."], ["raw", "..", ".."], ["raw", ""], ["", "raw"], ["."], ["raw\0", "tap"]]
    for parts in [*others, ["raw", "file"]]:
        assert where(way.enter(lake, parts)) is None, parts
    assert where(way.enter(lake, ["raw"])), "it goes on"


@linux
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("to", ["outside", "inside"])
def test_no_link_is_followed(
    way: beneath.WholeWay, lake: Path, tmp_path: Path, depth: int, to: str
) -> None:
    parts = ["raw", "tap", "table"]
    planted = lake.joinpath(*parts[:depth])
    moved = tmp_path / "outside" if to == "outside" else lake / "moved"
    planted.rename(moved)
    planted.symlink_to(moved)
    assert where(way.enter(lake, parts)) is None
    with pytest.raises(DamagedError, match="is a symbolic link"), files.folder(lake, parts):
        pass
    planted.unlink()
    moved.rename(planted)
    assert where(way.enter(lake, parts)) == str(tmp_path.joinpath("lake", *parts))


@pytest.mark.usefixtures("processes")
@linux
def test_a_folder_that_a_link_takes_the_place_of_any_time(lake: Path, tmp_path: Path) -> None:
    """Whatever is seen is the lake's, while somebody changes folder and link as fast as can be."""
    (lake / "raw/tap/table/file").write_bytes(b"lake")
    (tmp_path / "outside/table").mkdir(parents=True)
    (tmp_path / "outside/table/file").write_bytes(b"secret")
    tap, real = lake / "raw/tap", lake / "raw/real"
    child = os.fork()
    if not child:
        while True:
            tap.rename(real)
            tap.symlink_to(tmp_path / "outside")
            tap.unlink()
            real.rename(tap)
    seen = set()
    try:
        until = time.monotonic() + 60  # either may be the only one that runs for a while
        tries = 0
        while tries < 2_000 or (
            time.monotonic() < until and (b"lake" not in seen or len(seen) < 2)
        ):
            tries += 1
            try:
                handle = files.open_file(lake, ["raw", "tap", "table", "file"])
            except (DamagedError, FileNotFoundError) as error:
                seen.add(type(error).__name__)
                continue
            with os.fdopen(handle, "rb") as file:
                seen.add(file.read())
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert b"lake" in seen
    assert b"secret" not in seen
    assert len(seen) > 1, "nobody was in the way"


@linux
@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM])
def test_where_the_call_is_forbidden_it_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, lake: Path, code: int
) -> None:
    asked = []

    def call(*_: object) -> int:
        asked.append(code)
        ctypes.set_errno(code)
        return -1

    monkeypatch.setattr(files, "_whole_way", beneath.WholeWay(call))
    store = LocalStore(lake)
    store.put_if_absent("raw/tap/one", b"1")
    assert store.get("raw/tap/one").data == b"1"
    assert len(asked) == 1


@linux
def test_what_fails_for_once_is_done_step_by_step(
    monkeypatch: pytest.MonkeyPatch, lake: Path
) -> None:
    asked = []

    def call(*_: object) -> int:
        asked.append(1)
        ctypes.set_errno(errno.EAGAIN)
        return -1

    monkeypatch.setattr(files, "_whole_way", beneath.WholeWay(call))
    with files.folder(lake, ["raw", "tap"]) as handle:
        assert Path(f"/proc/self/fd/{handle}").samefile(lake / "raw/tap")
    assert asked == [1]


@pytest.mark.skipif(sys.platform == "linux", reason="Linux has it")
def test_other_systems_go_step_by_step() -> None:
    assert WAY is None
