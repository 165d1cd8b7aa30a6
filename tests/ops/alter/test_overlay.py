"""Columns and a key by a person's word: in queries, and through all that comes after."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.errors import ConflictError, UsageError, ViolationsError
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake, Table
from singerlake.ops.alter import by_rows
from singerlake.ops.vacuum.plan import COMBINE, DROP_HISTORY, VacuumOptions
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import Altered, AlterOptions, OverlayChange, alter
from singerlake.sql.queries.query import query
from singerlake.sql.state import index_rows
from singerlake.sql.state.index_build import ensure
from singerlake.sql.violations import Violation, check_constraints
from tests.build import commit_rows
from tests.faults.plain import dump_folder, tables
from tests.frozen import alter_on_spark, vacuum_on_spark
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import revert_on_spark as revert
from tests.histories import here
from tests.ops.verify.verified import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRING: dict[str, Any] = {"type": ["null", "string"]}
PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "code": STRING, "internal": STRING}


def ask(spark: SparkSession, lake: Lake, sql: str) -> list[Any]:
    return list(query(spark, lake, sql).rows())


def cells(table: Table, *columns: str, at: str | None = None) -> list[tuple[Any, ...]]:
    found = here.rows(table, table.snapshot_at(at))
    return sorted(tuple(row[name] for name in columns) for row in found)


def said(table: Table, change: OverlayChange) -> None:
    alter(table.store, table.snapshot(), change)


def asked(kind: Any, column: str, **more: Any) -> OverlayChange:
    one = Constraint(kind, [column], **more)
    return partial(says.with_constraint, name=kind, constraint=one)


def test_columns_of_a_persons_word_survive_all_that_comes(spark: SparkSession, lake: Lake) -> None:
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 1, "code": "7"}, {"id": 2, "code": "8"}])
    table = lake.find("tap.s")[0]
    here.freeze(table)
    said(table, partial(says.with_column, name="region", schema=STRING, default="US", initial="EU"))
    said(table, partial(says.with_name, name="code", new="customer"))
    integer = {"type": ["null", "integer"]}
    said(table, partial(says.with_type, name="customer", schema=integer))
    said(table, partial(says.without_column, name="internal"))
    here.freeze(table)
    altered = table.snapshot().number
    # A sync under another schema, which knows nothing of it.
    more = {**PROPERTIES, "more": {"type": ["null", "boolean"]}}
    commit_rows(lake, "tap.s", more, ["id"], [{"id": 2, "code": "80"}, {"id": 3, "code": "x"}])
    rows = [(1, 7, "EU"), (2, 80, "US")]
    both = "select id, customer, region from tap.s where id < 3 order by id"
    assert ask(spark, lake, both) == rows
    assert ask(spark, lake, "select * from tap.s.1 order by id") == [(1, "7", None), (2, "8", None)]
    wanted = [(1, 7, "EU"), (2, 8, "EU")]
    assert ask(spark, lake, "select * from tap.s.2 order by id") == wanted
    revert(spark, table, altered)
    assert table.snapshot().overlay == table.snapshot().at(altered).overlay
    assert ask(spark, lake, "select * from tap.s order by id") == wanted
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 3, "code": "9"}])
    options = VacuumOptions(parts=(COMBINE, DROP_HISTORY), retain_seconds=0, guard=False)
    vacuum_on_spark(spark, table, options)
    assert cells(table, "id", "customer", "region") == [*wanted, (3, 9, "US")]
    assert cells(table, "id", "code", "internal", at="1") == [(1, "7", None), (2, "8", None)]
    assert not verify(spark, table).problems


def test_a_key_is_given_only_to_rows_that_it_is_for(spark: SparkSession, lake: Lake) -> None:
    rows = [{"id": 1, "code": "a"}, {"id": 2, "code": "b"}, {"id": 3, "code": "b"}, {"id": 4}]
    commit_rows(lake, "tap.s", PROPERTIES, [], [*rows])
    table = lake.find("tap.s")[0]
    by_code, by_id = (partial(says.with_key, names=[name]) for name in ("code", "id"))
    with pytest.raises(ViolationsError) as told:
        alter_on_spark(spark, table, by_code)
    assert "  1 row lacks a value that fits code" in told.value.lines
    assert "  2 rows have the same code as another:" in told.value.lines
    assert "    code b: 2 rows" in told.value.lines
    assert table.snapshot().number == 1
    done = alter_on_spark(spark, table, by_id)
    assert (done.transaction, done.rows, table.snapshot().last_block) == (2, None, 1)
    commit_rows(lake, "tap.s", PROPERTIES, [], [{"id": 4, "code": "d"}, {"id": 3, "code": "c"}])
    codes = ask(spark, lake, "select code from tap.s order by id")
    assert codes == [("a",), ("b",), ("c",), ("d",)]
    assert len(here.rows(table, table.snapshot_at("@1"))) == 4
    here.freeze(table)
    # By its code the first row of id 3 is another than the second: it must not come back.
    commit_rows(lake, "tap.s", PROPERTIES, [], [{"id": 1, "code": "z"}])
    planned = alter_on_spark(spark, table, by_code, AlterOptions(dry_run=True))
    assert (planned.transaction, planned.rows) == (None, 4)
    done = alter_on_spark(spark, table, by_code, AlterOptions(comment="codes stay"))
    assert (done.changes, done.rows) == (["key code"], 4)
    whole = "select id, code from tap.s order by id"
    wanted = [(1, "z"), (2, "b"), (3, "c"), (4, "d")]
    assert ask(spark, lake, whole) == wanted
    commit_rows(lake, "tap.s", PROPERTIES, [], [{"id": 5, "code": "d"}])
    assert cells(table, "id", "code") == [*wanted[:3], (5, "d")]
    assert ask(spark, lake, "select id, code from tap.s.1 order by id") == [(1, "a"), *wanted[1:]]
    options = VacuumOptions(parts=(COMBINE, DROP_HISTORY), retain_seconds=0, guard=False)
    vacuum_on_spark(spark, table, options)
    assert cells(table, "id", "code") == [*wanted[:3], (5, "d")]
    assert cells(table, "id", "code", at="1") == [(1, "a"), *wanted[1:]]
    assert not here.problems(table)
    read_back = tables(dump_folder(Path(lake.store.uri)))["tap.s"].state()
    assert sorted((row["id"], row["code"]) for row in read_back) == [*wanted[:3], (5, "d")]


def test_rows_come_back_only_where_the_key_of_today_is_for_them(
    spark: SparkSession, lake: Lake
) -> None:
    both = {"id": PROPERTIES["id"], "code": STRING}
    commit_rows(lake, "tap.s", {"id": both["id"]}, ["id"], [{"id": 1}])
    rows = [{"id": 1, "code": "a"}, {"id": 2, "code": "a"}, {"id": 3}]
    commit_rows(lake, "tap.s", both, ["id"], [*rows])
    table = lake.find("tap.s")[0]
    commit_rows(lake, "tap.s", both, ["id"], [{"id": 1, "code": "b"}, {"id": 3, "code": "c"}])
    alter_on_spark(spark, table, partial(says.with_key, names=["code"]))
    number = table.snapshot().number
    for dry_run in (True, False):
        with pytest.raises(ViolationsError) as told:
            revert(spark, table, 2, dry_run=dry_run)
        assert list(told.value.lines)[1:-1] == [
            "  1 row lacks a value that fits code",
            "  2 rows have the same code as another:",
            "    code a: 2 rows",
        ]
    with pytest.raises(UsageError, match="at transaction 1 it has no column 'code'"):
        revert(spark, table, 1)
    assert table.snapshot().number == number
    commit_rows(lake, "tap.s", both, ["id"], [{"id": 9, "code": "c"}])
    assert revert(spark, table, 3).put_back == 3
    assert ask(spark, lake, "select id, code from tap.s order by id") == [
        (1, "b"), (2, "a"), (3, "c")
    ]  # fmt: skip


def test_a_type_is_given_only_to_values_that_fit_it(spark: SparkSession, lake: Lake) -> None:
    rows = [{"id": 1, "code": "1.50"}, {"id": 2, "code": "x"}]
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [*rows])
    table = lake.find("tap.s")[0]
    decimal = {"type": ["null", "number"], "format": "singer.decimal", "scale": 2}
    change = partial(says.with_type, name="code", schema=decimal)
    with pytest.raises(ViolationsError, match="(?s)'code'.*has 1 value that does not fit.*x"):
        alter_on_spark(spark, table, change)
    assert table.snapshot().number == 1
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 2, "code": "2"}])
    assert alter_on_spark(spark, table, change).transaction == 3
    assert ask(spark, lake, "select sum(code) from tap.s") == [(Decimal("3.50"),)]


def test_a_key_is_not_given_to_rows_that_changed_meanwhile(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_rows(lake, "tap.s", PROPERTIES, [], [{"id": 1, "code": "a"}])
    table = lake.find("tap.s")[0]
    checked = by_rows.key_violations

    def overtaken(*args: Any) -> Any:
        commit_rows(lake, "tap.s", PROPERTIES, [], [{"id": 1, "code": "b"}])
        return checked(*args)

    monkeypatch.setattr(by_rows, "key_violations", overtaken)
    with pytest.raises(ConflictError, match="changed tap.s in the meantime"):
        alter_on_spark(spark, table, partial(says.with_key, names=["id"]))
    assert table.snapshot().overlay.key is None


def test_constraints_hold_for_rows_and_for_versions(spark: SparkSession, lake: Lake) -> None:
    rows = [{"id": 1, "code": "ab"}, {"id": 2, "code": "b"}, {"id": 3, "code": "b"}, {"id": 4}]
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [*rows])
    table = lake.find("tap.s")[0]

    def asked(name: str, one: Constraint) -> Altered:
        change = partial(says.with_constraint, name=name, constraint=one)
        return alter_on_spark(spark, table, change)

    kept = {
        "some": Constraint("enum", ["code"], values=["ab", "b"]),
        "short": Constraint("length", ["code"], minimum=1, maximum=2),
        "with b": Constraint("pattern", ["code"], pattern="b$"),
        "ids": Constraint("range", ["id"], minimum=1, maximum=9),
        "each": Constraint("unique", ["id", "code"]),
    }
    for name, one in kept.items():
        assert asked(name, one).changes[0].startswith(f"constraint {name}: ")
    number = table.snapshot().number
    broken = {
        "code not null": (Constraint("not-null", ["code"]), "    id 4, code null"),
        "one of": (Constraint("enum", ["code"], values=["b"]), "    id 1, code ab"),
        "at least 2": (Constraint("length", ["code"], minimum=2), "    id 2, code b"),
        "matching": (Constraint("pattern", ["code"], pattern="^b"), "    id 1, code ab"),
        "at most 3": (Constraint("range", ["id"], maximum=3), "    id 4"),
        "unique": (Constraint("unique", ["code"]), "    code b: 2 rows"),
    }
    for words, (one, line) in broken.items():
        with pytest.raises(ViolationsError, match=words) as told:
            asked("new", one)
        assert line in told.value.lines
    assert table.snapshot().number == number
    freeze(spark, table)
    # A tap of an earlier release, or one that does not validate, brings what breaks them.
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 10, "code": "c"}])
    with pytest.raises(ViolationsError, match="1 row breaks ids") as told:
        freeze(spark, table)
    assert "    id 10, code c" in told.value.lines
    marked = freeze(spark, table, allow_violations=True)
    assert marked.violations == ["some", "with b", "ids"]
    assert table.snapshot().frozen[-1] == marked
    assert not table.snapshot().frozen[0].violations
    assert not here.problems(table)


def test_a_constraint_is_held_against_columns_of_another_type(
    spark: SparkSession, lake: Lake
) -> None:
    number, integer = {"type": ["null", "number"]}, {"type": ["null", "integer"]}
    before = {"id": {"type": "integer"}, "n": number, "c": STRING, "d": STRING, "e": integer}
    first = {"id": 1, "n": 1.5, "c": "a", "d": "a", "e": 1}
    commit_rows(lake, "tap.s", before, ["id"], [first, {"id": 2}])
    table = lake.find("tap.s")[0]
    for kind, column, more in (
        ("range", "n", {"minimum": -1e300, "maximum": 9}),
        ("length", "c", {"maximum": 3}),
        ("pattern", "d", {"pattern": "^a"}),
        ("enum", "e", {"values": [1, 2]}),
    ):
        said(table, asked(kind, column, **more))
    list_of = {"type": ["null", "array"], "items": STRING}
    # A tap of an earlier release, or one that does not validate, gives them other types.
    later = {"id": {"type": "integer"}, "n": STRING, "c": list_of, "d": integer, "e": STRING}
    second = {"id": 3, "n": "abc", "c": ["a"], "d": 5, "e": "x"}
    kept = {"id": 4, "n": "8", "c": None, "d": None, "e": "2"}
    commit_rows(lake, "tap.s", later, ["id"], [second, kept, {"id": 1}])
    with pytest.raises(ViolationsError, match="1 row breaks range.*n at least") as told:
        freeze(spark, table)
    assert "    id 3, n abc" in told.value.lines
    marked = freeze(spark, table, allow_violations=True)
    assert marked.violations == ["range", "length", "pattern", "enum"]


def test_bounds_of_any_size_and_values_that_many_rows_share(
    spark: SparkSession, lake: Lake
) -> None:
    decimal = {"type": ["null", "number"], "format": "singer.decimal", "scale": 18}
    properties = {"id": {"type": "integer"}, "code": STRING, "n": {"type": "number"}, "d": decimal}
    lines = ['{"id": 0, "n": 1.5, "d": 0.123456789012345678}']
    lines += [f'{{"id": {n}, "code": "c{n // 2:02}"}}' for n in range(2, 26)]
    commit_rows(lake, "tap.s", properties, ["id"], [*lines])
    built = ensure(spark, lake.find("tap.s")[0], lake.find("tap.s")[0].snapshot())
    frame = index_rows.rows(spark, built).cache()

    def broken(kind: Any, column: str, **more: Any) -> list[Violation]:
        return check_constraints(frame, built.shape, {"r": Constraint(kind, [column], **more)})

    near = 0.12345678901234567
    for column, ends in (
        *((c, {"minimum": -b, "maximum": b}) for c in ("id", "n", "d") for b in (10**40, 1e300)),
        ("n", {"minimum": 1e-50}),
        ("d", {"minimum": 1e-50, "maximum": 10**30}),
        ("d", {"minimum": near, "maximum": 0.1234567890123457}),
        ("id", {"minimum": -1e-50, "maximum": 25.5}),
    ):
        assert not broken("range", column, **ends), (column, ends)
    for column, end in (
        ("id", {"maximum": 24.5}),
        ("id", {"minimum": 1e-50}),
        ("d", {"maximum": near}),
        ("d", {"minimum": 10**30}),
        ("n", {"maximum": 1e-50}),
    ):
        assert [one.rows for one in broken("range", column, **end)] == [1], (column, end)
    assert not broken("enum", "d", values=["0.123456789012345678", 1])
    assert [one.rows for one in broken("enum", "d", values=["0.123456789012345679"])] == [1]
    (alike,) = broken("unique", "code")
    told = [*alike.lines()]
    assert told[0].startswith("  24 rows break r")
    assert told[1:3] == ["    code c01: 2 rows", "    code c02: 2 rows"]
    assert told[-1] == "    and 2 more", "codes are listed, and codes are counted"
    frame.unpersist()
