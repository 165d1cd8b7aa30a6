"""What counts as replayed: what this very dead-letter table had, and nobody has undone since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from singerlake import api
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.lake import Lake, Table
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.rejected import replay as replaying
from singerlake.ops.revert import RevertOptions, revert
from singerlake.ops.undo import UndoOptions, undo
from singerlake.overlay.alter import AlterOptions
from tests.ops.rejected.shop import EITHER, NAME, kept_totals, row, sync, table_of, totals

HERE = EngineChoice(LOCAL)
LETTERS = f"{NAME}__rejected"
AGES = "2030-01-01T00:00:00Z"


def _replay(lake: Lake, monkeypatch: pytest.MonkeyPatch, *, dies: bool = False) -> None:
    """Replay what passes, and perhaps die before the dead-letter table follows."""

    def end(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if dies:
            patch.setattr(replaying, "settle", end)
            with pytest.raises(KeyboardInterrupt):
                table_of(lake).rejected().replay()
        else:
            table_of(lake).rejected().replay()


@pytest.mark.parametrize("dies", [False, True])
def test_copy_without_its_dead_letter_table_lists_what_it_rejects(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    sync(lake, row(1, 1), row(2, "two"))
    sync(lake, schema=EITHER)
    _replay(lake, monkeypatch, dies=dies)
    api.Lake(lake.store).copy(str(tmp_path / "copy"), tables=[NAME])
    there = Lake.open(str(tmp_path / "copy"))
    sync(there, row(2, 5), row(2, "two", time_extracted=AGES), row("x", 1))
    assert kept_totals(there) == ["two", 1]
    sync(there, schema=EITHER)
    assert table_of(there).rejected().replay().replayed == 1
    assert totals(there) == {1: "1", 2: "two"}


def _rebuilt(lake: Lake) -> None:
    letters = lake.table(LETTERS).name
    lake.store.delete(letters.transaction(1))
    rebuild_table(lake.store, letters)


def _erased(lake: Lake) -> None:
    digest = next(one.digest for one in table_of(lake).rejected() if b'"x"' in one.text)
    api.Lake(lake.store)[LETTERS].erase([digest], reason="asked", engine=LOCAL)


def _dropped_and_back(lake: Lake) -> None:
    letters = lake.table(LETTERS)
    drop_table(lake.store, letters.snapshot(), AlterOptions(), with_versions=True)
    undrop_table(lake.store, letters.snapshot(dropped=True), AlterOptions())


def _grown(lake: Lake) -> None:
    sync(lake, row("y", 4), schema=EITHER)


@pytest.mark.parametrize("change", [_rebuilt, _erased, _dropped_and_back, _grown])
def test_replay_that_died_counts_whatever_becomes_of_the_dead_letter_table(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, change: Callable[[Lake], None]
) -> None:
    sync(lake, row(1, "one"), row("x", 4))
    sync(lake, schema=EITHER)
    _replay(lake, monkeypatch, dies=True)
    change(lake)
    assert "one" not in kept_totals(lake)


def test_replay_that_died_counts_in_a_copy_of_both_tables(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, row(1, "one"), row("x", 4))
    sync(lake, schema=EITHER)
    _replay(lake, monkeypatch, dies=True)
    api.Lake(lake.store).copy(str(tmp_path / "copy"))
    assert kept_totals(Lake.open(str(tmp_path / "copy"))) == [4]


def test_replay_of_an_earlier_commit_without_the_chain_id_hides_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, row(1, "one"), row("x", 4))
    sync(lake, schema=EITHER)
    as_metadata = replaying.kept.as_metadata
    with monkeypatch.context() as patch:
        patch.setattr(
            replaying.kept,
            "as_metadata",
            lambda *said: {k: v for k, v in as_metadata(*said).items() if k != "chain"},
        )
        _replay(lake, monkeypatch, dies=True)
    assert kept_totals(lake) == ["one", 4]
    done = table_of(lake).rejected().replay()
    assert (done.replayed, done.present) == (0, 1)
    assert totals(lake) == {1: "one"}


def _undo(table: Table) -> None:
    undo(table, UndoOptions([table.snapshot().number]), HERE)


def _revert(table: Table) -> None:
    revert(table, RevertOptions(table.snapshot().number - 1), HERE)


@pytest.mark.parametrize("keys", [("id",), ()])
@pytest.mark.parametrize("back", [_undo, _revert])
def test_replay_that_died_and_was_undone_does_not_count(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, back: Callable[[Table], None], keys: Any
) -> None:
    sync(lake, row(1, "one"), row(2, 2), keys=keys)
    sync(lake, schema=EITHER, keys=keys)
    _replay(lake, monkeypatch, dies=True)
    back(table_of(lake))
    assert kept_totals(lake) == ["one"]
    _undo(table_of(lake))
    assert kept_totals(lake) == [], "the undo was undone"
    _undo(table_of(lake))
    assert table_of(lake).rejected().replay().replayed == 1
    assert totals(lake) == {1: "one", 2: "2"}


def test_replay_into_a_table_that_was_dropped_does_not_count(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, row(1, "one"), row(2, 2))
    sync(lake, schema=EITHER)
    _replay(lake, monkeypatch, dies=True)
    drop_table(lake.store, table_of(lake).snapshot(), AlterOptions())
    sync(lake, row(3, 3), schema=EITHER)
    assert kept_totals(lake) == ["one"]
    assert table_of(lake).rejected().replay().replayed == 1
    assert totals(lake) == {1: "one", 3: "3"}
