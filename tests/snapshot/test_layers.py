"""An index of what changed, laid over an earlier one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.engine.spark.engine import SparkEngine
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.errors import DamagedError
from singerlake.lake import Lake, Table
from singerlake.ops.vacuum.plan import COMBINE, DROP_HISTORY, VacuumOptions
from singerlake.snapshot import building, index
from singerlake.snapshot.content import count_rows
from singerlake.snapshot.index import Index
from singerlake.spark import register
from singerlake.sql.queries.query import query
from singerlake.sql.state import index_build
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import revert_on_spark as revert
from tests.frozen import vacuum_on_spark
from tests.histories import here
from tests.histories.stores import FarStore, WatchedStore
from tests.snapshot.test_state import FLAT, in_order
from tests.sql.index_frames import read_index
from tests.tap.run import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 200


@pytest.fixture(autouse=True)
def small_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers on small tables too; one may have an eighth of the rows below."""
    monkeypatch.setattr(building, "LEAST_ROWS", 50)


@pytest.fixture
def store(tmp_path: Path) -> WatchedStore:
    return WatchedStore(tmp_path / "lake", tmp_path / "notes")


@pytest.fixture
def lake(store: WatchedStore) -> Lake:
    return Lake(store)


def sync(lake: Lake, keys: list[str], records: list[Any]) -> None:
    commit_rows(lake, "tap.s", FLAT, keys, records, block_rows=50)


def first(lake: Lake, keys: list[str]) -> None:
    sync(lake, keys, [{"id": n, "part": "x" if n % 2 else None, "n": n} for n in range(ROWS)])


def build(spark: SparkSession, lake: Lake) -> tuple[Table, Index]:
    table = lake.find("tap.s")[0]
    return table, index_build.ensure(spark, table, table.snapshot())


def rows_of(lake: Lake) -> list[dict[str, Any]]:
    """From the blocks, without any index."""
    return here.rows(lake.find("tap.s")[0])


def read(spark: SparkSession, built: Index) -> list[str]:
    return in_order(read_index(spark, built).toArrow().to_pylist())


CHANGES: list[list[Any]] = [
    [{"id": 3, "part": "x", "n": -3}, {"id": 4, "part": None, "n": -4}],
    [{"id": 5, "part": "x", "_sdc_deleted_at": "2026-01-01"}, {"id": 900, "part": None, "n": 900}],
    [{"id": 3, "part": "x", "_sdc_deleted_at": "2026-01-01"}, {"id": 5, "part": "x", "n": 55}],
    [{"id": 3, "part": "x", "n": 33}, {"id": 900, "part": None, "_sdc_deleted_at": "2026-01-01"}],
]


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(["id"], marks=pytest.mark.variant, id="keyed"),
        pytest.param(["id", "part"], id="compound"),
        pytest.param([], id="keyless"),
    ],
)
def test_layer_after_layer_is_the_state(
    spark: SparkSession, lake: Lake, store: WatchedStore, keys: list[str]
) -> None:
    register(spark)
    first(lake, keys)
    table, whole = build(spark, lake)
    store.taken()
    for number, change in enumerate(CHANGES, start=2):
        sync(lake, keys, change)
        _, built = build(spark, lake)
        assert len(store.taken()) == number - 1, "only what came since the whole state"
        assert (built.marker.transaction, built.marker.base) == (number, 1)
        assert built.below is not None
        assert built.below.marker == whole.marker
        rows = rows_of(lake)
        assert read(spark, built) == in_order(rows)
        assert count_rows(SparkEngine(spark), built) == len(rows)
        store.taken()
    source = spark.read.format("singerlake").option("lake", store.uri).load("tap.s")
    assert in_order([row.asDict() for row in source.collect()]) == in_order(rows)
    version = freeze(spark, table)
    content = here.content(table)
    assert (version.rows, version.fingerprint) == (content.rows, content.fingerprint)
    assert not here.problems(table)
    with query(spark, lake, "select count(*) as rows from tap.s.1") as answer:
        assert [tuple(row) for row in answer.rows()] == [(version.rows,)]


def test_much_that_changed_is_a_whole_state_again(spark: SparkSession, lake: Lake) -> None:
    first(lake, ["id"])
    build(spark, lake)
    sync(lake, ["id"], [{"id": n, "n": 0} for n in range(20)])
    assert build(spark, lake)[1].below is not None
    sync(lake, ["id"], [{"id": n, "n": 1} for n in range(10)])
    _, built = build(spark, lake)
    assert (built.below, built.marker.base, built.marker.rows) == (None, 0, ROWS)
    assert read(spark, built) == in_order(rows_of(lake))


def test_an_activation_since_is_a_whole_state_again(spark: SparkSession, lake: Lake) -> None:
    sync(lake, ["id"], [({"id": n}, n % 2) for n in range(ROWS)])
    build(spark, lake)
    sync(lake, ["id"], [({"id": 0}, 1), 1, ({"id": 2}, 0)])
    _, built = build(spark, lake)
    assert built.below is None
    assert built.marker.rows == ROWS // 2 + 2
    assert read(spark, built) == in_order(rows_of(lake))


def test_after_an_activation_layers_are_laid_again(spark: SparkSession, lake: Lake) -> None:
    sync(lake, ["id"], [*(({"id": n}, n % 2) for n in range(ROWS)), 1])
    build(spark, lake)
    sync(lake, ["id"], [({"id": 1, "n": 5}, 1), ({"id": 2, "n": 5}, 0), {"id": 4}])
    _, built = build(spark, lake)
    assert built.below is not None
    assert read(spark, built) == in_order(rows_of(lake))


def test_a_value_that_does_not_fit_counts_only_while_its_row_is_there(
    spark: SparkSession, lake: Lake
) -> None:
    first(lake, ["id"])
    build(spark, lake)
    sync(lake, ["id"], [{"id": 1, "n": "none"}])
    _, built = build(spark, lake)
    assert (built.below is not None, built.marker.misfits) == (True, {"n": 1})
    with pytest.raises(DamagedError, match="row 0 of block .*'n'"), plain_errors():
        read_index(spark, built).collect()
    sync(lake, ["id"], [{"id": 1, "n": "none", "_sdc_deleted_at": "2026-01-01"}])
    _, built = build(spark, lake)
    assert built.below is not None
    assert count_rows(SparkEngine(spark), built) == ROWS - 1
    assert len(read_index(spark, built).collect()) == ROWS - 1


def test_what_a_layer_lies_on_may_go_at_any_time(spark: SparkSession, lake: Lake) -> None:
    first(lake, ["id"])
    table, whole = build(spark, lake)
    sync(lake, ["id"], CHANGES[0])
    build(spark, lake)
    shutil.rmtree(Path(lake.store.uri, table.name.index(1)))
    assert index.load(table, table.snapshot()) is None
    _, built = build(spark, lake)
    assert built.below is None
    assert read(spark, built) == in_order(rows_of(lake))
    assert whole.parts != built.parts


def test_a_vacuum_keeps_what_a_layer_lies_on(spark: SparkSession, lake: Lake) -> None:
    first(lake, ["id"])
    table, _ = build(spark, lake)
    sync(lake, ["id"], CHANGES[0])
    build(spark, lake)
    version = freeze(spark, table)
    for change in CHANGES[1:3]:
        sync(lake, ["id"], change)
        _, last = build(spark, lake)
    vacuum_on_spark(spark, table, VacuumOptions(retain_seconds=0, guard=False))
    marked = (item.key for item in lake.store.list(table.name.indexes) if "_index" in item.key)
    left = {int(key.split("/")[-2]) for key in marked}
    # The whole state, the version's layer, the newest one; not the one between.
    assert left == {1, 2, last.marker.transaction}
    assert index.load(table, table.snapshot().at(version.transaction).earliest_equal()) is not None


def test_a_version_s_layer_outlasts_the_history_below_it(spark: SparkSession, lake: Lake) -> None:
    first(lake, ["id"])
    table, _ = build(spark, lake)
    sync(lake, ["id"], CHANGES[0])
    build(spark, lake)
    version = freeze(spark, table)
    sync(lake, ["id"], CHANGES[1])
    dropped = VacuumOptions(parts=(DROP_HISTORY,), retain_seconds=0, guard=False)
    vacuum_on_spark(spark, table, dropped)
    head = table.snapshot()
    assert not head.readable(1)
    built = index.load(table, head.at(version.transaction).earliest_equal())
    assert built is not None
    assert built.below is not None
    assert count_rows(SparkEngine(spark), built) == version.rows


def test_a_block_that_a_vacuum_put_together_hides_nothing_newer(
    spark: SparkSession, lake: Lake
) -> None:
    first(lake, ["id"])
    sync(lake, ["id"], [{"id": 7, "n": 1}])  # the older of two, put together with what comes
    sync(lake, ["id"], [{"id": 7, "n": 2}])
    table, _ = build(spark, lake)
    sync(lake, ["id"], [{"id": 9, "n": 3}])
    vacuum_on_spark(spark, table, VacuumOptions(parts=(COMBINE,), retain_seconds=0, guard=False))
    _, built = build(spark, lake)
    assert read(spark, built) == in_order(rows_of(lake))


def test_revert_to_and_from_a_layer(spark: SparkSession, lake: Lake) -> None:
    first(lake, ["id"])
    table, _ = build(spark, lake)
    states = [in_order(rows_of(lake))]
    for change in CHANGES[:2]:
        sync(lake, ["id"], change)
        build(spark, lake)
        states.append(in_order(rows_of(lake)))
    done = revert(spark, table, 2)
    assert in_order(rows_of(lake)) == states[1]
    assert done.unchanged + done.put_back == len(states[1])
    revert(spark, table, 1)
    assert in_order(rows_of(lake)) == states[0]


def test_a_store_that_spark_cannot_reach(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(FarStore(LocalStore(tmp_path / "far")))
    first(lake, ["id"])
    build(spark, lake)
    sync(lake, ["id"], CHANGES[1])
    _, built = build(spark, lake)
    assert built.below is not None
    assert read(spark, built) == in_order(rows_of(lake))


def test_a_column_of_the_same_name_as_ours(spark: SparkSession, lake: Lake) -> None:
    columns = {"id": {"type": "integer"}, "_deleted": {"type": "string"}}
    rows = [{"id": n, "_deleted": "no"} for n in range(ROWS)]
    commit_rows(lake, "tap.s", columns, ["id"], rows)
    build(spark, lake)
    commit_rows(lake, "tap.s", columns, ["id"], [{"id": 1, "_deleted": "yes"}])
    _, built = build(spark, lake)
    assert built.below is not None
    assert read(spark, built) == in_order(rows_of(lake))


def test_the_tap_puts_out_just_the_rows_of_a_version(spark: SparkSession, lake: Lake) -> None:
    keys = ["id", "part"]
    first(lake, keys)
    table = lake.find("tap.s")[0]
    states = []
    for change in CHANGES:
        freeze(spark, table)
        states.append(read(spark, index_build.ensure(spark, table, table.snapshot())))
        sync(lake, keys, change)
    last = index.load(table, table.snapshot().at(2 * len(CHANGES) - 1).earliest_equal())
    assert last is not None
    assert last.below is not None, "the last version's index is a layer"

    def by_tap() -> list[list[str]]:
        versions = [str(number) for number in range(1, len(states) + 1)]
        outs = [run(lake, mode="rows", table_version=version) for version in versions]
        # A record may leave a column out.
        return [in_order([{n: r.get(n) for n in FLAT} for r in out.records()]) for out in outs]

    assert by_tap() == states
    options = VacuumOptions(retain_seconds=0, guard=False, parts=(COMBINE, DROP_HISTORY))
    vacuum_on_spark(spark, table, options)
    assert any(block.rewritten for block in table.snapshot().blocks)
    assert by_tap() == states
