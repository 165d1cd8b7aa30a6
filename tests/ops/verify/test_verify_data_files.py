"""What stands in a data file behind the blocks that the log names, and in gzip's own header."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake, Table
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.vacuum.combine import Group, commit_combine, write_group
from singerlake.ops.verify.problems import Problem
from singerlake.ops.verify.whole_table import check_block
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.frozen import freeze_here as freeze_small
from tests.frozen import verify_here
from tests.ops.copy.world import NAME, combine, copy, delete, write
from tests.ops.vacuum.plain_table import erase

LAKES = Path(__file__).parents[2] / "lakes"


@pytest.fixture
def source(tmp_path: Path) -> Lake:
    return Lake(LocalStore(tmp_path / "source"))


def table_of(lake: Lake) -> Table:
    return lake.find(NAME)[0]


def file_of(lake: Lake, block: int = 1) -> Path:
    table = table_of(lake)
    [found] = [one for one in table.snapshot().blocks if one.number == block]
    return Path(lake.store.uri, table.name.data(found.file))


def found(lake: Lake, name: str = NAME) -> tuple[list[Problem], list[str]]:
    report = verify_here(lake.find(name)[0])
    assert report is not None
    return report.problems, [note for note in report.notes if "end in blocks" in note]


def append(path: Path, data: bytes) -> int:
    """Append to a file; how long it was."""
    before = path.stat().st_size
    with path.open("ab") as file:
        file.write(data)
    return before


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\0", "no blocks"),
        (b"more\n" * 20, "no blocks"),
        (gzip.compress(b'{"type": "RECORD", "stream": "t", "record": {"id": 9}}\n'), "no blocks"),
        (None, "blocks that stand in it before"),
    ],
    ids=["a byte", "text", "another gzip file", "its own blocks"],
)
def test_what_is_appended_to_a_file_is_damage(source: Lake, data: bytes | None, what: str) -> None:
    write(source, 1, 2, 3)
    path = file_of(source)
    more = path.read_bytes() if data is None else data
    size = append(path, more)
    [problem], notes = found(source)
    assert (problem.what, problem.where) == ("file", path.relative_to(source.store.uri).as_posix())
    assert problem.expected == f"{size} bytes"
    assert problem.found == f"{size + len(more)} bytes, of which the last {len(more)} are {what}"
    assert f"cut the file to {size} bytes" in problem.hint and notes == []


def test_half_a_block_is_none(source: Lake) -> None:
    write(source, 1, 2)
    path = file_of(source)
    size = append(path, path.read_bytes()[:-1])
    [problem], _ = found(source)
    assert problem.expected == f"{size} bytes" and problem.found.endswith("are no whole block")


def test_what_stands_behind_blocks_that_no_entry_names(source: Lake, tmp_path: Path) -> None:
    """Where a version is copied alone, a combined file has blocks that came after it."""
    write(source, 1, 2)
    freeze_small(table_of(source))
    write(source, 3)
    combine(source)
    part = LocalStore(tmp_path / "part")
    copy(source.store, part, f"{NAME}.1")
    problems, [note] = found(Lake(part))
    assert problems == [] and "1 of its data files" in note and "zcat shows them" in note
    size = append(file_of(Lake(part)), b"more")
    [problem], notes = found(Lake(part))
    assert (problem.expected, notes) == (f"{size} bytes", [])


def test_what_lies_in_a_file_by_right_is_none(source: Lake, tmp_path: Path) -> None:
    """Files that were combined, lost blocks to others, were copied, taken back or erased from."""
    write(source, 1, 2, 3)
    write(source, 4)
    combine(source)
    delete(source)
    write(source, 5, 6, 7)
    assert found(source) == ([], [])
    copy(source.store, LocalStore(tmp_path / "copy"))
    assert found(Lake(LocalStore(tmp_path / "copy"))) == ([], [])
    erase(table_of(source), {(5, 0)}, [])
    head = table_of(source).snapshot()
    assert len({block.file for block in head.blocks}) < len(head.blocks)
    assert found(source) == ([], [])
    folder = Path(source.store.uri, head.table.folder)
    shutil.rmtree(folder / "transactions")
    rebuild_table(source.store, head.table)
    assert found(source) == ([], [])
    shutil.rmtree(folder / "transactions")
    (folder / "manifest.json").unlink()
    rebuild_table(source.store, head.table)
    assert found(source)[0] == []


def test_a_file_whose_last_block_is_in_another_by_now(source: Lake) -> None:
    """The log's entries still tell where it ends, and what follows counts."""
    write(source, 1, 2, 3, 4, 5)
    head = table_of(source).snapshot()
    group = Group(list(head.blocks[-1:]), 1)
    written = [(group, write_group(source.store, head.table, group))]
    commit_combine(source.store, head, written, writer_id="test")
    assert found(source) == ([], [])
    size = append(file_of(source), b"x")
    [problem], _ = found(source)
    assert problem.expected == f"{size} bytes"


@pytest.mark.parametrize("lake", sorted(path.name for path in LAKES.iterdir() if path.is_dir()))
def test_lakes_of_earlier_releases(lake: str, tmp_path: Path) -> None:
    shutil.copytree(LAKES / lake, tmp_path / "lake")
    old = Lake(LocalStore(tmp_path / "lake"))
    assert old.tables()
    for name in old.tables():
        assert found(old, str(name)) == ([], [])


def test_every_byte_of_gzips_own_header_counts(lake: Lake) -> None:
    """But for those that say when a block was made."""
    rows: list[Any] = [{"id": 1}, {"id": 2}]
    head = commit_rows(lake, "tap.t", {"id": {"type": "integer"}}, ["id"], rows)
    [block] = head.blocks
    path = Path(lake.store.uri, head.table.data(block.file))
    whole = path.read_bytes()
    for place in range(28):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        problems = check_block(lake.store, head.table, block)
        assert problems, place
        if 4 <= place < 10:
            [problem] = problems
            assert (problem.expected, problem.found) == (
                "no time and no system in gzip's header",
                "one of them",
            )
