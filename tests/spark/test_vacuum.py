"""The vacuum job on Spark: what it keeps, what it proves, what it leaves on the disk."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from singerlake.errors import ConflictError, DamagedError, NotFoundError
from singerlake.format import block as format_block
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.maintenance import combine
from singerlake.maintenance.drop_history import Rewrite, plan_drop_history
from singerlake.maintenance.rebuild import rebuild_table
from singerlake.maintenance.vacuum import (
    COMBINE,
    DELETE,
    DROP_HISTORY,
    PARTS,
    Vacuumed,
    VacuumOptions,
    announce,
    delete_garbage,
    plan_vacuum,
)
from singerlake.maintenance.verify import check_log
from singerlake.spark import engine as spark_engine
from singerlake.spark.jobs.maintenance import drop_history
from singerlake.spark.jobs.queries.query import query
from singerlake.storage.local.store import LocalStore
from singerlake.transactions.staging import publish_blocks
from tests.build import commit_rows
from tests.frozen import revert_on_spark as revert
from tests.frozen import row_history_on_spark as row_history
from tests.frozen import vacuum_table
from tests.maintenance.plain_table import bounds, cutoff_at, events
from tests.maintenance.plain_table import freeze as freeze_unread
from tests.maintenance.test_history_plan import Story
from tests.spark import here
from tests.spark.verified import verify
from tests.tap.test_raw import commit_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = TableName("tap", "s")
ROW: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": ["null", "integer"]}}


def vacuum(spark: SparkSession, table: Table, *parts: str, **options: Any) -> Vacuumed:
    chosen = VacuumOptions(
        **{"retain_seconds": 0, "guard": False, "parts": parts or PARTS, **options}
    )
    return vacuum_table(lambda: spark, table, chosen)


def problems(spark: SparkSession, lake: Lake) -> list[Any]:
    return verify(spark, lake.table(NAME)).problems


def read(table: Table, name: str | None = None) -> tuple[int, str]:
    found = here.content(table, table.snapshot_at(name))
    return found.rows, found.fingerprint


def data_files(lake: Lake) -> set[str]:
    assert isinstance(lake.store, LocalStore)
    return {p.name for p in lake.store.root.rglob("*.singer.gz")}


@pytest.mark.parametrize(("kind", "seed"), [("keyed", 1), ("rekeyed", 2), ("keyless", 3)])
def test_kept_is_what_some_promised_state_needs(
    spark: SparkSession, lake: Lake, kind: str, seed: int
) -> None:
    """Held to bounds found in plain Python; what may be above the least is said there."""
    story = Story(lake, kind, seed)
    chance = random.Random(seed)
    story.random = chance
    for _ in range(9):
        story.sync()
        if chance.random() < 0.3:
            story.freeze()
    table = lake.table(NAME)
    for floor in (5, table.snapshot().number):
        snapshot = table.snapshot()
        plan = plan_drop_history(snapshot, cutoff_at(snapshot, floor))
        assert plan is not None
        least, most = bounds(table, snapshot, plan)
        found = drop_history._kept(spark, table, snapshot, plan).rows.collect()
        kept = [(row["block"], row["row"]) for row in found]
        assert len(kept) == len(set(kept))
        assert least <= set(kept), "a state would lose a row"
        # Where the key changes, the newest of a later key in each interval stays: one too many.
        assert set(kept) <= most or kind == "rekeyed"
        if floor == 5:
            story.vacuum()


def test_a_day_in_a_table_s_life(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sync, freeze, sync, vacuum with all options: versions, references and rows hold."""
    monkeypatch.setattr(drop_history, "WRITE_BYTES", 1)  # each new block is a task of its own
    table = lake.table(NAME)
    for n in range(3):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": i, "n": n} for i in range(4)], 2)
    here.freeze(table, at=2, label="second")
    commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 0, "n": 9}, {"id": 1, "n": 9}])
    commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 2, "_sdc_deleted_at": "2026-01-01"}])
    before = {name: read(table, name) for name in (None, "second", "@6")}
    # A row's reference is its key, and the block that it came in.
    sql = "select _row_id, _row_version from tap.s{} order by 1"
    references = {
        v: [*query(spark, lake, sql.format(v), provenance=True).rows()] for v in ("", ".1")
    }
    done = vacuum(spark, table)
    # All of transaction 1, ids 0, 1 and 2 of transaction 3: no state needs them.
    assert done.rows_dropped == 7
    assert done.files_deleted > 0
    assert {name: read(table, name) for name in before} == before
    for v, rows in references.items():
        assert [*query(spark, lake, sql.format(v), provenance=True).rows()] == rows
    assert data_files(lake) == {Path(b.file).name for b in table.snapshot().blocks}
    assert {e.position for e in events(table, table.snapshot())} == {
        *((3, 0), (3, 1), (4, 0), (4, 1)),
        *((6, 1), (7, 0), (7, 1), (8, 0)),
    }
    with pytest.raises(NotFoundError, match="is gone, because its history was dropped"):
        table.snapshot_at("@1")
    assert vacuum(spark, table).transaction == 0
    assert problems(spark, lake) == []
    operations = [entry.operation for entry in table.entries()][6:]
    assert operations[0] == "vacuum-start"
    assert operations[-1] == "vacuum"
    assert DROP_HISTORY in operations


def test_history_reverts_and_more_vacuums_on_rewritten_blocks(
    spark: SparkSession, lake: Lake
) -> None:
    table = lake.table(NAME)
    for n in range(3):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": i, "n": n} for i in range(3)])
    here.freeze(table, at=1)
    first = read(table, "1")
    vacuum(spark, table)
    commit_rows(lake, "tap.s", ROW, ["id"], [({"id": 1, "n": 7}, 7), {"id": 5, "n": 7}, {"id": 9}])
    past = row_history(spark, table, id="1")
    told = [(one.row_version, one.operation, one.values["n"]) for one in past]
    assert told == [(1, "insert", 0), (3, "update", 2), (4, "update", 7)]
    assert past[0].transaction == 1
    before_revert = table.snapshot().number
    second = read(table)
    assert revert(spark, table, 1).transaction == before_revert + 1
    assert read(table) == first
    assert vacuum(spark, table, DROP_HISTORY, DELETE).transaction > 0
    assert (read(table), read(table, "1")) == (first, first)
    with pytest.raises(NotFoundError, match="is gone"):
        table.snapshot_at(f"@{before_revert}")
    assert second != first
    assert here.problems(table) == []
    assert vacuum(spark, table, DROP_HISTORY, DELETE).transaction == 0


def test_keys_of_another_type_behind_an_activation_need_not_be_readable(
    spark: SparkSession, lake: Lake
) -> None:
    """The present key is an integer, and rows that were replaced long ago have words there."""
    text = {"id": {"type": "string"}}
    table = lake.table(NAME)
    commit_rows(lake, "tap.s", text, ["id"], [{"id": "one"}, {"id": "two"}])
    here.freeze(table)
    commit_rows(lake, "tap.s", ROW, ["id"], [1, 2, ({"id": 1}, 2), ({"id": 2}, 2)])
    commit_rows(lake, "tap.s", ROW, ["id"], [({"id": 2, "n": 5}, 2)])
    before = [read(table, name) for name in ("1", None)]
    assert vacuum(spark, table).rows_dropped == 1
    assert [read(table, name) for name in ("1", None)] == before


def test_states_of_the_same_rows_under_two_keys_both_stay(spark: SparkSession, lake: Lake) -> None:
    table = lake.table(NAME)
    commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 1, "n": 1}, {"id": 1, "n": 2}], 1)
    commit_schema(lake, "tap.s", ROW, ["n"])
    freeze_unread(table, 1)
    # No fingerprint was taken: what is compared is what is read here.
    before = [read(table, name) for name in ("@1", "@2")]
    assert [rows for rows, _ in before] == [1, 2]
    snapshot = table.snapshot()
    plan = plan_drop_history(snapshot, cutoff_at(snapshot, 3))
    assert plan is not None
    kept = drop_history._kept(spark, table, snapshot, plan).rows.collect()
    assert len(kept) == 2
    assert [read(table, name) for name in ("@1", "@2")] == before


def test_holes_in_large_files_go_in_the_same_run(spark: SparkSession, lake: Lake) -> None:
    """A file of which dropped history left little is written anew at once."""
    table = lake.table(NAME)
    noise = {**ROW, "x": {"type": "string"}}
    chance = random.Random(1)
    old = [{"id": 1, "x": chance.randbytes(3000).hex()} for _ in range(3)]
    commit_rows(lake, "tap.s", noise, ["id"], [*old, 1, {"id": 2}], 1)
    commit_rows(lake, "tap.s", noise, ["id"], [{"id": 1, "x": ""}])
    vacuum(spark, table)
    used = sum(block.length for block in table.snapshot().blocks)
    assert isinstance(lake.store, LocalStore)
    present = sum(p.stat().st_size for p in lake.store.root.rglob("*.singer.gz"))
    assert present <= 2 * used
    assert vacuum(spark, table).transaction == 0, "nothing is left to do"


def test_a_state_that_would_not_read_the_same_changes_nothing(
    spark: SparkSession, lake: Lake
) -> None:
    table = lake.table(NAME)
    for n in range(2):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 1, "n": n}])
    freeze_unread(table, 2)  # its fingerprint is not that of its rows
    commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 1, "n": 5}])
    files = data_files(lake)
    with pytest.raises(DamagedError, match="without its old history version 1 would not read"):
        vacuum(spark, table)
    assert data_files(lake) == files, "its new files are gone again"
    operations = [entry.operation for entry in table.entries()]
    assert DROP_HISTORY not in operations
    assert COMBINE not in operations


def loses(kept: drop_history._Kept, block: int, row: int) -> drop_history._Kept:
    """What is kept, less one row of which everything that comes after is to know nothing."""
    rows = kept.rows.where(f"not (block = {block} and row = {row})")
    counts = rows.groupBy("block").agg({"*": "count"}).toDF("block", "rows")
    return replace(kept, rows=rows, counts=counts)


def altered(table: Table, rewrites: list[tuple[Rewrite, Block]]) -> list[tuple[Rewrite, Block]]:
    """Blocks that were written, with a value in them that nobody sent."""
    found = []
    for rewrite, block in rewrites:
        text = table.read_block(block).replace(b'"n": 2', b'"n": 3')
        data = format_block.encode(text, block.rows, 1)
        changed = structs.replace(block, length=len(data), crc=None)
        (written,) = publish_blocks(table.store, NAME, [(block.schema_hash, data, changed)])
        found.append((rewrite, structs.replace(written, number=block.number)))
    return found


@pytest.mark.parametrize("frozen", [False, True])
def test_history_is_not_dropped_where_a_row_would_be_lost_or_changed(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, frozen: bool
) -> None:
    """Whatever goes wrong between finding the rows and the entry; with a version before, too."""
    table = lake.table(NAME)
    for n in range(3):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": i, "n": n} for i in range(n, 9)], 2)
    if frozen:
        here.freeze(table, at=1)
    before, files = read(table), data_files(lake)
    blocks = len(table.snapshot().blocks)
    find, write = drop_history._kept, drop_history._write
    wrong = ""

    def kept(*args: Any) -> drop_history._Kept:
        found = find(*args)
        assert (found.found is None) is frozen
        if wrong == "a row":  # of the first transaction: the only one that is left in its block
            return loses(found, 1, 0)
        return loses(found, blocks, 0) if wrong == "a block's last row" else found

    def written(*args: Any) -> list[tuple[Rewrite, Block]]:
        done = write(*args)
        assert done
        return altered(table, done) if wrong == "a value" else done

    for wrong in ("a row", "a block's last row", "a value"):
        with monkeypatch.context() as patch:
            if wrong == "a value":  # as with a table of very many blocks
                patch.setattr(spark_engine, "CARRIED_BYTES", 0)
            patch.setattr(drop_history, "_kept", kept)
            patch.setattr(drop_history, "_write", written)
            message = "without its old history .* would not read as it"
            with pytest.raises(DamagedError, match=message):
                vacuum(spark, table, DROP_HISTORY)
        assert DROP_HISTORY not in [entry.operation for entry in table.entries()], wrong
        assert read(table) == before, wrong
        assert files <= data_files(lake), wrong
    assert vacuum(spark, table, DROP_HISTORY).rows_dropped > 0
    assert read(table) == before


def test_a_file_that_is_cut_fails_by_name_and_changes_nothing(
    spark: SparkSession, lake: Lake
) -> None:
    table = lake.table(NAME)
    for n in range(3):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": n}])
    assert isinstance(lake.store, LocalStore)
    path = lake.store.root / NAME.data(table.snapshot().blocks[1].file)
    path.write_bytes(path.read_bytes()[:-1])
    files = data_files(lake)
    with pytest.raises(DamagedError, match=rf"{path.name} is cut: .*singerlake verify tap\.s"):
        vacuum(spark, table, COMBINE)
    assert data_files(lake) == files
    assert COMBINE not in [entry.operation for entry in table.entries()]


def test_what_there_is_much_of_is_combined_by_spark(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two groups, in both ways: the same blocks at the same places."""
    for n in range(4):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": n, "n": 1}] * 50, block_rows=50)
    table = lake.table(NAME)
    size = table.snapshot().blocks[0].length
    before = [table.read_block(block) for block in table.snapshot().blocks]

    def never() -> SparkSession:
        raise AssertionError("Spark was started")

    options = VacuumOptions(
        retain_seconds=0, guard=False, parts=(COMBINE,), target_file_bytes=2 * size + 20
    )
    with monkeypatch.context() as patch:
        patch.setattr(combine, "LITTLE_BYTES", 2 * size)
        with pytest.raises(AssertionError, match="Spark was started"):
            vacuum_table(never, table, options)
        done = vacuum_table(lambda: spark, table, options)
    assert (done.files_in, done.files_out) == (4, 2)
    assert [table.read_block(block) for block in table.snapshot().blocks] == before
    done = vacuum_table(never, table, VacuumOptions(parts=(COMBINE,)))
    assert (done.files_in, done.files_out) == (2, 1)
    assert [table.read_block(block) for block in table.snapshot().blocks] == before


def test_a_second_vacuum_while_the_first_lives(spark: SparkSession, lake: Lake) -> None:
    table = lake.table(NAME)
    for n in range(2):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 1, "n": n}])
    from singerlake.maintenance.vacuum import vacuum_lock

    options = VacuumOptions(stale_seconds=2, lock_wait_seconds=60)
    with (
        vacuum_lock(lake.store, NAME, "first", options),
        pytest.raises(ConflictError, match="another vacuum of tap.s is at work"),
    ):
        vacuum(spark, table, stale_seconds=2)
    dead = json.dumps({"writer-id": "dead", "acquired": "x", "refreshed": "x"}).encode()
    lake.store.put_if_absent(NAME.vacuum_lock, dead)
    assert vacuum(spark, table, stale_seconds=0.5).transaction > 0, "a dead one's is taken over"
    assert not lake.store.exists(NAME.vacuum_lock)


def test_names_that_a_killed_vacuum_may_still_delete_are_passed_over(
    spark: SparkSession, lake: Lake
) -> None:
    """All records here have one time, so that every file would like the same name."""
    for n in range(3):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": n, "n": n}])
    table = lake.table(NAME)
    vacuum(spark, table, COMBINE)
    options = VacuumOptions(retain_seconds=0, guard=False, parts=(DELETE,))
    plan = plan_vacuum(table.store, table.snapshot(), options)
    after, found = announce(table.store, plan, options, "the killed one")
    deleted, _ = delete_garbage(table.store, after, found, options, check=lambda: None)
    assert deleted, "their names are free on the store, and taken all the same"
    commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 1, "n": 11}])
    before = read(table)
    revert(spark, table, 2)
    revert(spark, table, table.snapshot().number - 1)
    assert read(table) == before
    done = vacuum(spark, table)
    assert done.bytes_written
    assert read(table) == before
    assert here.problems(table) == []


@pytest.mark.parametrize(
    "lost", [(1,), pytest.param((1, 2, 3), marks=pytest.mark.variant), "all"], ids=str
)
def test_a_vacuum_goes_on_with_a_log_that_was_rebuilt_after_history_was_dropped(
    spark: SparkSession, lake: Lake, lost: tuple[int, ...] | str
) -> None:
    for n in range(4):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": i, "n": n} for i in range(5)])
    table = lake.table(NAME)
    vacuum(spark, table)
    head = table.snapshot()
    assert any(t.operation == DROP_HISTORY for t in head.transactions)
    before = read(table)
    for n in range(1, head.number + 1) if lost == "all" else lost:
        lake.store.delete(NAME.transaction(int(n)))
    rebuild_table(lake.store, NAME)
    assert not check_log(lake.store, NAME).problems
    vacuum(spark, table)
    assert read(table) == before
