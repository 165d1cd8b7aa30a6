"""Vacuums on each engine: what they keep, what they prove, what they leave on the disk."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec import structs

from singerlake.engine.base import Engine
from singerlake.engine.choice import LOCAL, SPARK, EngineChoice
from singerlake.engine.spark import engine as spark_engine
from singerlake.engine.work import Work
from singerlake.errors import ConflictError, DamagedError
from singerlake.format import block as format_block
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log.staging import publish_blocks
from singerlake.log.table_state import TableState
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.revert import RevertOptions, revert
from singerlake.ops.vacuum import combine, expire
from singerlake.ops.vacuum import vacuum as ops_vacuum
from singerlake.ops.vacuum.drop_history import DropHistoryPlan, Rewrite, plan_drop_history
from singerlake.ops.vacuum.kept_rows import Intervals, Kept, kept_rows
from singerlake.ops.vacuum.plan import (
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
from singerlake.ops.verify.plan import check_log
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import positions
from singerlake.rows.state.newest_rows import PICKED, by_task, gathered
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.histories import here
from tests.ops.vacuum.plain_table import bounds, cutoff_at
from tests.ops.vacuum.plain_table import freeze as freeze_unread
from tests.ops.vacuum.test_history_plan import Story
from tests.tap.test_raw import commit_schema

NAME = TableName("tap", "s")
ROW: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": ["null", "integer"]}}


def vacuum(engine: EngineChoice, table: Table, *parts: str, **options: Any) -> Vacuumed:
    chosen = {"retain_seconds": 0, "guard": False, "parts": parts or PARTS, **options}
    return ops_vacuum.vacuum(table, VacuumOptions(**chosen), engine)


def run_by(engine: EngineChoice) -> Engine[Any]:
    """What a choice comes to, for whatever work."""
    return engine.engine_for(Work(1), "a test")


def kept_of(
    engine: EngineChoice, table: Table, snapshot: TableState, plan: DropHistoryPlan
) -> list[int]:
    """The positions of the rows that stay."""
    runs = run_by(engine)
    with kept_rows(runs, table, snapshot, plan) as kept:
        left = partial(_left, kept.intervals)
        by_task = runs.exchange(kept.rows, kept.tasks, "task")
        found = [row["code"] for row in runs.collect(runs.map(by_task, left, "code long"))]
        assert sum(kept.counts(snapshot).values()) == len(found)
    return found


def _left(intervals: Intervals, batches: Batches) -> Batches:
    for codes in gathered(batches)[0].values():
        yield pa.RecordBatch.from_pydict({"code": intervals.left(np.unique(codes))})


def read(table: Table, name: str | None = None) -> tuple[int, str]:
    found = here.content(table, table.snapshot_at(name))
    return found.rows, found.fingerprint


def data_files(lake: Lake) -> set[str]:
    assert isinstance(lake.store, LocalStore)
    return {p.name for p in lake.store.root.rglob("*.singer.gz")}


@pytest.mark.parametrize(("kind", "seed"), [("keyed", 1), ("rekeyed", 2), ("keyless", 3)])
def test_kept_is_what_some_promised_state_needs(
    engine: EngineChoice, lake: Lake, kind: str, seed: int
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
        kept = [divmod(code, 1 << 31) for code in kept_of(engine, table, snapshot, plan)]
        assert len(kept) == len(set(kept))
        assert least <= set(kept), "a state would lose a row"
        # Where the key changes, the newest of a later key in each interval stays: one too many.
        assert set(kept) <= most or kind == "rekeyed"
        if floor == 5:
            story.vacuum()


def test_keys_of_another_type_behind_an_activation_need_not_be_readable(
    engine: EngineChoice, lake: Lake
) -> None:
    """The present key is an integer, and rows that were replaced long ago have words there."""
    text = {"id": {"type": "string"}}
    table = lake.table(NAME)
    commit_rows(lake, "tap.s", text, ["id"], [{"id": "one"}, {"id": "two"}])
    here.freeze(table)
    commit_rows(lake, "tap.s", ROW, ["id"], [1, 2, ({"id": 1}, 2), ({"id": 2}, 2)])
    commit_rows(lake, "tap.s", ROW, ["id"], [({"id": 2, "n": 5}, 2)])
    before = [read(table, name) for name in ("1", None)]
    assert vacuum(engine, table).rows_dropped == 1
    assert [read(table, name) for name in ("1", None)] == before


def test_states_of_the_same_rows_under_two_keys_both_stay(engine: EngineChoice, lake: Lake) -> None:
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
    assert len(kept_of(engine, table, snapshot, plan)) == 2
    assert [read(table, name) for name in ("@1", "@2")] == before


def test_holes_in_large_files_go_in_the_same_run(engine: EngineChoice, lake: Lake) -> None:
    """A file of which dropped history left little is written anew at once."""
    table = lake.table(NAME)
    noise = {**ROW, "x": {"type": "string"}}
    chance = random.Random(1)
    old = [{"id": 1, "x": chance.randbytes(3000).hex()} for _ in range(3)]
    commit_rows(lake, "tap.s", noise, ["id"], [*old, 1, {"id": 2}], 1)
    commit_rows(lake, "tap.s", noise, ["id"], [{"id": 1, "x": ""}])
    vacuum(engine, table)
    used = sum(block.length for block in table.snapshot().blocks)
    assert isinstance(lake.store, LocalStore)
    present = sum(p.stat().st_size for p in lake.store.root.rglob("*.singer.gz"))
    assert present <= 2 * used
    assert vacuum(engine, table).transaction == 0, "nothing is left to do"


def test_a_state_that_would_not_read_the_same_changes_nothing(
    engine: EngineChoice, lake: Lake
) -> None:
    table = lake.table(NAME)
    for n in range(2):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 1, "n": n}])
    freeze_unread(table, 2)  # its fingerprint is not that of its rows
    commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 1, "n": 5}])
    files = data_files(lake)
    with pytest.raises(DamagedError, match="without its old history, version 1 would change"):
        vacuum(engine, table)
    assert data_files(lake) == files, "its new files are gone again"
    operations = [entry.operation for entry in table.entries()]
    assert DROP_HISTORY not in operations
    assert COMBINE not in operations


@dataclass
class Loses:
    """Leaves one row out of what was found.

    Attributes:
        code: Its position.
    """

    code: int

    def __call__(self, batches: Batches) -> Batches:
        for number, codes in gathered(batches)[0].items():
            left = codes[codes != self.code]
            yield by_task(left, np.full(len(left), number))


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
    engine: EngineChoice, lake: Lake, monkeypatch: pytest.MonkeyPatch, frozen: bool
) -> None:
    """Whatever goes wrong between finding the rows and the entry; with a version before, too."""
    table = lake.table(NAME)
    for n in range(3):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": i, "n": n} for i in range(n, 9)], 2)
    if frozen:
        here.freeze(table, at=1)
    before, files = read(table), data_files(lake)
    blocks = len(table.snapshot().blocks)
    find, write = expire.kept_rows, expire._write
    wrong = ""

    @contextmanager
    def kept(*args: Any) -> Iterator[Kept]:
        with find(*args) as found:
            assert (found.found is None) is frozen
            lost = {
                "a row": positions.code(1, 0),  # the only one that is left in its block
                "a block's last row": positions.code(blocks, 0),
            }.get(wrong)
            if lost is None:
                yield found
                return
            # Everything that comes after is to know nothing of it.
            yield replace(found, rows=found.engine.map(found.rows, Loses(lost), PICKED))

    def written(*args: Any) -> list[tuple[Rewrite, Block]]:
        done = write(*args)
        assert done
        return altered(table, done) if wrong == "a value" else done

    for wrong in ("a row", "a block's last row", "a value"):
        with monkeypatch.context() as patch:
            if wrong == "a value":  # as with a table of very many blocks
                patch.setattr(spark_engine, "CARRIED_BYTES", 0)
            patch.setattr(expire, "kept_rows", kept)
            patch.setattr(expire, "_write", written)
            message = "without its old history, .* would change"
            with pytest.raises(DamagedError, match=message):
                vacuum(engine, table, DROP_HISTORY)
        assert DROP_HISTORY not in [entry.operation for entry in table.entries()], wrong
        assert read(table) == before, wrong
        assert files <= data_files(lake), wrong
    assert vacuum(engine, table, DROP_HISTORY).rows_dropped > 0
    assert read(table) == before


def test_a_file_that_is_cut_fails_by_name_and_changes_nothing(
    engine: EngineChoice, lake: Lake
) -> None:
    table = lake.table(NAME)
    for n in range(3):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": n}])
    assert isinstance(lake.store, LocalStore)
    path = lake.store.root / NAME.data(table.snapshot().blocks[1].file)
    path.write_bytes(path.read_bytes()[:-1])
    files = data_files(lake)
    with pytest.raises(DamagedError, match=rf"{path.name} is cut: .*singerlake verify tap\.s"):
        vacuum(engine, table, COMBINE)
    assert data_files(lake) == files
    assert COMBINE not in [entry.operation for entry in table.entries()]


@pytest.mark.parametrize("engine", [SPARK], indirect=True)
def test_what_there_is_much_of_is_combined_by_spark(
    engine: EngineChoice, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two groups, in both ways: the same blocks at the same places."""
    for n in range(4):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": n, "n": 1}] * 50, block_rows=50)
    table = lake.table(NAME)
    size = table.snapshot().blocks[0].length
    before = [table.read_block(block) for block in table.snapshot().blocks]
    started: list[int] = []

    def start() -> Any:
        assert engine.start is not None
        started.append(table.snapshot().number)
        return engine.start()

    auto = EngineChoice(start=start)
    options = {"parts": (COMBINE,), "target_file_bytes": 2 * size + 20}
    with monkeypatch.context() as patch:
        patch.setattr(combine, "LITTLE_BYTES", 2 * size)
        done = vacuum(auto, table, **options)
    assert started == [4], "before anything was announced"
    assert (done.files_in, done.files_out) == (4, 2)
    assert [table.read_block(block) for block in table.snapshot().blocks] == before
    done = vacuum(auto, table, COMBINE)
    assert (done.files_in, done.files_out) == (2, 1)
    assert len(started) == 1
    assert [table.read_block(block) for block in table.snapshot().blocks] == before


@pytest.mark.parametrize("engine", [LOCAL], indirect=True)
def test_a_second_vacuum_while_the_first_lives(engine: EngineChoice, lake: Lake) -> None:
    table = lake.table(NAME)
    for n in range(2):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 1, "n": n}])
    from singerlake.ops.vacuum.plan import vacuum_lock

    options = VacuumOptions(stale_seconds=2, lock_wait_seconds=60)
    with (
        vacuum_lock(lake.store, NAME, "first", options),
        pytest.raises(ConflictError, match="another vacuum of tap.s is running"),
    ):
        vacuum(engine, table, stale_seconds=2)
    dead = json.dumps({"writer-id": "dead", "acquired": "x", "refreshed": "x"}).encode()
    lake.store.put_if_absent(NAME.vacuum_lock, dead)
    assert vacuum(engine, table, stale_seconds=0.5).transaction > 0, "a dead one's is taken over"
    assert not lake.store.exists(NAME.vacuum_lock)


@pytest.mark.parametrize("engine", [LOCAL], indirect=True)
def test_names_that_a_killed_vacuum_may_still_delete_are_passed_over(
    engine: EngineChoice, lake: Lake
) -> None:
    """All records here have one time, so that every file would like the same name."""
    for n in range(3):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": n, "n": n}])
    table = lake.table(NAME)
    vacuum(engine, table, COMBINE)
    options = VacuumOptions(retain_seconds=0, guard=False, parts=(DELETE,))
    plan = plan_vacuum(table.store, table.snapshot(), options)
    after, found = announce(table.store, plan, options, "the killed one")
    deleted, _ = delete_garbage(table.store, after, found, options, check=lambda: None)
    assert deleted, "their names are free on the store, and taken all the same"
    commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 1, "n": 11}])
    before = read(table)
    for to in (2, table.snapshot().number):
        revert(table, RevertOptions(to), engine)
    assert read(table) == before
    done = vacuum(engine, table)
    assert done.bytes_written
    assert read(table) == before
    assert here.problems(table) == []


@pytest.mark.parametrize(
    "lost", [(1,), pytest.param((1, 2, 3), marks=pytest.mark.variant), "all"], ids=str
)
def test_a_vacuum_goes_on_with_a_log_that_was_rebuilt_after_history_was_dropped(
    engine: EngineChoice, lake: Lake, lost: tuple[int, ...] | str
) -> None:
    for n in range(4):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": i, "n": n} for i in range(5)])
    table = lake.table(NAME)
    vacuum(engine, table)
    head = table.snapshot()
    assert any(t.operation == DROP_HISTORY for t in head.transactions)
    before = read(table)
    for n in range(1, head.number + 1) if lost == "all" else lost:
        lake.store.delete(NAME.transaction(int(n)))
    rebuild_table(lake.store, NAME)
    assert not check_log(lake.store, NAME).problems
    vacuum(engine, table)
    assert read(table) == before
