"""A table that nobody could read, altered: it reads, freezes, verifies and goes on."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.engine.spark.engine import SparkEngine
from singerlake.errors import DamagedError, MisfitsError
from singerlake.format import times
from singerlake.lake import Lake
from singerlake.ops.vacuum import expire
from singerlake.ops.vacuum.combine import withdraw
from singerlake.ops.vacuum.drop_history import plan_drop_history
from singerlake.ops.vacuum.plan import COMBINE, DROP_HISTORY, VacuumOptions
from singerlake.sql.queries.query import query
from tests.build import commit_rows, retype
from tests.cli.call import run
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import revert_on_spark as revert
from tests.frozen import row_history_on_spark as row_history
from tests.frozen import vacuum_on_spark
from tests.ops.verify.verified import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("quick_plans")
PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "amount": {"type": "number"}}


def ask(spark: SparkSession, lake: Lake, sql: str) -> list[Any]:
    return list(query(spark, lake, sql).rows())


@pytest.mark.parametrize("keys", [["id"], []])
def test_a_retyped_column_opens_any_table(spark: SparkSession, lake: Lake, keys: list[str]) -> None:
    commit_rows(lake, "tap.s", PROPERTIES, keys, ['{"id": 1, "amount": 1.50}'])
    table = lake.find("tap.s")[0]
    freeze(spark, table)
    commit_rows(lake, "tap.s", PROPERTIES, keys, ['{"id": 2, "amount": 1e400}'])
    whole = "select id, amount from tap.s order by id"
    with pytest.raises(DamagedError, match="1e400"):
        ask(spark, lake, whole)
    with pytest.raises(MisfitsError):
        freeze(spark, table)
    retype(table.store, table.snapshot(), "amount")
    assert ask(spark, lake, whole) == [(1, "1.50"), (2, "1e400")]
    # The next sync does not undo it, whatever schema it comes with.
    other = {**PROPERTIES, "amount": {"type": "integer"}}
    commit_rows(lake, "tap.s", other, keys, ['{"id": 3, "amount": "n/a"}'])
    assert ask(spark, lake, whole) == [(1, "1.50"), (2, "1e400"), (3, "n/a")]
    assert freeze(spark, table).rows == 3
    assert not verify(spark, table).problems
    # A state from before reads as it did.
    assert ask(spark, lake, "select amount from tap.s.1") == [(1.5,)]
    with pytest.raises(DamagedError, match="1e400"):
        ask(spark, lake, whole.replace("tap.s", "tap.s.`@3`"))


@pytest.mark.parametrize("keys", [["id"], []])
def test_it_survives_revert_and_vacuum(spark: SparkSession, lake: Lake, keys: list[str]) -> None:
    commit_rows(lake, "tap.s", PROPERTIES, keys, ['{"id": 1, "amount": 1.50}'])
    table = lake.find("tap.s")[0]
    freeze(spark, table)
    commit_rows(lake, "tap.s", PROPERTIES, keys, ['{"id": 1, "amount": 2}', '{"id": 2}'])
    retype(table.store, table.snapshot(), "amount")
    done = revert(spark, table, 1)
    assert done.put_back >= 1
    assert ask(spark, lake, "select id, amount from tap.s") == [(1, "1.50")]
    assert table.snapshot().retyped == {"amount"}
    commit_rows(lake, "tap.s", PROPERTIES, keys, ['{"id": 3, "amount": 1e400}'])
    options = VacuumOptions(parts=(COMBINE, DROP_HISTORY), retain_seconds=0, guard=False)
    vacuum_on_spark(spark, table, options)
    rows = [(1, "1.50"), (3, "1e400")]
    assert ask(spark, lake, "select id, amount from tap.s order by id") == rows
    assert ask(spark, lake, "select amount from tap.s.1") == [(1.5,)]
    assert not verify(spark, table).problems


def test_a_key_that_does_not_fit_has_a_way_out(spark: SparkSession, lake: Lake) -> None:
    """Lakes of 0.1 hold such keys: as text all rows read, and those that were one stay one."""
    rows = [
        '{"id": 9223372036854775808, "amount": 1}',
        '{"id": 1, "amount": 1}',
        '{"id": 2, "amount": 1}',
        '{"id": 1e1, "amount": 1}',
    ]
    later = [
        '{"id": 1.0, "amount": 2}',
        '{"id": 2, "amount": 2, "_sdc_deleted_at": "2026-01-01"}',
        '{"id": 9223372036854775809, "amount": 2}',
    ]
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], ['{"id": 2.0, "amount": 0}'])
    table = lake.find("tap.s")[0]
    freeze(spark, table)  # an index under the key's own type already exists
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], rows)
    with pytest.raises(DamagedError, match="singerlake alter tap.s retype id text"):
        ask(spark, lake, "select count(*) from tap.s")
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], later)
    retype(table.store, table.snapshot(), "id")
    whole = "select id, amount from tap.s order by id"
    expected = [("1", 2.0), ("10", 1.0), ("9223372036854775808", 1.0), ("9223372036854775809", 2.0)]
    assert ask(spark, lake, whole) == expected
    assert freeze(spark, table).rows == 4
    snapshot = table.snapshot()
    altered = times.parse(snapshot.summary(5).time)
    assert altered is not None
    plan = plan_drop_history(snapshot, altered.timestamp() - 1e-6)
    assert plan is not None
    assert plan.floor == 4, "a state from before, which nobody can read"
    written = expire.write(SparkEngine(spark), table, snapshot, plan)
    withdraw(table.store, table.name, written.files)
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], ['{"id": 10, "amount": 3}'])
    assert ask(spark, lake, whole)[1] == ("10", 3.0)
    assert not verify(spark, table).problems
    revert(spark, table, table.snapshot().frozen[1].transaction)
    assert ask(spark, lake, whole) == expected
    assert row_history(spark, table, id="10")[-1].values["amount"] == 1.0
    options = VacuumOptions(parts=(COMBINE, DROP_HISTORY), retain_seconds=0, guard=False)
    vacuum_on_spark(spark, table, options)
    assert ask(spark, lake, whole) == expected
    assert ask(spark, lake, "select id, amount from tap.s.1") == [(2, 0.0)]
    assert ask(spark, lake, "select count(*) from tap.s.2") == [(4,)]
    assert not verify(spark, table).problems


@pytest.mark.parametrize("value", ["1.5", "1e30"])
def test_key_of_two_kinds_of_numbers_becomes_a_decimal(
    spark: SparkSession, lake: Lake, value: str
) -> None:
    for kind, cell in (("number", value), ("integer", "2")):
        commit_rows(lake, "tap.s", {"key": {"type": kind}}, ["key"], [f'{{"key": {cell}}}'])
    assert run(lake, "alter", "tap.s", "rename-column", "key", "id").exit_code == 0
    with pytest.raises(DamagedError, match="singerlake alter tap.s retype id TYPE"):
        ask(spark, lake, "select id from tap.s")
    assert run(lake, "alter", "tap.s", "retype", "id", "decimal(38,1)").exit_code == 0
    found = ask(spark, lake, "select id from tap.s order by id")
    assert found == [(value,) for value in sorted([Decimal(value), Decimal(2)])]
