"""The freeze of a small table, and of several that are signed, under each fault of a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake
from singerlake.ops.freeze_lake import LakeFreezeOptions, freeze_lake, plan
from singerlake.storage.base import Store
from tests.build import commit_rows
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
from tests.faults.operations import ADA, ID, TAP, Freeze, FreezeLake
from tests.faults.plain import Dump
from tests.frozen import HERE
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


class FreezeLakeSigned(FreezeLake):
    """Two tables as a lake version, of which one has no version yet; each is signed."""

    name = "freeze many, signed"

    def prepare(self, lake: Lake) -> None:
        for table in (f"{TAP}.a", f"{TAP}.b"):
            commit_rows(lake, table, ID, ["id"], [{"id": 1}])
        freeze_small(lake.find(f"{TAP}.a")[0])

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        options, lake = LakeFreezeOptions(signer=ADA), Lake(store)
        done = freeze_lake(lake, plan(lake, lake.tables, options), options, HERE)
        for error in done.failed.values():
            raise error

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        versions, tables = plain.lake_versions(dump), plain.tables(dump)
        assert len(versions) in ((1,) if done else (0, 1))
        whole = ["sync", "freeze", "sign"]
        for table in tables.values():  # one version, and one signature at most
            made = [e["operation"] for e in table.log if e["operation"] in whole]
            assert made == whole if versions else made in (whole[:1], whole[:2], whole)


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
@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (LOST_THEN_OUTAGE, "/transactions/"),
        (KILL_AFTER, "/transactions/"),
        (INTERRUPT, "versions/"),
        *(pytest.param(kind, "", marks=MORE) for kind in (LOST_REPLY, OUTAGE, TAKEN)),
    ],
    ids=lambda value: value or "all" if isinstance(value, str) else value.name,
)
def test_lake_version_names_signed_versions_whatever_fails(kind: Kind, part: str) -> None:
    with fast_folder() as folder:
        Bench(FreezeLakeSigned(), Folder(folder), folder).run_all(kind, part)
