"""Whatever becomes of one operation on the store, the log reads, and a later run finishes it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake, Table
from singerlake.log import versions
from singerlake.ops.resealing import reseal
from singerlake.storage.base import Store
from tests.faults.cases import Bench, Folder, fast_folder
from tests.faults.faulty_store import KINDS, LATE, LOST_THEN_OUTAGE, TAKEN, Kind
from tests.faults.operations import Operation
from tests.faults.plain import Dump, lake_versions, tables
from tests.ops.erase import by_hand
from tests.ops.erase.test_resealing import ADA, NAME, filled, told

EVERYTHING = os.environ.get("SINGERLAKE_FAULTS") == "all"
QUICK = (LOST_THEN_OUTAGE, LATE, TAKEN)
"""An outage after a write leaves what a kill leaves, and no process has to be made for it."""


class Reseal(Operation):
    """After an erasure whose files are gone, while the manifest is still of before."""

    name = "reseal"

    def prepare(self, lake: Lake) -> None:
        table = filled(lake)
        before = lake.store.get(table.name.manifest)
        self.old = {*told(table)}
        by_hand.erase(table, ADA)
        self.seen = _readings(lake)
        self.old -= _told_after(lake)
        lake.store.replace(table.name.manifest, before.data, None)
        assert lake.store.get(table.name.manifest).data == before.data

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        del acknowledged, again
        reseal(store, Table(store, NAME).snapshot())

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        del acknowledged
        logs = {key: data for key, data in dump.items() if not key.endswith(".gz")}
        (table,) = tables(dump).values()
        rows = [table.state(number) for number in range(1, len(table.log) + 1)]
        assert rows == self.seen["rows"]
        assert len(lake_versions(dump)) == 1
        if done:
            left = [key for key, data in logs.items() for old in self.old if old.encode() in data]
            assert not left


def _told_after(lake: Lake) -> set[str]:
    """What the log tells when all is done."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(lake.store.uri, f"{folder}/lake")
        table = Lake.open(f"{folder}/lake").table(NAME)
        reseal(table.store, table.snapshot())
        return {*told(table)}


def _readings(lake: Lake) -> dict[str, Any]:
    table = lake.table(NAME)
    head = table.snapshot()
    rows = [
        sorted(by_hand.rows_at(table, head, number), key=str)
        for number in range(1, head.number + 1)
    ]
    return {"rows": rows, "versions": versions.known(head)}


@pytest.fixture(scope="module")
def bench(processes: None) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(Reseal(), Folder(folder), folder)


@pytest.mark.parametrize("kind", KINDS if EVERYTHING else QUICK, ids=lambda kind: kind.name)
def test_every_operation_on_the_store(bench: Bench, kind: Kind) -> None:
    bench.run_all(kind)
