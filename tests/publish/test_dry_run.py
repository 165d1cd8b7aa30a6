"""What a dry run says of projections is what the run then does: random histories, several of them.

In CI one history. For many others:

    SINGERLAKE_EXAMPLES=20 pytest tests/publish/test_dry_run.py --hypothesis-seed=1
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from singerlake.engine.choice import EngineChoice
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.drop import drop_table
from singerlake.ops.publish.outcome import (
    Outcome,
    PublishedRows,
    PublishOptions,
    Result,
    StagedRows,
)
from singerlake.ops.publish.publish import publish
from singerlake.ops.vacuum.plan import DROP_HISTORY, VacuumOptions
from singerlake.overlay.alter import AlterOptions
from singerlake.publish.projection import Format, OrderKey, Projection, Target
from tests.build import commit_rows
from tests.frozen import revert_on_spark as revert
from tests.frozen import vacuum_on_spark
from tests.histories import here

EXAMPLES = int(os.environ.get("SINGERLAKE_EXAMPLES", "0"))
NAME = "tap.orders"
COLUMNS: list[dict[str, Any]] = [
    {"id": {"type": "integer"}, "total": {"type": ["null", "number"]}},
    {"id": {"type": "integer"}, "total": {"type": ["null", "number"]}, "note": {"type": "string"}},
]
GONE = {"_sdc_deleted_at": "2020-01-01T00:00:00Z"}
ROW = st.fixed_dictionaries(
    {"id": st.integers(0, 9)},
    optional={
        "total": st.sampled_from([None, 0, 1, 2.5, 9]),
        "_sdc_deleted_at": st.just(GONE["_sdc_deleted_at"]),
    },
)
ROWS = st.lists(ROW, min_size=1, max_size=6)
EVENTS = st.one_of(
    st.tuples(st.just("sync"), ROWS),
    st.tuples(st.just("sync"), ROWS),
    st.tuples(st.just("activate"), ROWS),
    st.tuples(st.just("columns"), st.integers(0, 1)),
    st.tuples(st.just("freeze"), st.sampled_from([NAME, "s.stock"])),
    st.tuples(st.just("revert"), st.integers(0, 9)),
    st.tuples(st.just("order"), st.booleans()),
    st.tuples(st.just("drop history"), st.none()),
    st.tuples(st.just("begin anew"), ROWS),
)
HISTORIES = st.lists(st.lists(EVENTS, max_size=3), min_size=2, max_size=4)


class World:
    """A lake with one source, and where and how its rows are published."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.lake = Lake.open(str(folder / "lake"), create=True)
        self.columns = self.versions = 0
        self.descending = False

    @property
    def projections(self) -> list[Projection]:
        order = (OrderKey("total", self.descending),)
        own = ("tap.orders",)
        open_ = "select id, total from tap.orders where total is not null"
        return [
            Projection("fresh", "select * from tap.orders", own, key=("id",), order_by=order),
            Projection("compared", open_, own, key=("id",), order_by=order),
            Projection("loose", "select total from tap.orders", own),
            Projection("named", open_, own, key=("id",), versions=True),
            Projection("stock", open_, own, TableName("s", "stock"), key=("id",), versions=True),
            Projection("heap", "select total from tap.orders", own, TableName("s", "heap")),
            Projection("sums", "select count(*) as n from s.stock", ("s.stock",)),
        ]

    def publish(self, *, dry_run: bool) -> list[Outcome]:
        formats = {"compared": Format.CSV, "named": Format.ICEBERG, "sums": Format.JSONL}
        said = [
            replace(
                one,
                target=Target(str(self.folder / one.name), formats.get(one.name, Format.PARQUET)),
            )
            for one in self.projections
        ]
        return list(
            publish(
                self.lake, said, PublishOptions(dry_run=dry_run), EngineChoice.of(spark=self.spark)
            )
        )

    def sync(self, rows: list[dict[str, Any]], version: int | None = None) -> None:
        written: list[Any] = [dict(row) for row in rows]
        if self.columns:
            written = [{**row, "note": "x"} for row in written]
        if version is not None:
            written = [*((row, version) for row in written), version]
        commit_rows(self.lake, NAME, COLUMNS[self.columns], ["id"], written)

    def do(self, what: str, said: Any) -> None:
        table = self.lake.find(NAME)[0]
        if what == "sync":
            self.sync(said)
        elif what == "activate":
            self.versions += 1
            self.sync(said, self.versions)
        elif what == "columns":
            self.columns = said
        elif what == "order":
            self.descending = said
        elif what == "freeze":
            here.freeze(self.lake.find(said)[0])
        elif what == "revert":
            head = table.snapshot()
            past = [one.number for one in head.own_transactions if head.readable(one.number)]
            revert(self.spark, table, past[said % len(past)], allow_type_mismatches=True)
        elif what == "drop history":
            options = VacuumOptions(parts=(DROP_HISTORY,), retain_seconds=0, guard=False)
            vacuum_on_spark(self.spark, table, options)
        else:
            drop_table(self.lake.store, table.snapshot(), AlterOptions())
            self.sync(said)

    def check(self) -> None:
        """Ask, do, and hold the one against the other; then nothing is left to do."""
        asked, done = self.publish(dry_run=True), self.publish(dry_run=False)
        for would, was in zip(asked, done, strict=True):
            assert was.error is None, was.error
            assert would.projection == was.projection
            if would.reason:  # its rows are made of those of a table that changes first
                assert was.projection == "sums" and done[4].staged is not None
                continue
            results = {Result.TO_DO: Result.DONE}
            assert results.get(would.result, would.result) is was.result, (would, was)
            assert staged(would.staged) == staged(was.staged)
            check_published(would.published, was.published, would, was)
        again = self.publish(dry_run=True)
        assert {one.result for one in again} == {Result.UP_TO_DATE}, again


def staged(rows: StagedRows | None) -> StagedRows | None:
    return None if rows is None else replace(rows, transaction=None)


def check_published(
    would: PublishedRows | None, was: PublishedRows | None, asked: Outcome, done: Outcome
) -> None:
    if would is None or was is None:
        assert would is was, (asked, done)
        return
    both = (asked, done)
    assert (would.full, would.why_full) == (was.full, was.why_full), both
    assert would.versions == was.versions, both
    told = would.written is not None
    assert not told or would.written == was.written, both
    assert would.changed in (None, was.changed), both
    if asked.staged is None and not would.versions:
        assert told and would.changed == was.changed, both
    elif asked.staged is not None and not would.versions:
        assert told == would.full, both
    event(f"{asked.projection}: {'full' if would.full else 'increment'}, told: {told}")


@settings(
    max_examples=EXAMPLES or 1,
    deadline=None,
    database=None,
    phases=[Phase.explicit, *([Phase.generate] if EXAMPLES else [])],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@example(
    first=[{"id": n, "total": n} for n in range(8)],
    history=[
        [
            ("freeze", NAME),
            ("freeze", "s.stock"),
            (
                "sync",
                [{"id": 1, "total": 5}, {"id": 2, **GONE}, {"id": 11}, {"id": 12, "total": 3}],
            ),
        ],
        [("columns", 1), ("activate", [{"id": 4, "total": 4}]), ("order", True)],
    ],
)
@given(first=ROWS, history=HISTORIES)
def test_a_dry_run_counts_what_the_run_does(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    first: list[dict[str, Any]],
    history: list[list[tuple[str, Any]]],
) -> None:
    world = World(spark, tmp_path_factory.mktemp("asked"))
    world.sync(first)
    if EXAMPLES:
        world.check()
    else:  # of a staging table that is made test_stage.py asks; whole builds come again below
        world.publish(dry_run=False)
    for events in history:
        for what, said in events:
            world.do(what, said)
        world.check()


def test_what_a_dry_run_cannot_know_it_does_not_say() -> None:
    place = PublishedRows("out", "parquet", "staging.orders changes", full=False, changed=3)
    staged_rows = StagedRows("staging.orders", None, "incremental", "", 1, 1, 1)
    would = Outcome("orders", Result.TO_DO, staged_rows, place)
    assert would.words() == [
        "orders (dry run): staging.orders (incremental): 1 inserted, 1 updated, 1 deleted",
        "orders (dry run): staging.orders changes: 3 rows changed",
    ]
    unknown = replace(would, staged=None, published=replace(place, changed=None))
    assert unknown.words() == ["orders (dry run): staging.orders changes: changed rows written"]
    waits = Outcome("sums", Result.TO_DO, reason="staging.orders changes first")
    assert waits.words() == ["sums (dry run): staging.orders changes first"]
