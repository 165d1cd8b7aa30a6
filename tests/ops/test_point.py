"""Pointers: names of versions that move, one transaction a move."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake import api
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import (
    ConflictError,
    DamagedError,
    NotFoundError,
    RequirementsError,
    UsageError,
)
from singerlake.format.log import Entry, FrozenVersion, decode_entry, seal_entry
from singerlake.format.names import TableName, TableRef, parse_ref
from singerlake.lake import Lake, Table
from singerlake.log import versions
from singerlake.log.log import read_entries
from singerlake.log.table_state import TableState
from singerlake.ops.delete_version import delete_version
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.freeze import FreezeOptions, Frozen, freeze
from singerlake.ops.point import point
from singerlake.ops.rebuild import rebuild_table
from singerlake.overlay.alter import AlterOptions
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.sshsig import Key
from tests.tap import run as tap

HERE = EngineChoice(LOCAL)
COLUMNS: dict[str, Any] = {"id": {"type": "integer"}}


def filled(lake: Lake, *numbers: int) -> Table:
    commit_rows(lake, "tap.s", COLUMNS, ["id"], [{"id": number} for number in numbers])
    return lake.find("tap.s")[0]


def frozen(table: Table, **options: Any) -> Frozen:
    return freeze(table, FreezeOptions(**options), HERE)


@pytest.fixture
def table(lake: Lake) -> Table:
    """Two versions, of one row and of two."""
    table = filled(lake, 1)
    frozen(table, label="first")
    frozen(filled(lake, 2))
    return table


def names(state: TableState) -> dict[str, int]:
    return {name: version.number for name, (version, _) in versions.pointers(state).items()}


def test_pointer_names_the_version_that_it_was_moved_to(table: Table) -> None:
    moved = point(table.store, table.snapshot(), "current", "1")
    assert (moved.before, moved.transaction) == (None, 5)
    head = table.snapshot()
    assert head.named("@current")[0] == head.version("1")
    moved = point(table.store, head, "@current", "2")
    assert (moved.before, moved.transaction) == (1, 6)
    version, state = table.snapshot().named("@current")
    assert version is not None
    assert (version.number, state.number) == (2, 3)
    point(table.store, table.snapshot(), "stable", "@current")
    assert names(table.snapshot()) == {"current": 2, "stable": 2}


def test_pointer_that_names_the_version_already_stays(table: Table) -> None:
    point(table.store, table.snapshot(), "current", "first")
    assert point(table.store, table.snapshot(), "current", "1").transaction is None
    assert table.snapshot().number == 5


def test_removed_pointer_is_not_found_and_can_come_back(table: Table) -> None:
    point(table.store, table.snapshot(), "current", "1")
    removed = point(table.store, table.snapshot(), "current", None)
    assert (removed.version, removed.before) == (None, 1)
    with pytest.raises(NotFoundError, match="has no pointer @current: set one with"):
        table.snapshot().named("@current")
    with pytest.raises(NotFoundError, match="no pointer @current"):
        point(table.store, table.snapshot(), "current", None)
    assert point(table.store, table.snapshot(), "current", "2").before is None
    assert names(table.snapshot()) == {"current": 2}


def test_freeze_moves_the_pointer_in_the_transaction_of_the_version(
    table: Table, lake: Lake
) -> None:
    filled(lake, 3)
    done = frozen(table, pointer="current")
    head = table.snapshot()
    assert (head.number, names(head)) == (6, {"current": 3})
    assert done.pointer is not None
    assert (done.pointer.before, done.pointer.transaction) == (None, 6)
    assert done.version == head.version("3")
    filled(lake, 4)
    assert frozen(table, pointer="current").pointer is not None
    assert names(table.snapshot()) == {"current": 4}


def test_freeze_moves_the_pointer_to_a_version_that_was_there(table: Table) -> None:
    done = frozen(table, pointer="current")
    assert not done.new
    assert done.pointer is not None
    assert done.pointer.transaction == 5
    again = frozen(table, pointer="current")
    assert again.pointer is not None
    assert again.pointer.transaction is None


@pytest.mark.parametrize("signer", [None, Key()])
@pytest.mark.parametrize(("moved_to", "refused"), [("2", True), ("1", False)])
def test_freeze_moves_no_pointer_that_moved_since_it_began(
    table: Table, signer: Key | None, moved_to: str, refused: bool
) -> None:
    """Also where it finds a version that was there, and reads the table once more to move it."""
    point(table.store, table.snapshot(), "current", "2")
    point(table.store, table.snapshot(), "current", "1")

    def found(present: TableState) -> FrozenVersion:
        point(table.store, table.snapshot(), "current", None)
        point(table.store, table.snapshot(), "current", moved_to)
        return present.version("1")

    options = FreezeOptions(pointer="current", signer=signer, instead=found)
    with pytest.raises(ConflictError, match="moved the pointer") if refused else nullcontext():
        freeze(table, options, HERE)
    assert names(table.snapshot()) == {"current": int(moved_to)}


def test_freeze_of_a_new_version_moves_no_pointer_that_moved_since_it_began(
    table: Table, lake: Lake
) -> None:
    """Also if it moved before the lease, for example while Java started."""
    filled(lake, 3)

    def none(present: TableState) -> None:
        if not versions.pointers(present):  # before the lease
            point(table.store, present, "current", "2")

    with pytest.raises(ConflictError, match="moved the pointer"):
        frozen(table, pointer="current", instead=none)
    assert names(table.snapshot()) == {"current": 2}
    assert len(table.snapshot().frozen) == 2


def test_freeze_that_meets_no_requirement_moves_no_pointer(table: Table, lake: Lake) -> None:
    frozen(table, pointer="current")
    filled(lake, 3)
    before = table.snapshot().number
    with pytest.raises(RequirementsError):
        frozen(table, pointer="current", require=["inserted = 0"])
    assert (table.snapshot().number, names(table.snapshot())) == (before, {"current": 2})


def test_version_that_a_pointer_names_is_not_deleted(table: Table) -> None:
    point(table.store, table.snapshot(), "current", "1")
    with pytest.raises(ConflictError, match="version 1 of tap.s is named by @current: move"):
        delete_version(table.store, table.snapshot(), "1", "old")
    early = table.snapshot()
    point(table.store, early, "current", "2")
    with pytest.raises(ConflictError, match="named by @current"):  # a stale read
        delete_version(table.store, early.at(early.number), "2", "old")
    delete_version(table.store, table.snapshot(), "1", "old")
    assert names(table.snapshot()) == {"current": 2}


def test_stale_moves_are_refused(table: Table, lake: Lake) -> None:
    early = table.snapshot()
    point(table.store, early, "current", "1")
    with pytest.raises(ConflictError, match="another process moved the pointer @current"):
        point(table.store, early, "current", "2")
    point(table.store, early, "other", "2")  # which nobody moved
    frozen(filled(lake, 9))
    head = table.snapshot()
    delete_version(table.store, head, "3", "wrong")
    with pytest.raises(ConflictError, match="was deleted by another process"):
        point(table.store, head, "current", "3")


@pytest.mark.parametrize("name", ["", "@", "1", "a b", "ä", "-a", "a" * 101, "a.b", "@@a"])
def test_wrong_names_are_refused(table: Table, name: str) -> None:
    with pytest.raises(UsageError, match="not a valid name for a pointer"):
        point(table.store, table.snapshot(), name, "1")
    with pytest.raises(UsageError, match="not a valid name for a pointer"):
        frozen(table, pointer=name)
    assert table.snapshot().number == 4


def test_pointer_names_versions_and_no_transactions(table: Table) -> None:
    with pytest.raises(UsageError, match="@3 is a transaction: freeze it first"):
        point(table.store, table.snapshot(), "current", "@3")
    with pytest.raises(NotFoundError, match="no version '7'"):
        point(table.store, table.snapshot(), "current", "7")


def test_dropped_table_comes_back_with_its_pointers(table: Table) -> None:
    point(table.store, table.snapshot(), "current", "1")
    drop_table(table.store, table.snapshot(), AlterOptions(), with_versions=True)
    undrop_table(table.store, table.snapshot(dropped=True), AlterOptions())
    assert names(table.snapshot()) == {"current": 1}


MOVES = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([None, "1", "2", "3"])), max_size=8
)


@settings(max_examples=10, deadline=None)
@given(moves=MOVES, lost=st.booleans())
def test_pointers_are_those_of_the_last_moves(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, str | None]], lost: bool
) -> None:
    """Folded from the log, from the manifest, and after the log was lost and made again."""
    lake = Lake.open(str(tmp_path_factory.mktemp("moves")), create=True)
    table = filled(lake, 1)
    for number in (1, 2, 3):
        frozen(filled(lake, number))
        if number < 3:
            filled(lake, number + 10)
    expected: dict[str, int] = {}
    for name, version in moves:
        if version is None and name not in expected:
            continue
        point(lake.store, table.snapshot(), name, version)
        expected.pop(name, None)
        if version is not None:
            expected[name] = int(version)
    assert names(table.snapshot()) == expected
    if lost:
        for number in range(1, table.snapshot().number + 1):
            lake.store.delete(table.name.transaction(number))
        rebuild_table(lake.store, table.name)
        assert names(table.snapshot()) == expected


def test_copied_versions_have_no_pointers(table: Table, lake: Lake, tmp_path: Path) -> None:
    frozen(table, pointer="current")
    done = run(lake, "copy", str(lake.store.uri), str(tmp_path / "one"), "tap.s.2")
    assert done.exit_code == 0, done.output
    there = Lake.open(str(tmp_path / "one")).find("tap.s")[0].snapshot()
    assert ([one.number for one in there.frozen], names(there)) == ([1, 2], {})
    whole = run(lake, "copy", str(lake.store.uri), str(tmp_path / "all"))
    assert whole.exit_code == 0, whole.output
    assert names(Lake.open(str(tmp_path / "all")).find("tap.s")[0].snapshot()) == {"current": 2}


S = TableName("tap", "s")


@pytest.mark.parametrize(
    ("text", "known", "ref"),
    [
        ("tap.s@current", {S}, TableRef(S, "@current")),
        ("tap.s@current", None, TableRef(S, "@current")),
        ("tap.s.@current", {S}, TableRef(S, "@current")),
        ("tap.`s`@current", {S}, TableRef(S, "@current")),
        ("tap.`s`.@current", {S}, TableRef(S, "@current")),
        ("tap.s@17", {S}, TableRef(TableName("tap", "s@17"))),
        ("tap.s.@17", {S}, TableRef(S, "@17")),
        ("tap.a@b", {TableName("tap", "a@b")}, TableRef(TableName("tap", "a@b"))),
        ("tap.`a@b`", {TableName("tap", "a@b")}, TableRef(TableName("tap", "a@b"))),
        ("tap.a@b@c", {TableName("tap", "a@b")}, TableRef(TableName("tap", "a@b"), "@c")),
    ],
)
def test_references_to_pointers_are_read(
    text: str, known: set[TableName] | None, ref: TableRef
) -> None:
    assert parse_ref(text, known) == ref
    if known == {S} and ref.version is not None:
        assert parse_ref(str(ref), known) == ref


def test_readers_read_what_the_pointer_names(table: Table, lake: Lake) -> None:
    point(table.store, table.snapshot(), "current", "1")
    one = api.Lake(lake.store)["tap.s"]
    assert one.at("@current", engine="local").to_arrow()["id"].to_pylist() == [1]
    assert one.point("current", 2) == one.pointers()["current"]
    assert sorted(one.at("@current", engine="local").to_arrow()["id"].to_pylist()) == [1, 2]
    assert run_json(lake, "show", "tap.s@current")["transaction"] == 3
    difference = run(lake, "diff", "tap.s", "1", "@current")
    assert "1 row added" in difference.stdout


@pytest.mark.usefixtures("each_operation")
def test_sql_and_spark_read_what_the_pointer_names(table: Table, lake: Lake, spark: Any) -> None:
    from singerlake.spark import register
    from singerlake.sql.queries.query import query

    point(table.store, table.snapshot(), "current", "1")
    for sql in ("tap.s version as of '@current'", "tap.s.`@current`"):
        with query(spark, lake, f"select id from {sql}") as answer:
            assert [*answer.rows()] == [(1,)]
            assert [source.version for source in answer.sources] == [1]
    register(spark)
    source = spark.read.format("singerlake").option("lake", lake.store.uri)
    for frame in (source.load("tap.s@current"), source.option("version", "@current").load("tap.s")):
        assert [row.id for row in frame.collect()] == [1]


def test_command_lists_moves_and_removes_pointers(table: Table, lake: Lake) -> None:
    none = run(lake, "point", "tap.s")
    assert (
        none.stdout == "tap.s has no pointers; set one with: singerlake point tap.s NAME VERSION\n"
    )
    assert run_json(lake, "point", "tap.s") == []
    moved = run(lake, "point", "tap.s", "current", "first")
    assert moved.stdout == "tap.s@current now points to version 1\n"
    moved = run(lake, "point", "tap.s", "current", "2")
    assert moved.stdout == "tap.s@current now points to version 2 (before: version 1)\n"
    same = run(lake, "point", "tap.s", "current", "2")
    assert same.stdout == "tap.s@current already points to version 2\n"
    (listed,) = run_json(lake, "point", "tap.s")
    assert (listed["name"], listed["version"]) == ("current", 2)
    assert [move["version"] for move in listed["history"]] == [1, 2]
    assert " @current        2  –" in run(lake, "point", "tap.s").stdout
    assert "@current names 2" in " ".join(run(lake, "versions", "tap.s").stdout.split())
    assert "@current points to version 2" in run(lake, "history", "tap.s").stdout
    removed = run(lake, "point", "tap.s", "current", "--remove")
    assert removed.stdout == "tap.s@current is removed; it pointed to version 2\n"
    assert run_json(lake, "history", "tap.s")[0]["pointer"]["name"] == "current"
    for wrong in (["current"], ["current", "1", "--remove"], ["--remove"]):
        assert run(lake, "point", "tap.s", *wrong).exit_code == 2
    assert run(lake, "point", "tap.s.1").exit_code == 2
    many = run(lake, "freeze", "--all", "--as", "current")
    assert (many.exit_code, "--as is for one table" in many.stderr) == (2, True)
    done = run(lake, "freeze", "tap.s", "--as", "current", "--engine", "local")
    assert done.stdout.endswith("tap.s@current now points to version 2\n")


def test_entry_whose_version_has_pointers_already_is_damaged(table: Table) -> None:
    frozen(table, pointer="current", again=True)
    head = table.snapshot()
    ((_, entry),) = read_entries(table.store, table.name, [head.number])
    assert isinstance(entry, Entry)
    assert entry.pointer is not None
    assert (entry.pointer.name, entry.pointer.version) == ("current", 3)
    wrong = msgspec.structs.replace(entry, version=head.frozen[-1])
    with pytest.raises(DamagedError, match="pointed to or signed already"):
        decode_entry(seal_entry(wrong)[1], head.number, "it")


@pytest.mark.parametrize("more", ["incremental: true", "incremental: false"])
def test_projection_follows_its_pointer_both_ways(
    table: Table, lake: Lake, tmp_path: Path, more: str
) -> None:
    file, out = tmp_path / "projections.yml", tmp_path / "out"
    file.write_text(
        "version: 1\nprojections:\n"
        f"- {{name: s, from: tap.s@current, to: {out}, format: csv, {more}}}\n"
    )

    def published() -> tuple[str, set[str]]:
        args = ("--projections", str(file), "--engine", "local")
        done = run(lake, "publish", "--all", *args)
        assert done.exit_code == 0, done.output
        latest = json.loads((out / "_latest.json").read_text())
        files = [(out / latest["folder"] / one["path"]).read_text() for one in latest["files"]]
        return done.stdout, {line for text in files for line in text.splitlines()[1:]}

    point(table.store, table.snapshot(), "current", "1")
    assert published()[1] == {"1"}
    point(table.store, table.snapshot(), "current", "2")
    listed = run(lake, "projections", "--projections", str(file)).stdout
    assert "2 transactions behind tap.s@current" in listed
    said, rows = published()
    assert ("tap.s@current now points to version 2" in said, rows) == (True, {"1", "2"})
    assert published()[0] == "s: up to date\n"
    frozen(filled(lake, 3))
    assert published()[0] == "s: up to date\n", "the pointer has not moved"
    point(table.store, table.snapshot(), "current", "1")
    listed = run(lake, "projections", "--projections", str(file)).stdout
    assert "tap.s@current names an earlier version than was read" in listed
    said, rows = published()
    assert ("now points to version 1" in said, rows) == (True, {"1"})


def test_tap_emits_the_version_that_the_pointer_names(table: Table, lake: Lake) -> None:
    point(table.store, table.snapshot(), "current", "1")
    assert table.snapshot_at("@current").number == 1
    settings = {"table_version": "@current", "mode": "rows"}
    assert [record["id"] for record in tap.run(lake, **settings).records()] == [1]
    point(table.store, table.snapshot(), "current", "2")
    assert sorted(record["id"] for record in tap.run(lake, **settings).records()) == [1, 2]


@pytest.mark.usefixtures("spark")
def test_staged_projection_follows_its_pointer_both_ways(
    table: Table, lake: Lake, tmp_path: Path
) -> None:
    file, out = tmp_path / "projections.yml", tmp_path / "out"
    where = f"from: tap.s@current, stage: staging.s, to: {out}, format: csv"
    file.write_text(f"version: 1\nprojections: [{{name: s, {where}}}]\n")
    for version, rows in (("1", {"1"}), ("2", {"1", "2"}), ("1", {"1"})):
        point(table.store, table.snapshot(), "current", version)
        done = run(lake, "publish", "--all", "--projections", str(file))
        assert done.exit_code == 0, done.output
        latest = json.loads((out / "_latest.json").read_text())
        files = [(out / latest["folder"] / one["path"]).read_text() for one in latest["files"]]
        assert {line for text in files for line in text.splitlines()[1:]} == rows
        again = run(lake, "publish", "--all", "--projections", str(file))
        assert "up to date" in again.stdout
