"""The undo of a transaction of a small table, in this process, under every fault of the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from singerlake.lake import Lake
from singerlake.ops.rows_back.undo_plan import OnConflict
from singerlake.ops.undo import UndoOptions, undo
from singerlake.storage.base import Store
from tests.faults.cases import Bench, Folder, fast_folder
from tests.faults.faulty_store import Kind
from tests.faults.kinds import each_kind
from tests.faults.operations import Undo, write_options
from tests.faults.test_small_revert import QUICK
from tests.frozen import HERE


class UndoHere(Undo):
    """The same as Spark's."""

    name = "undo, small"
    spark = False

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        options = UndoOptions([2], OnConflict.KEEP, writing=write_options(again=again))
        undo(Lake(store).find(self.table)[0], options, HERE)


@pytest.fixture(scope="module")
def bench(processes: None) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(UndoHere(), Folder(folder), folder)


@each_kind(QUICK)
def test_transaction_is_undone_or_not_whatever_fails(bench: Bench, kind: Kind, part: str) -> None:
    bench.run_all(kind, part)
