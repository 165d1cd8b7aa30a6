"""Files that rows name, through freezes, reverts, changes, dropped history and verify."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import singerlake
from singerlake.errors import DamagedError, InputError, UsageError
from singerlake.lake import Table
from singerlake.ops.change.plan import Mode
from singerlake.spark import plain_errors, read_table
from tests.files.photos import NAME, listed, named_by_rows, stored, sync, table_of
from tests.frozen import revert_on_spark as revert
from tests.frozen import vacuum_on_spark
from tests.histories import here
from tests.histories.file_histories import AT_ONCE, Histories
from tests.ops.change.row_sets import change, row_set
from tests.ops.verify.verified import verify
from tests.target.harness import record, records_of, run, schema

CHECKSUM = {"checksum": {"type": "string"}}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    sync(tmp_path / "lake", {1: "data:,a", 2: "data:,b"})
    return table_of(tmp_path / "lake")


def test_a_history_of_files(spark: SparkSession, table: Table) -> None:
    root = table.store.uri
    here.freeze(table)
    first = stored(table.store)
    sync(root, {1: "data:,c", 3: "data:,d"})
    sync(root, {1: "data:,e"})
    assert len(stored(table.store)) == 5
    revert(spark, table, 1)
    # What came back is named again, not copied; the history still names the others.
    assert len(stored(table.store)) == 5
    assert listed(table) == {*named_by_rows(table)} == stored(table.store)
    vacuum_on_spark(spark, table, AT_ONCE)
    vacuum_on_spark(spark, table, AT_ONCE)
    # A deletion is a row, too, and names the file that went with it.
    assert first <= stored(table.store) == listed(table) == {*named_by_rows(table)}
    assert len(stored(table.store)) < 5
    report = verify(spark, table)
    assert (report.problems, report.stored) == ([], len(stored(table.store)))
    damaged = sorted(first)[0]
    Path(root, NAME.key(damaged)).write_bytes(b"x")
    [problem] = verify(spark, table).problems
    assert damaged in problem.where
    assert problem.what == "file"


def test_a_change_names_only_files_that_are_there(spark: SparkSession, table: Table) -> None:
    forged = f"files/00/{'0' * 64}-{'0' * 16}"
    rows = [{"id": 5, "photo": f'{{"path": "{forged}"}}'}]
    before = table.snapshot().number
    with pytest.raises(InputError, match="does not have"):
        upsert(spark, table, rows)
    assert table.snapshot().number == before
    [known, *_] = sorted(listed(table))
    upsert(spark, table, [{"id": 5, "photo": f'{{"path": "{known}"}}'}])
    assert table.snapshot().blocks[-1].files is not None
    assert listed(table) == {*named_by_rows(table)}


def upsert(spark: SparkSession, table: Table, rows: list[dict[str, Any]]) -> None:
    change(spark, table, lambda present: [row_set(spark, present, rows)], Mode.UPSERT)


def test_files_of_every_promised_state_are_there(spark: SparkSession, tmp_path: Path) -> None:
    world = Histories(spark, tmp_path / "lake")
    world.sync({1: "a", 2: "b"})
    world.freeze()
    world.sync({1: "c", 3: "d"})
    world.sync({1: "e", 4: "f"})
    world.undo(3)  # row 1 was touched again; row 3 goes, with the last that names d
    world.check()
    world.freeze()
    world.revert(4)
    world.check()
    world.sync({2: "g", 5: "a"})
    world.undo(8)
    world.check()
    world.vacuum()
    world.check()
    world.delete_version(1)
    world.sync({1: "h"})
    world.check()
    world.vacuum()  # of the deleted version nothing is promised any more
    world.check()
    assert world.contents().isdisjoint({b"c", b"g"})
    world.revert(world.versions[2])
    world.check()


def test_what_files_hold_as_columns_of_bytes(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    root, name = table.store.uri, f"{NAME.tap}.{NAME.stream}"
    sync(root, {3: None, 4: "data:,gone", 5: "data:,large"})
    paths = {
        row["id"]: row["photo"]["path"] for row in records_of(root, NAME.stream) if row["photo"]
    }
    Path(root, NAME.key(paths[4])).unlink()

    def frame(**more: Any) -> DataFrame:
        return read_table(name, lake=root, spark=spark, files="binary", **more)

    some = frame(row_metadata=True)
    assert some.columns[-3:] == ["id", "photo", "photo_content"]
    assert dict(some.dtypes)["photo_content"] == "binary"
    # Of what is asked for alone: the one that is gone, or too large, is in nobody's way.
    assert some.select("id").count() == 5
    found = some.where("id not in (4, 5)").select("id", "photo_content").collect()
    assert {row[0]: row[1] and bytes(row[1]) for row in found} == {1: b"a", 2: b"b", 3: None}
    assert frame(file_bytes=4).where("id < 4").selectExpr("sum(length(photo_content))").head() == (
        2,
    )
    with pytest.raises(UsageError, match="^the file .* is larger than the 4 B"), plain_errors():
        frame(file_bytes=4).where("id = 5").collect()
    with pytest.raises(DamagedError, match="which a row references, is missing$"), plain_errors():
        frame().where("id = 4").collect()
    assert "photo_content" not in read_table(name, lake=root, spark=spark).columns


def test_where_no_bytes_can_be_read(spark: SparkSession, table: Table) -> None:
    root = table.store.uri
    plain_file = {"type": "object", "format": "singer.file"}
    properties = {
        "id": {"type": "integer"},
        "all": {"type": "array", "items": {**plain_file, "properties": CHECKSUM}},
        "ALL_content": {"type": "string"},
    }
    lines = [schema("pages", properties, ["id"])]
    files = [{"uri": "data:,one"}, {"uri": "data:,two"}]
    lines.append(record("pages", {"id": 1, "all": files, "ALL_content": "x"}))
    hidden = {**plain_file, "properties": {"uri": {"type": "string"}}}
    lines += [schema("hidden", {"file": hidden}), schema("none", {"id": {"type": "integer"}})]
    run(root, [*lines, record("hidden", {"file": {"uri": "data:,x"}}), record("none", {"id": 1})])

    lake = singerlake.open(root)
    frame = lake[f"{NAME.tap}.pages"].at().to_spark(spark, files="binary")
    [row] = frame.select("all_content_").collect()
    assert [bytes(one) for one in row[0]] == [b"one", b"two"]
    for stream, why in (("hidden", "neither path nor checksum"), ("none", "is of format")):
        with pytest.raises(UsageError, match=why):
            lake[f"{NAME.tap}.{stream}"].at().to_spark(spark, files="binary")
    for bad in ({"files": "bytes"}, {"files": "binary", "file_bytes": 1 << 31}):
        with pytest.raises(UsageError, match="is neither|is not from 1 to"):
            read_table(f"{NAME.tap}.pages", lake=root, spark=spark, **bad)
