"""A small state is frozen in this process; that it is as Spark would freeze it: tests/spark."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec import structs

import singerlake
from singerlake import freezing
from singerlake.errors import ConflictError, DamagedError, MisfitsError, UsageError
from singerlake.format.log import FrozenVersion
from singerlake.format.overlay import Constraint, Overlay
from singerlake.freezing import freeze_small, is_small
from singerlake.lake import Lake, Table
from singerlake.reading import index
from singerlake.reading.index import Index
from singerlake.reading.state_reader import StateReader
from singerlake.transactions.lease import leases
from singerlake.transactions.snapshot import Snapshot
from tests.build import commit_rows
from tests.cli.call import run, run_json

PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": "integer"}}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 1, "n": 3}])
    return lake.find("tap.s")[0]


def rows_of(table: Table, number: int) -> list[tuple[int, int]]:
    """What the index of a transaction has."""
    found = index.sound(table, table.snapshot().at(number))
    assert found is not None
    batches = StateReader.of(found).rows(list(found.shape.aliases))
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def test_a_version_and_its_index(table: Table) -> None:
    first = freeze_small(table, at=1, label="first", comment="as it was")
    second = freeze_small(table)
    assert (first.number, first.transaction, first.label, first.rows) == (1, 1, "first", 2)
    assert (second.number, second.transaction, second.comment, second.rows) == (2, 3, None, 2)
    assert first.fingerprint != second.fingerprint
    assert rows_of(table, 1) == [(1, 1), (2, 2)]
    assert rows_of(table, 2) == [(1, 3), (2, 2)]
    assert not [*leases(table.store, table.name)]
    again = freeze_small(table, at=1)
    assert (again.fingerprint, again.record_fingerprint) == (
        first.fingerprint,
        first.record_fingerprint,
    )


def test_a_table_without_rows(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 1}])
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [7])
    version = freeze_small(lake.find("tap.s")[0])
    assert version.rows == 0


def test_what_is_wrong_freezes_nothing(table: Table) -> None:
    lake = Lake(table.store)
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], ['{"id": 3, "n": 9223372036854775808}'])
    with pytest.raises(MisfitsError, match=r"column 'n' \(int64\) has 1 value"):
        freeze_small(table)
    freeze_small(table, at=2, label="q3")
    with pytest.raises(UsageError, match="has the label 'q3' already"):
        freeze_small(table, label="q3")
    block = table.snapshot().blocks[0]
    path = Path(str(table.store.local_path(table.name.data(block.file))))
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-9] + b"\0" * 9)
    with pytest.raises(DamagedError):
        freeze_small(table, at=1)
    assert len(table.snapshot().frozen) == 1


def test_an_index_that_is_not_what_its_marker_says_is_made_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze_small(table)
    sound = index.sound
    before = sound(table, table.snapshot().at(2))
    assert before is not None
    answers = [replace(before, marker=structs.replace(before.marker, rows=5))]

    def lying(table: Table, snapshot: Snapshot) -> Index | None:
        return answers.pop() if answers else sound(table, snapshot)

    monkeypatch.setattr(index, "sound", lying)
    assert freeze_small(table).rows == 2
    after = sound(table, table.snapshot().at(2))
    assert after is not None
    assert before.parts != after.parts
    assert rows_of(table, 2) == [(1, 3), (2, 2)]


def test_what_is_small(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    head = table.snapshot()
    assert is_small(head)
    ruled = head.laid_over(Overlay(constraints={"id": Constraint(kind="not-null", columns=["id"])}))
    assert not is_small(ruled), "SQL has to be asked of its rows"
    with monkeypatch.context() as patch:
        patch.setattr(freezing, "SMALL_CELLS", 2 * head.blocks[0].rows)
        assert not is_small(head), "three lines of two columns"
    monkeypatch.setattr(freezing, "SMALL_BYTES", 100)
    assert not is_small(table.snapshot())
    with pytest.raises(ConflictError, match="freeze it again"):
        freeze_small(table)
    assert not table.snapshot().frozen


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> NoReturn:
        raise UsageError("Java starts")

    module = importlib.import_module("singerlake_cli.commands.freeze")
    monkeypatch.setattr(module, "begin_spark", started)
    monkeypatch.setattr(module, "start_spark", started)


@pytest.mark.usefixtures("no_java")
def test_the_command_starts_no_java_for_a_small_table(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(table.store)
    assert run_json(lake, "freeze", "tap.s", "--label", "q3", "--comment", "x")["rows"] == 2
    [version] = table.snapshot().frozen
    assert (version.label, version.comment) == ("q3", "x")
    for more in (["--master", "local[1]"], ["--conf", "spark.x=y"]):
        assert "Java starts" in run(lake, "freeze", "tap.s", "--again", *more).stderr
    monkeypatch.setattr(freezing, "SMALL_BYTES", 100)
    assert "Java starts" in run(lake, "freeze", "tap.s", "--at", "1").stderr


@pytest.mark.usefixtures("no_java")
def test_freezing_an_unchanged_table_again_is_the_version_that_was_there(table: Table) -> None:
    lake = Lake(table.store)
    first = run(lake, "freeze", "tap.s", "--label", "q3", "--comment", "x")
    assert first.stdout.startswith("tap.s version 1 (q3): 2 rows")
    assert "it was there" not in first.stdout
    for options in ((), ("--label", "q3"), ("--comment", "y"), ("--master", "local[1]")):
        result = run(lake, "freeze", "tap.s", *options)
        assert result.stdout == first.stdout[:-1] + "; it was there\n"
        assert ("the comment was not kept" in result.stderr) == ("y" in options)
    assert len(table.snapshot().frozen) == 1
    assert run_json(lake, "freeze", "tap.s", "--label", "end of q3")["number"] == 2
    named = run_json(lake, "freeze", "tap.s", "--label", "q3")
    assert (named["number"], named["new"]) == (1, False)
    assert run_json(lake, "freeze", "tap.s")["number"] == 2  # the newest
    again = run_json(lake, "freeze", "tap.s", "--again")
    assert (again["number"], again["label"], again["new"]) == (3, None, True)
    assert run_json(lake, "freeze", "tap.s", "--at", "1")["number"] == 4
    assert run_json(lake, "freeze", "tap.s", "--at", "1")["new"] is False
    refused = run(lake, "freeze", "tap.s", "--at", "1", "--label", "q3")  # of another state
    assert (refused.exit_code, "has the label 'q3' already" in refused.stderr) == (2, True)
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 9}])
    there = singerlake.open(lake.store.uri)["tap.s"]
    found = [there.freeze(), there.freeze(comment="z"), there.freeze(again=True), there.freeze("z")]
    assert [one.number for one in found] == [5, 5, 6, 7]


def test_two_freezes_of_one_state_at_the_same_time_are_one_version(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    proven = freezing._proven
    asked: list[int] = []
    made: list[FrozenVersion] = []

    def late(table: Table, snapshot: Snapshot) -> freezing.Proven:
        if not asked:
            asked.append(snapshot.number)
            made.append(freeze_small(table, label="other"))
        return proven(table, snapshot)

    monkeypatch.setattr(freezing, "_proven", late)
    assert freeze_small(table, again=False) == made[0]
    assert len(table.snapshot().frozen) == 1
