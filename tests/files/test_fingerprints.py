"""What a frozen version says of files, and that it can be held to."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.format.log import FrozenVersion
from singerlake.lake import Lake
from tests.files.photos import NAME, stored, sync, table_of
from tests.frozen import freeze_here as freeze_small
from tests.tap import run as tap
from tests.target.harness import run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jpg").write_bytes(b"aaa")
    return tmp_path


def frozen(lake: str) -> FrozenVersion:
    return freeze_small(table_of(lake))


def test_other_bytes_under_the_same_name_are_another_version(folder: Path) -> None:
    sync("lake", {1: "a.jpg"})
    first = frozen("lake")
    sync("lake", {1: "a.jpg"})  # the same bytes are named again
    assert frozen("lake").fingerprint == first.fingerprint
    (folder / "a.jpg").write_bytes(b"bbb")
    sync("lake", {1: "a.jpg"})
    assert frozen("lake").fingerprint != first.fingerprint


def test_a_copy_through_tap_and_target_has_it() -> None:
    sync("lake", {1: "a.jpg", 2: "data:,inline", 3: None})
    run("copy", tap.run(Lake.open("lake")).out, file_roots=["lake"])
    assert frozen("copy").fingerprint == frozen("lake").fingerprint
    assert stored(table_of("copy").store) == stored(table_of("lake").store)
    one, other = (table_of(lake).store for lake in ("lake", "copy"))
    for path in stored(one):
        assert one.get(NAME.key(path)).data == other.get(NAME.key(path)).data
