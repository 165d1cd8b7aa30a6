"""Whatever becomes of one operation on the store, it is known which keys are blocked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import UsageError
from singerlake.format.erased_keys import BLOCKED, KeyHashes
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log import blocked
from singerlake.ops import suppression as blocking
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake.storage.base import Store
from tests.faults.cases import Bench, Folder, fast_folder
from tests.faults.faulty_store import KINDS, LATE, LOST_THEN_OUTAGE, TAKEN, Kind
from tests.faults.operations import STALE_SECONDS, Operation
from tests.faults.plain import Dump, tables
from tests.ops.erase import by_hand

EVERYTHING = os.environ.get("SINGERLAKE_FAULTS") == "all"
QUICK = (LOST_THEN_OUTAGE, LATE, TAKEN)
NAME = TableName("tap", "t")


class Unblock(Operation):
    """Of two blocked keys one is let in again."""

    name = "unblock"

    def prepare(self, lake: Lake) -> None:
        table = lake.table(NAME)
        by_hand.write(lake, table, {"id": 1, "name": "Ada"})
        head = table.snapshot()
        rows = blocking.rows_of(head, KeyHashes.new())
        hashes = rows.added(blocking.cells_of(head, ["2", "3"]))
        self.stays = hashes.hash_of("3")
        said = blocked.write(lake.store, NAME, hashes, ["id"])
        blocked.commit_blocked(lake.store, head, said, "w")

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        del acknowledged
        waiting = VacuumOptions(
            lock_wait_seconds=20 if again else 0.1, stale_seconds=STALE_SECONDS if again else 600
        )
        try:
            blocking.unblock(store, Table(store, NAME).snapshot(), ["2"], waiting)
        except UsageError:  # the run before came so far
            assert again

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        del acknowledged
        (table,) = tables(dump).values()
        said = [entry["blocked"] for entry in table.log if "blocked" in entry][-1]
        key = f"{NAME.folder}{BLOCKED}{said['id']}.gz"
        hashes = KeyHashes.decode(dump[key], said["keys"], key).hashes
        assert self.stays in hashes
        assert len(hashes) in ((1,) if done else (1, 2))
        if done:
            assert [one for one in dump if BLOCKED in one] == [key]


@pytest.fixture(scope="module")
def bench(processes: None) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(Unblock(), Folder(folder), folder)


@pytest.mark.parametrize("kind", KINDS if EVERYTHING else QUICK, ids=lambda kind: kind.name)
def test_every_operation_on_the_store(bench: Bench, kind: Kind) -> None:
    bench.run_all(kind)
