"""A row is erased from a table that was dropped, and that can come back all the same: no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import ConflictError, DroppedError
from singerlake.format.log import Operation
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log.checkpoint import from_manifest, to_manifest
from singerlake.log.folding import restored
from singerlake.log.table_state import TableState
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.erase import plan as plans
from singerlake.ops.erase.plan import EraseOptions
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.vacuum import garbage
from singerlake.ops.verify.data_files import check_files
from singerlake.ops.verify.plan import check_log
from singerlake.overlay.alter import AlterOptions
from tests.faults import plain
from tests.ops.erase import by_hand
from tests.ops.erase.by_hand import rows_at

NAME = TableName("tap", "t")
HER = {"id": 2, "name": "Zoë"}


@pytest.fixture
def table(lake: Lake) -> Table:
    """Two versions of a table with her, and then it is dropped."""
    table = lake.table(NAME)
    by_hand.write(lake, table, {"id": 1, "name": "Ada"}, HER)
    by_hand.freeze(table)
    by_hand.write(lake, table, {"id": 3, "name": "Cy"})
    by_hand.freeze(table)
    drop(table)
    return table


def drop(table: Table) -> None:
    drop_table(table.store, table.snapshot(), AlterOptions(), with_versions=True)


def undrop(table: Table) -> TableState:
    undrop_table(table.store, head(table), AlterOptions())
    return table.snapshot()


def head(table: Table) -> TableState:
    return table.snapshot(dropped=True)


def check_sound(table: Table) -> None:
    """The log, what a manifest makes of it and the files agree."""
    checked = check_log(table.store, NAME)
    assert checked.problems == []
    held = checked.snapshot
    assert from_manifest(NAME, to_manifest(held)).restorable == held.restorable
    assert check_files(restored(held), table.store.list(NAME.folder))[0] == []


def waiting(table: Table, retained: float) -> tuple[set[str], set[str]]:
    """The files that a vacuum would delete, and those it would keep until they are older."""
    listed = table.store.list(NAME.folder)
    found = garbage.find(table.store, head(table), retained, listed=listed)
    return {one.key for one in found.files}, {one.key for one in found.kept}


def test_it_comes_back_without_the_row(table: Table) -> None:
    before = restored(head(table))
    assert [block.number for block in before.blocks] == [1, 2]
    assert [version.number for version in before.frozen] == [1, 2]
    old = {NAME.key(block.file) for block in before.blocks}
    after = by_hand.erase(table, 2, deleted=False)
    assert after.dropped_at == before.number, "it is still dropped"
    with pytest.raises(DroppedError, match="singerlake undrop"):
        table.snapshot()
    check_sound(table)
    now = {NAME.key(block.file) for block in after.restorable or ()}
    going, kept = waiting(table, 0.0)
    assert going == old - now, "what has her goes without a retention"
    assert kept == now, "and what would come back waits for that since the drop"
    assert waiting(table, float("inf"))[0] == old | now
    for key in going:
        table.store.delete(key)
    back = undrop(table)
    assert [row["id"] for row in rows_at(table, back, back.number)] == [1, 3]
    assert [row["id"] for row in rows_at(table, back, 1)] == [1]
    told = [(one.rows, [note.rows_before for note in one.erased]) for one in back.frozen]
    assert told == [(1, [2]), (2, [3])]
    assert not set(back.dropped) & {block.file for block in back.blocks}
    check_sound(table)


@pytest.mark.parametrize("lost", [*range(1, 8), 0], ids=lambda n: f"entry {n}" if n else "all")
def test_a_rebuild_brings_back_what_there_was(table: Table, lost: int) -> None:
    after = by_hand.erase(table, 2, deleted=False)
    by_hand.write_checkpoint(table.store, after)
    assert after.number == 7
    for number in [lost] if lost else range(1, 8):
        table.store.delete(NAME.transaction(number))
    rebuild_table(table.store, NAME)
    check_sound(table)
    back = undrop(table)
    assert [row["id"] for row in rows_at(table, back, back.number)] == [1, 3]
    assert [version.rows for version in back.frozen] == [1, 2]


def test_what_comes_between_the_two_entries(lake: Lake, table: Table) -> None:
    """Once it is there again, or cannot come back, an erasure that saw it dropped ends."""
    announced = by_hand.start(table, 2)
    undrop(table)
    with pytest.raises(ConflictError, match="restored"):
        by_hand.commit_erase(table, announced, 2)
    drop(table)
    announced = by_hand.start(table, 2)
    files = [block.file for block in announced.restorable or ()]
    by_hand._commit(table.store, announced, Operation.VACUUM_START, deletes=files)
    assert head(table).restorable is None
    with pytest.raises(ConflictError, match="has begun to delete its data"):
        by_hand.commit_erase(table, announced, 2)
    with pytest.raises(DroppedError, match="--retain 0s --no-retention-guard"):
        plans.check_erasable(head(table), EraseOptions("request 12"))
    by_hand.write(lake, table, {"id": 9, "name": "Di"})
    assert restored(table.snapshot()) == table.snapshot()
    check_sound(table)


def test_an_announcement_alone_lets_it_come_back(table: Table) -> None:
    by_hand.start(table, 2)
    check_sound(table)
    back = undrop(table)
    assert [row["id"] for row in rows_at(table, back, back.number)] == [1, 2, 3]


def test_independent_reader_finds_a_table_dropped_through_an_erasure(
    table: Table, tmp_path: Path
) -> None:
    def plain_table() -> plain.PlainTable:
        return plain.tables(plain.dump_folder(tmp_path / "lake"))[str(NAME)]

    by_hand.start(table, 2)
    assert plain.is_dropped(plain_table().log)
    by_hand.erase(table, 2, deleted=False)
    assert plain.is_dropped(plain_table().log)
    undrop(table)
    assert [row["id"] for row in plain_table().state()] == [1, 3]
    assert [row["id"] for row in plain_table().state(1)] == [1]


def test_another_table_of_the_name(lake: Lake, table: Table) -> None:
    """Only what would come back is erased, not what was dropped before it."""
    by_hand.erase(table, 2, deleted=False)
    rows: list[dict[str, Any]] = [{"id": 2, "name": "another"}, {"id": 4, "name": "Eve"}]
    by_hand.write(lake, table, *rows)
    by_hand.freeze(table)
    drop(table)
    first = [one for one in head(table).earlier_versions if one.number < 3]
    assert [block.number for block in restored(head(table)).blocks] == [3]
    assert [version.number for version in restored(head(table)).frozen] == [3]
    by_hand.erase(table, 2, deleted=False)
    check_sound(table)
    assert [one for one in head(table).earlier_versions if one.number < 3] == first
    back = undrop(table)
    assert [row["id"] for row in rows_at(table, back, back.number)] == [4]
    assert [(one.number, one.rows) for one in back.frozen] == [(3, 1)]
