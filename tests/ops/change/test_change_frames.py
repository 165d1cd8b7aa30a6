"""Changes that programs make: rows of every kind of frame, several steps, one transaction."""

from __future__ import annotations

import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import singerlake
from singerlake.errors import ConflictError, RejectedRowsError, UsageError
from singerlake.ops.change.job import Changed
from singerlake.spark import read_table
from tests.build import commit_rows
from tests.frozen import verify_on_spark as verify
from tests.ops.change.test_change_on_spark import rows

pytestmark = pytest.mark.usefixtures("quick_plans")
PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "total": {"type": ["null", "string"], "format": "singer.decimal", "scale": 2},
    "day": {"type": ["null", "string"], "format": "date"},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "tags": {"type": ["null", "array"], "items": {"type": "string"}},
}


class Streamed:
    """What polars' frames are to Arrow, and those of other libraries."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.fixture
def table(tmp_path: Path) -> singerlake.Table:
    lake = singerlake.open(tmp_path / "lake", create=True)
    commit_rows(lake, "tap.people", PROPERTIES, ["id"], [{"id": n, "name": "x"} for n in (1, 2, 3)])
    return lake.table("tap.people")


def test_frames_of_all_kinds_are_one_transaction(
    spark: SparkSession, table: singerlake.Table
) -> None:
    pandas = pytest.importorskip("pandas")
    instant = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc)
    with table.change(comment="all of them") as change:
        change.upsert(
            [
                {"id": 4, "total": Decimal("1.50"), "day": datetime.date(1066, 10, 14)},
                {"id": 1, "at": instant, "tags": ["a", 'b"']},
            ]
        )
        change.update(pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["arrow", "arrow"]}))
        change.insert(pandas.DataFrame({"id": [5], "name": ["pandas"]}))
        change.insert(Streamed(pa.table({"id": [6], "name": ["polars"]})))
        spark_rows = spark.createDataFrame(
            [(7, "spark", instant)], "id long, name string, at timestamp"
        )
        change.upsert(spark_rows)
        change.delete([3, 99])
    assert change.result == Changed(2, inserted=4, updated=2, deleted=1, absent=1)
    found = {row["id"]: row for row in rows(spark, table)}
    assert {n: row["name"] for n, row in found.items()} == {
        1: "arrow", 2: "arrow", 4: None, 5: "pandas", 6: "polars", 7: "spark"
    }  # fmt: skip
    assert (found[4]["total"], found[4]["day"]) == (Decimal("1.50"), datetime.date(1066, 10, 14))
    assert found[7]["at"] == instant
    assert (found[1]["at"], found[1]["tags"]) == (instant, ["a", 'b"'])
    with pytest.raises(UsageError, match="is over"):
        change.upsert([])
    written = {row["_row_id"]: (row["_row_version"], row["_deleted"]) for row in _rows(change)}
    assert {id_ for id_, (_, deleted) in written.items() if deleted} == {"3"}
    assert set(written) == {*"1234567"}
    version, _ = written["4"]
    # By these, whoever made the change can go on.
    with table.change() as again:
        again.update([{"_row_id": "4", "_row_version": version, "name": "mine"}])
    (row,) = _rows(again)
    assert (row["_row_id"], row["_deleted"]) == ("4", False)
    assert row["_row_version"] == table.snapshot().last_block
    with table.change() as nothing:
        nothing.update([{"id": 4, "name": "mine"}])
    assert _rows(nothing) == []
    with pytest.raises(UsageError, match="not over yet"):
        table.change().rows()


def _rows(change: Any) -> list[Any]:
    rows: list[Any] = change.rows().collect()
    return rows


def test_nothing_is_changed_where_a_step_cannot_be(
    spark: SparkSession, table: singerlake.Table
) -> None:
    with pytest.raises(ZeroDivisionError), table.change() as change:
        change.delete([1])
        _ = 1 / 0
    for wrong, kind, words in (
        ([{"id": 1, "nmae": "y"}], UsageError, "did you mean name"),
        (pa.table({"id": [1], "nmae": ["y"]}), UsageError, "did you mean name"),
        (
            pa.table({"id": [1.5]}),
            RejectedRowsError,
            "line 1, column 'id': '1.5' is not a valid",
        ),
        ([{"id": 1, "total": "1.005"}], RejectedRowsError, "line 1, column 'total'"),
        ([{"id": 1, "name": object()}], UsageError, "a object cannot be stored in a lake"),
        ([(1, 2)], UsageError, "is not a key of the table, which has id"),
        ("id", UsageError, "a str is not a set of rows"),
    ):
        with pytest.raises(kind, match=words), table.change(spark=spark) as change:
            change.delete([2])
            change.upsert(wrong)
    with pytest.raises(ConflictError, match="has no 7 yet"):
        table.change(if_transaction=7)
    with pytest.raises(UsageError, match="a label needs a version"):
        table.change(label="q3")
    assert table.snapshot().number == 1
    with table.change() as change:
        pass
    assert change.result == Changed(None)
    with table.change(dry_run=True) as change:
        change.delete([1])
    assert change.result == Changed(None, deleted=1)
    assert table.snapshot().number == 1


def test_a_column_and_its_values_are_one_transaction(
    spark: SparkSession, table: singerlake.Table
) -> None:
    text = {"type": ["null", "string"]}
    with table.change(new_version=True) as change:
        change.add_column("region", text, default="US", initial="EU", description="Where")
        change.rename_column("name", "called")
        change.drop_column("tags")
        change.upsert([{"id": 1, "region": "UK"}, {"id": 2, "called": "y"}, {"id": 4}])
    assert change.result is not None
    assert change.result.version is not None
    assert (change.result.inserted, change.result.updated) == (1, 2)
    (_, entry) = table.entries()
    assert (entry.operation, entry.format) == ("change", 5)
    assert entry.overlay is not None
    found = [(row["id"], row["called"], row["region"]) for row in rows(spark, table)]
    assert found == [(1, "x", "UK"), (2, "y", "EU"), (3, "x", "EU"), (4, None, "US")]
    assert not verify(spark, table).problems
    # The tap goes on in its own words.
    lake = singerlake.open(table.store.uri)
    commit_rows(lake, "tap.people", PROPERTIES, ["id"], [{"id": 5, "name": "z"}])
    assert [(row["called"], row["region"]) for row in rows(spark, table)][4:] == [("z", "US")]
    with pytest.raises(UsageError), table.change() as change:
        change.add_column("region", text)
    with table.change() as change:
        change.describe_column("region", "Where it is")
    assert change.result is not None
    assert change.result.transaction == 4
    assert table.snapshot().number == 4


AB: dict[str, Any] = {
    "a": {"type": ["null", "integer"]},
    "b": {"type": ["null", "integer"], "default": 4},
}


def _table(path: Path, keys: list[str], records: list[Any]) -> singerlake.Table:
    lake = singerlake.open(path / "table", create=True)
    commit_rows(lake, "tap.t", AB, keys, records)
    return lake.table("tap.t")


def _counted(spark: SparkSession, table: singerlake.Table, *steps: tuple[str, Any]) -> Changed:
    """Change a table; its rows then are as many as the counts say."""
    before = len(rows(spark, table))
    with table.change(spark=spark) as change:
        for mode, given in steps:
            getattr(change, mode)(given)
    done = change.result
    assert done is not None
    assert len(rows(spark, table)) == before + done.inserted - done.deleted
    return done


def _ids(spark: SparkSession, table: singerlake.Table) -> dict[int, str]:
    """The rows' ids, by the column a."""
    frame = read_table("tap.t", lake=table.store.uri, spark=spark, row_metadata=True)
    return {row["a"]: row["_row_id"] for row in frame.collect()}


def test_the_counts_add_up(spark: SparkSession, tmp_path: Path) -> None:
    """In every mode, in several steps, with a key and without."""
    table = _table(tmp_path, ["a"], [{"a": n, "b": n} for n in (1, 2, 3)])
    counted = partial(_counted, spark, table)
    assert counted(("upsert", [{"a": 1, "b": 9}, {"a": 4}])) == Changed(2, 1, 1)
    assert counted(("insert", [{"a": 5}])) == Changed(3, 1)
    assert counted(("update", [{"a": 5, "b": 5}])) == Changed(4, updated=1)
    assert counted(("delete", [5, 9])) == Changed(5, deleted=1, absent=1)
    again = counted(("delete", [1, 2]), ("insert", [{"a": 1, "b": 7}]), ("upsert", [{"a": 6}]))
    assert again == Changed(6, inserted=1, updated=1, deleted=1)
    assert counted(("replace", [{"a": 6}, {"a": 7}])) == Changed(7, 1, 0, 3, 1)


def test_the_counts_add_up_without_a_key(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(tmp_path, [], [{"a": n, "b": n} for n in (1, 2, 3)])
    counted = partial(_counted, spark, table)

    assert counted(("insert", [{"a": 4}])) == Changed(2, 1)
    # Deleted and given again by its id: the old row goes, and there is one new row.
    first = ("delete", [{"_row_id": "1:0"}])
    done = counted(first, ("upsert", [{"_row_id": "1:0", "a": 9}]), ("insert", [{"a": 5}]))
    assert done == Changed(3, inserted=2, deleted=1, whole=True)
    found = sorted((row["a"], row["b"]) for row in rows(spark, table))
    assert found == [(2, 2), (3, 3), (4, 4), (5, 4), (9, 4)]
    id_ = _ids(spark, table)[9]
    done = counted(("update", [{"_row_id": id_, "b": 1}]), ("update", [{"_row_id": id_, "a": 8}]))
    assert done == Changed(4, updated=1, whole=True)
    assert (8, 1) in [(row["a"], row["b"]) for row in rows(spark, table)]
    id_ = _ids(spark, table)[8]
    assert counted(("delete", [{"_row_id": id_}])) == Changed(5, deleted=1, whole=True)
    with pytest.raises(UsageError, match=r"none of the rows.*alter tap.t set-key COLUMN"):
        counted(("update", [{"a": 3, "b": 7}, {"a": 4, "b": 7}]))
    with pytest.raises(RejectedRowsError, match=r"(?s)2 problems.*only _row_id identifies a row"):
        counted(("update", [{"a": 3, "b": 7}, {"_row_id": "1:1", "b": 7}]))


def test_an_id_that_no_row_has_is_refused_in_every_step(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = _table(tmp_path, [], [{"a": 1, "b": 1}])
    with (
        pytest.raises(RejectedRowsError, match="step 1, line 1.*'77:0' is no longer in the table"),
        table.change(spark=spark) as change,
    ):
        change.upsert([{"_row_id": "77:0", "a": 9}])
        change.insert([{"a": 3}])
    assert table.snapshot().number == 1


def test_rows_without_a_key_are_replaced_by_others_that_only_look_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = _table(tmp_path, [], [{"a": 1, "b": None}, {"a": 2, "b": 2}])
    same = [{"a": 1, "b": None}, {"a": 2, "b": 2}]
    assert _counted(spark, table, ("replace", same)) == Changed(None, unchanged=2)
    # What is left out is the default, not null.
    left_out = [{"a": 1}, {"a": 2, "b": 2}]
    assert _counted(spark, table, ("replace", left_out)).inserted == 2
    assert [(row["a"], row["b"]) for row in rows(spark, table)] == [(1, 4), (2, 2)]
    # A value that does not fit its column reads as null, and is another.
    misfit = _table(tmp_path / "misfit", [], ['{"a": 1, "b": 1e99}'])
    with misfit.change(spark=spark) as change:
        change.replace([{"a": 1, "b": None}])
    assert change.result == Changed(2, inserted=1, deleted=1, whole=True)
    assert [(row["a"], row["b"]) for row in rows(spark, misfit)] == [(1, None)]


def test_frames_without_rows_ask_nothing(spark: SparkSession, table: singerlake.Table) -> None:
    pandas = pytest.importorskip("pandas")
    empty = pa.table({"id": pa.array([], pa.int64()), "name": pa.array([], pa.string())})
    for given in (empty, empty.to_pandas(), pandas.DataFrame({"id": []}), Streamed(empty), []):
        with table.change(spark=spark) as change:
            change.upsert(given)
        assert change.result == Changed(None)
    with table.change(spark=spark) as change:
        change.upsert(empty)
        change.upsert([{"id": 9, "name": "x"}])
        change.delete(empty.select(["id"]))
    assert change.result == Changed(2, inserted=1)


def test_index_of_a_pandas_frame_is_the_key_where_it_has_its_name(
    spark: SparkSession, table: singerlake.Table
) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"name": ["y", "z"]}, index=pandas.Index([3, 4], name="id"))
    with table.change(spark=spark) as change:
        change.upsert(frame)
        change.delete(frame.rename({3: 1, 4: 2})[[]])  # of no column but the key
    assert change.result == Changed(2, inserted=1, updated=1, deleted=2)
    assert {row["id"]: row["name"] for row in rows(spark, table)} == {3: "y", 4: "z"}
    # A column of the frame goes before its index, and other names of an index mean nothing.
    both = pandas.DataFrame({"id": [3], "name": ["a"]}, index=pandas.Index([9], name="id"))
    with table.change(spark=spark) as change:
        change.update(both)
        change.update(both.rename_axis("line").assign(id=4))
    assert {row["id"]: row["name"] for row in rows(spark, table)} == {3: "a", 4: "a"}
    with pytest.raises(RejectedRowsError, match="a key cannot be null"), table.change() as change:
        change.update(pandas.DataFrame({"name": ["a"]}))


def test_what_json_cannot_hold_is_named_with_its_line_and_column(table: singerlake.Table) -> None:
    before_time = datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=5)))
    change = table.change()
    change.upsert(
        [
            {"id": 1, "name": "\ud800"},
            {"id": 2, "at": before_time},
            {"id": 3, "tags": ["\ud800"]},
            {"id": 4, "total": float("nan")},
        ]
    )
    with pytest.raises(RejectedRowsError) as caught, change:
        pass
    said = str(caught.value)
    assert r"line 1, column 'name': '\\ud800' is not a valid Unicode text" in said
    assert "line 2, column 'at': '0001-01-01 00:00:00+05:00' is not a valid timestamp" in said
    assert "line 3, column 'tags'" in said
    assert "line 4, column 'total': 'nan' is not a valid JSON number" in said
