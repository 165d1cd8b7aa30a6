"""The freeze of a small table, which runs in this process, under every fault of the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from singerlake.lake import Lake
from singerlake.storage.base import Store
from tests.faults.cases import Bench, Folder, fast_folder
from tests.faults.faulty_store import (
    INTERRUPT,
    KILL_AFTER,
    LOST_REPLY,
    LOST_THEN_OUTAGE,
    OUTAGE,
    TAKEN,
    Kind,
)
from tests.faults.kinds import each_kind
from tests.faults.operations import Freeze
from tests.frozen import freeze_here as freeze_small


class FreezeHere(Freeze):
    """The same as Spark's job."""

    name = "freeze, small"
    spark = False

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        label = None if again else "first"
        freeze_small(Lake(store).find(self.table)[0], label=label)


QUICK = [
    *((kind, "") for kind in (LOST_REPLY, TAKEN, OUTAGE, LOST_THEN_OUTAGE, INTERRUPT)),
    (KILL_AFTER, "_index.json"),
    (KILL_AFTER, "/transactions/"),
]
"""Every place for most kinds; processes that are killed take longer, and are killed where it
matters most."""


@pytest.fixture(scope="module")
def bench(processes: None) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(FreezeHere(), Folder(folder), folder)


@each_kind(QUICK)
def test_a_small_table_is_frozen_or_not_whatever_fails(bench: Bench, kind: Kind, part: str) -> None:
    bench.run_all(kind, part)
