"""A small state is frozen in this process; that it is as Spark would freeze it: tests/histories."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec import structs

import singerlake
from singerlake.engine import choice as engines
from singerlake.engine.choice import EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import DamagedError, MisfitsError, NotFoundError, UsageError
from singerlake.format import times
from singerlake.format.log import FrozenVersion
from singerlake.lake import Lake, Table
from singerlake.log.lease import ReaderLease, leases
from singerlake.log.table_state import TableState
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake.snapshot import building, index
from singerlake.snapshot.index import Index
from singerlake.snapshot.state_reader import StateReader
from singerlake_cli import shared
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.frozen import freeze_here as freeze_small

AGAIN = FreezeOptions(again=True)
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

    def lying(table: Table, snapshot: TableState) -> Index | None:
        return answers.pop() if answers else sound(table, snapshot)

    monkeypatch.setattr(index, "sound", lying)
    assert freeze_small(table).rows == 2
    after = sound(table, table.snapshot().at(2))
    assert after is not None
    assert before.parts != after.parts
    assert rows_of(table, 2) == [(1, 3), (2, 2)]


def test_what_is_small(table: Table, no_java: EngineChoice) -> None:
    head = table.snapshot()
    rows, bytes_ = head.blocks[0].rows + 1, sum(block.bytes for block in head.blocks)
    assert freeze(table, None, no_java).version.rows == 2
    for limit in (Work(bytes_, 2 * rows - 1), Work(bytes_ - 1, 2 * rows)):
        with pytest.raises(UsageError, match="Java starts"):
            freeze(table, AGAIN, replace(no_java, limit=limit))
    assert freeze(table, AGAIN, replace(no_java, limit=Work(bytes_, 2 * rows))).new


def test_a_table_that_grew_meanwhile_is_frozen_by_spark(
    table: Table, no_java: EngineChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was small when it was looked at, and is not under the lease."""
    bytes_ = sum(block.bytes for block in table.snapshot().blocks)
    small = replace(no_java, limit=Work(bytes_, 1_000))
    lease = Table.lease

    def grown(self: Table) -> Any:
        commit_rows(Lake(table.store), "tap.s", PROPERTIES, ["id"], [{"id": 7, "n": 7}])
        return lease(self)

    monkeypatch.setattr(Table, "lease", grown)
    with pytest.raises(UsageError, match="Java starts"):
        freeze(table, None, small)


@pytest.fixture
def java_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> NoReturn:
        raise UsageError("Java starts")

    monkeypatch.setattr(shared, "begin_spark", started)
    monkeypatch.setattr(shared, "start_spark", started)


@pytest.mark.usefixtures("java_fails")
def test_the_command_starts_no_java_for_a_small_table(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(table.store)
    assert run_json(lake, "freeze", "tap.s", "--label", "q3", "--comment", "x")["rows"] == 2
    [version] = table.snapshot().frozen
    assert (version.label, version.comment) == ("q3", "x")
    for more in (["--master", "local[1]"], ["--conf", "spark.x=y"], ["--engine", "spark"]):
        assert "Java starts" in run(lake, "freeze", "tap.s", "--again", *more).stderr
    for more in (["--master", "local[1]"], ["--conf", "spark.x=y"]):
        refused = run(lake, "freeze", "tap.s", "--again", "--engine", "local", *more)
        assert (refused.exit_code, "need Spark" in refused.stderr) == (2, True)
    monkeypatch.setattr(engines, "SMALL", Work(100, 1_000))
    assert "Java starts" in run(lake, "freeze", "tap.s", "--transaction", "1").stderr
    assert (
        run_json(lake, "freeze", "tap.s", "--transaction", "1", "--engine", "local")["number"] == 2
    )
    monkeypatch.setenv("SINGERLAKE_ENGINE", "spark")
    assert "Java starts" in run(lake, "freeze", "tap.s", "--again").stderr
    monkeypatch.setenv("SINGERLAKE_ENGINE", "duck")
    refused = run(lake, "freeze", "tap.s", "--again")
    assert (
        "the engine 'duck' of SINGERLAKE_ENGINE is not one of auto, local, spark" in refused.stderr
    )


@pytest.mark.usefixtures("java_fails")
def test_freezing_an_unchanged_table_again_is_the_version_that_was_there(table: Table) -> None:
    lake = Lake(table.store)
    first = run(lake, "freeze", "tap.s", "--label", "q3", "--comment", "x")
    assert first.stdout.startswith("tap.s version 1 (q3): 2 rows")
    assert "it already existed" not in first.stdout
    for options in ((), ("--label", "q3"), ("--comment", "y"), ("--master", "local[1]")):
        result = run(lake, "freeze", "tap.s", *options)
        assert result.stdout == first.stdout[:-1] + "; it already existed\n"
        assert ("the comment was ignored," in result.stderr) == ("y" in options)
    assert len(table.snapshot().frozen) == 1
    assert run_json(lake, "freeze", "tap.s", "--label", "end of q3")["number"] == 2
    named = run_json(lake, "freeze", "tap.s", "--label", "q3")
    assert (named["number"], named["new"]) == (1, False)
    assert run_json(lake, "freeze", "tap.s")["number"] == 2  # the newest
    again = run_json(lake, "freeze", "tap.s", "--again")
    assert (again["number"], again["label"], again["new"]) == (3, None, True)
    assert run_json(lake, "freeze", "tap.s", "--transaction", "1")["number"] == 4
    assert run_json(lake, "freeze", "tap.s", "--transaction", "1")["new"] is False
    refused = run(
        lake, "freeze", "tap.s", "--transaction", "1", "--label", "q3"
    )  # of another state
    assert (refused.exit_code, "has the label 'q3' already" in refused.stderr) == (2, True)
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 9}])
    there = singerlake.open(lake.store.uri)["tap.s"]
    found = [there.freeze(), there.freeze(comment="z"), there.freeze(again=True), there.freeze("z")]
    assert [one.number for one in found] == [5, 5, 6, 7]


def moment(text: str) -> datetime:
    found = times.parse(text)
    assert found is not None
    return found


@pytest.mark.usefixtures("java_fails")
def test_a_time_means_the_snapshot_that_was_the_newest_then(table: Table) -> None:
    lake = Lake(table.store)
    first, second = (one.time for one in table.snapshot().transactions)
    made = run_json(lake, "freeze", "tap.s", "--time", first)
    assert (made["number"], made["transaction"], made["new"]) == (1, 1, True)
    assert rows_of(table, 1) == [(1, 1), (2, 2)]
    just_before = times.iso(moment(second) - timedelta(microseconds=1))
    made = run_json(lake, "freeze", "tap.s", "--time", just_before)
    assert (made["number"], made["new"]) == (1, False)
    made = run_json(lake, "freeze", "tap.s", "--time", second)
    assert (made["number"], made["transaction"], made["new"]) == (2, 2, True)
    assert run_json(lake, "freeze", "tap.s", "--time", "2999-01-01")["number"] == 2


def test_a_time_in_python_is_a_text_or_a_datetime(table: Table) -> None:
    there = singerlake.open(table.store.uri)["tap.s"]
    first = table.snapshot().transactions[0].time
    zoned = moment(first)
    for time in (first, zoned, zoned.replace(tzinfo=None)):
        assert there.freeze(time=time, again=True).transaction == 1
    with pytest.raises(UsageError, match="specify one snapshot: transaction= and time= are given"):
        there.freeze(transaction=1, time=first)
    with pytest.raises(NotFoundError, match=r"tap\.s has no transaction by 2001-01-01T"):
        there.freeze(time="2001-01-01")
    assert len(table.snapshot().frozen) == 3


def test_a_time_means_one_snapshot_also_if_the_table_grows_meanwhile(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Table.lease

    def late(table: Table) -> ReaderLease:
        commit_rows(Lake(table.store), "tap.s", PROPERTIES, ["id"], [{"id": 9}])
        return lease(table)

    monkeypatch.setattr(Table, "lease", late)
    there = singerlake.open(table.store.uri)["tap.s"]
    assert there.freeze(time="2999-01-01").transaction == 2
    assert there.freeze().transaction == 5  # without a time, the head under the lease


def test_two_freezes_of_one_state_at_the_same_time_are_one_version(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure = building.ensure
    asked: list[int] = []
    made: list[FrozenVersion] = []

    def late(engine: Any, table: Table, snapshot: TableState, **how: Any) -> Index:
        if not asked:
            asked.append(snapshot.number)
            made.append(freeze_small(table, label="other"))
        return ensure(engine, table, snapshot, **how)

    monkeypatch.setattr(building, "ensure", late)
    assert freeze_small(table, again=False) == made[0]
    assert len(table.snapshot().frozen) == 1
