"""The freeze of a small table, and the moves of a pointer, under every fault of the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake
from singerlake.ops.point import point
from singerlake.storage.base import Store
from tests.faults import plain
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
from tests.faults.operations import DeleteVersion, Freeze
from tests.faults.plain import Dump
from tests.frozen import freeze_here as freeze_small
from tests.needs import MORE


class FreezeHere(Freeze):
    """The same as Spark's job."""

    name = "freeze, small"
    spark = False

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        label = None if again else "first"
        freeze_small(Lake(store).find(self.table)[0], label=label)


class FreezeAsHere(FreezeHere):
    """The same, which moves a pointer in the transaction of the version."""

    name = "freeze with a pointer, small"

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        label = None if again else "first"
        freeze_small(Lake(store).find(self.table)[0], label=label, pointer="current")

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        super().check(dump, acknowledged, done=done)
        table = plain.tables(dump)[self.table]
        moves = [entry["pointer"]["version"] for entry in table.log if "pointer" in entry]
        assert moves == [version["number"] for version in table.versions]


class Point(DeleteVersion):
    """A pointer from one version to another."""

    name = "point"

    def prepare(self, lake: Lake) -> None:
        super().prepare(lake)
        point(lake.store, lake.find(self.table)[0].snapshot(), "current", "1")

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        point(store, Lake(store).find(self.table)[0].snapshot(), "current", "2")

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        moves = [entry["pointer"]["version"] for entry in table.log if "pointer" in entry]
        assert moves in ([[1, 2]] if done else [[1], [1, 2]])
        assert [version["number"] for version in table.versions] == [1, 2]


QUICK = [
    *((kind, "") for kind in (LOST_REPLY, TAKEN, OUTAGE, LOST_THEN_OUTAGE, INTERRUPT)),
    (KILL_AFTER, "_index.json"),
    (KILL_AFTER, "/transactions/"),
]
"""Every place for most kinds; processes that are killed take longer, and are killed where it
matters most."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(FreezeHere, marks=MORE), FreezeAsHere],
    ids=lambda one: one.name,
)
def bench(processes: None, request: pytest.FixtureRequest) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(request.param(), Folder(folder), folder)


@each_kind(QUICK)
def test_a_small_table_is_frozen_or_not_whatever_fails(bench: Bench, kind: Kind, part: str) -> None:
    bench.run_all(kind, part)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("kind", [LOST_REPLY, TAKEN, LOST_THEN_OUTAGE, INTERRUPT, KILL_AFTER])
def test_a_pointer_moves_or_does_not_whatever_fails(kind: Kind) -> None:
    with fast_folder() as folder:
        Bench(Point(), Folder(folder), folder).run_all(kind, "/transactions/")
