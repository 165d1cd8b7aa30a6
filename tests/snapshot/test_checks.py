"""Constraints in SQL: what one may be, and all that they bind."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import singerlake
from singerlake.errors import InvalidQueryError, RejectedRowsError, UsageError, ViolationsError
from singerlake.format.overlay import Constraint
from singerlake.lake import Table
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions, alter
from singerlake.sql.conditions import with_check
from tests.build import commit_rows
from tests.frozen import alter_on_spark
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import revert_on_spark as revert
from tests.frozen import verify_on_spark as verify
from tests.ops.change.test_change_on_spark import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from singerlake.format.overlay import Overlay
    from singerlake.log.table_state import TableState

pytestmark = pytest.mark.usefixtures("quick_plans")
NUMBER: dict[str, Any] = {"type": ["null", "number"]}
PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "total": NUMBER,
    "a b": {"type": ["null", "string"]},
    "tags": {"type": ["null", "array"], "items": {"type": "number"}},
    "address": {"type": ["null", "object"], "properties": {"total": NUMBER}},
}


@pytest.fixture
def table(tmp_path: Path) -> singerlake.Table:
    lake = singerlake.open(tmp_path / "lake", create=True)
    records: list[Any] = [
        {"id": 1, "total": 1.5, "a b": "x", "tags": [1], "address": {"total": 2}},
        {"id": 2, "total": None},
        {"id": 3, "total": 0, "a b": "y"},
    ]
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], records)
    return lake.table("tap.s")


def asked(spark: SparkSession, table: Table, sql: str, **options: Any) -> Constraint:
    change = with_check(spark, "c", sql)
    alter_on_spark(spark, table, change, AlterOptions(**options))
    return table.snapshot().overlay.constraints["c"]


def test_what_is_a_condition(spark: SparkSession, table: singerlake.Table) -> None:
    refused = {
        "total >=": "no expression of SQL",
        "totl > 0": "no column 'totl': did you mean total",
        "1 = 1": "names no column",
        "total + 1": "it is double, and a condition is boolean",
        "`a b` > 0 and x.total > 0": "no column 'x'",
        "sum(total) > 0": "more than one row",
        "sum(total) over () > 0": "more than one row",
        "total in (select 1)": "more than one row",
        "exists(select * from tap.s where total > 0)": "more than one row",
        "exists(tags, x -> x in (select 1))": "more than one row",
        "explode(tags) > 0": "generator is not supported",
        "window(`a b`, '1 day') is null": "more than one row",
        "total > rand()": "the same of a row each time",
        "`a b` < string(now())": "the same of a row each time",
        "unix_timestamp() > id": "the same of a row each time",
        "java_method('java.lang.Math', 'abs', id) = '1'": "it calls Java",
        "repeat(`a b`, 1000000000) = 'x'": "asked for 1,000,000,000 at once",
        "exists(tags, `total` -> `total` > 0)": "only columns stand in backticks",
        "id > 0; drop table x": "no expression of SQL",
        "`a b` = '${env:HOME}'": "a variable of its environment",
        "id / 0 > 1": "[Dd]ivision by zero",
    }
    for sql, words in refused.items():
        with pytest.raises(InvalidQueryError, match=words):
            asked(spark, table, sql)
    with pytest.raises(UsageError, match="a constraint needs a column"):
        alter(table.store, table.snapshot(), partial(says.with_constraint, name="c",
              constraint=Constraint("check", [], sql="1 = 1")))  # fmt: skip
    with pytest.raises(ViolationsError, match="1 row breaks c") as told:
        asked(spark, table, "total <> 0 -- as agreed")
    assert "    id 3, total 0.0" in told.value.lines
    assert table.snapshot().number == 1
    one = asked(spark, table, "exists(tags, x -> x >= total - 9) or address.total > id /* 😀 */")
    assert one.columns == ["tags", "total", "address", "id"]
    wanted = "exists(`tags`, x -> x >= `total` - 9) or `address`.total > `id` /* 😀 */"
    assert one.sql == wanted
    assert [*table.entries()][-1].format == 5


def test_a_condition_binds_changes_and_freezes(
    spark: SparkSession, table: singerlake.Table
) -> None:
    asked(spark, table, "total >= 0 and (total < 10 or `a b` = 'big')")
    number = table.snapshot().number
    # New, changed, changed by two steps, and deleted and there again; another one keeps it.
    wrong = (
        ("upsert", [{"id": 8}, {"id": 9, "total": -1, "a b": "x"}]),
        ("update", [{"id": 1, "total": 20}]),
        ("update", [{"id": 3, "total": 1}]),
        ("upsert", [{"id": 3, "total": 11}]),
        ("delete", [2]),
        ("insert", [{"id": 2, "total": 11, "a b": "no"}]),
    )
    with pytest.raises(ViolationsError, match="4 rows break c") as told, table.change() as change:
        for step, given in wrong:
            getattr(change, step)(given)
    problems = sorted(map(str, told.value.problems.first))
    assert problems[0].startswith("step 1, line 2, column 'total, a b': '-1.0, x' breaks c (")
    assert [one.partition(", column")[0] for one in problems] == [
        f"step {step}, line {line}" for step, line in ((1, 2), (2, 1), (4, 1), (6, 1))
    ]
    # Nor may a row that says nothing of the columns break it.
    broken = r"the default of total, a b breaks c \("
    with pytest.raises(UsageError, match=broken), table.change() as change:
        change.set_default("total", 20)
        change.set_default("a b", "x")

    def defaults(present: TableState) -> Overlay:
        half = present.laid_over(says.with_default(present, "total", 20))
        return says.with_default(half, "a b", "x")

    with pytest.raises(UsageError, match=broken):
        alter_on_spark(spark, table, defaults)
    one_of_two = partial(says.with_default, name="total", default=20)
    assert alter_on_spark(spark, table, one_of_two, AlterOptions(dry_run=True)).changes
    assert table.snapshot().number == number
    with table.change() as change:
        change.update([{"id": 1, "total": 20, "a b": "big"}])
        change.insert([{"id": 8}])
    # The tap knows no SQL. Who changes other rows is not to blame, and who mends them is free to.
    lake = singerlake.open(table.store.uri)
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 2, "total": -5}, {"id": 3, "total": -5}])
    with pytest.raises(ViolationsError, match="2 rows break c") as told:
        freeze(spark, table)
    assert "    id 2, total -5.0, a b null" in told.value.lines
    with table.change() as change:
        change.update([{"id": 8, "total": 3}, {"id": 2, "total": 5}])
    with pytest.raises(ViolationsError, match="1 row breaks c"), table.change() as change:
        change.update([{"id": 3, "a b": "worse"}])
    with pytest.raises(ViolationsError, match="1 row"), table.change(new_version=True) as change:
        change.update([{"id": 8, "total": 4}])
    assert freeze(spark, table, allow_violations=True).violations == ["c"]
    assert not verify(spark, table).problems
    # A log may say what nobody may ask: it is not asked.
    one = Constraint("check", ["id"], sql="reflect('java.lang.Runtime', 'getRuntime', `id`) = ''")
    alter(table.store, table.snapshot(), partial(says.with_constraint, name="x", constraint=one))
    with pytest.raises(ViolationsError, match=r"cannot be computed: .*reflect\(\): it calls Java"):
        freeze(spark, table)


def test_a_condition_goes_with_its_columns(spark: SparkSession, table: singerlake.Table) -> None:
    asked(spark, table, "total >= 0 or address.`total` > 0 or `a b` = '`total`'")

    def said(change: Any) -> Constraint:
        alter_on_spark(spark, table, change)
        return table.snapshot().overlay.constraints["c"]

    one = said(partial(says.with_name, name="total", new="sum `of` it"))
    assert one.columns == ["sum `of` it", "address", "a b"]
    assert one.sql == "`sum ``of`` it` >= 0 or `address`.`total` > 0 or `a b` = '`total`'"
    with pytest.raises(ViolationsError), table.change() as change:
        change.upsert([{"id": 9, "sum `of` it": -1, "a b": "x", "address": {"total": 0}}])
    with pytest.raises(UsageError, match="while the constraint 'c' is about it"):
        said(partial(says.without_column, name="sum `of` it"))
    assert said(partial(says.with_name, name="sum `of` it", new="total")).columns[0] == "total"
    # A type under which it means nothing, or something else, is refused.
    with pytest.raises(InvalidQueryError, match=r"\"total\" has|INVALID_EXTRACT|extract"):
        said(partial(says.with_type, name="address", schema=None))
    with pytest.raises(InvalidQueryError, match="'1.5' of the type"):
        said(partial(says.with_type, name="total", schema=None))
    decimal = {"type": ["null", "number"], "format": "singer.decimal", "scale": 2}
    assert said(partial(says.with_type, name="total", schema=decimal)).sql == one.sql.replace(
        "sum ``of`` it", "total"
    )
    # A tap of which the column has another type by then: a freeze says both.
    lake = singerlake.open(table.store.uri)
    later = {**PROPERTIES, "address": {"type": ["null", "string"]}}
    commit_rows(lake, "tap.s", later, ["id"], [{"id": 1, "address": "Main St"}])
    with pytest.raises(ViolationsError, match=r"  c \(.*cannot be computed"):
        freeze(spark, table)
    with pytest.raises(ViolationsError, match="cannot be computed"), table.change() as change:
        change.update([{"id": 1, "a b": "z"}])
    assert freeze(spark, table, allow_violations=True).violations == ["c"]
    alter(table.store, table.snapshot(), partial(says.without_constraint, name="c"))
    with table.change() as change:
        change.update([{"id": 1, "a b": "z"}])
    assert rows(spark, table)[0]["a b"] == "z"


def test_old_rows_come_back_only_if_they_keep_what_is_asked_now(
    spark: SparkSession, table: singerlake.Table
) -> None:
    with table.change() as change:
        change.update([{"id": 1, "total": 20}, {"id": 3, "total": 7}])
        change.insert([{"id": 4, "total": 4}])
    asked(spark, table, "total > 0")
    alter(table.store, table.snapshot(), partial(says.with_name, name="total", new="sum"))
    unique = Constraint("unique", ["sum"])
    alter_on_spark(spark, table, partial(says.with_constraint, name="each", constraint=unique))
    for dry_run in (True, False):
        with pytest.raises(ViolationsError, match="--allow-violations") as told:
            revert(spark, table, 1, dry_run=dry_run)
        assert [*told.value.lines][1:3] == ["  1 row breaks c (`sum` > 0):", "    id 3, sum 0.0"]
    assert table.snapshot().number == 5
    assert revert(spark, table, 2).transaction is None, "these rows are there"
    planned = revert(spark, table, 1, dry_run=True, allow_violations=True)
    assert (planned.transaction, planned.violations) == (None, ["c"])
    done = revert(spark, table, 1, allow_violations=True)
    assert (done.put_back, done.deleted, done.violations) == (2, 1, ["c"])
    *_, entry = table.entries()
    assert entry.metadata["violations"] == ["c"]
    assert [row["sum"] for row in rows(spark, table)] == [1.5, None, 0]
    assert revert(spark, table, 5).transaction == 7, "and forward again, to rows that keep it"
    with pytest.raises(ViolationsError, match="do not keep its constraints"):
        freeze(spark, table, at=6)


def test_what_is_unique_is_so_under_another_type(
    spark: SparkSession, table: singerlake.Table
) -> None:
    alter(
        table.store,
        table.snapshot(),
        partial(says.with_constraint, name="c", constraint=Constraint("unique", ["a b"])),
    )
    with table.change() as change:
        change.update([{"id": 1, "a b": "01"}, {"id": 3, "a b": "1"}])
    integer = partial(says.with_type, name="a b", schema={"type": ["null", "integer"]})
    with pytest.raises(ViolationsError, match="2 rows break c"):
        alter_on_spark(spark, table, integer)
    with table.change() as change:
        change.retype_column("a b", {"type": ["null", "integer"]})
        change.update([{"id": 1, "a b": 2}])
    assert [row["a b"] for row in rows(spark, table)] == [2, None, 1]


def test_an_enum_of_many_digits_binds_changes(spark: SparkSession, table: singerlake.Table) -> None:
    decimal = {"type": ["null", "number"], "format": "singer.decimal", "scale": 18}
    digits = "0.123456789012345678"
    with table.change() as change:
        change.add_column("d", decimal)
        change.update([{"id": 1, "d": digits}])
    one = Constraint("enum", ["d"], values=[digits])
    alter_on_spark(spark, table, partial(says.with_constraint, name="d", constraint=one))
    with table.change() as change:
        change.update([{"id": 2, "d": digits}])
    with pytest.raises(ViolationsError, match="1 row breaks d"), table.change() as change:
        change.update([{"id": 3, "d": "0.123456789012345679"}])
    with pytest.raises(RejectedRowsError), table.change() as change:
        change.update([{"id": 3, "d": "x"}])
