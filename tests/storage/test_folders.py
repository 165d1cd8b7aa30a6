"""Folders of a lake are entered name by name, and no link is followed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from singerlake.errors import DamagedError
from singerlake.storage.base import Store
from singerlake.storage.local import files
from singerlake.storage.local.store import LocalStore
from tests.storage.contract import StoreContract


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "a lake, not yet there"


@pytest.fixture
def store(root: Path) -> Store:
    return LocalStore(root)


class TestALakeThatIsALink(StoreContract):
    """The contract in a lake whose own folder is a link."""

    @pytest.fixture(autouse=True)
    def link(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        root.symlink_to(tmp_path / "elsewhere")


@pytest.fixture(params=["a folder", "a link"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A lake of three folders, once reached by a link."""
    (tmp_path / "lake/raw/tap/table").mkdir(parents=True)
    if request.param == "a folder":
        return tmp_path / "lake"
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    return tmp_path / "link"


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("to", ["outside", "inside"])
def test_no_link_is_followed(lake: Path, tmp_path: Path, depth: int, to: str) -> None:
    parts = ["raw", "tap", "table"]
    planted = lake.joinpath(*parts[:depth])
    moved = tmp_path / "outside" if to == "outside" else lake / "moved"
    planted.rename(moved)
    planted.symlink_to(moved)
    with pytest.raises(DamagedError, match="is a symbolic link"), files.folder(lake, parts):
        pass
    planted.unlink()
    moved.rename(planted)
    with files.folder(lake, parts) as handle:
        assert os.path.samestat(os.fstat(handle), tmp_path.joinpath("lake", *parts).stat())


@pytest.mark.usefixtures("processes")
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
