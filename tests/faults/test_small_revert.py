"""The revert of a small table, which runs in this process, under every fault of the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

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
from tests.faults.operations import Revert, write_options
from tests.frozen import revert_here as revert_small


class RevertHere(Revert):
    """The same as Spark's job."""

    name = "revert, small"
    spark = False

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        table = Lake(store).find(self.table)[0]
        revert_small(table, 1, options=write_options(again=again))


class RevertKeylessHere(RevertHere):
    """The same of a table without a key."""

    name = "revert, small, no key"
    keys: ClassVar[list[str]] = []


QUICK = [
    *((kind, "") for kind in (LOST_REPLY, TAKEN, OUTAGE, LOST_THEN_OUTAGE, INTERRUPT)),
    (KILL_AFTER, "/transactions/"),
]
"""Every place for most kinds; processes that are killed take longer, and are killed where it
matters most."""


@pytest.fixture(scope="module", params=[RevertHere, RevertKeylessHere])
def bench(processes: None, request: pytest.FixtureRequest) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(request.param(), Folder(folder), folder)


@each_kind(QUICK)
def test_a_small_table_is_turned_back_or_not_whatever_fails(
    bench: Bench, kind: Kind, part: str
) -> None:
    bench.run_all(kind, part)
