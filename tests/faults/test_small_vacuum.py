"""The vacuum of a small table, which runs in this process, under every fault of the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from singerlake.lake import Lake
from singerlake.ops.vacuum.plan import PARTS
from singerlake.storage.base import Store
from tests.faults.cases import Bench, Folder, fast_folder
from tests.faults.faulty_store import (
    INTERRUPT,
    KILL_AFTER,
    KILL_BEFORE,
    LOST_REPLY,
    LOST_THEN_OUTAGE,
    OUTAGE,
    TAKEN,
    Kind,
)
from tests.faults.kinds import each_kind
from tests.faults.operations import Vacuum, vacuum_options
from tests.frozen import freeze_here, vacuum_here


class VacuumHere(Vacuum):
    """The same as on Spark: history goes, files are compacted, and files are deleted."""

    name = "vacuum, small"
    spark = False

    def _freeze(self, lake: Lake) -> None:
        freeze_here(lake.find(self.table)[0])

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        vacuum_here(Lake(store).find(self.table)[0], vacuum_options(PARTS, again=again))


QUICK = [
    *((kind, "") for kind in (LOST_REPLY, TAKEN, OUTAGE, LOST_THEN_OUTAGE, INTERRUPT)),
    (KILL_BEFORE, "/transactions/"),
    (KILL_AFTER, "/transactions/"),
]
"""Every place for most kinds; processes that are killed take longer, and are killed where it
matters most."""


@pytest.fixture(scope="module")
def bench(processes: None) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(VacuumHere(), Folder(folder), folder)


@each_kind(QUICK)
def test_a_small_table_is_vacuumed_or_not_whatever_fails(
    bench: Bench, kind: Kind, part: str
) -> None:
    bench.run_all(kind, part)
