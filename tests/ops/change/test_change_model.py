"""Changes against a model in plain Python: counts of the dry run and of the run, and the state.

Cases are put side by side under a key of their own, so that one job has many of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from singerlake.engine.spark.engine import SparkEngine
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.ops.change.job import Changed
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.change.row_set import Part, RowSet
from singerlake.ops.change.sql.selected_rows import Selection
from singerlake.sql.state.from_blocks import state
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.ops.change.row_sets import change, change_parts, row_set

pytestmark = pytest.mark.usefixtures("quick_plans")
PROPERTIES: dict[str, Any] = {
    "case": {"type": "integer"},
    "id": {"type": "string"},
    "n": {"type": ["null", "integer"]},
    "s": {"type": ["null", "string"]},
}
KEYS = ["case", "id"]
MODES = (Mode.UPSERT, Mode.UPDATE, Mode.DELETE, Mode.INSERT)
Row = dict[str, Any]

cells = st.fixed_dictionaries(
    {}, optional={"n": st.none() | st.integers(0, 2), "s": st.none() | st.sampled_from(["", "a"])}
)
rows = st.dictionaries(st.sampled_from("xyz"), cells, max_size=3)
asked = st.dictionaries(st.sampled_from("xyz"), cells | st.just({"_delete": True}), max_size=3)
cases = st.lists(st.tuples(rows, asked, asked, asked, asked), min_size=20, max_size=60).filter(
    lambda drawn: drawn.count(drawn[0]) < len(drawn)
)
"""Hypothesis begins with the simplest example, cases without a row: not worth the jobs."""


@dataclass
class Model:
    """One case: rows by id, and what the change does to them."""

    before: dict[str, Row]
    now: dict[str, Row] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    anew: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.before = {id_: {"n": None, "s": None, **row} for id_, row in self.before.items()}
        self.now = dict(self.before)

    def step(self, mode: Mode, wanted: dict[str, Row]) -> dict[str, Row]:
        """Apply those rows of a step that can be, and give them back."""
        done = {}
        for id_, row in wanted.items():
            there, gone = id_ in self.now, "_delete" in row or mode is Mode.DELETE
            if not gone and (
                (mode is Mode.UPDATE and not there) or (mode is Mode.INSERT and there)
            ):
                continue
            done[id_] = row
            if gone:
                self.now.pop(id_, None)
                self.anew.add(id_)
            else:
                self.now[id_] = {"n": None, "s": None, **self.now.get(id_, {}), **row}
            self.asked.add(id_)
        return done

    def counts(self) -> dict[str, int]:
        counts = dict.fromkeys(("inserted", "updated", "deleted", "unchanged", "absent"), 0)
        for id_ in self.asked:
            before, now = self.before.get(id_), self.now.get(id_)
            if now is None:
                counts["absent" if before is None else "deleted"] += 1
            elif before is None:
                counts["inserted"] += 1
            else:
                same = before == now and id_ not in self.anew
                counts["unchanged" if same else "updated"] += 1
        return counts


@settings(max_examples=1, deadline=None, suppress_health_check=[*HealthCheck], derandomize=True)
@given(cases)
def test_counts_and_state_are_those_of_the_model(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, drawn: list[Any]
) -> None:
    lake = Lake(LocalStore(tmp_path_factory.mktemp("lake")))
    models = [Model(before) for before, *_ in drawn]
    steps: list[list[Row]] = [[] for _ in MODES]
    for number, (model, (_, *wanted)) in enumerate(zip(models, drawn, strict=True)):
        for step, mode, some in zip(steps, MODES, wanted, strict=True):
            done = model.step(mode, some)
            step += [{"case": number, "id": id_, **row} for id_, row in done.items()]
    present = [
        {"case": number, "id": id_, **row}
        for number, model in enumerate(models)
        for id_, row in model.before.items()
    ]
    commit_rows(lake, "tap.t", PROPERTIES, KEYS, [*present], block_rows=7)
    table = lake.table(TableName("tap", "t"))

    def parts(snapshot: TableState) -> list[Part]:
        names = ["case", "id", "n", "s"]
        sets = (row_set(spark, snapshot, step, names=names) for step in steps)
        return [Part((one,), mode) for one, mode in zip(sets, MODES, strict=True)]

    total = {name: sum(m.counts()[name] for m in models) for name in models[0].counts()}
    dry = change_parts(spark, table, parts, options=ChangeOptions(dry_run=True))
    assert dry == Changed(None, **total)
    done = change_parts(spark, table, parts)
    changes = total["inserted"] + total["updated"] + total["deleted"]
    assert done == Changed(2 if changes else None, **total)
    head = table.snapshot()
    assert sum(block.rows for block in head.blocks_after(1)) == changes
    expected = [
        (number, id_, row["n"], row["s"])
        for number, model in enumerate(models)
        for id_, row in model.now.items()
    ]
    found = [tuple(row) for row in state(spark, table, head).select(*PROPERTIES).collect()]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    check_the_other_ways(spark, lake, table, expected)


def check_the_other_ways(
    spark: SparkSession, lake: Lake, table: Table, rows: list[tuple[Any, ...]]
) -> None:
    """All rows replaced, then rows changed and deleted that SQL selects: counts and the state."""
    now, engine = {row[:2]: row for row in rows}, SparkEngine(spark)

    def check(asked: Callable[[TableState], list[RowSet]], mode: Mode, **counts: int) -> None:
        number = table.snapshot().number
        dry = change(spark, table, asked, mode, options=ChangeOptions(dry_run=True))
        assert dry == Changed(None, **counts)
        done = change(spark, table, asked, mode)
        moot = not any(counts.get(name) for name in ("inserted", "updated", "deleted"))
        assert done == Changed(None if moot else number + 1, **counts)
        found = state(spark, table, table.snapshot()).select(*PROPERTIES).collect()
        assert sorted(map(tuple, found), key=repr) == sorted(now.values(), key=repr)

    given = [{"case": row[0], "id": row[1], "s": "new"} for row in rows[::2]]
    given += [{"case": -1, "id": "w", "n": 2, "s": None}]
    old, now = now, {(-1, "w"): (-1, "w", 2, None)}
    now |= {(c, i): (c, i, n, "new") for c, i, n, _ in rows[::2]}
    others = sum(old[key] != now[key] for key in now.keys() & old.keys())
    check(
        lambda present: [row_set(spark, present, given, names=["case", "id", "n", "s"])],
        Mode.REPLACE,
        inserted=1,
        updated=others,
        deleted=len(old.keys() - now.keys()),
        unchanged=len(now) - 1 - others,
    )
    wanted = [row for row in now.values() if row[2] is not None]
    other = [row for row in wanted if row[2] != 1]
    now |= {row[:2]: (*row[:2], 1, row[3]) for row in wanted}
    with Selection(lake, table, "n is not null", {"n": "1"}) as selected:
        check(
            lambda now: [selected.row_set(engine, now, "t")],
            Mode.UPDATE,
            updated=len(other),
            unchanged=len(wanted) - len(other),
        )
    gone = [key for key, row in now.items() if row[2] is None]
    for key in gone:
        del now[key]
    with Selection(lake, table, "n is null") as selected:
        check(lambda now: [selected.row_set(engine, now, "t")], Mode.DELETE, deleted=len(gone))
