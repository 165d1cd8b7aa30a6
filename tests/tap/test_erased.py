"""What the tap tells of rows that were erased behind a bookmark."""

from __future__ import annotations

import gzip
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from singerlake.errors import DamagedError
from singerlake.format import erased_keys, times
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log import notices
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions, alter
from tests.cli import call
from tests.ops.erase import by_hand
from tests.tap.run import Run
from tests.tap.run import run as run_tap

NAME = TableName("tap", "t")
MARK = "_sdc_deleted_at"
ADA, BOB, CY = ({"id": n, "name": name} for n, name in ((1, "Ada"), (2, "Bob"), (3, "Cy")))
SOON = times.iso(times.now() + timedelta(days=30))
OVER = "2026-01-01T00:00:00.000000Z"


@pytest.fixture
def table(lake: Lake) -> Table:
    table = lake.table(NAME)
    by_hand.write(lake, table, ADA, BOB)
    return table


def sync(lake: Lake, state: Any = None, **settings: Any) -> Run:
    return run_tap(lake, state=state, **settings)


def gone(run: Run) -> list[dict[str, Any]]:
    return [row for row in run.records() if MARK in row]


def test_who_is_behind_is_told_between_what_came_before_and_after(lake: Lake, table: Table) -> None:
    state = sync(lake).state
    by_hand.write(lake, table, CY)
    after = by_hand.erase(table, 2, until=SOON)
    by_hand.write(lake, table, {**BOB, "name": "anew"})
    run = sync(lake, state)
    told = {"id": 2, "name": None, MARK: after.summary(after.erased_at).time}
    assert run.records() == [CY, told, {**BOB, "name": "anew"}]
    schemas = [message["schema"]["properties"] for message in run.of("SCHEMA")]
    assert [MARK in one for one in schemas] == [False, True, False, False]
    assert schemas[1]["name"]["type"] == ["null", "string"]
    assert "required" not in run.of("SCHEMA")[1]["schema"]
    assert sync(lake, run.state).records() == [], "and once only"


def test_who_begins_is_told_nothing(lake: Lake, table: Table) -> None:
    by_hand.erase(table, 2, until=SOON)
    assert sync(lake).records() == [ADA]


def test_the_schema_in_effect_comes_behind_it_where_nothing_else_does(
    lake: Lake, table: Table
) -> None:
    state = sync(lake).state
    by_hand.erase(table, 2, until=SOON)
    run = sync(lake, state)
    assert [row["id"] for row in gone(run)] == [2]
    assert run.kinds[1:] == ["SCHEMA", "SCHEMA", "RECORD", "SCHEMA", "STATE"]
    assert MARK not in run.of("SCHEMA")[-1]["schema"]["properties"]


def test_blocks_that_a_vacuum_put_together_come_after_it(lake: Lake, table: Table) -> None:
    """A row that came again since must not be deleted, whichever block it is in by now."""
    state = sync(lake).state
    by_hand.write(lake, table, CY)
    by_hand.erase(table, 2, until=SOON)
    by_hand.write(lake, table, BOB)
    assert [block.rows for block in by_hand.merge(table, 2).blocks] == [1, 2]
    assert [row["id"] for row in sync(lake, state).records()] == [2, 3, 2]


def test_a_name_that_people_gave_the_key_since(lake: Lake, table: Table) -> None:
    state = sync(lake).state
    by_hand.erase(table, 2, until=SOON)
    added = partial(says.with_column, name="region", schema={"type": "string"}, default="EU")
    for said in (added, partial(says.with_name, name="id", new="number")):
        alter(lake.store, table.snapshot(), said, AlterOptions())
    run = sync(lake, state)
    assert [{**row, MARK: None} for row in gone(run)] == [
        {"number": 2, "name": None, "region": None, MARK: None}
    ], "as everything comes once more under the new name"


@pytest.mark.parametrize(
    "why", ["it is over", "it is missing", "nobody was to be told", "another key"]
)
def test_what_is_not_told_is_said(
    lake: Lake, table: Table, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    state = sync(lake).state
    until = {"it is over": OVER, "nobody was to be told": ""}.get(why, SOON)
    told = b'{"other":2}\n' if why == "another key" else b""
    by_hand.erase(table, 2, until=until, told=told)
    if why == "it is missing":
        [item] = lake.store.list(f"{NAME.folder}{erased_keys.NOTICES}")
        lake.store.delete(item.key)
    assert sync(lake, state).records() == []
    assert "a valid deletion notice: delete" in caplog.text


def test_a_notice_that_changed_is_damage(lake: Lake, table: Table) -> None:
    state = sync(lake).state
    by_hand.erase(table, 2, until=SOON)
    [item] = lake.store.list(f"{NAME.folder}{erased_keys.NOTICES}")
    data = lake.store.get(item.key).data
    for bad in (data[:-4], gzip.compress(b"[2]\n"), data + b"x", b"{}"):
        lake.store.replace(item.key, bad, lake.store.get(item.key).etag)
        with pytest.raises(DamagedError, match="erased/notices"):
            sync(lake, state)


def test_the_log_has_no_key(lake: Lake, table: Table) -> None:
    after = by_hand.erase(table, 2, until=SOON)
    [erased] = [entry for entry in table.entries() if entry.operation == "erase"]
    assert erased.erasure is not None
    assert erased.erasure.notice is not None
    assert set(erased.erasure.notice.__struct_fields__) == {"id", "until"}
    [standing] = notices.standing(lake.store, after)
    assert (standing.transaction, standing.until, standing.rows) == (erased.number, SOON, 1)


def test_the_check_finds_the_keys_and_says_until_when(lake: Lake, table: Table) -> None:
    by_hand.erase(table, 2, until=SOON)
    document = call.run_json(lake, "erase", "--search", str(NAME), "--key", "2", code=5)
    assert "notice" in [one["kind"] for one in document["found"]]
    assert [
        note
        for note in document["notes"]
        if f"1 erased row (transaction 3) until {SOON[:19]}Z" in note
    ]


def test_a_vacuum_deletes_notices_whose_time_is_over_and_those_of_runs_that_died(
    lake: Lake, table: Table
) -> None:
    by_hand.erase(table, 2, until=SOON)
    by_hand.erase(table, 1, until=OVER)
    notices.write(lake.store, NAME, b'{"id":9}\n', SOON)
    plan = vacuum.plan_vacuum(lake.store, table.snapshot(), VacuumOptions())
    stand = {one.key for one in notices.standing(lake.store, plan.snapshot)}
    there = {item.key for item in lake.store.list(f"{NAME.folder}erased/")}
    assert len(there) == 3
    assert {item.key for item in plan.garbage.notices} == there - stand
    assert not plan.empty
    assert not any(item.key in there for item in plan.garbage.kept)
    deleted, _ = vacuum.delete_garbage(
        lake.store, plan.snapshot, plan.garbage, VacuumOptions(), check=lambda: None
    )
    assert {item.key for item in deleted} >= there - stand
    assert {item.key for item in lake.store.list(f"{NAME.folder}erased/")} == stand


def test_telling_can_be_ended_before_its_time(lake: Lake, table: Table) -> None:
    state = sync(lake).state
    by_hand.erase(table, 2, until=SOON)
    refused = call.run(lake, "erase", str(NAME), "--revoke-notices", "--key", "2")
    assert (refused.exit_code, "leave the others out" in refused.stderr) == (2, True)
    assert call.run_json(lake, "erase", str(NAME), "--revoke-notices")["notices_deleted"] == 1
    assert not [*lake.store.list(f"{NAME.folder}erased/")]
    assert sync(lake, state).records() == []
