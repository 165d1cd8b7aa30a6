"""Rows inserted, changed and deleted: what is written, what is refused, and what is left alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.engine.base import Engine
from singerlake.engine.local import LocalEngine
from singerlake.errors import ConflictError, DamagedError, RejectedRowsError, ViolationsError
from singerlake.format.names import TableName
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake, Table
from singerlake.log.deletion_schema import declaring, hash_of
from singerlake.ops.change.job import Changed
from singerlake.ops.change.output import ChangeOutput
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.change.row_set import Part
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import alter
from singerlake.rows.batches.problems import Problems
from tests.build import commit_rows
from tests.frozen import alter_on_spark
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import verify_on_spark as verify
from tests.ops.change.row_sets import change, change_parts, row_set
from tests.sql.index_frames import rows_both_ways

pytestmark = pytest.mark.usefixtures("quick_plans")
ORDERS: dict[str, Any] = {
    "id": {"type": "integer"},
    "status": {"type": ["null", "string"]},
    "total": {"type": ["null", "number"], "multipleOf": 0.01},
}
NAME = TableName("tap", "orders")
On = SparkSession | Engine[Any]


@pytest.fixture(params=["local", "spark"])
def on(request: pytest.FixtureRequest, spark: SparkSession) -> On:
    """What a change runs on."""
    return LocalEngine() if request.param == "local" else spark


def table_of(lake: Lake) -> Table:
    return lake.table(NAME)


def rows(spark: SparkSession, table: Table) -> list[dict[str, Any]]:
    found = rows_both_ways(spark, table)
    return sorted(found, key=lambda row: repr(row.get("id")))


def apply(
    on: On,
    table: Table,
    mode: Mode,
    given: list[dict[str, Any]],
    names: list[str] | None = None,
    **options: Any,
) -> Changed:
    return change(
        on,
        table,
        lambda present: [row_set(on, present, given, names=names)],
        mode,
        options=ChangeOptions(**options),
    )


def new_lines(table: Table, after: int) -> list[dict[str, Any]]:
    text = b"".join(table.read_block(b) for b in table.snapshot().blocks_after(after))
    return [m for m in map(json.loads, text.splitlines()) if m["type"] == "RECORD"]


@pytest.fixture
def orders(lake: Lake) -> Table:
    """Ids 1 to 5 in two blocks, with a member that the schema does not know."""
    lines = [f'{{"id": {n}, "status": "new", "total": {n}.10, "kept":  1.10}}' for n in range(1, 6)]
    commit_rows(lake, "tap.orders", ORDERS, ["id"], lines, block_rows=3)
    return table_of(lake)


def test_only_the_difference_is_written(spark: SparkSession, on: On, orders: Table) -> None:
    given = [
        {"id": 1, "status": "paid"},
        {"id": 2, "status": "new"},
        {"id": 4, "_delete": True},
        {"id": 9, "_delete": True},
        {"id": 7, "status": None},
    ]
    expected = {"inserted": 1, "updated": 1, "deleted": 1, "unchanged": 1, "absent": 1}
    dry = apply(on, orders, Mode.UPSERT, given, dry_run=True)
    assert dry == Changed(None, **expected)
    assert orders.snapshot().number == 1
    done = apply(on, orders, Mode.UPSERT, given, comment="why", metadata={"ticket": "7"})
    assert done == Changed(2, **expected)
    entry = list(orders.entries())[-1]
    assert entry.operation == "change"
    assert entry.metrics == {"inserted": 1, "updated": 1, "deleted": 1, "unchanged": 1}
    assert {k: entry.metadata[k] for k in ("comment", "ticket")} == {
        "comment": "why",
        "ticket": "7",
    }
    lines = {m["record"]["id"]: m for m in new_lines(orders, 1)}
    assert lines[1]["record"] == {"id": 1, "status": "paid", "total": 1.1, "kept": 1.1}
    assert lines[7]["record"] == {"id": 7, "status": None, "total": None}
    assert lines[4]["record"]["_sdc_deleted_at"]
    assert set(lines) == {1, 4, 7}
    raw = b"".join(orders.read_block(b) for b in orders.snapshot().blocks_after(1))
    assert b'{"id": 1, "status": "paid", "total": 1.10, "kept":  1.10}' in raw
    assert [(row["id"], row["status"]) for row in rows(spark, orders)] == [
        (1, "paid"), (2, "new"), (3, "new"), (5, "new"), (7, None)
    ]  # fmt: skip
    assert apply(on, orders, Mode.UPSERT, given).transaction is None
    assert orders.snapshot().number == 2


def test_blocks_that_cannot_hold_a_row_are_not_inflated(
    spark: SparkSession, on: On, lake: Lake
) -> None:
    given: list[Any] = [{"id": n, "status": "new"} for n in range(40)]
    last = commit_rows(lake, "tap.orders", ORDERS, ["id"], given, block_rows=10).blocks[-1]
    path = Path(lake.store.local_path(NAME.data(last.file)) or "")
    data = bytearray(path.read_bytes())
    data[last.offset + last.length - 20] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    table = table_of(lake)
    done = apply(on, table, Mode.UPSERT, [{"id": 7, "status": "paid"}, {"id": 99}])
    assert (done.updated, done.inserted) == (1, 1)
    with pytest.raises(DamagedError, match=f"block {last.number} of"):
        apply(on, table, Mode.UPSERT, [{"id": 7, "status": "new"}, {"id": 31, "status": "paid"}])


def test_a_row_that_was_read_in_another_version_is_refused(
    spark: SparkSession, on: On, orders: Table
) -> None:
    assert apply(on, orders, Mode.UPSERT, [{"id": 2, "status": "theirs"}]).updated == 1
    given = [
        {"id": 2, "status": "mine", "_row_version": 1},
        {"id": 3, "status": "mine", "_row_version": 1},
        {"id": 8, "status": "mine", "_row_version": 1},
    ]
    with pytest.raises(ConflictError) as caught:
        apply(on, orders, Mode.UPSERT, given)
    assert caught.value.lines[:3] == (
        "2 rows of tap.orders changed since they were read; nothing was changed:",
        "  id 2: was row version 1 when read, and is row version 3 now (rows.csv, line 2)",
        "  id 8: was row version 1 when read, and is gone now (rows.csv, line 4)",
    )
    with pytest.raises(ConflictError, match="at transaction 2, not 1 any more"):
        apply(on, orders, Mode.UPSERT, given[:1], if_transaction=1, overwrite=True)
    assert orders.snapshot().number == 2
    # By its id alone, in the version that it has; and whatever its version is.
    mine = [{"_row_id": "2", "status": "mine", "_row_version": 3}]
    assert apply(on, orders, Mode.UPDATE, mine, if_transaction=2).updated == 1
    assert apply(on, orders, Mode.UPSERT, given, overwrite=True).inserted == 1
    assert [row["status"] for row in rows(spark, orders)] == [
        "new",
        "mine",
        "mine",
        *2 * ["new"],
        "mine",
    ]


def test_what_cannot_be_is_named_and_nothing_changed(
    spark: SparkSession, on: On, lake: Lake
) -> None:
    properties = {
        "id": {"type": "integer"},
        "kind": {"type": ["null", "string"], "enum": [None, "a", "b"]},
        "must": {"type": "string"},
        "score": {"type": ["null", "number"]},
    }
    commit_rows(lake, "tap.orders", properties, ["id"], [{"id": 1, "must": "x"}])
    table = table_of(lake)

    def problems(mode: Mode, *given: dict[str, Any], **options: Any) -> list[str]:
        with pytest.raises(RejectedRowsError) as caught:
            apply(on, table, mode, list(given), **options)
        return [line.strip() for line in caught.value.lines[1:]]

    twice = {"id": 5, "kind": "a"}
    assert problems(Mode.UPSERT, twice, {"id": 6}, twice) == [
        "rows.csv, line 4, column 'id': '5' is already in line 2"
    ]
    wrong = [{"id": None}, {"_row_id": "x"}, {"id": 1, "_row_id": "2"}]
    assert [line.partition(" (")[0][:70] for line in problems(Mode.UPSERT, *wrong)] == [
        "rows.csv, line 2, column 'id': a key cannot be null",
        "rows.csv, line 3, column '_row_id': 'x' is not the id of a row of this table"[:70],
        "rows.csv, line 4, column '_row_id': '2' is the id of another row than 1"[:70],
    ]
    assert problems(Mode.INSERT, {"id": 1, "must": "y"}) == [
        "rows.csv, line 2, column 'id': '1' is in the table already, but --mode insert only inserts"
    ]
    assert problems(Mode.UPDATE, {"id": 2, "must": "y"}) == [
        "rows.csv, line 2, column 'id': '2' is not in the table, but --mode update only updates"
    ]
    beyond = [{"id": 1, "kind": "c"}, {"id": 2, "kind": "d"}]
    for dry_run in (True, False):
        found = problems(Mode.UPSERT, *beyond, dry_run=dry_run)
        assert [line[:40] for line in found] == [
            "rows.csv, line 2, column 'kind': 'c' is "[:40],
            "rows.csv, line 3, column 'kind': 'd' is "[:40],
        ]
    # Not said again by the schema, which knows no such record.
    assert problems(Mode.UPSERT, {"id": 1, "score": math.nan}, {"id": 2, "score": math.inf}) == [
        "rows.csv, line 2, column 'score': 'nan' is not a JSON number",
        "rows.csv, line 3, column 'score': 'inf' is not a JSON number",
    ]
    assert table.snapshot().number == 1


def test_rows_of_an_earlier_schema_are_written_under_the_one_in_effect(
    spark: SparkSession, on: On, lake: Lake
) -> None:
    old = {"id": {"type": "integer"}, "n": {"type": "integer"}, "s": {"type": "string"}}
    new = {"id": {"type": "integer"}, "n": {"type": "string"}, "s": {"type": "string"}}
    commit_rows(lake, "tap.orders", old, ["id"], [{"id": i, "n": i, "s": "x"} for i in (1, 2, 3)])
    commit_rows(lake, "tap.orders", new, ["id"], [{"id": 4, "n": "four", "s": "x"}])
    table = table_of(lake)
    given = [{"id": 1, "s": "y"}, {"id": 2, "n": "two"}, {"id": 3, "_delete": True}]
    assert apply(on, table, Mode.UPSERT, given).updated == 2
    head = table.snapshot()
    under = {block.schema_hash for block in head.blocks_after(2)}
    first = head.schema_of(head.blocks[0].schema_hash)
    assert under == {head.schema_hash, hash_of(declaring(first))}
    written = {m["record"]["id"]: m["record"] for m in new_lines(table, 2)}
    assert written[1] == {"id": 1, "n": "1", "s": "y"}
    assert written[2] == {"id": 2, "n": "two", "s": "x"}
    assert [(row["id"], row["n"]) for row in rows(spark, table)] == [
        (1, "1"),
        (2, "two"),
        (4, "four"),
    ]


def test_a_value_that_does_not_fit_can_be_set_right(
    spark: SparkSession, on: On, lake: Lake
) -> None:
    when = {"type": ["null", "string"], "format": "date-time"}
    lines = [{"id": 1, "at": "never", "s": "x"}, {"id": 2, "at": "soon", "s": "x"}]
    commit_rows(lake, "tap.orders", {**ORDERS, "at": when, "s": {"type": "string"}}, ["id"], lines)
    table = table_of(lake)
    done = apply(on, table, Mode.UPDATE, [{"id": 1, "at": None}, {"id": 2, "s": "y"}])
    assert done.updated == 2
    written = {m["record"]["id"]: m["record"]["at"] for m in new_lines(table, 1)}
    assert written == {1: None, 2: "soon"}


def test_replacing_all_rows_touches_those_that_differ(
    spark: SparkSession, on: On, orders: Table
) -> None:
    given = [{"id": n, "status": "new"} for n in (1, 2, 3)] + [{"id": 6, "status": "new"}]
    done = apply(on, orders, Mode.REPLACE, given)
    assert done == Changed(2, inserted=1, deleted=2, unchanged=3)
    assert [row["id"] for row in rows(spark, orders)] == [1, 2, 3, 6]
    assert apply(on, orders, Mode.REPLACE, given).transaction is None


def test_steps_in_order_are_one_transaction(spark: SparkSession, on: On, orders: Table) -> None:
    def parts(present: Any) -> list[Part]:
        def part(mode: Mode, *given: dict[str, Any]) -> Part:
            return Part((row_set(on, present, list(given)),), mode)

        return [
            part(Mode.UPSERT, {"id": 1, "status": "a"}, {"id": 7, "status": "a", "total": None}),
            part(Mode.UPDATE, {"id": 1, "total": 5}, {"id": 7, "status": "b"}),
            part(Mode.DELETE, {"id": 2}, {"id": 3}, {"id": 1}),
            part(Mode.INSERT, {"id": 3, "status": "again"}),
        ]

    done = change_parts(on, orders, parts)
    assert done == Changed(2, inserted=1, updated=1, deleted=2)
    assert [(row["id"], row["status"]) for row in rows(spark, orders)] == [
        (3, "again"), (4, "new"), (5, "new"), (7, "b")
    ]  # fmt: skip
    (three,) = [m["record"] for m in new_lines(orders, 1) if m["record"]["id"] == 3]
    assert three == {"id": 3, "status": "again", "total": None}


def test_what_a_change_leaves_is_frozen_with_it(spark: SparkSession, on: On, orders: Table) -> None:
    given = [{"id": 1, "status": "paid"}, {"id": 2, "_delete": True}, {"id": 6, "status": "x"}]
    done = apply(on, orders, Mode.UPSERT, given, new_version=True, label="q3")
    assert done.version is not None
    assert (done.version.transaction, done.version.rows, done.version.label) == (2, 5, "q3")
    again = freeze(spark, orders)
    assert again.transaction == 2
    assert again.fingerprint == done.version.fingerprint
    assert again.record_fingerprint == done.version.record_fingerprint
    report = verify(spark, orders)
    assert not report.problems
    # Nothing to change, but a version: of the state as it is.
    same = apply(on, orders, Mode.UPSERT, given[:1], new_version=True)
    assert same.transaction == 4
    assert same.version is not None
    assert same.version.fingerprint == again.fingerprint


def test_without_a_key_rows_go_by_their_ids(spark: SparkSession, on: On, lake: Lake) -> None:
    lines: list[Any] = [f'{{"id": {n}, "status":  "new"}}' for n in (1, 2, 3, 3)]
    commit_rows(lake, "tap.orders", ORDERS, [], lines)
    table = table_of(lake)
    assert apply(on, table, Mode.INSERT, [{"id": 4, "status": "new"}]) == Changed(2, inserted=1)
    given = [
        {"_row_id": "1:1", "status": "paid", "_row_version": 1},
        {"_row_id": "1:2", "_delete": True},
        {"id": 5, "status": "new"},
    ]
    expected = Changed(None, inserted=1, updated=1, deleted=1, whole=True)
    assert apply(on, table, Mode.UPSERT, given, dry_run=True) == expected
    assert apply(on, table, Mode.UPSERT, given) == replace(expected, transaction=3)
    assert [(row["id"], row["status"]) for row in rows(spark, table)] == [
        (1, "new"), (2, "paid"), (3, "new"), (4, "new"), (5, "new")
    ]  # fmt: skip
    with pytest.raises(
        ConflictError, match="_row_id 1:1: was row version 1 when read, and is gone now"
    ):
        apply(on, table, Mode.UPSERT, given[:1])
    with pytest.raises(RejectedRowsError, match="'1:1' is no longer in the table"):
        apply(on, table, Mode.UPSERT, [{"_row_id": "1:1", "status": "paid"}])
    same = [row | {"total": None} for row in rows(spark, table)]
    assert apply(on, table, Mode.REPLACE, same).transaction is None
    assert apply(on, table, Mode.REPLACE, same[:2]).inserted == 2
    assert [row["id"] for row in rows(spark, table)] == [1, 2]


def test_new_rows_are_of_the_version_that_the_tap_has_activated(
    spark: SparkSession, on: On, lake: Lake
) -> None:
    commit_rows(lake, "tap.orders", ORDERS, ["id"], [({"id": 1}, 7), 7])
    table = table_of(lake)
    apply(on, table, Mode.UPSERT, [{"id": 1, "status": "a"}, {"id": 2, "status": "a"}])
    commit_rows(lake, "tap.orders", ORDERS, ["id"], [({"id": 3}, 7), 7])
    assert [row["id"] for row in rows(spark, table)] == [1, 2, 3]


class Meanwhile:
    """Somebody else commits just before a change does, as often as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *commits: Callable[[], object]) -> None:
        self.left = list(commits)
        real = ChangeOutput.write

        def write(*args: Any, **kwargs: Any) -> Any:
            if self.left:
                self.left.pop(0)()
            return real(*args, **kwargs)

        monkeypatch.setattr(ChangeOutput, "write", write)


def test_others_may_change_other_rows_meanwhile(
    spark: SparkSession, on: On, lake: Lake, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def theirs(number: int) -> Callable[[], object]:
        record = {"id": number, "status": "theirs"}
        return lambda: commit_rows(lake, "tap.orders", ORDERS, ["id"], [record])

    mine = {"id": 1, "status": "mine", "_row_version": 1}
    Meanwhile(monkeypatch, theirs(2))
    assert apply(on, orders, Mode.UPSERT, [mine]).transaction == 3
    assert [row["status"] for row in rows(spark, orders)][:2] == ["mine", "theirs"]
    # The same row: whoever read it is refused, who changes it blindly does so on top.
    three = {"id": 3, "total": 7}
    Meanwhile(monkeypatch, theirs(3))
    with pytest.raises(
        ConflictError, match="id 3: was row version 1 when read, and is row version 5 now"
    ):
        apply(on, orders, Mode.UPSERT, [{**three, "_row_version": 1}])
    assert orders.snapshot().number == 4
    Meanwhile(monkeypatch, theirs(3), theirs(4))
    done = apply(on, orders, Mode.UPSERT, [three], new_version=True)
    assert done.transaction == 7
    assert done.version is not None
    assert [row["status"] for row in rows(spark, orders)][2:4] == ["theirs", "theirs"]
    assert rows(spark, orders)[2]["total"] == 7
    again = freeze(spark, orders)
    assert (again.fingerprint, again.rows) == (done.version.fingerprint, done.version.rows)
    Meanwhile(monkeypatch, theirs(5))
    with pytest.raises(ConflictError, match="not 8 any more"):
        apply(on, orders, Mode.UPSERT, [{"id": 1, "status": "other"}], if_transaction=8)
    monkeypatch.setattr("singerlake.ops.change.job.ATTEMPTS", 2)
    Meanwhile(monkeypatch, *[theirs(1)] * 3)
    with pytest.raises(ConflictError, match="other processes keep changing the same rows"):
        apply(on, orders, Mode.UPSERT, [{"id": 1, "status": "never"}])
    present = {block.file for block in orders.snapshot().blocks}
    stored = {item.key for item in lake.store.list(NAME.folder) if item.key.endswith(".gz")}
    assert stored == {NAME.data(file) for file in present}, "what was not committed is missing"


def test_rows_are_changed_as_people_see_them(spark: SparkSession, lake: Lake) -> None:
    """Under columns that were added, renamed, dropped and retyped, and a key that a person gave."""
    text: dict[str, Any] = {"type": ["null", "string"]}
    properties = {"id": {"type": "integer"}, "code": text, "size": text, "internal": text}
    lines = [f'{{"id": {n}, "code": "c{n}", "size": "{n}0", "internal":  "i"}}' for n in (1, 2, 3)]
    commit_rows(lake, "tap.orders", properties, [], [*lines])
    table = table_of(lake)
    for said in (
        partial(says.with_column, name="region", schema=text, default="US", initial="EU"),
        partial(says.with_name, name="code", new="customer"),
        partial(says.with_type, name="size", schema={"type": ["null", "integer"]}),
        partial(says.without_column, name="internal"),
    ):
        alter(table.store, table.snapshot(), said)
    alter_on_spark(spark, table, partial(says.with_key, names=["id"]))
    number = table.snapshot().number
    given = [
        {"id": 1, "customer": "new"},
        {"id": 2, "size": 21},
        {"id": 3, "_delete": True},
        {"id": 4, "customer": "c4"},
    ]
    done = apply(spark, table, Mode.UPSERT, given, new_version=True)
    assert (done.inserted, done.updated, done.deleted) == (1, 2, 1)
    expected = [
        {"id": 1, "customer": "new", "size": 10, "region": "EU"},
        {"id": 2, "customer": "c2", "size": 21, "region": "EU"},
        {"id": 4, "customer": "c4", "size": None, "region": "US"},
    ]
    assert rows(spark, table) == expected
    written = {m["record"]["id"]: m["record"] for m in new_lines(table, number)}
    assert written[1] == {
        "id": 1, "code": "new", "size": 10, "internal": "i", "region": "EU"
    }  # fmt: skip
    assert not verify(spark, table).problems
    # The tap goes on in its own words; the row that it sends again is its own.
    commit_rows(lake, "tap.orders", properties, [], [lines[0]])
    assert rows(spark, table)[0] == {"id": 1, "customer": "c1", "size": 10, "region": "US"}
    assert apply(spark, table, Mode.UPSERT, [expected[1]]).unchanged == 1


def test_no_change_leaves_rows_alike_that_are_to_be_unique(
    spark: SparkSession, orders: Table
) -> None:
    unique = Constraint("unique", ["status"])
    given = [{"id": n, "status": f"s{n}"} for n in range(1, 6)]
    assert apply(spark, orders, Mode.UPDATE, given).updated == 5
    alter(
        orders.store,
        orders.snapshot(),
        partial(says.with_constraint, name="one", constraint=unique),
    )
    # One like a row that is there, two like each other, and a new one like a row that is there.
    wrong = [{"id": 1, "status": "s2"}, {"id": 6, "status": "new"}, {"id": 7, "status": "new"}]
    wrong += [{"id": 4, "total": 1}, {"id": 8, "status": "s5"}]
    for dry_run in (True, False):
        with pytest.raises(ViolationsError, match="6 rows break one") as caught:
            apply(spark, orders, Mode.UPSERT, wrong, dry_run=dry_run)
        listed = caught.value.problems
        assert isinstance(listed, Problems)
        found = [(one.line, one.column) for one in listed.first]
        assert found == [(line, "status") for line in (2, 3, 4, 6)]
    with pytest.raises(ViolationsError, match="2 rows break one"):
        apply(spark, orders, Mode.UPSERT, [{"id": 6, "status": "s5"}], new_version=True)
    assert orders.snapshot().number == 3
    # Two that change places, and one that takes what another gives up.
    given = [{"id": 1, "status": "s2"}, {"id": 2, "status": "s1"}]
    given += [{"id": 5, "_delete": True}, {"id": 6, "status": "s5"}]
    assert apply(spark, orders, Mode.UPSERT, given).transaction == 4


def test_a_change_freezes_no_rows_that_break_a_constraint(
    spark: SparkSession, orders: Table, lake: Lake
) -> None:
    at_most_9 = Constraint("range", ["total"], maximum=9)
    asked = partial(says.with_constraint, name="small", constraint=at_most_9)
    alter(orders.store, orders.snapshot(), asked)
    # A tap of an earlier release, or one that does not validate, brings what breaks it.
    commit_rows(lake, "tap.orders", ORDERS, ["id"], [{"id": 6, "status": "s", "total": 10}])
    given = [{"id": 1, "status": "paid"}]
    with pytest.raises(ViolationsError, match="1 row breaks small"):
        apply(spark, orders, Mode.UPSERT, given, new_version=True)
    assert (orders.snapshot().number, len(orders.snapshot().frozen)) == (3, 0)
    given.append({"id": 6, "_delete": True})
    assert apply(spark, orders, Mode.UPSERT, given, new_version=True).transaction == 4
    assert orders.snapshot().frozen[-1].violations == []
