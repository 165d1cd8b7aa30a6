"""`lake.copy`: what `singerlake copy` does, for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

import singerlake
from singerlake.errors import DamagedError, NotFoundError, UsageError
from tests.frozen import freeze_here as freeze_small
from tests.ops.copy.world import NAME, combine, delete, log_of, rows, write
from tests.ops.freeze.test_freeze_lake import freeze_all

OTHER = "tap-other.x"


@pytest.fixture
def lake(tmp_path: Path) -> singerlake.Lake:
    """Two tables, frozen as one, of which one has moved on."""
    made = singerlake.open(tmp_path / "lake", create=True)
    write(made, 1, 2, 3)
    write(made, 4, table=OTHER)
    for name in made.tables():
        freeze_small(made.table(name))
    freeze_all(made, "q3")
    write(made, 5)
    return made


def test_a_lake_is_copied_and_gone_on_with(lake: singerlake.Lake, tmp_path: Path) -> None:
    planned = lake.copy(tmp_path / "copy", dry_run=True)
    assert [str(one.table) for one in planned.tables] == [OTHER, NAME]
    assert not (tmp_path / "copy").exists()
    done = lake.copy(tmp_path / "copy", verify=True)
    assert [(one.transactions, one.verified) for one in done.tables] == [(2, 1), (3, 2)]
    assert [one.version.label for one in done.lake_versions] == ["q3"]
    copy = singerlake.open(tmp_path / "copy")
    assert log_of(copy.store) == log_of(lake.store) and rows(copy.store) == [1, 2, 3, 5]
    combine(lake)
    delete(lake)
    again = lake.copy(tmp_path / "copy", sync=True)
    assert [one.deleted for one in again.tables] == [0, 2]
    assert again.lake_versions == []


def test_some_of_it(lake: singerlake.Lake, tmp_path: Path) -> None:
    done = lake.copy(tmp_path / "one", tables=[lake.table(OTHER).name, f"{NAME}.1"])
    assert [len(one.versions) for one in done.tables] == [0, 1]
    assert rows(singerlake.open(tmp_path / "one").store) == [1, 2, 3]
    assert "not with tables" in done.notes[0]
    for name in ("q3", 1, lake.lake_version("q3")):
        done = lake.copy(tmp_path / "version", lake_version=name)
    assert [one.lake_versions for one in (done,)] == [[]]
    copy = singerlake.open(tmp_path / "version")
    assert list(copy.at("q3")) == list(lake.at("q3"))
    assert len(lake.copy(tmp_path / "text", tables=OTHER).tables) == 1


def test_one_that_fails_keeps_no_other_back(lake: singerlake.Lake, tmp_path: Path) -> None:
    head = lake.table(NAME).snapshot()
    Path(lake.store.uri, head.table.data(head.blocks[0].file)).write_bytes(b"")
    with pytest.raises(DamagedError, match=head.blocks[0].file):
        lake.copy(tmp_path / "copy")
    assert singerlake.open(tmp_path / "copy")[OTHER].snapshot().number == 2


def test_what_is_asked_wrongly(lake: singerlake.Lake, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    with pytest.raises(UsageError, match="the list of tables is empty"):
        lake.copy(to, tables=[])
    with pytest.raises(UsageError, match="leave out tables"):
        lake.copy(to, tables=[NAME], lake_version=1)
    with pytest.raises(UsageError, match="needs whole tables"):
        lake.copy(to, lake_version=1, sync=True)
    with pytest.raises(UsageError, match="name tables without a version"):
        lake.copy(to, tables=[f"{NAME}.1"], sync=True)
    with pytest.raises(UsageError, match="transfers=0"):
        lake.copy(to, transfers=0)
    with pytest.raises(UsageError, match="is inside"):
        lake.copy(Path(lake.store.uri) / "raw")
    with pytest.raises(NotFoundError, match="no lake version 'q9'"):
        lake.copy(to, lake_version="q9")
    assert not to.exists()
