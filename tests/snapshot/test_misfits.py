"""Values that their columns cannot hold: who reads them is told, nobody else is disturbed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.engine.spark.engine import SparkEngine
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.errors import DamagedError, MisfitsError, UsageError
from singerlake.format.types import RULES
from singerlake.lake import Lake, Table
from singerlake.ops.vacuum.plan import DROP_HISTORY, VacuumOptions
from singerlake.snapshot import building, index
from singerlake.snapshot import building as candidates
from singerlake.snapshot.from_blocks import planned
from singerlake.spark import read_table, register
from singerlake.sql.queries.query import query
from singerlake.sql.result import QueryResult
from singerlake.sql.state import index_build, requested_rows
from singerlake.sql.state.content import index_misfits, state_misfits
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import vacuum_on_spark
from tests.histories.stores import FarStore
from tests.ops.verify.verified import verify

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "at": {"type": "string", "format": "date-time"},
    "amount": {"type": "number", "multipleOf": 0.01},
    "n": {"type": "integer"},
}
ROWS = [
    '{"id": 1, "at": "2026-01-01T00:00:00Z", "amount": 1.50, "n": 1}',
    '{"id": 2, "at": "infinity", "amount": 2.005, "n": 2}',
    '{"id": 3, "at": "", "amount": 3, "n": 3}',
    '{"id": 4, "at": null, "amount": 4.25, "n": 4}',
]


def fill(lake: Lake, keys: list[str]) -> Table:
    commit_rows(lake, "tap.s", PROPERTIES, keys, [*ROWS], block_rows=2)
    return lake.find("tap.s")[0]


def ask(spark: SparkSession, lake: Lake, sql: str, **more: Any) -> tuple[list[Any], QueryResult]:
    answer = query(spark, lake, sql, **more)
    return list(answer.rows()), answer


@pytest.mark.parametrize(
    ("keys", "far"),
    [
        (["id"], False),
        ([], True),
        pytest.param(["id"], True, marks=pytest.mark.variant),
        pytest.param([], False, marks=pytest.mark.variant),
    ],
)
def test_a_query_reads_only_the_columns_that_it_names(
    spark: SparkSession, tmp_path: Path, keys: list[str], far: bool
) -> None:
    near = LocalStore(tmp_path / "lake")
    lake = Lake(FarStore(near) if far else near)
    table = fill(lake, keys)
    for _ in range(2):  # without an index, and by it
        assert ask(spark, lake, "select count(*) from tap.s")[0] == [(4,)]
        assert ask(spark, lake, "select id, n from tap.s where n > 2 order by id")[0] == [
            (3, 3), (4, 4)
        ]  # fmt: skip
        assert ask(spark, lake, "select amount from tap.s where id = 4 or n = 1")[0]
    assert index.load(table, table.snapshot()).marker.misfits == {"amount": 1, "at": 2}
    for sql in (
        "select at from tap.s",
        "select * from tap.s",
        "select 1 from tap.s where at > now()",
    ):
        with pytest.raises(DamagedError, match='row [01] of block [12] of tap.s: the value "'):
            ask(spark, lake, sql)
    with pytest.raises(DamagedError, match="singerlake alter tap.s retype amount text") as caught:
        ask(spark, lake, "select sum(amount) from tap.s")
    assert ("no key" in str(caught.value)) == (not keys)
    assert ("sync these rows again" in str(caught.value)) == bool(keys)


def test_misfits_are_null_or_text_by_choice_and_counted(spark: SparkSession, lake: Lake) -> None:
    table = fill(lake, [])
    sql = "select id, at, amount from tap.s order by id"
    rows, answer = ask(spark, lake, sql, on_type_mismatch="null")
    assert [str(row[2]) for row in rows] == ["1.50", "None", "3.00", "4.25"]
    assert [row[1] is None for row in rows] == [False, True, True, True]
    assert [dict(source.misfits) for source in answer.sources] == [{"at": 2, "amount": 1}]
    assert len(set(answer.sources)) == 1
    rows, answer = ask(spark, lake, sql, on_type_mismatch="text")
    assert rows == [
        (1, "2026-01-01T00:00:00Z", "1.50"),
        (2, "infinity", "2.005"),
        (3, "", "3"),
        (4, None, "4.25"),
    ]
    assert [dict(source.misfits) for source in answer.sources] == [{"at": 2, "amount": 1}]
    frame = read_table("tap.s", lake=lake, spark=spark, on_type_mismatch="null")
    assert frame.where("amount is null").count() == 1
    assert (
        read_table("tap.s", lake=lake, spark=spark, on_type_mismatch="text")
        .schema["at"]
        .dataType.typeName()
        == "string"
    )
    with pytest.raises(UsageError, match="fail, null, text"):
        read_table("tap.s", lake=lake, spark=spark, on_type_mismatch="drop")
    found = state_misfits(spark, table, table.snapshot())
    assert [(one.column, one.values) for one in found] == [
        ("at", 2), ("amount", 1)
    ]  # fmt: skip


def test_the_data_source_reads_all_columns_so_all_must_fit(spark: SparkSession, lake: Lake) -> None:
    fill(lake, ["id"])
    ask(spark, lake, "select count(*) from tap.s")
    register(spark)
    source = spark.read.format("singerlake").option("lake", lake.store.uri)
    said = "of column 'a[tm].*singerlake alter tap.s retype a[tm]"
    with pytest.raises(DamagedError, match=said), plain_errors():
        source.load("tap.s").collect()
    assert source.option("on_type_mismatch", "null").load("tap.s").where("at is null").count() == 3


@pytest.mark.parametrize("keys", [["id"], []])
def test_a_freeze_names_all_that_does_not_fit(
    spark: SparkSession, lake: Lake, keys: list[str]
) -> None:
    table = fill(lake, keys)
    more = [f'{{"id": {n}, "n": {2**63 + n}}}' for n in range(10, 20)]
    commit_rows(lake, "tap.s", PROPERTIES, keys, [*more])
    with pytest.raises(MisfitsError) as caught:
        freeze(spark, table)
    first, at, amount, n, last = caught.value.lines
    assert "nothing was frozen" in first
    assert "'at' (timestamp) has 2 values" in at
    assert 'row 1 of block 1 of tap.s: the value "infinity"' in at
    assert "'amount' (decimal(38,2)) has 1 value" in amount
    assert "has 10 values" in n
    assert n.endswith("and 7 more")
    assert ("(id 2)" in at) == bool(keys)
    assert "singerlake alter tap.s retype at text, and likewise of 'amount', 'n'" in last
    assert not table.snapshot().frozen


def test_verify_does_not_call_it_well(spark: SparkSession, lake: Lake) -> None:
    table = fill(lake, ["id"])
    report = verify(spark, table)
    assert [problem.what for problem in report.problems] == ["value", "value"]
    assert [(one.column, one.values) for one in report.misfits] == [("at", 2), ("amount", 1)]
    assert report.misfits[0].first[0].key == {"id": "2"}
    good = [{"id": 2, "at": "2026-01-01", "amount": 1}, {"id": 3, "at": None}]
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [*good])
    assert not verify(spark, table).problems
    assert freeze(spark, table).types == RULES
    assert not verify(spark, table).problems


def test_a_misfit_in_a_layer(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "LEAST_ROWS", 10)
    properties = {"id": {"type": "integer"}, "n": {"type": "integer"}, "m": {"type": "integer"}}
    rows: list[Any] = [{"id": n, "n": n, "m": n} for n in range(100)]
    rows[5]["n"] = 2**70
    commit_rows(lake, "tap.s", properties, ["id"], rows)
    table = lake.find("tap.s")[0]
    index_build.ensure(spark, table, table.snapshot())
    commit_rows(lake, "tap.s", properties, ["id"], [{"id": 7, "n": 1, "m": 2**70}])
    built = index_build.ensure(spark, table, table.snapshot())
    assert built.below is not None
    assert (built.marker.misfits, built.below.marker.misfits) == ({"m": 1}, {"n": 1})
    assert built.misfits == {1, 2}
    assert [(one.column, one.values) for one in index_misfits(spark, built)] == [("n", 1), ("m", 1)]
    with pytest.raises(DamagedError, match="'n'"):
        ask(spark, lake, "select sum(n) from tap.s")
    with pytest.raises(DamagedError, match="'m'"):
        ask(spark, lake, "select sum(m) from tap.s")
    assert ask(spark, lake, "select count(*), count(id) from tap.s")[0] == [(100, 100)]
    # What is replaced harms nobody, though the index below still has it.
    good: list[Any] = [{"id": 5, "n": 5, "m": 5}, {"id": 7, "n": 7, "m": 7}]
    commit_rows(lake, "tap.s", properties, ["id"], good)
    built = index_build.ensure(spark, table, table.snapshot())
    assert built.below is not None
    assert index_misfits(spark, built) == []
    assert ask(spark, lake, "select sum(n), sum(m) from tap.s")[0] == [(4950, 4950)]
    assert freeze(spark, table).rows == 100


def test_candidates_carry_their_misfits(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from singerlake.rows.blocks import block_tasks

    monkeypatch.setattr(block_tasks, "TASK_BYTES", 1)
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [*ROWS, *ROWS[:1]], block_rows=1)
    table = lake.find("tap.s")[0]
    plan = planned(SparkEngine(spark), table, table.snapshot())
    assert candidates.likely_candidates(table.snapshot(), plan)
    built = index_build.ensure(spark, table, table.snapshot())
    assert (built.marker.rows, built.marker.misfits) == (4, {"amount": 1, "at": 2})


@pytest.mark.parametrize("keys", [["id"], []])
def test_history_can_be_dropped_all_the_same(
    spark: SparkSession, lake: Lake, keys: list[str]
) -> None:
    table = fill(lake, keys)
    commit_rows(lake, "tap.s", PROPERTIES, keys, [*ROWS[1:3], {"id": 1, "n": 9}])
    counted = ask(spark, lake, "select count(*), sum(n) from tap.s")[0]
    options = VacuumOptions(parts=(DROP_HISTORY,), retain_seconds=0, guard=False)
    vacuum_on_spark(spark, table, options)
    assert table.snapshot().floor > 0
    assert ask(spark, lake, "select count(*), sum(n) from tap.s")[0] == counted
    with pytest.raises(DamagedError, match="infinity"):
        ask(spark, lake, "select at from tap.s where id = 2")


def test_what_does_not_fit_as_text_either_is_an_error(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    session: Any = None
    commit_rows(lake, "tap.s", {"v": {"type": "integer"}}, [], [{"v": 1}])
    counts = [SimpleNamespace(column="v", values=1)]
    monkeypatch.setattr(requested_rows, "index_if_kept", lambda *_, **__: None)
    monkeypatch.setattr(requested_rows.content, "state_misfits", lambda *_: counts)
    monkeypatch.setattr(requested_rows, "state_rows", lambda *args: asked.append(args[-1]))
    table = lake.find("tap.s")[0]
    for misfits in ("fail", "null", "text"):
        requested_rows.rows(session, session, table, table.snapshot(), misfits)
    assert asked == ["fail", "null", "fail"]
