"""Combining: blocks are the same bytes under the same numbers, in few files; else nothing."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from singerlake.errors import ConflictError, DamagedError
from singerlake.format import block as format_block
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.lake import Lake, Table
from singerlake.log.checkpoint import from_manifest, to_manifest, write_checkpoint
from singerlake.log.log import read_snapshot
from singerlake.log.staging import StagedTable
from singerlake.log.table_state import TableState
from singerlake.ops.vacuum.combine import commit_combine, plan_combine, write_group
from singerlake.storage.local.store import LocalStore
from tests.build import EXTRACTED, commit_rows, record_line, schema_line

NAME = TableName("tap", "s")
INT = {"id": {"type": "integer"}}
SCHEMAS = (INT, {**INT, "note": {"type": "string"}})
TARGET = 4096


def commit_noise(lake: Lake, sizes: list[int], properties: dict[str, Any], file_bytes: int) -> None:
    """One transaction of blocks that do not shrink, of about so many bytes each."""
    entry = SchemaEntry({"type": "object", "properties": properties}, [])
    name = schema_hash(entry.schema, [])
    staged = StagedTable(lake.store, NAME, file_bytes)
    staged.set_schema(name, entry)
    for size in sizes:
        record = f'{{"id": 1, "noise": "{os.urandom(size // 2).hex()}"}}'
        text = schema_line("s", properties, []) + record_line("s", record)
        block = Block(0, "", 0, 0, 1, len(text), EXTRACTED, EXTRACTED)
        staged.add(name, format_block.encode(text, 1, 1), block)
    assert lake.table(NAME).writer().commit(staged) is not None


def bytes_of(table: Table, snapshot: TableState) -> dict[int, tuple[bytes, Block]]:
    """Each block's bytes as they lie on the disk, and its description but for the place."""
    return {
        b.number: (
            table.store.get_range(table.name.data(b.file), b.offset, b.length),
            Block(b.number, b.schema_hash, 0, b.length, b.rows, b.bytes, b.first, b.last),
        )
        for b in snapshot.blocks
    }


def sizes_of(table: Table) -> dict[str, int]:
    folder = table.name.folder
    return {item.key[len(folder) :]: item.size for item in table.store.list(folder)}


def combine(table: Table, target: int, *, listed: bool = True) -> TableState | None:
    """As the job does it; None where there is nothing to do."""
    snapshot = table.snapshot()
    groups = plan_combine(snapshot, target, sizes_of(table) if listed else None)
    if not groups:
        return None
    written = [(group, write_group(table.store, table.name, group)) for group in groups]
    return commit_combine(table.store, snapshot, written, writer_id="test")


def contents(lake: Lake) -> dict[str, bytes]:
    assert isinstance(lake.store, LocalStore)
    root = lake.store.root
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


transactions = st.lists(
    st.tuples(
        st.lists(st.sampled_from([10, 600, 1500, 2500, 3500, 5000]), min_size=1, max_size=4),
        st.sampled_from(SCHEMAS),
        st.sampled_from([1, 2000, 10**6]),
    ),
    min_size=1,
    max_size=8,
)


@given(transactions)
@settings(max_examples=25, deadline=None)
def test_any_files_become_few_and_no_byte_changes(history: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake.open(folder, create=True)
        for sizes, properties, file_bytes in history:
            commit_noise(lake, sizes, properties, file_bytes)
        table = lake.table(NAME)
        before = bytes_of(table, table.snapshot())
        earlier = table.snapshot()
        after = combine(table, TARGET)
        head = table.snapshot()
        if after is not None:
            assert after.blocks == head.blocks
        assert bytes_of(table, head) == before
        assert head.last_block == earlier.last_block
        check_files(table, head)
        assert plan_combine(head, TARGET, sizes_of(table)) == []
        assert plan_combine(head, TARGET) == []
        # A log read from its beginning and a checkpoint say the same, and old states stay.
        assert from_manifest(NAME, to_manifest(head)).blocks == head.blocks
        for number in range(1, earlier.number + 1):
            assert bytes_of(table, head.at(number)).keys() == {
                b.number for b in earlier.at(number).blocks
            }
        # Who read on by the old log still finds everything: nothing was deleted.
        assert bytes_of(table, earlier) == before


def check_files(table: Table, head: TableState) -> None:
    files: dict[str, list[Block]] = defaultdict(list)
    for block in head.blocks:
        files[block.file].append(block)
    present = sizes_of(table)
    for path, blocks in files.items():
        assert len(blocks) == 1 or present[path] <= TARGET or path in first_files(table)
        assert len({block.schema_hash for block in blocks}) == 1
        for block in blocks:
            assert block.offset + block.length <= present[path]
        text = table.store.get(table.name.data(path)).data
        at = 0
        while at < len(text):  # any reader goes from member to member
            at += format_block.header(text[at:], path).length
        assert at == len(text)


def first_files(table: Table) -> set[str]:
    """What writers made: these may be larger."""
    return {b.file for entry in table.entries() for b in entry.blocks}


SMALL = st.lists(st.integers(1, 12), min_size=1, max_size=9)


@given(SMALL, st.data())
@example([4, 7, 3, 5], None)
@example([3, 30, 3], None)
@settings(max_examples=300, deadline=None)
def test_a_second_plan_is_empty_whatever_the_sizes(lengths: list[int], data: Any) -> None:
    """By plans alone: what is above the target, at it, below it, and mostly dead or not."""
    dead = [data.draw(st.sampled_from([0, 1, 40])) for _ in lengths] if data else [0, 90, 0]
    target = 10
    blocks = [Block(n, f"h/f{n}", 0, size, 1, 1) for n, size in enumerate(lengths, start=1)]
    sizes = {b.file: b.length + d for b, d in zip(blocks, [*dead, *[0] * 9], strict=False)}
    snapshot = TableState(NAME, blocks=blocks)
    new, new_sizes = [], dict(sizes)
    moved: dict[int, str] = {}
    for number, group in enumerate(plan_combine(snapshot, target, sizes)):
        assert len(group.blocks) == 1 or group.bytes <= target
        for block in group.blocks:
            assert block.number not in moved
            moved[block.number] = f"h/g{number}"
        new_sizes[f"h/g{number}"] = group.bytes
    for block in blocks:
        file = moved.get(block.number, block.file)
        new.append(Block(block.number, file, 0, block.length, 1, 1))
        if block.number not in moved:
            assert sizes[block.file] <= 2 * block.length, "mostly dead, and left"
    again = plan_combine(TableState(NAME, blocks=new), target, new_sizes)
    assert again == []


def test_a_file_that_is_mostly_dead_is_written_anew(lake: Lake) -> None:
    commit_noise(lake, [3000, 400, 3000], INT, 10**6)
    table = lake.table(NAME)
    head = table.snapshot()
    # As after dropped history: only the middle block is still there.
    head = replace(head, blocks=[head.blocks[1]])
    groups = plan_combine(head, 200, sizes_of(table))
    assert [[b.number for b in group.blocks] for group in groups] == [[2]]
    path = write_group(table.store, NAME, groups[0])
    assert sizes_of(table)[path] == head.blocks[0].length
    assert plan_combine(head, 200) == [], "the log alone does not know"


@pytest.mark.parametrize("damage", ["cut", "gone", "another block", "not a block"])
def test_a_damaged_source_fails_and_nothing_changes(lake: Lake, damage: str) -> None:
    for size in (900, 901, 1700):
        commit_noise(lake, [size], INT, 10**6)
    table = lake.table(NAME)
    snapshot = table.snapshot()
    (group,) = plan_combine(snapshot, 10**6)
    assert isinstance(lake.store, LocalStore)
    first, second, third = (lake.store.root / NAME.data(b.file) for b in snapshot.blocks)
    if damage == "cut":
        second.write_bytes(second.read_bytes()[:-1])
    elif damage == "gone":
        second.unlink()
    elif damage == "another block":
        second.write_bytes(third.read_bytes())
    else:
        second.write_bytes(b"x" * second.stat().st_size)
    before = contents(lake)
    with pytest.raises(DamagedError, match=r"singerlake verify tap\.s"):
        write_group(lake.store, NAME, group)
    assert contents(lake) == before, "no new file, nothing staged"
    assert first.exists()


@pytest.mark.parametrize("part", ["header", "middle", "trailer"])
def test_a_flipped_byte_is_never_made_to_look_well(lake: Lake, part: str) -> None:
    """At a block's ends it stops the vacuum; between them the block's own checksum goes along."""
    for size in (900, 901, 902):
        commit_noise(lake, [size], INT, 10**6)
    table = lake.table(NAME)
    snapshot = table.snapshot()
    (group,) = plan_combine(snapshot, 10**6)
    assert isinstance(lake.store, LocalStore)
    damaged = snapshot.blocks[1]
    path = lake.store.root / NAME.data(damaged.file)
    data = bytearray(path.read_bytes())
    place = {"header": 16, "middle": damaged.length // 2, "trailer": damaged.length - 1}[part]
    data[place] ^= 1
    path.write_bytes(data)
    if part != "middle":
        with pytest.raises(DamagedError, match=r"block 2 .* does not match the log"):
            write_group(lake.store, NAME, group)
        return
    commit_combine(
        lake.store, snapshot, [(group, write_group(lake.store, NAME, group))], writer_id="test"
    )
    for block in table.snapshot().blocks:
        assert block.file != snapshot.blocks[block.number - 1].file
        if block.number != damaged.number:
            assert table.read_block(block)
    with pytest.raises(DamagedError, match=r"block 2 of tap\.s"):
        table.read_block(table.snapshot().blocks[1])


def test_another_vacuum_in_between_is_a_conflict(lake: Lake) -> None:
    for _ in range(3):
        commit_noise(lake, [900], INT, 10**6)
    table = lake.table(NAME)
    stale = table.snapshot()
    groups = plan_combine(stale, 10**6)
    written = [(group, write_group(lake.store, NAME, group)) for group in groups]
    assert combine(table, 10**6) is not None
    head = table.snapshot()
    with pytest.raises(ConflictError, match="another vacuum .*nothing was changed"):
        commit_combine(lake.store, stale, written, writer_id="late")
    assert table.snapshot().blocks == head.blocks


def test_an_append_in_between_is_none(lake: Lake) -> None:
    for _ in range(3):
        commit_rows(lake, "tap.s", INT, [], [{"id": 1}])
    table = lake.table(NAME)
    stale = table.snapshot()
    groups = plan_combine(stale, 10**6)
    written = [(group, write_group(lake.store, NAME, group)) for group in groups]
    commit_rows(lake, "tap.s", INT, [], [{"id": 2}])
    before = bytes_of(table, table.snapshot())
    commit_combine(lake.store, stale, written, writer_id="test")
    head = read_snapshot(lake.store, NAME)
    assert head is not None
    assert bytes_of(table, head) == before
    assert [b.number for b in head.blocks] == [1, 2, 3, 4]
    write_checkpoint(lake.store, head)
    assert table.snapshot().dropped == head.dropped
    assert len(head.dropped) == 3
