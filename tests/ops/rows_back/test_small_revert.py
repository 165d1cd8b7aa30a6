"""A small table is turned back in this process; that it is as by Spark: tests/histories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from singerlake.engine import choice as engines
from singerlake.engine.choice import EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import ConflictError, NotFoundError, UsageError
from singerlake.lake import Lake, Table
from singerlake.log.lease import leases
from singerlake.log.writer import WriteOptions
from singerlake.ops.revert import RevertOptions, revert
from singerlake.ops.rows_back import difference
from singerlake.ops.rows_back.revert import Reverted
from singerlake.snapshot import index
from singerlake_cli import shared
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.faults import plain
from tests.frozen import revert_here as revert_small
from tests.frozen import verify_here
from tests.ops.rows_back import histories
from tests.ops.rows_back.histories import NAME


def state(lake: Lake, number: int | None = None) -> list[str]:
    """The rows, by the format's contract alone."""
    table = plain.tables(plain.dump_folder(Path(lake.store.uri)))[NAME]
    return sorted(map(repr, table.state(number)))


@pytest.mark.parametrize("keys", [["id"], ["part", "id"], []])
@pytest.mark.parametrize("seed", range(4))
def test_random_histories_go_back_and_forth(lake: Lake, seed: int, keys: list[str]) -> None:
    table = histories.random_messages(lake, seed, keys)
    states = {number: state(lake, number) for number in range(1, 5)}
    for number in (2, 4, 1, 3):
        before = state(lake)
        said = revert_small(table, number, dry_run=True)
        assert state(lake) == before
        done = revert_small(table, number)
        assert state(lake) == states[number]
        assert done.put_back + done.unchanged == len(states[number])
        assert (done.put_back, done.deleted) == (said.put_back, said.deleted)
        if keys:
            assert len(before) - (done.deleted or 0) <= done.put_back + done.unchanged
        else:
            assert (done.whole, done.deleted) == (True, None)
    assert not [*leases(table.store, table.name)]
    report = verify_here(table)
    assert report is not None
    assert report.problems == []


def test_what_is_written(lake: Lake) -> None:
    table = histories.other_schemas_and_defaults(lake)
    head = table.snapshot()
    options = WriteOptions(metadata={"comment": "back"})
    done = revert_small(table, 1, options=options)
    # 1 and 4 show another default, 2 has another byte, 3 and 5 changed; 20 goes.
    assert done == Reverted(1, 5, 5, 1, 7, head.at(1).schema_hash)
    *_, entry = table.entries()
    assert entry.metrics == {"put_back": 5, "deleted": 1}
    assert entry.metadata is not None
    assert (entry.metadata["reverted_to"], entry.metadata["comment"]) == (1, "back")
    written = {line for block in entry.blocks for line in lines(table, block.number)}
    for n in range(1, 6):  # as they were, with what they showed of the column that came by hand
        begin = b'"record": {"id": %d, "name": "n%d", "kept": 1.10' % (n, n)
        (line,) = [line for line in written if begin in line]
        assert b'"c": 0' in line
    (line,) = [line for line in written if b'"id":20,' in line]
    assert b'"_sdc_deleted_at"' in line
    built = index.sound(table, head.at(1))
    assert built is not None
    assert built.marker.rows == 12, "it is kept for others"


def lines(table: Table, number: int) -> list[bytes]:
    """The RECORD lines of a block."""
    (block,) = [one for one in table.snapshot().blocks if one.number == number]
    return [line for line in table.read_block(block).splitlines() if b'"RECORD"' in line]


def test_nothing_to_do(lake: Lake) -> None:
    table = histories.keys_of_all_kinds(lake)
    assert revert_small(table, 2).transaction is None
    assert revert_small(table, 1).transaction == 3
    again = revert_small(table, 1)
    assert (again.transaction, again.put_back, again.deleted) == (None, 0, 0)
    assert table.snapshot().number == 3
    with pytest.raises(NotFoundError, match="no transaction 9"):
        revert_small(table, 9)
    with pytest.raises(ConflictError):
        revert_small(table, 2, if_transaction=1)


def test_keys_that_cannot_be_read_any_more(lake: Lake) -> None:
    table = histories.keys_that_cannot_be_read(lake)
    done = revert_small(table, 1)
    assert (done.put_back, done.deleted, done.whole) == (2, None, True)
    assert state(lake) == state(lake, 1)


def test_what_came_since_counts_too(lake: Lake, no_java: EngineChoice) -> None:
    table = histories.random_messages(lake, 1, ["id"])
    bytes_ = sum(block.bytes for block in table.snapshot().blocks)
    with pytest.raises(UsageError, match="Java starts"):
        revert(table, RevertOptions(1), replace(no_java, limit=Work(bytes_ - 1, 10_000)))
    done = revert(table, RevertOptions(1), replace(no_java, limit=Work(bytes_, 10_000)))
    assert done.transaction == table.snapshot().number


@pytest.fixture
def java_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> NoReturn:
        raise UsageError("Java starts")

    monkeypatch.setattr(shared, "begin_spark", started)
    monkeypatch.setattr(shared, "start_spark", started)


@pytest.mark.usefixtures("java_fails")
def test_the_command_starts_no_java_for_a_small_table(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories.keys_of_all_kinds(lake)
    back = ("revert", NAME, "--to-transaction", "1")
    for more in (["--master", "local[1]"], ["--conf", "spark.x=y"]):
        assert "Java starts" in run(lake, *back, *more).stderr
    with monkeypatch.context() as patch:
        patch.setattr(engines, "SMALL", Work(100, 1_000))
        assert "Java starts" in run(lake, *back).stderr
    would = run_json(lake, *back, "--dry-run")
    assert (would["put_back"], would["deleted"], would["transaction"]) == (3, 1, None)
    done = run_json(lake, *back, "--comment", "x")
    assert (done["put_back"], done["deleted"], done["transaction"]) == (3, 1, 3)
    assert "nothing to do" in run(lake, *back).stdout
    assert run_json(lake, *back)["unchanged"] == 48


def test_a_program_starts_none_either(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    import singerlake

    def started(*_: object) -> Any:
        raise UsageError("Java starts")

    monkeypatch.setattr(EngineChoice, "spark_engine", started)
    histories.keys_of_all_kinds(lake)
    table = singerlake.Lake.open(lake.store.uri).table(NAME)
    assert table.revert(transaction=1, comment="x").transaction == 3
    for how in ({"engine": "spark"}, {"spark": SimpleNamespace()}):
        with pytest.raises(UsageError, match="Java starts"):
            table.revert(transaction=2, **how)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs no session"):
        table.revert(transaction=2, engine="local", spark=SimpleNamespace())  # type: ignore[arg-type]
    monkeypatch.setattr(engines, "SMALL", Work())
    with pytest.raises(UsageError, match="Java starts"):
        table.revert(transaction=2)
    local = singerlake.open(lake.store.uri, engine="local").table(NAME)
    assert local.revert(transaction=2).transaction == 4


def test_a_commit_meanwhile_is_a_conflict_and_nothing_changes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = histories.random_messages(lake, 2, ["id"])
    find = difference.difference

    def late(*found: Any) -> Any:
        commit_rows(lake, NAME, histories.ROW, ["id"], [{"id": 1000}])
        return find(*found)

    def files() -> int:
        return sum("singer.gz" in item.key for item in table.store.list(table.name.folder))

    before, there = state(lake), files()
    monkeypatch.setattr(difference, "difference", late)
    with pytest.raises(ConflictError):
        revert_small(table, 1)
    assert len(state(lake)) == len(before) + 1
    assert files() == there + 1, "its own are gone again"
