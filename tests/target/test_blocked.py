"""Records whose keys are blocked do not come in again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import ConflictError, DamagedError, UsageError
from singerlake.format import erased_keys
from singerlake.format.erased_keys import KeyHashes
from singerlake.format.log import Operation
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log import blocked
from singerlake.log.commit import commit, draft_entry
from singerlake.log.log import read_checkpoint
from singerlake.log.staging import StagedTable
from singerlake.ops import suppression as blocking
from singerlake.ops.drop import drop_table
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake.ops.verify.plan import check_erasures
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions, alter
from singerlake.rows.state.blocked_keys import BlockedRows
from tests.cli import call
from tests.ops.erase import by_hand
from tests.ops.vacuum.plain_table import events
from tests.target import harness

NAME = TableName("tap", "t")
FOLDER = f"{NAME.folder}{erased_keys.BLOCKED}"
PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "name": {"type": "string"}}
ADA, BOB, CY = ({"id": n, "name": name} for n, name in ((1, "Ada"), (2, "Bob"), (3, "Cy")))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "lake"), create=True)


def sync(
    lake: Lake,
    *messages: dict[str, Any] | int,
    properties: Any = None,
    keys: Any = None,
    **more: Any,
) -> list[Any]:
    lines = [harness.schema("t", properties or PROPERTIES, keys or ["id"])]
    for message in messages:
        if isinstance(message, int):
            lines.append(harness.activate("t", message))
            continue
        record = {name: value for name, value in message.items() if name != "version"}
        version = {"version": message["version"]} if "version" in message else {}
        lines.append(harness.record("t", record, **version))
    return harness.run(lake.store.uri, [*lines, harness.state({"n": 1})], tap_id="tap", **more)


def block(table: Table, *ids: str) -> None:
    head = table.snapshot()
    rows = blocking.rows_of(head, blocked.read(table.store, head))
    hashes = rows.added(blocking.cells_of(head, ids))
    said = blocked.write(table.store, NAME, hashes, blocking.members_of(head))
    blocked.commit_blocked(table.store, head, said, "w")


def ids(table: Table) -> list[Any]:
    return [event.record["id"] for event in events(table, table.snapshot()) if event.kind]


def test_records_with_blocked_keys_are_left_out_and_counted(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    sync(lake, ADA)
    table = lake.table(NAME)
    block(table, "2")
    caplog.set_level(logging.INFO)
    gone = {**BOB, "_sdc_deleted_at": "2026-01-01T00:00:00Z"}
    done = sync(lake, 5, {**BOB, "version": 5}, {**CY, "version": 5}, 6, gone, ADA, block_rows=3)
    assert done == [{"n": 1}]
    assert ids(table) == [1, 3, 1]
    head = table.snapshot()
    assert [block.activations for block in head.blocks if block.activations] == [[(0, 5), (1, 6)]]
    assert "2 records of tap.t dropped, because of keys on its suppression list" in caplog.text
    assert call.run_json(lake, "show", "tap.t")["keys_blocked"] == 1


def test_a_run_of_nothing_else_commits_nothing_and_goes_on(lake: Lake) -> None:
    sync(lake, ADA)
    table = lake.table(NAME)
    block(table, "2")
    before = table.snapshot().number
    assert sync(lake, BOB) == [{"n": 1}]
    assert table.snapshot().number == before
    sync(lake, CY)
    assert ids(table) == [1, 3]


@pytest.mark.parametrize(
    "spelled",
    [
        ({"id": {"type": "number"}}, 2.0),
        ({"id": {"type": "string"}}, "2"),
        ({"id": {"type": "number", "multipleOf": 0.01}}, 2),
        ({"id": {"type": ["null", "integer", "string"]}}, 2),
    ],
)
def test_a_key_is_the_same_by_another_type(lake: Lake, spelled: tuple[Any, Any]) -> None:
    sync(lake, ADA)
    table = lake.table(NAME)
    block(table, "2")
    kind, value = spelled
    other = type(value)(3)
    sync(lake, {**BOB, "id": value}, {**CY, "id": other}, properties={**PROPERTIES, **kind})
    assert ids(table) == [1, other]


def test_keys_of_several_columns(lake: Lake) -> None:
    sync(lake, ADA, keys=["name", "id"])
    table = lake.table(NAME)
    block(table, '["Bob", "2"]')
    sync(lake, BOB, {**BOB, "id": 3}, {**CY, "id": 2}, keys=["id", "name"])
    assert ids(table) == [1, 3, 2], "whatever the order in which the tap names its columns"


def test_another_key_of_the_tap_is_refused(lake: Lake) -> None:
    sync(lake, ADA)
    table = lake.table(NAME)
    block(table, "2")
    with pytest.raises(ConflictError, match="another key cannot be checked"):
        sync(lake, BOB, keys=["id", "name"])
    with pytest.raises(ConflictError, match="--unblock --all"):
        alter(
            lake.store,
            table.snapshot(),
            lambda head: says.with_key(head, ["name"]),
            AlterOptions(),
        )
    assert ids(table) == [1]
    alter(
        lake.store, table.snapshot(), lambda head: says.with_name(head, "id", "no"), AlterOptions()
    )
    sync(lake, BOB)
    assert ids(table) == [1], "another name is no other key"


def test_a_writer_that_began_before_commits_nothing(lake: Lake) -> None:
    sync(lake, ADA)
    table = lake.table(NAME)
    head = table.snapshot()
    block(table, "2")
    with pytest.raises(ConflictError, match="run it again"):
        by_hand.write(lake, table, BOB)
    assert head.blocked is None
    assert ids(table) == [1]


def test_keys_that_are_blocked_while_a_run_commits(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its rows were held against others; it commits nothing, and leaves no file."""
    sync(lake, ADA)
    table = lake.table(NAME)
    block(table, "3")
    before = {item.key for item in lake.store.list(NAME.folder)}
    publish = StagedTable.publish

    def late(staged: StagedTable) -> None:
        publish(staged)
        block(table, "2")

    with monkeypatch.context() as patch:
        patch.setattr(StagedTable, "publish", late)
        with pytest.raises(ConflictError, match="run it again"):
            sync(lake, BOB, CY, {**CY, "id": 4})
    new = {item.key for item in lake.store.list(NAME.folder)} - before
    assert not [key for key in new if key.endswith(".singer.gz")]
    assert sync(lake, BOB, CY, {**CY, "id": 4}) == [{"n": 1}]
    assert ids(table) == [1, 4]


def test_they_are_let_in_again(lake: Lake) -> None:
    sync(lake, ADA)
    table = lake.table(NAME)
    block(table, "2", "3")
    [before] = lake.store.list(FOLDER)
    done = call.run_json(lake, "erase", "tap.t", "--unblock", "--key", "2")
    assert (done["keys_let_in"], done["keys_blocked"]) == (1, 1)
    [after] = lake.store.list(FOLDER)
    assert after.key != before.key
    sync(lake, BOB, CY)
    assert ids(table) == [1, 2]
    with pytest.raises(UsageError, match="none of these keys"):
        blocking.unblock(lake.store, table.snapshot(), ["2"], VacuumOptions())
    assert call.run_json(lake, "erase", "tap.t", "--unblock", "--all")["keys_blocked"] == 0
    assert not [*lake.store.list(FOLDER)]
    assert [t.operation for t in table.snapshot().transactions].count(Operation.BLOCK_KEYS) == 3
    sync(lake, CY)
    assert ids(table) == [1, 2, 3]
    with pytest.raises(UsageError, match="no key of tap.t is blocked"):
        blocking.unblock(lake.store, table.snapshot(), None, VacuumOptions())


def test_they_outlast_the_table(lake: Lake) -> None:
    """A sync begins another of that name; what makes one as a whole would bring such rows."""
    sync(lake, ADA)
    table = lake.table(NAME)
    block(table, "2")
    head = table.snapshot()
    drop_table(lake.store, head, AlterOptions())
    dropped = table.snapshot(dropped=True)
    made = draft_entry(NAME, Operation.CREATE, schema_hash=head.schema_hash)
    with pytest.raises(ConflictError, match="since before it was dropped"):
        commit(lake.store, dropped, lambda _: made)
    sync(lake, BOB, CY)
    assert ids(table) == [3]
    drop_table(lake.store, table.snapshot(), AlterOptions())
    assert call.run_json(lake, "erase", "tap.t", "--unblock", "--all")["keys_let_in"] == 1
    dropped = table.snapshot(dropped=True)
    assert dropped.dropped_at
    assert commit(lake.store, dropped, lambda _: made).blocked is None


def _problems(table: Table) -> Iterator[str]:
    found = check_erasures(table.store, table.snapshot(), [*table.entries()])
    return (one[1] for one in found if not isinstance(one, str))


def test_a_lost_list_lets_nobody_in(lake: Lake) -> None:
    sync(lake, ADA)
    table = lake.table(NAME)
    block(table, "2")
    assert not [*_problems(table)]
    [item] = lake.store.list(FOLDER)
    data = lake.store.get(item.key)
    for bad in (data.data[:-3], KeyHashes.new().encode(), b"x"):
        lake.store.replace(item.key, bad, lake.store.get(item.key).etag)
        with pytest.raises(DamagedError, match="erased/blocked"):
            sync(lake, CY)
    lake.store.delete(item.key)
    with pytest.raises(DamagedError, match="--unblock --all"):
        sync(lake, CY)
    assert ids(table) == [1]
    assert [*_problems(table)] == ["the hashes of the keys that are blocked"]
    call.run_json(lake, "erase", "tap.t", "--unblock", "--all")
    sync(lake, CY)
    assert ids(table) == [1, 3]


def test_the_manifest_and_a_rebuild_know_of_them(lake: Lake) -> None:
    sync(lake, ADA)
    table = lake.table(NAME)
    block(table, "2")
    sync(lake, CY)
    said = table.snapshot().blocked
    checkpoint = read_checkpoint(lake.store, NAME)
    assert said is not None
    assert checkpoint is not None
    assert checkpoint.blocked == said
    for lost in (NAME.manifest, NAME.transaction(2)):
        lake.store.delete(lost)
        rebuild_table(lake.store, NAME)
        assert lake.table(NAME).snapshot().blocked == said, lost
    sync(lake, BOB)
    assert ids(table) == [1, 3]


def test_the_check_says_that_a_key_is_blocked(lake: Lake) -> None:
    sync(lake, ADA)
    block(lake.table(NAME), "2")
    document = call.run_json(lake, "erase", "--search", "tap.t", "--key", "3", "--key", "2")
    assert document["found"] == []
    assert [note[:24] for note in document["notes"]] == ["key 2 is blocked in tap."]


def test_a_vacuum_deletes_lists_that_hold_no_more(lake: Lake) -> None:
    sync(lake, ADA)
    table = lake.table(NAME)
    block(table, "2")
    [first] = lake.store.list(FOLDER)
    block(table, "3")
    plan = vacuum.plan_vacuum(lake.store, table.snapshot(), VacuumOptions())
    assert [item.key for item in plan.garbage.notices] == [first.key]


def test_a_hash_takes_the_tables_own_secret() -> None:
    one, other = KeyHashes.new(), KeyHashes.new()
    assert one.hash_of("2") != other.hash_of("2")
    assert KeyHashes.decode(one.encode(), 0, "x") == one
    assert BlockedRows(one, (), ()).hashes == one
