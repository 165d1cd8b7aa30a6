"""Random histories of a table, staged as they go: always the rows that the SQL says.

However a refresh finds them, the table has the fingerprint of one made anew. In CI one history on
Spark, and some in this process. For many others:

    SINGERLAKE_EXAMPLES=50 pytest tests/ops/publish/test_stage_model.py --hypothesis-seed=1
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from singerlake.engine.choice import EngineChoice
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.change.plan import ChangeOptions
from singerlake.ops.change.table_change import TableChange
from singerlake.ops.create.table import CreateOptions, create
from singerlake.ops.drop import drop_table
from singerlake.ops.publish.stage import stage
from singerlake.ops.vacuum.plan import DROP_HISTORY, VacuumOptions
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions, alter
from singerlake.publish.projection import Projection
from tests.build import commit_rows
from tests.frozen import HERE, on, revert_here, vacuum_here
from tests.histories import here

EXAMPLES = int(os.environ.get("SINGERLAKE_EXAMPLES", "0"))
NAME = "tap.orders"
PROJECTIONS = [
    Projection(
        "every", "select * from tap.orders", stage=TableName("s", "every"), key=("part", "id")
    ),
    Projection(
        "open",
        "select id as number, part, concat(status, '!') as loud from tap.orders "
        "where status <> 'done' or id < 2",
        stage=TableName("s", "open"),
        key=("part", "number"),
    ),
    Projection(
        "sums",
        "select part, count(*) as n, max(total) as most from tap.orders group by part",
        stage=TableName("s", "sums"),
        key=("part",),
    ),
]
BASE: dict[str, Any] = {"part": {"type": "string"}, "id": {"type": "integer"}}
STATUS = {"status": {"type": ["null", "string"]}}
TOTALS = [
    {"total": {"type": ["null", "number"]}},
    {"total": {"type": ["null", "string"]}},
    {"total": {"type": ["null", "number"]}, "note": {"type": ["null", "string"]}},
]
ROW = st.fixed_dictionaries(
    {"part": st.sampled_from("abc"), "id": st.integers(0, 4)},
    optional={
        "status": st.sampled_from([None, "new", "done"]),
        "total": st.sampled_from([None, 0, -0.0, 1, 1.0, 2.5]),
        "note": st.sampled_from(["", "ä"]),
        "in_no_column": st.integers(0, 1),
        "_sdc_deleted_at": st.just("2020-01-01T00:00:00Z"),
    },
)
ROWS = st.lists(ROW, min_size=1, max_size=8)
EVENTS = st.one_of(
    st.tuples(st.just("sync"), ROWS),
    st.tuples(st.just("sync"), ROWS),
    st.tuples(st.just("activate"), ROWS),
    st.tuples(st.just("columns"), st.integers(0, 2)),
    st.tuples(st.just("key"), st.sampled_from([["part", "id"], ["part"]])),
    st.tuples(st.just("say"), st.integers(1, 3)),
    st.tuples(st.just("revert"), st.integers(0, 9)),
    st.tuples(st.just("freeze"), st.none()),
    st.tuples(st.just("drop history"), st.none()),
    st.tuples(st.just("begin anew"), ROWS),
    st.tuples(st.just("meddle"), st.none()),
    st.tuples(st.just("take back"), st.none()),
)
HISTORIES = st.lists(st.lists(EVENTS, min_size=1, max_size=3), min_size=2, max_size=4)
GONE = {"_sdc_deleted_at": "2020-01-01T00:00:00Z"}


@dataclass
class World:
    """A lake with one source, what the tap says of it, and what is staged of it."""

    choice: EngineChoice
    lake: Lake
    staged: Projection
    columns: int = 0
    key: list[str] = field(default_factory=lambda: ["part", "id"])
    versions: int = 0

    def sync(self, rows: list[dict[str, Any]], version: int | None = None) -> None:
        properties = {**BASE, **STATUS, **TOTALS[self.columns]}
        written: list[Any] = [self.row(row) for row in rows]
        if version is not None:
            written = [*((row, version) for row in written), version]
        commit_rows(self.lake, NAME, properties, self.key, written)

    def row(self, row: dict[str, Any]) -> dict[str, Any]:
        """A record that fits the schema as it is."""
        total = row.get("total")
        if self.choice is HERE and total == 0:
            total = 0  # -0.0 as the largest value is Spark's to tell
            row = {**row, "total": total}
        return {**row, "total": str(total)} if self.columns == 1 and total is not None else row

    def do(self, what: str, said: Any) -> None:
        table = self.lake.find(NAME)[0]
        if what == "sync":
            self.sync(said)
        elif what == "activate":
            self.versions += 1
            self.sync(said, self.versions)
        elif what == "columns":
            self.columns = said
        elif what == "key":
            self.key = said
        elif what == "say":
            self.say(said)
        elif what == "revert":
            head = table.snapshot()
            past = [one.number for one in head.own_transactions if head.readable(one.number)]
            revert_here(table, past[said % len(past)], allow_type_mismatches=True)
        elif what == "freeze":
            here.freeze(table)
        elif what == "drop history":
            options = VacuumOptions(parts=(DROP_HISTORY,), retain_seconds=0, guard=False)
            vacuum_here(table, options)
        elif what == "begin anew":
            drop_table(self.lake.store, table.snapshot(), AlterOptions(), with_versions=True)
            self.sync(said)
        else:
            self.meddle(back=what == "take back")

    def say(self, default: int) -> None:
        """Give the source a column of people's own, or that another default."""
        head = self.lake.find(NAME)[0].snapshot()
        said = partial(says.with_default, name="said", default=default)
        if "said" not in dict(head.columns):
            spec = {"type": ["null", "integer"]}
            said = partial(says.with_column, name="said", schema=spec, default=default, initial=0)
        alter(self.lake.store, head, said)

    def meddle(self, *, back: bool) -> None:
        """Change the staging table by hand, or turn it back."""
        table = self.lake.find(str(self.staged.stage))[0]
        if back:
            revert_here(table, 1, allow_type_mismatches=True)
            return
        with TableChange(table, ChangeOptions(), HERE) as change:
            row = {name: "a" if name == "part" else 3 for name in self.staged.key}
            change.upsert([row, {**row, "part": "mine"}])

    def refresh(self) -> None:
        """Refresh the table, and hold it against one that is made of the same rows."""
        one = self.staged
        done = stage(self.lake, one, self.choice)
        asked = CreateOptions(one.sql, one.key, change=ChangeOptions(dry_run=True))
        anew = create(self.lake, "s.anew", asked, self.choice)
        table = self.lake.find(str(one.stage))[0]
        assert here.content(table).fingerprint == anew.fingerprint, done
        event(f"{one.name}: {done.how}")


HISTORY = [
    [("sync", [{"part": "a", "id": 1, "status": "done"}, {"part": "a", "id": 4}])],
    [("revert", 0), ("sync", [{"part": "b", "id": 3, **GONE}, {"part": "c", "id": 0}])],
    [("columns", 1), ("activate", [{"part": "c", "id": 0, "total": 2.5}]), ("meddle", None)],
]
FIRST = [{"part": "a", "id": 1, "status": "new"}, {"part": "b", "id": 3, "total": 1}]


def check(
    choice: EngineChoice,
    place: Path,
    projection: Projection,
    first: list[dict[str, Any]],
    history: list[list[tuple[str, Any]]],
) -> None:
    world = World(choice, Lake.open(str(place), create=True), projection)
    world.sync(first)
    world.refresh()
    for events in history:
        for what, said in events:
            world.do(what, said)
        world.refresh()
    full = stage(world.lake, projection, choice, full_refresh=True)
    assert (full.changed.inserted, full.changed.updated, full.changed.deleted) == (0, 0, 0)
    assert full.transaction is None


def histories(examples: int) -> Any:
    return settings(
        max_examples=EXAMPLES or examples or 1,
        deadline=None,
        database=None,
        phases=[Phase.explicit, *([Phase.generate] if EXAMPLES or examples else [])],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.mark.usefixtures("many_cases")
@pytest.mark.parametrize("projection", [pytest.param(one, id=one.name) for one in PROJECTIONS])
@histories(10)
@example(first=FIRST, history=HISTORY)
@given(first=ROWS, history=HISTORIES)
def test_rows_staged_here_are_those_of_a_table_made_anew(
    tmp_path_factory: pytest.TempPathFactory, projection: Projection, first: Any, history: Any
) -> None:
    check(HERE, tmp_path_factory.mktemp("staged") / "lake", projection, first, history)


@pytest.mark.parametrize(
    "projection",
    [
        # A WHERE that rows come into and leave, and rows put together, has ``test_stage.py``, too.
        pytest.param(one, id=one.name, marks=[] if one.name == "every" else [pytest.mark.variant])
        for one in PROJECTIONS
    ],
)
@histories(0)
@example(first=FIRST, history=HISTORY)
@given(first=ROWS, history=HISTORIES)
def test_rows_staged_on_spark_are_those_of_a_table_made_anew(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    projection: Projection,
    first: Any,
    history: Any,
) -> None:
    check(on(spark), tmp_path_factory.mktemp("staged") / "lake", projection, first, history)
