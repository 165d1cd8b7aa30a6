"""A replay of rejected records, killed or failing anywhere: each record is a row once, or rejected.

Both tables' logs are looked at: no moment is without the record, and however often the replay is
run again, it is there once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from singerlake.lake import Lake
from singerlake.ops.rejected.replay import ReplayOptions, replay
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
from tests.faults.operations import TAP, Operation, write_options
from tests.faults.plain import Dump, Row
from tests.frozen import HERE
from tests.needs import MORE
from tests.ops.rejected.shop import EITHER, NEW, row, sync


class Replay(Operation):
    """Two records that pass by now, one that does not, and one that is older than its row."""

    name = "replay, small"
    table = f"{TAP}.a"
    keys: ClassVar[list[str]] = ["id"]
    before: ClassVar[list[Row]] = [{"id": 1, "total": 1}, {"id": 4, "total": "newer"}]
    passing: ClassVar[list[Row]] = [{"id": 2, "total": "two"}, {"id": 3, "total": "three"}]

    def prepare(self, lake: Lake) -> None:
        there, newer = self.before
        refused = [row("x", 5), row(4, "older", time_extracted="2025-01-01T00:00:00Z")]
        passing = [row(one["id"], one["total"]) for one in self.passing]
        first = row(there["id"], there["total"], time_extracted=NEW)
        sync(lake, first, *passing, *refused, keys=self.keys)
        last = row(newer["id"], newer["total"], time_extracted=NEW)
        sync(lake, last, schema=EITHER, keys=self.keys)

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        options = ReplayOptions(writing=write_options(again=again))
        replay(Lake(store).find(self.table)[0], options, HERE)

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        found = plain.tables(dump)
        rows = found[self.table].state()
        taken = self.before + self.passing + self.kept_rows()
        after = sorted(taken, key=lambda one: (one["id"], str(one["total"])))
        ordered = sorted(rows, key=lambda one: (one["id"], str(one["total"])))
        assert ordered in ([after] if done else [self.before, after])
        replays = [one for one in found[self.table].log if one["operation"] == "replay"]
        assert len(replays) == (ordered == after)
        kept = {
            json.loads(one["message"])["record"]["id"]
            for one in found[f"{self.table}__rejected"].state()
        }
        ids = {one["id"] for one in [*self.passing, *self.kept_rows()]}
        assert kept >= {"x"}
        if ordered != after:
            assert kept >= ids, "a record that is no row yet is rejected still"
        if done:
            assert not kept & {one["id"] for one in self.passing}

    def kept_rows(self) -> list[Row]:
        """The rows of records that the table with its key has newer ones of."""
        return []


class ReplayKeyless(Replay):
    """The same of a table without a key, in which no row is newer than another."""

    name = "replay, no key, small"
    keys: ClassVar[list[str]] = []

    def kept_rows(self) -> list[Row]:
        return [{"id": 4, "total": "older"}]


QUICK = [
    *((kind, "") for kind in (LOST_REPLY, TAKEN, OUTAGE, LOST_THEN_OUTAGE, INTERRUPT)),
    (KILL_AFTER, "/a/transactions/000000000003"),
]
"""Every place for most kinds; processes that are killed take longer, and are killed where it
matters most: between the commits of the two tables."""


@pytest.fixture(
    scope="module",
    params=[Replay, pytest.param(ReplayKeyless, marks=MORE)],
    ids=lambda one: one.name,
)
def bench(processes: None, request: pytest.FixtureRequest) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(request.param(), Folder(folder), folder)


@each_kind(QUICK)
def test_record_is_a_row_once_or_rejected_whatever_fails(
    bench: Bench, kind: Kind, part: str
) -> None:
    bench.run_all(kind, part)
