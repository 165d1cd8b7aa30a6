"""Key, types and constraints said in the change that brings the rows for them: one transaction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import Result

import singerlake
from singerlake.errors import InvalidQueryError, RejectedRowsError, ViolationsError
from singerlake.lake import Lake
from singerlake.spark import read_table
from tests.build import commit_rows
from tests.cli.call import run
from tests.faults.plain import dump_folder, tables
from tests.frozen import revert_on_spark as revert
from tests.ops.change.test_change_on_spark import rows
from tests.ops.verify.verified import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("quick_plans")
STRING: dict[str, Any] = {"type": ["null", "string"]}
INTEGER: dict[str, Any] = {"type": ["null", "integer"]}
PROPERTIES: dict[str, Any] = {"x": STRING, "id": {"type": "integer"}, "code": STRING, "n": STRING}


def made(path: Path, keys: list[str], *transactions: list[Any]) -> singerlake.Table:
    lake = singerlake.open(path / "lake", create=True)
    for records in transactions:
        commit_rows(lake, "tap.s", PROPERTIES, keys, records)
    return lake.table("tap.s")


def plain(spark: SparkSession, table: singerlake.Table) -> list[tuple[Any, ...]]:
    found = [(row["id"], row["code"], row["n"]) for row in rows(spark, table)]
    return sorted(found, key=str)


def at(spark: SparkSession, table: singerlake.Table, number: int) -> list[Any]:
    frame = read_table(f"tap.s.@{number}", lake=table.store.uri, spark=spark)
    return sorted(frame.collect(), key=lambda row: row["id"])


def test_types_constraints_and_rows_are_one_transaction(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = [{"id": 1, "code": "a", "n": "1"}, {"id": 2, "code": "b", "n": "two"}, {"id": 3}]
    table = made(tmp_path, ["id"], first)
    with pytest.raises(ViolationsError, match="two") as told, table.change() as change:
        change.retype_column("n", INTEGER)
        change.update([{"id": 1, "n": 7}])
    assert "give these rows other values in the same change" in told.value.lines[-1]
    with pytest.raises(ViolationsError) as told, table.change() as change:
        change.rename_column("n", "count")
        change.retype_column("count", INTEGER)
        change.add_constraint("few", "range", "count", maximum=9)
        change.add_constraint("each", "unique", "code")
        change.add_check("all", "code is not null or `count` > 5")
        change.update([{"id": 2, "count": 10, "code": "a"}, {"id": 3, "count": 0}])
    lines = [line for line in told.value.lines if line.startswith("  ")]
    assert lines == [
        "  1 row breaks few (count at most 9):",
        "    id 2, count 10",
        "  1 row breaks all (`code` is not null or `count` > 5):",
        "    id 3, code null, count 0",
        "  2 rows break each (code unique):",
        "    code a: 2 rows",
    ]
    # What cannot be computed at all is no fault of the rows.
    for sql, words in (
        ("cuont > 5", "no column 'cuont'"),
        ("sum(id) > 0", "asks more than one row"),
        ("1 / (id - 1) > 0", "^all \\(1 / .*: Division by zero.*return NULL instead.$"),
    ):
        with pytest.raises(InvalidQueryError, match=words), table.change() as change:
            change.add_check("all", sql)
    assert table.snapshot().number == 1
    with table.change(new_version=True, comment="all of it") as change:
        change.rename_column("n", "count")
        change.retype_column("count", INTEGER)
        change.add_constraint("few", "range", "count", maximum=9)
        change.add_constraint("each", "unique", "code")
        change.add_check("all", "code is not null or `count` > 5")
        change.set_default("code", "new")
        change.describe_column("count", "How many")
        change.update([{"id": 2, "count": 9}, {"id": 3, "count": 6}])
        change.insert([{"id": 4, "count": 1}])
    assert change.result is not None
    assert (change.result.updated, change.result.inserted) == (2, 1)
    *_, entry = table.entries()
    assert (entry.number, entry.operation) == (2, "change")
    found = [(row["id"], row["code"], row["count"]) for row in rows(spark, table)]
    assert found == [(1, "a", 1), (2, "b", 9), (3, None, 6), (4, "new", 1)]
    # What was said binds what comes, and a column with constraints can be called otherwise.
    with (
        pytest.raises(RejectedRowsError, match="greater than the maximum of 9"),
        table.change() as change,
    ):
        change.update([{"id": 1, "count": 10}])
    with table.change() as change:
        change.rename_column("count", "n")
        change.drop_constraint("each")
    with pytest.raises(ViolationsError, match="breaks all"), table.change() as change:
        change.update([{"id": 3, "n": 5}])
    assert not verify(spark, table).problems


DECIMAL: dict[str, Any] = {"precision": 4, "scale": 2, "format": "singer.decimal"}
DECIMAL |= {"type": ["null", "number"], "exclusiveMinimum": -100, "exclusiveMaximum": 100}


def test_a_column_gets_no_decimal_whose_digits_its_rows_exceed(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = made(tmp_path, ["id"], [{"id": 1, "n": "100"}, {"id": 2, "n": "99.99"}, {"id": 3}])
    for allowed in (["decimal(4,2)"], ["decimal(6,2)", "decimal(4,2)"]):
        *wider, narrow = allowed
        for type_ in wider:
            assert retyped(table, type_).exit_code == 0
        refused = retyped(table, narrow)
        assert refused.exit_code == ViolationsError.exit_code
        assert "1 row breaks n decimal(4,2) (abs(`n`) < 100):\n    id 1, n 100" in refused.stderr
    with pytest.raises(ViolationsError, match="breaks n decimal"), table.change() as change:
        change.retype_column("n", DECIMAL)
        change.update([{"id": 2, "n": "1"}])
    assert table.snapshot().number == 2
    assert "decimal(6,2) already" in retyped(table, "decimal(6,2)").stdout
    with table.change() as change:
        change.retype_column("n", DECIMAL)
        change.update([{"id": 1, "n": 1}])
    assert [str(row["n"]) for row in rows(spark, table)] == ["1.00", "99.99", "None"]


def test_digits_that_rows_exceed_can_be_allowed(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path, ["id"], [{"id": 1, "n": "100"}])
    assert retyped(table, "decimal(4,2)", "--allow-type-mismatches").exit_code == 0
    assert [str(row["n"]) for row in rows(spark, table)] == ["100.00"]


def retyped(table: singerlake.Table, type_: str, *more: str) -> Result:
    return run(Lake.open(table.store.uri), "alter", str(table.name), "retype", "n", type_, *more)


def test_a_key_and_rows_by_it_are_one_transaction(spark: SparkSession, tmp_path: Path) -> None:
    first = [{"id": 1, "code": "a", "n": "1"}, {"id": 2, "code": "b"}, {"id": 3, "code": "b"}]
    table = made(tmp_path, [], first)
    with pytest.raises(ViolationsError, match="cannot have the key code"), table.change() as change:
        change.set_key("code")
        change.upsert([{"code": "b"}])
    with table.change(dry_run=True) as change:
        change.set_key("id")
        change.upsert([{"id": 3, "code": "c"}, {"id": 4, "code": "d"}])
        change.delete([2])
    assert change.result is not None
    assert (change.result.inserted, change.result.updated, change.result.deleted) == (1, 1, 1)
    assert table.snapshot().number == 1
    with table.change() as change:
        change.set_key("id")
        change.upsert([{"id": 3, "code": "c"}, {"id": 4, "code": "d"}])
        change.delete([2])
    assert change.result is not None
    assert not change.result.whole, "no other rows come back under it"
    assert plain(spark, table) == [(1, "a", "1"), (3, "c", None), (4, "d", None)]
    # By their codes, rows that id has replaced would come back: all are written again.
    for with_rows in (False, True):
        with table.change(new_version=True) as change:
            change.set_key("id" if with_rows else "code")
            if with_rows:
                change.upsert([{"id": 4, "code": "e"}, {"id": 5, "code": "f"}])
                change.delete([1])
        assert change.result is not None
        assert change.result.version is not None
    wanted = [(3, "c", None), (4, "e", None), (5, "f", None)]
    assert plain(spark, table) == wanted
    assert [row["id"] for row in at(spark, table, 3)] == [1, 3, 4]
    assert table.snapshot().number == 4
    lake = singerlake.open(table.store.uri)
    commit_rows(lake, "tap.s", PROPERTIES, [], [{"id": 5, "code": "g"}])
    assert plain(spark, table) == [*wanted[:2], (5, "g", None)]
    read_back = tables(dump_folder(Path(lake.store.uri)))["tap.s"].state()
    assert sorted((row["id"], row["code"]) for row in read_back) == [(3, "c"), (4, "e"), (5, "g")]
    assert not verify(spark, table).problems
    assert revert(spark, table, 4).transaction == 6
    assert plain(spark, table) == wanted


def test_no_index_is_filed_by_what_is_not_said_yet(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path, [], [{"x": "x", "id": 1, "code": "a"}, {"x": "y", "id": 2}])
    with table.change() as change:
        change.drop_column("x")
        change.rename_column("code", "y")
        change.delete([{"_row_id": "1:1"}])
    assert [row["y"] for row in rows(spark, table)] == ["a"]
    assert [(row["x"], row["code"]) for row in at(spark, table, 1)] == [("x", "a"), ("y", None)]
