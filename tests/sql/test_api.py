"""What programs do to a lake, on Spark; and that Spark and Python alone give the same answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import singerlake
from singerlake.errors import DamagedError
from singerlake.rows.blocks import block_tasks
from singerlake.snapshot import building, index
from tests.build import commit_rows
from tests.histories.model import messages_of
from tests.histories.stores import FarStore
from tests.snapshot.test_states import FLAT, MISFITS, NoIndex, in_order

pytestmark = pytest.mark.usefixtures("each_operation")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES: dict[str, Any] = {
    **FLAT,
    "a.b": {"type": "number"},
    "A.B": {"type": "number", "multipleOf": 0.001},
    "at": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "yes": {"type": "boolean"},
    "any": {},
    "inner": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}},
    "list": {"type": "array", "items": {"type": ["null", "number"]}},
}


def wide(messages: list[Any]) -> list[Any]:
    """The model's messages, with a value of each type."""

    def more(record: dict[str, Any]) -> dict[str, Any]:
        n = record["n"]
        return {
            **record,
            "a.b": n / 3,
            "A.B": n / 8,
            "at": f"2026-01-{n % 28 + 1:02}T00:00:00.{n:06}+05:00",
            "day": f"000{n % 9 + 1}-02-03",
            "yes": None if n % 3 == 0 else n % 3 == 1,
            "any": [n, {"n": n}] if n % 2 else str(n),
            "inner": {"x": n, "z": 1} if n % 5 else None,
            "list": [n, None, 0.5] if n % 4 else [],
        }

    return [
        one if isinstance(one, int)
        else (more(one[0]), one[1]) if isinstance(one, tuple)
        else more(one)
        for one in messages
    ]  # fmt: skip


def rows_of(table: pa.Table) -> list[str]:
    return in_order(table.to_pylist())


@pytest.mark.parametrize(
    ("seed", "keys"),
    [(1, ["id"]), (2, ["id", "part"]), (3, [])],
    ids=["keyed", "compound", "keyless"],
)
def test_python_alone_gives_what_spark_gives(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    keys: list[str],
) -> None:
    """From blocks, by an index, and by layers on one; each engine also reads the other's index."""
    monkeypatch.setattr(building, "LEAST_ROWS", 1)
    monkeypatch.setattr(building, "SHARE", 1)
    monkeypatch.setattr(block_tasks, "_WORTHWHILE", 1)
    lakes = [singerlake.open(tmp_path / name, create=True) for name in ("arrow", "spark")]
    # The second's store has no files that Spark could read by itself.
    lakes[1] = singerlake.Lake(FarStore(lakes[1].store))  # type: ignore[arg-type]
    messages = wide(messages_of(seed, keys, 300))
    later = [one for one in messages[240:260] if not isinstance(one, int)]  # so that it is a layer
    for some in (messages[:240], later):
        for lake in lakes:
            commit_rows(lake, "tap.s", TYPES, keys, some, block_rows=60)
    for number in (1, 2):
        alone = lakes[0]["tap.s"].at(transaction=number, engine="local")
        built = lakes[1]["tap.s"].at(transaction=number)
        assert alone.to_arrow().schema == alone.schema == built.schema
        expected = rows_of(built.to_arrow())
        assert rows_of(alone.to_arrow()) == expected
        # Spark's own readers, of the index that was made without it, and of its own.
        for lake in lakes:
            frame = lake["tap.s"].at(transaction=number).to_spark(spark)
            assert rows_of(frame.toArrow()) == expected
        row_filter = (pc.field("n") > 90) & pc.field("yes").is_valid()
        for state in (alone, built):
            some_rows = state.to_arrow(["A.B", "id"], row_filter)
            whole = state.to_arrow().filter(row_filter).select(["A.B", "id"])
            assert rows_of(some_rows) == rows_of(whole)
    snapshot = lakes[1]["tap.s"].snapshot()
    layered = index.load(lakes[1]["tap.s"], snapshot)
    assert layered is not None
    assert layered.below is not None


def test_all_that_a_program_can_do(spark: SparkSession, tmp_path: Path) -> None:
    lake = singerlake.open(tmp_path / "lake", create=True)
    commit_rows(lake, "tap-a.s", FLAT, ["id"], [{"id": n, "n": n} for n in range(20)])
    table = lake["tap-a.s"]
    table.at(engine="local").to_arrow()
    version = table.freeze("first", comment="by hand", spark=spark)
    assert (version.number, version.rows, version.label) == (1, 20, "first")
    commit_rows(lake, "tap-a.s", FLAT, ["id"], [{"id": 3, "n": 33}])
    done = table.revert("first", dry_run=True, spark=spark)
    assert (done.put_back, done.transaction) == (1, None)
    done = table.revert(1, spark=spark)
    assert (done.put_back, done.unchanged, done.transaction) == (1, 19, 4)
    assert table.revert(transaction=3, spark=spark).transaction == 5
    with lake.query("select sum(n) as n from tap_a.s", spark=spark) as result:
        assert result.to_arrow().to_pylist() == [{"n": 190 + 30}]
    report = table.verify(spark=spark)
    assert not report.problems
    assert table.vacuum(spark=spark).transaction > 5, "small files are combined"
    assert [row["n"] for row in table.at().to_spark(spark).where("id = 3").collect()] == [33]
    assert table.at(1).to_arrow(["n"], pc.field("id") == 3)["n"].to_pylist() == [3]


def test_without_an_index_spark_reads_the_blocks(spark: SparkSession, tmp_path: Path) -> None:
    lake = singerlake.open(tmp_path / "lake", create=True)
    rows: list[Any] = [{"id": 1, "n": 1}, {"id": 2, "n": "two"}, {"id": 3, "n": 3}]
    commit_rows(lake, "tap.s", MISFITS, ["id"], rows)
    closed = singerlake.Lake(NoIndex(tmp_path / "lake"))
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert closed["tap.s"].at(engine="spark").to_arrow(["id"])["id"].to_pylist() == [1, 2, 3]
        with pytest.raises(DamagedError, match='value "two"'):
            closed["tap.s"].at(engine="spark").to_arrow(["n"])
        past = closed["tap.s"].at(engine="spark", on_type_mismatch="null")
        assert past.to_arrow(["n"], pc.field("id") > 1)["n"].to_pylist() == [None, 3]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
