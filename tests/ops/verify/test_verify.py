"""Verify: a whole table is said to be whole, and each kind of damage is found and named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from singerlake.errors import NotFoundError
from singerlake.format import block as format_block
from singerlake.format.key_bounds import Bounds
from singerlake.format.names import INDEX_MARKER, TableName
from singerlake.lake import Lake, Table
from singerlake.ops import freeze as plans
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.verify.data_files import check_files
from singerlake.ops.verify.plan import check_log
from singerlake.ops.verify.problems import MAX_PROBLEMS, Problem
from singerlake.ops.verify.whole_table import check_block, check_indexes
from tests.build import commit_rows, resealed
from tests.histories import here
from tests.ops.verify.verified import verify

NAME = TableName("tap", "orders")
PROPERTIES = {"id": {"type": "integer"}, "name": {"type": "string"}}


@pytest.fixture
def table(lake: Lake) -> Table:
    """Two transactions, four blocks in two files, activations in the last."""
    rows: list[Any] = [{"id": n, "name": f"n{n}"} for n in range(5)]
    commit_rows(lake, "tap.orders", PROPERTIES, ["id"], rows, block_rows=2)
    more: list[Any] = [({"id": 9, "name": "ä"}, 7), 7, ({"id": 1}, 7)]
    commit_rows(lake, "tap.orders", PROPERTIES, ["id"], more)
    return lake.table(NAME)


def path(table: Table, key: str) -> Path:
    return Path(table.store.uri, key)


def entry_path(table: Table, number: int) -> Path:
    return path(table, NAME.transaction(number))


def file_path(table: Table, block: int) -> Path:
    return path(table, NAME.data(table.snapshot().blocks[block - 1].file))


def edit(target: Path, **changes: Any) -> None:
    target.write_bytes(resealed({**json.loads(target.read_text()), **changes}))


def kinds(problems: list[Problem]) -> list[str]:
    return [problem.what for problem in problems]


def test_a_whole_table_is_said_to_be_whole(spark: SparkSession, table: Table) -> None:
    here.freeze(table, at=1)
    here.freeze(table, label="now")
    report = verify(spark, table)
    size = sum(file_path(table, block).stat().st_size for block in (1, 4))
    assert (report.transactions, report.blocks, report.files, report.bytes) == (4, 4, 2, size)
    assert (report.versions, report.problems, report.more, report.notes) == (2, [], 0, [])
    assert verify(spark, table, "now").versions == 1
    with pytest.raises(NotFoundError, match="no version '7'"):
        verify(spark, table, "7")


def test_a_changed_byte_is_found_wherever_it_lies(table: Table) -> None:
    """But for the block's time of making, which no log has."""
    block = table.snapshot().blocks[3]
    target = file_path(table, 4)
    whole = target.read_bytes()
    assert check_block(table.store, NAME, block) == []
    missed = set()
    for place in range(block.offset, block.offset + block.length):
        target.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        if not check_block(table.store, NAME, block):
            missed.add(place - block.offset)
    assert missed <= {*range(28, 36)}


def test_a_sound_block_that_is_not_the_logs_is_found(table: Table) -> None:
    block = table.snapshot().blocks[3]

    def said(**changes: Any) -> list[tuple[str, str]]:
        other = msgspec.structs.replace(block, **changes)
        return [(p.expected, p.found) for p in check_block(table.store, NAME, other)]

    assert said(rows=3) == [("3 rows in its header", "2"), ("3 RECORD lines", "2")]
    assert said(activations=[]) == [("the activations []", "[(1, 7)]")]
    (longer,) = said(bytes=block.bytes + 1)
    assert f"inflates to {block.bytes + 1} bytes" in longer[0]
    hash_, _, name = block.file.partition("/")
    shutil.copytree(file_path(table, 4).parent, path(table, f"{NAME.folder}FTQNqV3"))
    assert said(file=f"FTQNqV3/{name}") == [("a schema of the hash 'FTQNqV3'", repr(hash_))]


def test_lines_that_are_no_messages_are_found(table: Table) -> None:
    block = table.snapshot().blocks[3]
    text = table.read_block(block)
    for bad in (b'{"type": "STATE", "value": {}}\n', b"{\n"):
        data = format_block.encode(text + bad, block.rows, 1)
        file_path(table, 4).write_bytes(data)
        sized = msgspec.structs.replace(
            block, length=len(data), bytes=len(text + bad), crc=format_block.checksum(data)
        )
        (problem,) = check_block(table.store, NAME, sized)
        assert problem.expected == "a SCHEMA line, then RECORD and ACTIVATE_VERSION lines"


@pytest.mark.parametrize(
    ("bounds", "wrong"),
    [
        ({"id": (1, 3)}, False),
        ({"id": (1, 2)}, True),
        ({"id": (0, 3)}, True),
        ({"id": (1, 3), "name": ("a", "b")}, True),
    ],
)
def test_keys_in_a_header_that_rows_have_not_are_found(
    lake: Lake, bounds: Bounds, wrong: bool
) -> None:
    rows: list[Any] = [{"id": 3}, {"id": 1}, {"id": 2}]
    whole = {"id": {"type": "integer"}}
    snapshot = commit_rows(lake, "tap.keys", whole, ["id"], rows)
    [block] = snapshot.blocks
    table = lake.table(snapshot.table)
    assert check_block(table.store, table.name, block) == []
    text = table.read_block(block)
    data = format_block.encode(text, 3, 1, bounds=bounds)
    path(table, table.name.data(block.file)).write_bytes(data)
    sized = msgspec.structs.replace(block, length=len(data))
    problems = check_block(table.store, table.name, sized)
    assert [problem.expected for problem in problems] == (
        ["the smallest and the largest key in its header"] if wrong else []
    )


def test_missing_and_cut_files_are_named_and_the_rest_is_read(table: Table) -> None:
    snapshot = table.snapshot()
    gone, cut = file_path(table, 4), file_path(table, 1)
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:-1])
    problems, readable = check_files(snapshot, table.store.list(NAME.folder))
    assert [(p.where.rpartition("/")[2], p.found) for p in problems] == [
        (cut.name, f"{cut.stat().st_size} bytes"),
        (gone.name, "nothing"),
    ]
    assert [block.number for block in readable] == [1, 2]


def test_a_lost_entry_that_the_manifest_holds_comes_back(table: Table) -> None:
    entry_path(table, 1).unlink()
    found = check_log(table.store, NAME)
    (problem,) = found.problems
    assert problem.where == NAME.transaction(1)
    assert (problem.expected, problem.found) == ("transaction 1", "nothing")
    assert "singerlake rebuild tap.orders" in problem.hint
    assert found.snapshot.number == 2
    rebuild_table(table.store, NAME)
    assert check_log(table.store, NAME).problems == []


def test_a_gap_that_nothing_holds_ends_the_log(table: Table, lake: Lake) -> None:
    for n in (20, 21):
        commit_rows(lake, "tap.orders", PROPERTIES, ["id"], [{"id": n}])
    path(table, NAME.manifest).unlink()
    for number in (2, 3):
        entry_path(table, number).unlink()
    found = check_log(table.store, NAME)
    (problem,) = found.problems
    assert (problem.expected, problem.found) == ("transactions 2 to 3", "nothing")
    assert "backup" in problem.hint
    assert found.snapshot.number == 1
    assert len(found.notes) == 1


def test_a_lost_manifest_is_no_damage(table: Table) -> None:
    path(table, NAME.manifest).unlink()
    found = check_log(table.store, NAME)
    assert found.problems == []
    assert "singerlake rebuild tap.orders" in found.notes[0]
    assert found.snapshot.number == 2


def test_log_and_manifest_lost(table: Table) -> None:
    path(table, NAME.manifest).unlink()
    shutil.rmtree(entry_path(table, 1).parent)
    (problem,) = check_log(table.store, NAME).problems
    assert problem.found == "neither log nor manifest"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"number": 3}, "contains the number of transaction 3"),
        ({"commit": None}, "cannot be read"),
        ({"format": 99}, "has format 99"),
        ({"stream": "other"}, "stream 'other'"),
        ({"blocks": []}, "3 blocks as in the log, found 4"),
        ({"schema_hash": "FTQNqV3"}, "no such schema"),
    ],
)
def test_an_altered_entry_is_found(table: Table, changes: dict[str, Any], says: str) -> None:
    edit(entry_path(table, 2), **changes)
    problems = check_log(table.store, NAME).problems
    assert problems
    assert any(says in str(problem) for problem in problems)


def test_a_commit_id_that_is_there_twice_is_found(table: Table) -> None:
    first = json.loads(entry_path(table, 1).read_text())["commit"]
    edit(entry_path(table, 2), commit=first)
    problems = check_log(table.store, NAME).problems
    assert [p.expected for p in problems if p.what == "log"] == ["a commit id of its own"]
    assert kinds(problems) == ["log", "manifest", "manifest"]  # of its own words, and the chain's


def test_a_schema_that_is_not_its_hash_is_found(table: Table) -> None:
    entry = json.loads(entry_path(table, 1).read_text())
    (schema,) = entry["schemas"].values()
    schema["schema"]["properties"]["id"] = {"type": "string"}
    entry_path(table, 1).write_bytes(resealed(entry))
    problems = check_log(table.store, NAME).problems
    assert any("a schema whose hash is" in p.expected for p in problems)


def test_a_manifest_that_says_otherwise_is_found(table: Table) -> None:
    manifest = json.loads(path(table, NAME.manifest).read_text())
    manifest["files"][0]["blocks"][1][3] = 77
    path(table, NAME.manifest).write_bytes(resealed(manifest))
    (problem,) = check_log(table.store, NAME).problems
    assert problem.where == f"{NAME.manifest}, blocks"
    assert '"rows":2' in problem.expected
    assert '"rows":77' in problem.found
    path(table, NAME.manifest).write_text("{")
    assert kinds(check_log(table.store, NAME).problems) == ["manifest"]


def test_damaged_blocks_are_listed_and_the_versions_that_need_them(
    spark: SparkSession, table: Table
) -> None:
    here.freeze(table, at=1)
    target = file_path(table, 1)
    data = bytearray(target.read_bytes())
    for block in (2, 3):
        damaged = table.snapshot().blocks[block - 1]
        data[damaged.offset + damaged.length // 2] ^= 1
    target.write_bytes(data)
    report = verify(spark, table)
    assert kinds(report.problems) == ["block", "block", "version"]
    assert [p.where.partition(",")[0] for p in report.problems[:2]] == ["block 2", "block 3"]
    assert "block 2 of tap.orders" in report.problems[2].found


def test_a_version_that_reads_otherwise_is_found(spark: SparkSession, table: Table) -> None:
    good = here.freeze(table)
    wrong = plans.plan(table.snapshot(), at=1, label="wrong")
    plans.commit_version(table.store, table.snapshot(), wrong, rows=4, fingerprint=good.fingerprint)
    problems = verify(spark, table).problems
    assert kinds(problems) == ["version", "version"]
    assert {p.where for p in problems} == {"version 2, transaction 1"}
    assert (problems[0].expected, problems[0].found) == ("4 rows", "5")
    assert problems[1].expected == f"{good.fingerprint} as fingerprint"
    assert verify(spark, table, "1").problems == []
    assert kinds(verify(spark, table, "wrong").problems) == ["version", "version"]


def test_an_index_that_holds_other_rows_is_found_and_proves_nothing(
    spark: SparkSession, table: Table
) -> None:
    here.freeze(table, at=1)
    here.freeze(table, at=2)
    first, second = (path(table, NAME.index(number)) for number in (1, 2))
    for part in first.glob("*.parquet"):
        part.unlink()
    for part in second.glob("*.parquet"):
        shutil.copy(part, first)
    marker = json.loads((second / INDEX_MARKER).read_text())
    edit(first / INDEX_MARKER, files=marker["files"], rows=marker["rows"])
    problems = verify(spark, table).problems
    assert set(kinds(problems)) == {"index"}
    assert problems[0].where == NAME.index(1)
    assert (problems[0].expected, problems[0].found) == ("5 rows", "2")


def test_an_index_whose_files_are_not_as_it_says(spark: SparkSession, table: Table) -> None:
    here.freeze(table)
    folder = path(table, NAME.index(2))
    (part,) = folder.glob("*.parquet")
    size = part.stat().st_size
    part.write_bytes(part.read_bytes()[:-1])
    (problem,) = check_indexes(table.store, table.snapshot())[0]
    assert (problem.expected, problem.found) == (f"{size} bytes", f"{size - 1}")
    assert str(NAME.index(2)) in problem.hint
    edit(folder / INDEX_MARKER, commit="of another log")
    problems, notes, _ = check_indexes(table.store, table.snapshot())
    assert problems == []
    assert "another log" in notes[0]


def test_more_problems_than_can_be_told_are_counted(spark: SparkSession, lake: Lake) -> None:
    count = MAX_PROBLEMS + 70
    rows: list[Any] = [{"id": n} for n in range(count)]
    commit_rows(lake, "tap.orders", PROPERTIES, ["id"], rows, block_rows=1)
    table = lake.table(NAME)
    target = file_path(table, 1)
    target.write_bytes(bytes(target.stat().st_size))
    report = verify(spark, table)
    assert (len(report.problems), report.more) == (MAX_PROBLEMS, 70)
    numbers = [int(p.where.partition(",")[0].removeprefix("block ")) for p in report.problems]
    assert numbers == list(range(1, MAX_PROBLEMS + 1))


def test_a_version_of_a_later_transaction_is_found(table: Table) -> None:
    wanted = plans.plan(table.snapshot(), at=1)
    plans.commit_version(table.store, table.snapshot(), wanted, rows=5, fingerprint="0" * 32)
    entry = json.loads(entry_path(table, 3).read_text())
    entry["version"]["transaction"] = 3
    entry_path(table, 3).write_bytes(resealed(entry))
    problems = check_log(table.store, NAME).problems
    assert problems[0].expected == "version 1 of an earlier transaction"
