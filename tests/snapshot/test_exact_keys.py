"""Every operation tells keys apart by all their digits, or refuses and says the way out."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.errors import DamagedError, ViolationsError
from singerlake.format.log import FrozenVersion
from singerlake.format.types import RULES
from singerlake.lake import Lake, Table
from singerlake.ops.freeze import FreezePlan, commit_version
from singerlake.ops.vacuum.plan import PARTS, VacuumOptions
from singerlake.ops.verify.verify import upgrade
from singerlake.snapshot import building
from singerlake.sql.queries.query import query
from singerlake.sql.state import index_build
from singerlake.sql.state.content import state_misfits
from tests.build import commit_rows
from tests.cli import call
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import on, vacuum_on_spark
from tests.frozen import revert_on_spark as revert
from tests.frozen import undo_on_spark as undo
from tests.histories import here
from tests.ops.verify.verified import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
IDS = [1234567890123456780 + n for n in range(20)]
PROPERTIES: dict[str, Any] = {"id": {"type": ["null", "number"]}, "x": {"type": ["null", "string"]}}


def commit(
    lake: Lake, ids: list[Any], x: str = "a", properties: dict[str, Any] = PROPERTIES
) -> None:
    rows: list[Any] = [f'{{"id": {one}, "x": "{x}"}}' for one in ids]
    commit_rows(lake, "tap.t", properties, ["id"], rows)


def table(lake: Lake) -> Table:
    return lake.find("tap.t")[0]


def freeze_by_old_rules(lake: Lake) -> FrozenVersion:
    """Freeze the head as a release did for which ids that a double rounds together were one."""
    head = table(lake).snapshot()
    was = here.content(table(lake), head.by_rules(2))
    old = FreezePlan(head.by_rules(2), "old", None)
    return commit_version(
        lake.store, head, old, rows=was.rows, fingerprint=was.fingerprint,
        record_fingerprint=was.record_fingerprint,
    )  # fmt: skip


def ids(lake: Lake) -> list[Decimal]:
    return sorted(row["id"] for row in here.rows(table(lake)))


def count(spark: SparkSession, lake: Lake, text: str = "select count(*) from tap.t") -> int:
    with query(spark, lake, text) as result:
        return int(result.frame.collect()[0][0])


def test_rows_stay_apart_while_their_column_rounds_their_keys(
    spark: SparkSession, lake: Lake
) -> None:
    commit(lake, IDS[:10])
    commit(lake, IDS[5:])
    assert count(spark, lake) == 20
    assert count(spark, lake, "select count(x) from tap.t") == 20
    shown = call.run(lake, "query", "select id from `tap`.t")
    assert shown.exit_code == 5
    assert "decimal(38,0)" in shown.output
    before = table(lake).snapshot().number
    for command in (
        ["delete", "tap.t", "--where", "x = 'a'"],
        ["diff", "tap.t", "@1", "@2"],
        ["revert", "tap.t", "--to-transaction", "1"],
        ["undo", "tap.t", "2"],
        ["erase", "tap.t", "--where", "x = 'a'", "--reason", "a test"],
    ):
        done = call.run(lake, *command)
        assert done.exit_code == 5, (command, done.output)
        assert "retype id" in done.output, (command, done.output)
    for way in ("delete", "erase"):
        more = ["--reason", "a test"] if way == "erase" else []
        done = call.run(lake, way, "tap.t", "--key", str(IDS[0]), *more)
        assert done.exit_code != 0
    assert table(lake).snapshot().number == before
    found = upgrade(table(lake), on(spark))
    assert (found.rows, found.appear, found.vanish) == (20, 19, 0)
    assert [(one.column, one.values) for one in found.rounded] == [("id", 20)]


def test_freeze_and_verify_name_rows_whose_key_rounds_by_its_exact_text(
    spark: SparkSession, lake: Lake
) -> None:
    properties = {**PROPERTIES, "n": {"type": ["null", "integer"]}}
    commit_rows(
        lake, "tap.t", properties, ["id", "x"],
        [f'{{"id": {IDS[0]}, "x": "a"}}', '{"id": null, "x": "b", "n": 99999999999999999999}'],
    )  # fmt: skip
    for done in (
        call.run(lake, "freeze", "tap.t"),
        call.run(lake, "verify", "tap.t"),
    ):
        assert done.exit_code == 5
        assert f"(id {IDS[0]}, x a)" in done.output, done.output
        assert "(id null, x b)" in done.output
        assert "None" not in done.output
    told = [str(one) for misfits in state_misfits(spark, table(lake), table(lake).snapshot())
            for one in misfits.first]  # fmt: skip
    assert any(one.endswith(f"(id {IDS[0]}, x a)") for one in told)


def test_every_operation_tells_keys_apart_once_their_column_holds_them(
    spark: SparkSession, lake: Lake
) -> None:
    commit(lake, IDS)
    old = FreezePlan(table(lake).snapshot().by_rules(2), "old", None)
    commit_version(lake.store, table(lake).snapshot(), old, rows=1, fingerprint="0" * 32)
    done = call.run(lake, "alter", "tap.t", "retype", "id", "decimal(38,0)")
    assert done.exit_code == 0, done.output
    assert ids(lake) == list(map(Decimal, IDS))
    assert freeze(spark, table(lake)).rows == 20
    assert count(spark, lake, "select count(distinct id) from tap.t") == 20
    deleted = call.run_json(lake, "delete", "tap.t", "--key", str(IDS[0]))
    assert deleted["deleted"] == 1
    assert ids(lake) == list(map(Decimal, IDS[1:]))
    at = table(lake).snapshot().number
    differs = call.run_json(lake, "diff", "tap.t", "2")
    assert str(IDS[0]) in str(differs)
    assert call.run(lake, "undo", "tap.t", str(at)).exit_code == 0
    assert ids(lake) == list(map(Decimal, IDS))
    commit(lake, IDS[3:5], "b")
    revert(spark, table(lake), at + 1)
    assert [row["x"] for row in here.rows(table(lake))] == ["a"] * 20
    state = table(lake).snapshot().named("old")[1]
    assert len(here.rows(table(lake), state)) == 1


def test_dropped_history_keeps_what_any_rule_in_use_needs(spark: SparkSession, lake: Lake) -> None:
    commit(lake, IDS)
    commit(lake, IDS[:5], "b")
    version = freeze_by_old_rules(lake)
    assert (version.rows, version.types) == (1, 2)
    assert call.run(lake, "alter", "tap.t", "retype", "id", "text").exit_code == 0
    options = VacuumOptions(retain_seconds=0, parts=PARTS, guard=False, lease_wait_seconds=0)
    vacuum_on_spark(spark, table(lake), options)
    assert ids(lake) == list(map(str, IDS))
    assert len(here.rows(table(lake), table(lake).snapshot().named("old")[1])) == 1
    assert verify(spark, table(lake)).problems == []


def test_one_row_is_erased_and_no_other(spark: SparkSession, lake: Lake) -> None:
    commit(lake, IDS)
    commit(lake, IDS[:2], "b")
    assert call.run(lake, "alter", "tap.t", "retype", "id", "decimal(38,0)").exit_code == 0
    done = call.run(
        lake, "erase", "tap.t", "--key", str(IDS[0]), "--reason", "a test", "--wait", "0"
    )
    assert done.exit_code == 0, done.output
    assert ids(lake) == list(map(Decimal, IDS[1:]))
    assert verify(spark, table(lake)).problems == []


def test_erasure_that_would_change_an_old_version_is_refused(
    spark: SparkSession, lake: Lake
) -> None:
    """By the rules of then, the row of another key would come back in the version."""
    commit(lake, IDS)
    freeze_by_old_rules(lake)
    assert call.run(lake, "alter", "tap.t", "retype", "id", "decimal(38,0)").exit_code == 0
    before = [*lake.store.list("")]
    last = ["erase", "tap.t", "--key", str(IDS[-1]), "--reason", "a test", "--wait", "0s"]
    for more in (["--dry-run"], []):
        done = call.run(lake, *last, *more)
        assert done.exit_code == 2, done.output
        assert "version 1" in done.output
        assert str(IDS[-2]) in done.output
        assert "singerlake versions tap.t --delete 1" in done.output
        assert "damaged" not in done.output
    data = [item for item in lake.store.list("") if "vacuum" not in item.key]
    assert [item.key for item in data] == [item.key for item in before]
    assert ids(lake) == list(map(Decimal, IDS))
    assert len(here.rows(table(lake), table(lake).snapshot().named("old")[1])) == 1
    for way in (["--dry-run"], []):
        done = call.run(lake, *last[:2], "--key", str(IDS[0]), *last[4:], *way)
        assert done.exit_code == 0, done.output
    gone = call.run(lake, "versions", "tap.t", "--delete", "1", "--reason", "a test")
    assert gone.exit_code == 0, gone.output
    done = call.run(lake, *last)
    assert done.exit_code == 2, done.output
    assert "expire its history first" in done.output
    way = ("vacuum", "tap.t", "--expire-history", "--retain", "0s", "--no-retention-guard")
    assert call.run(lake, *way).exit_code == 0
    done = call.run(lake, *last)
    assert done.exit_code == 0, done.output
    assert ids(lake) == list(map(Decimal, IDS[1:-1]))


@pytest.mark.parametrize("also_gone", [False, True])
def test_erasure_of_all_rows_that_were_one_in_an_old_version_is_done(
    spark: SparkSession, lake: Lake, also_gone: bool
) -> None:
    commit(lake, IDS[:3])
    if also_gone:
        rows: list[Any] = [f'{{"id": {IDS[0]}, "_sdc_deleted_at": "2026-01-01T00:00:00Z"}}']
        commit_rows(lake, "tap.t", PROPERTIES, ["id"], rows)
    freeze_by_old_rules(lake)
    assert call.run(lake, "alter", "tap.t", "retype", "id", "decimal(38,0)").exit_code == 0
    last = ["erase", "tap.t", "--reason", "a test", "--wait", "0s", "--key", str(IDS[0])]
    if also_gone:  # by the rules of then, its deletion hides the others
        assert call.run(lake, *last).exit_code == 2
    for one in IDS[1:3]:
        last += ["--key", str(one)]
    done = call.run(lake, *last)
    assert done.exit_code == 0, done.output
    assert verify(spark, table(lake)).problems == []


@pytest.mark.parametrize("type_", ["integer", "number"])
def test_difference_from_a_version_of_earlier_rules_says_so_once(
    spark: SparkSession, lake: Lake, type_: str, caplog: pytest.LogCaptureFixture
) -> None:
    properties = {**PROPERTIES, "id": {"type": ["null", type_]}}
    commit(lake, [1, 2], properties=properties)
    old = FreezePlan(table(lake).snapshot().by_rules(2), "old", None)
    commit_version(lake.store, table(lake).snapshot(), old, rows=2, fingerprint="0" * 32)
    for changed in (False, True):
        if changed:
            commit(lake, [3], properties=properties)
        for options in ((), ("--stat",)):
            caplog.clear()
            shown = call.run(lake, "diff", "tap.t", "old", *options)
            assert shown.exit_code == 0, shown.output
            assert caplog.text.count("earlier rules") == 1, caplog.text
            assert "the key differs" not in shown.output


def test_index_of_a_table_with_exact_keys_is_laid_over_an_earlier_one(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as its columns hold its keys; else it is made from the blocks."""
    monkeypatch.setattr(building, "LEAST_ROWS", 0)
    monkeypatch.setattr(building, "SHARE", 1)
    commit(lake, [1, 2, 3, 0.5])
    index_build.ensure(spark, table(lake), table(lake).snapshot())
    commit(lake, [3, 4], "b")
    built = index_build.ensure(spark, table(lake), table(lake).snapshot())
    assert built.below is not None
    assert count(spark, lake) == 5
    commit(lake, IDS[:2], "c")
    with pytest.raises(DamagedError, match="retype id"):
        index_build.ensure(spark, table(lake), table(lake).snapshot())
    whole = index_build.ensure(spark, table(lake), table(lake).snapshot(), shown=True)
    assert (whole.below, whole.marker.rows, whole.marker.types) == (None, 7, RULES)
    assert count(spark, lake) == 7


def test_rows_with_a_null_in_their_key_are_rows_of_their_own(
    spark: SparkSession, lake: Lake
) -> None:
    nullable = {**PROPERTIES, "id": {"type": ["null", "integer"]}}
    commit(lake, ["null", "null", 1], properties=nullable)
    commit(lake, ["null", 2, 1], "b", properties=nullable)
    assert count(spark, lake) == 5
    assert here.content(table(lake)).rows == 5
    # What is refused is refused in the same words where it is only planned.
    refused = []
    for dry_run in (True, False):
        for back in (partial(revert, to=1), partial(undo, numbers=[2])):
            with pytest.raises(ViolationsError, match="row 2:0 .* has no value of 'id'") as told:
                back(spark, table(lake), dry_run=dry_run)
            refused.append(str(told.value))
    small = ["revert", "tap.t", "--to-transaction", "1", "--output", "json"]
    for options in (["--dry-run"], []):
        refused.append(json.loads(call.run(lake, *small, *options).stderr)["error"]["message"])
    assert len({*refused}) == 1
    assert table(lake).snapshot().number == 2
    commit(lake, [1, 2], "c", properties=nullable)
    assert revert(spark, table(lake), 2).put_back == 2
    assert sorted(row["x"] for row in here.rows(table(lake))) == ["a", "a", "b", "b", "b"]
    differs = call.run_json(lake, "diff", "tap.t", "@3")
    assert str(differs).count("'c'") == 2  # and nothing is said of rows that have no key
    options = VacuumOptions(retain_seconds=0, parts=PARTS, guard=False, lease_wait_seconds=0)
    vacuum_on_spark(spark, table(lake), options)
    assert count(spark, lake) == 5


@pytest.mark.parametrize("where", ["id is null", "x is not null"])
def test_change_of_rows_with_a_null_in_their_key_names_the_next_step(
    spark: SparkSession, lake: Lake, tmp_path: Path, where: str
) -> None:
    nullable = {**PROPERTIES, "id": {"type": ["null", "integer"]}}
    commit(lake, ["null", "null", 1], properties=nullable)
    for command in (["delete", "tap.t"], ["update", "tap.t", "--set", "x = 'z'"]):
        done = call.run(lake, *command, "--where", where)
        assert done.exit_code == 5
        assert done.stderr.count("is null in a row of the table,") == 1, done.stderr
        assert "(2 rows)" in done.stderr
        assert "singerlake alter TABLE set-key" in done.stderr
        assert "singerlake erase TABLE" in done.stderr
    file = tmp_path / "rows.csv"
    way = ("query", "--row-metadata", "--out", str(file))
    assert call.run(lake, *way, "select * from tap.t where id is null").exit_code == 0
    done = call.run(lake, "delete", "tap.t", "--from", str(file))
    assert "singerlake erase TABLE" in done.stderr
    file.write_text("id,x\n,n\n")
    done = call.run(lake, "upload", "tap.t", str(file))
    assert "a key cannot be null" in done.stderr


def test_row_with_a_null_in_its_key_is_erased_by_a_condition(
    spark: SparkSession, lake: Lake
) -> None:
    nullable = {**PROPERTIES, "id": {"type": ["null", "integer"]}}
    commit(lake, ["null", 1], properties=nullable)
    commit(lake, ["null", 2], "b", properties=nullable)
    done = call.run_json(
        lake, "erase", "tap.t", "--where", "x = 'a'", "--reason", "a test", "--wait", "0s"
    )
    assert done["rows"] == 2, done
    assert sorted(str(row["id"]) for row in here.rows(table(lake))) == ["2", "None"]
    assert verify(spark, table(lake)).problems == []
