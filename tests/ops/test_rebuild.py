"""Manifest, catalogue and log lost in every combination; what is left brings them back."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from singerlake.errors import DamagedError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.rebuild import rebuild_table
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows

PROPERTIES = {"id": {"type": "integer"}}
WIDER = {**PROPERTIES, "note": {"type": "string"}}
NAME = TableName("tap", "orders")


@pytest.fixture
def filled(lake: Lake) -> Lake:
    commit_rows(lake, "tap.orders", PROPERTIES, ["id"], [{"id": n} for n in range(5)], 2)
    commit_rows(lake, "tap.orders", WIDER, ["id"], [{"id": 9, "note": "ä"}, 7, ({"id": 1}, 7)])
    commit_rows(lake, "tap.orders", PROPERTIES, ["id"], [{"id": 10}])
    return lake


def folder(lake: Lake) -> Path:
    assert isinstance(lake.store, LocalStore)
    return lake.store.root / "raw" / "tap" / "orders"


def everything(lake: Lake) -> list[bytes]:
    table = lake.table(NAME)
    return [table.read_block(block) for block in table.snapshot().blocks]


def lose(lake: Lake, what: tuple[str, ...]) -> None:
    for name in what:
        path = folder(lake) / name if name != "catalogue.json" else folder(lake).parent / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


LOSSES = [
    loss
    for count in range(4)
    for loss in itertools.combinations(("manifest.json", "catalogue.json", "transactions"), count)
]


@pytest.mark.parametrize("loss", LOSSES, ids="+".join)
def test_lost_files_are_read_around_and_come_back(filled: Lake, loss: tuple[str, ...]) -> None:
    before, head = everything(filled), filled.table(NAME).snapshot()
    lose(filled, loss)
    assert everything(filled) == before
    rebuild_table(filled.store, NAME)
    assert everything(filled) == before
    after = filled.table(NAME).snapshot()
    assert after.from_log
    assert after.schema_hash == head.schema_hash
    assert after.schemas == head.schemas
    assert [b.activations for b in after.blocks] == [b.activations for b in head.blocks]
    catalogue = filled.catalogue("tap")
    assert catalogue is not None
    assert [s.stream for s in catalogue.streams] == ["orders"]
    if {"manifest.json", "transactions"} - set(loss):
        assert after.transactions == head.transactions
    else:
        assert [t.operation for t in after.transactions] == ["adopt"]


@pytest.mark.parametrize("loss", LOSSES, ids="+".join)
def test_a_rebuilt_table_can_be_written_again(filled: Lake, loss: tuple[str, ...]) -> None:
    lose(filled, loss)
    rebuild_table(filled.store, NAME)
    before = everything(filled)
    commit_rows(filled, "tap.orders", PROPERTIES, ["id"], [{"id": 77}])
    assert everything(filled)[:-1] == before


def test_nothing_is_written_on_top_of_files_whose_log_is_lost(filled: Lake) -> None:
    lose(filled, ("manifest.json", "transactions"))
    with pytest.raises(DamagedError, match="singerlake rebuild tap.orders"):
        commit_rows(filled, "tap.orders", PROPERTIES, ["id"], [{"id": 77}])


def test_entries_lost_at_the_beginning_are_adopted_from_the_files(filled: Lake) -> None:
    before = everything(filled)
    lose(filled, ("manifest.json",))
    for number in (1, 2):
        (folder(filled) / "transactions" / f"{number:012d}.json").unlink()
    with pytest.raises(DamagedError, match="rebuild"):
        everything(filled)
    done = rebuild_table(filled.store, NAME)
    assert (done.transactions, done.adopted) == (3, 4)
    assert everything(filled) == before


def test_an_entry_lost_in_the_middle_is_named(filled: Lake) -> None:
    lose(filled, ("manifest.json",))
    (folder(filled) / "transactions" / f"{2:012d}.json").unlink()
    with pytest.raises(DamagedError, match="lacks transaction 2, and continues to 3"):
        everything(filled)
    with pytest.raises(DamagedError, match="lacks transaction 2"):
        rebuild_table(filled.store, NAME)
    with pytest.raises(DamagedError, match="lacks transaction 2"):
        commit_rows(filled, "tap.orders", PROPERTIES, ["id"], [{"id": 77}])


def test_files_beside_a_lock_are_not_taken_in_unless_asked_for(filled: Lake) -> None:
    before = everything(filled)
    lose(filled, ("manifest.json", "transactions"))
    for schema in {path.parent for path in folder(filled).glob("*/*.singer.gz")}:
        (schema / "singerlake.lock").write_text("{}")
    with pytest.raises(Exception, match=r"no table|nothing is left"):
        everything(filled)
    rebuild_table(filled.store, NAME, include_locked=True)
    assert everything(filled) == before


def test_a_cut_file_is_named(filled: Lake) -> None:
    lose(filled, ("manifest.json", "transactions"))
    path = sorted(folder(filled).glob("*/*.singer.gz"))[0]
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DamagedError, match=path.name):
        rebuild_table(filled.store, NAME)
