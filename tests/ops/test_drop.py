"""Dropping tables and bringing them back, without Spark: each order of events, each refusal."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from singerlake.errors import ConflictError, DamagedError, DroppedError, NotFoundError, UsageError
from singerlake.format.log import Operation
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log import commit as commits
from singerlake.log import conflicts, files, log
from singerlake.log.table_state import TableState
from singerlake.ops import freeze as freezes
from singerlake.ops.create.create import check_new, create_empty
from singerlake.ops.drop import describe, drop_table, holdings_of, undrop_table
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.vacuum import garbage
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.plan import DELETE, VacuumOptions
from singerlake.ops.verify.data_files import check_files
from singerlake.ops.verify.plan import check_log
from singerlake.overlay.alter import AlterOptions
from tests.build import commit_rows, retype
from tests.faults import plain

NAME = TableName("tap", "t")
ID: dict[str, Any] = {"id": {"type": "integer"}, "v": {"type": ["null", "string"]}}
AT_ONCE = VacuumOptions(
    retain_seconds=0, parts=(DELETE,), guard=False, lease_wait_seconds=0, stale_seconds=0.01
)


def sync(lake: Lake, *ids: int, v: str = "a") -> TableState:
    return commit_rows(lake, str(NAME), ID, ["id"], [{"id": n, "v": v} for n in ids])


def drop(lake: Lake, **more: Any) -> None:
    drop_table(lake.store, head(lake), AlterOptions(), with_versions=True, **more)


def undrop(lake: Lake) -> None:
    undrop_table(lake.store, head(lake), AlterOptions())


def head(lake: Lake) -> TableState:
    return lake.table(NAME).snapshot(dropped=True)


def freeze(lake: Lake, label: str | None = None) -> int:
    present = lake.table(NAME).snapshot()
    wanted = freezes.plan(present, label=label)
    rows = len(rows_of(lake))
    return freezes.commit_version(lake.store, present, wanted, rows=rows, fingerprint="x").number


def clean(lake: Lake, options: VacuumOptions = AT_ONCE) -> None:
    """A vacuum that only deletes."""
    from tests.frozen import vacuum_here

    vacuum_here(lake.table(NAME), options)


def rows_of(lake: Lake) -> list[int]:
    """The ids in the table by the independent reader; what it reads, it needs."""
    dump = plain.dump_folder(Path(lake.store.uri))
    plain.leftovers(dump)
    return [row["id"] for row in plain.tables(dump)[str(NAME)].state()]


def data_files(lake: Lake) -> int:
    return len(list(Path(lake.store.uri, "raw/tap/t").rglob("*.singer.gz")))


def check_sound(lake: Lake) -> None:
    """The log, the manifest and the files agree."""
    checked = check_log(lake.store, NAME)
    assert checked.problems == []
    held = checked.snapshot
    blocks = held.restorable if held.dropped_at else held.blocks
    assert check_files(replace(held, blocks=blocks or []), lake.store.list(NAME.folder))[0] == []


def test_a_dropped_table_is_gone_and_comes_back(lake: Lake) -> None:
    sync(lake, 1, 2)
    assert freeze(lake, "first") == 1
    gone = drop_table(lake.store, head(lake), AlterOptions(comment="why"), with_versions=True)
    assert (gone.transaction, gone.rows, gone.versions) == (3, 2, 1)
    table = lake.table(NAME)
    for ask in (table.snapshot, table.versions, table.lease().acquire):
        with pytest.raises(DroppedError, match="transaction 3.*singerlake undrop tap.t"):
            ask()
    told = describe(lake.store, head(lake))
    assert (told.comment, told.holdings) == ("why", gone)
    assert told.by
    assert told.until is not None
    catalogue = lake.catalogue("tap")
    assert catalogue is not None
    assert catalogue.streams == []
    assert not head(lake).readable(1)
    with pytest.raises(DroppedError):
        head(lake).at(1)
    undrop(lake)
    back = table.snapshot()
    assert rows_of(lake) == [1, 2]
    assert [v.label for v in back.frozen] == ["first"]
    assert back.at(back.version("first").transaction).blocks == back.blocks
    catalogue = lake.catalogue("tap")
    assert catalogue is not None
    assert [s.stream for s in catalogue.streams] == ["t"]
    with pytest.raises(NotFoundError, match="transaction 3 is gone"):
        back.at(3)
    assert back.earliest_equal().number == 1
    assert [e.format for e in table.entries()] == [5] * 4


def test_a_sync_begins_another_table(lake: Lake) -> None:
    sync(lake, 1, 2)
    freeze(lake, "old")
    retype(lake.store, head(lake), "v", comment=None)
    drop(lake)
    after = sync(lake, 3)
    assert rows_of(lake) == [3]
    assert (after.number, after.last_block, [b.number for b in after.blocks]) == (5, 2, [2])
    assert (after.frozen, after.retyped, after.first) == ([], frozenset(), 5)
    assert freeze(lake, "old") == 2  # numbers go on, labels begin anew
    for number in (1, 2, 3, 4):
        assert not head(lake).readable(number)
        with pytest.raises(NotFoundError, match="another of its name began with transaction 5"):
            head(lake).at(number)
    with pytest.raises(UsageError, match="the earlier one cannot be restored"):
        undrop(lake)
    check_sound(lake)
    clean(lake)
    assert data_files(lake) == 1
    assert rows_of(lake) == [3]
    check_sound(lake)


def test_an_empty_sync_begins_one_too(lake: Lake) -> None:
    sync(lake, 1)
    drop(lake)
    after = sync(lake)
    assert (after.dropped_at, after.blocks, after.first) == (0, [], 3)
    assert after.earliest_equal().number == 3, "its index is not that of the rows that were dropped"
    assert not after.readable(1)
    sync(lake, 9)
    assert rows_of(lake) == [9]


def test_a_name_is_free_after_a_drop(lake: Lake) -> None:
    first = sync(lake, 1)
    with pytest.raises(UsageError, match="already"):
        check_new(lake.store, NAME)
    drop(lake)
    made = create_empty(lake.store, NAME, first.schema)
    assert (made.number, made.first, made.blocks) == (3, 3, [])
    assert [e.operation for e in lake.table(NAME).entries()] == ["sync", "drop", "create"]
    check_sound(lake)


def test_a_vacuum_deletes_it_after_the_retention(lake: Lake) -> None:
    sync(lake, 1, 2)
    drop(lake)
    clean(lake, VacuumOptions(parts=(DELETE,), lease_wait_seconds=0, stale_seconds=0.01))
    assert (data_files(lake), head(lake).number) == (1, 2), "it is younger than the retention"
    clean(lake)
    assert data_files(lake) == 0
    entries = list(lake.table(NAME).entries())
    assert [e.operation for e in entries] == ["sync", "drop", "vacuum-start", "vacuum"]
    assert entries[2].deletes == entries[3].deleted
    with pytest.raises(DroppedError, match="so it cannot be restored"):
        undrop(lake)
    assert describe(lake.store, head(lake)).until is None
    check_sound(lake)
    clean(lake)
    assert head(lake).number == 4, "there is nothing more to do"
    assert sync(lake, 5).last_block == 2
    assert rows_of(lake) == [5]


def test_once_a_vacuum_has_named_the_files_it_cannot_come_back(lake: Lake) -> None:
    sync(lake, 1)
    drop(lake)
    dropped = head(lake)
    plan = vacuum.plan_vacuum(lake.store, dropped, AT_ONCE)
    vacuum.announce(lake.store, plan, AT_ONCE, "w")  # and is killed before it deletes anything
    assert data_files(lake) == 1
    for known in (head(lake), dropped):  # by its own look, and by the commit's
        with pytest.raises((DroppedError, ConflictError), match="vacuum has"):
            undrop_table(lake.store, known, AlterOptions())
    Path(lake.store.uri, NAME.manifest).unlink()
    assert head(lake).restorable is None
    clean(lake)
    assert data_files(lake) == 0


def test_an_undrop_that_is_sooner_takes_the_files_off_a_vacuums_list(lake: Lake) -> None:
    sync(lake, 1)
    drop(lake)
    plan = vacuum.plan_vacuum(lake.store, head(lake), AT_ONCE)
    assert len(plan.garbage.files) == 1
    undrop(lake)
    with pytest.raises(ConflictError, match="undrop"):
        vacuum.announce(lake.store, plan, AT_ONCE, "w")
    assert rows_of(lake) == [1]


def test_a_drop_while_a_vacuum_is_at_work_is_left_to_the_next(lake: Lake) -> None:
    """With no retention it deletes at once what it drops itself, and nothing else."""
    sync(lake, 1)
    present = head(lake)
    drop(lake)
    found = vacuum.with_newly_dropped(lake.store, head(lake), garbage.Garbage(), AT_ONCE)
    assert found.files == []
    undrop(lake)
    assert rows_of(lake) == [1]
    assert present.blocks == head(lake).blocks


def test_a_reader_that_began_before_the_drop_is_waited_for(lake: Lake) -> None:
    sync(lake, 1)
    with lake.table(NAME).lease() as lease:
        drop(lake)
        slow = VacuumOptions(
            retain_seconds=0, parts=(DELETE,), guard=False, lease_wait_seconds=0, stale_seconds=60
        )
        clean(lake, slow)
        assert [*map(lake.table(NAME).read_block, lease.snapshot.blocks)]
    clean(lake)
    assert data_files(lake) == 0


@pytest.mark.parametrize("then", ["", "undrop", "sync"])
@pytest.mark.parametrize("operation", [*map(str, Operation), "of-a-later-release"])
def test_what_may_be_committed_on_a_table_that_was_dropped_meanwhile(
    lake: Lake, operation: str, then: str
) -> None:
    planned = sync(lake, 1)
    drop(lake)
    if then == "undrop":
        undrop(lake)
    elif then == "sync":
        sync(lake, 2)
    needs_none = {"sync", "adopt", "create", "undrop", "vacuum-start", "vacuum", "block-keys"}
    entry = msgspec.structs.replace(commits.draft_entry(NAME, Operation.SYNC), operation=operation)
    if operation in needs_none:
        conflicts.check_same_table(head(lake), planned, entry)
    else:
        with pytest.raises(ConflictError, match="dropped in the meantime"):
            conflicts.check_same_table(head(lake), planned, entry)
        with pytest.raises(ConflictError, match="dropped in the meantime"):
            commits.commit(lake.store, planned, lambda _: entry)


def test_versions_are_dropped_only_on_purpose(lake: Lake) -> None:
    sync(lake, 1)
    before = head(lake)
    freeze(lake)
    with pytest.raises(UsageError, match="a frozen version.*--with-versions"):
        drop_table(lake.store, head(lake), AlterOptions())
    with pytest.raises(ConflictError, match="frozen in the meantime"):
        drop_table(lake.store, before, AlterOptions())
    freeze(lake)
    with pytest.raises(UsageError, match="2 frozen versions"):
        drop_table(lake.store, head(lake), AlterOptions(dry_run=True))
    asked = drop_table(lake.store, head(lake), AlterOptions(dry_run=True), with_versions=True)
    assert (asked.versions, head(lake).dropped_at) == (2, 0)


def test_a_drop_can_be_asked_for_at_one_transaction_only(lake: Lake) -> None:
    sync(lake, 1)
    before = head(lake)
    sync(lake, 2)
    for known in (head(lake), before):
        with pytest.raises(ConflictError, match="transaction 2, not 1"):
            drop_table(lake.store, known, AlterOptions(if_transaction=1))
    drop_table(lake.store, before, AlterOptions())
    with pytest.raises(DroppedError):
        drop_table(lake.store, head(lake), AlterOptions())
    with pytest.raises(ConflictError):
        undrop_table(lake.store, head(lake), AlterOptions(if_transaction=2))
    with pytest.raises(UsageError, match="'by' is written by"):
        undrop_table(lake.store, head(lake), AlterOptions(metadata={"by": "me"}))
    undrop(lake)
    with pytest.raises(UsageError, match="is not dropped"):
        undrop(lake)


def test_two_drops_at_once_are_one(lake: Lake) -> None:
    sync(lake, 1)
    before = head(lake)
    drop(lake)
    with pytest.raises(ConflictError, match="dropped in the meantime"):
        drop_table(lake.store, before, AlterOptions())
    dropped = head(lake)
    undrop(lake)
    with pytest.raises(ConflictError, match="exists again"):
        undrop_table(lake.store, dropped, AlterOptions())


def test_a_log_that_brings_back_what_is_deleted_is_damaged(lake: Lake) -> None:
    sync(lake, 1)
    drop(lake)
    clean(lake)
    with pytest.raises(DamagedError, match="a vacuum had already deleted"):
        commits.commit(
            lake.store, head(lake), lambda s: commits.draft_entry(s.table, Operation.UNDROP)
        )


class Tables(RuleBasedStateMachine):
    """A table that is dropped, brought back, begun anew and cleaned, beside a plain model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.lake = Lake.open(self.folder, create=True)
        self.rows: set[int] = set()
        self.dropped: bool | None = None
        """Whether it can come back; None where it is there."""
        self.versions: list[set[int]] = []
        self.numbers = 0
        sync(self.lake, 0)
        self.rows = {0}

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(ids=st.sets(st.integers(0, 9), max_size=3))
    def sync(self, ids: set[int]) -> None:
        if self.dropped is None and not ids:
            return
        sync(self.lake, *ids)
        if self.dropped is not None:
            self.rows, self.versions, self.dropped = set(), [], None
        self.rows |= ids

    @precondition(lambda self: self.dropped is None)
    @rule()
    def freeze(self) -> None:
        self.numbers += 1
        assert freeze(self.lake) == self.numbers
        self.versions.append(set(self.rows))

    @rule()
    def drop(self) -> None:
        if self.dropped is not None:
            with pytest.raises(DroppedError):
                drop(self.lake)
            return
        drop(self.lake)
        self.dropped = True

    @rule()
    def undrop(self) -> None:
        if self.dropped:
            undrop(self.lake)
            self.dropped = None
        else:
            with pytest.raises((UsageError, DroppedError)):
                undrop(self.lake)

    @rule()
    def vacuum(self) -> None:
        deletable = data_files(self.lake)
        clean(self.lake)
        if self.dropped and deletable:
            self.dropped = False

    @rule()
    def lose_the_manifest(self) -> None:
        Path(self.folder, NAME.manifest).unlink(missing_ok=True)

    @rule(data=st.data())
    def lose_log_entries(self, data: st.DataObject) -> None:
        """All or some of those that the manifest holds come back by a rebuild."""
        manifest = log.read_checkpoint(self.lake.store, NAME)
        present = files.list_files(self.lake.store, NAME).free
        if manifest is None or log.unnamed_files(NAME, present, manifest):
            return  # after an earlier loss nobody knows what these files are: nothing is guessed
        lost = data.draw(st.sets(st.integers(1, manifest.number), min_size=1))
        for number in lost:
            Path(self.folder, NAME.transaction(number)).unlink()
        before = head(self.lake)
        assert rebuild_table(self.lake.store, NAME).dropped is (self.dropped is not None)
        assert head(self.lake).blocks == before.blocks
        assert (head(self.lake).restorable is None) is (before.restorable is None)

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        present = head(self.lake)
        assert (present.dropped_at > 0) is (self.dropped is not None)
        check_sound(self.lake)
        if self.dropped is None:
            assert rows_of(self.lake) == sorted(self.rows)
            dump = plain.dump_folder(Path(self.folder))
            table = plain.tables(dump)[str(NAME)]
            known = [{row["id"] for row in table.state(v["transaction"])} for v in table.versions]
            assert known == self.versions
            assert [len(present.at(v.transaction).blocks) > 0 for v in present.frozen] == [
                bool(rows) for rows in self.versions
            ]
        else:
            assert rows_of(self.lake) == []
            assert (present.restorable is not None) is self.dropped
        assert holdings_of(present).versions == len(self.versions)


@pytest.mark.usefixtures("many_cases")
def test_every_order_of_events() -> None:
    some = settings(max_examples=30, stateful_step_count=14, deadline=None)
    run_state_machine_as_test(Tables, settings=some)
