"""Undoing transactions, against a model in plain Python that knows only states and their rows."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.engine.choice import EngineChoice
from singerlake.errors import ConflictError, ViolationsError
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake, Table
from singerlake.ops import undo as ops
from singerlake.ops.rows_back import merge
from singerlake.ops.rows_back.undo_plan import OnConflict
from singerlake.ops.undo import Conflict, Undone, UndoOptions
from singerlake.ops.verify.plan import check_log
from singerlake.overlay.alter import alter
from singerlake.overlay.overlay_changes import with_constraint
from singerlake.snapshot import building
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.faults import plain
from tests.histories.model import Message, fold
from tests.ops.vacuum.plain_table import freeze

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROW: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": ["null", "integer"]}}
GONE = "_sdc_deleted_at"
AT = "2026-01-02T03:04:05Z"
LAST = 9
FROZEN = 5
"""The transaction of the histories that is a freeze."""
Texts = dict[Any, str]


def undo(table: Table, engine: EngineChoice, numbers: Sequence[int], **how: Any) -> Undone:
    return ops.undo(table, UndoOptions(numbers, **how), engine)


def state(lake: Lake, upto: int | None = None) -> list[dict[str, Any]]:
    """The rows, by the format's contract alone."""
    return plain.tables(plain.dump_folder(Path(lake.store.uri)))["tap.s"].state(upto)


def texts(rows: Sequence[dict[str, Any]]) -> Texts:
    return {row["id"]: json.dumps(row, sort_keys=True) for row in rows}


@dataclass
class History:
    """A table whose keys each have a history of their own: hundreds of examples in one."""

    lake: Lake
    table: Table
    states: list[Texts]
    """After each transaction, and before the first."""

    def undone(self, numbers: Sequence[int], mode: OnConflict) -> tuple[Texts, set[Any]]:
        """The rows without these transactions, and those that were touched again."""
        groups: list[list[int]] = []
        for number in sorted(numbers):
            between = range(groups[-1][-1] + 1, number) if groups else [0]
            if all(one == FROZEN for one in between):
                groups[-1].append(number)
            else:
                groups.append([number])
        now, touched = dict(self.states[-1]), set()
        for group in reversed(groups):
            before, at = self.states[group[0] - 1], self.states[group[-1]]
            for key in {*before, *at}:
                was, then = before.get(key), at.get(key)
                if was == then or now.get(key) == was:
                    continue
                if now.get(key) != then:
                    touched.add(key)
                    if mode is not OnConflict.UNDO:
                        continue
                now.pop(key, None)
                if was is not None:
                    now[key] = was
        return now, touched


def history(folder: Path, seed: int, *, activations: bool) -> History:
    lake = Lake.open(str(folder), create=True)
    chance = random.Random(seed)
    every: list[Message] = []
    states: list[Texts] = [{}]
    for number in range(1, LAST + 1):
        if number == FROZEN:
            freeze(lake.find("tap.s")[0], 2)
            states.append(states[-1])
            continue
        some: list[Message] = []
        for key in chance.choices(range(150), k=70 if number > 1 else 130):
            record: dict[str, Any] = {"id": key, "n": chance.randrange(3)}
            if chance.random() < 0.2:
                record[GONE] = AT
            some.append((record, chance.choice([1, 2])) if activations else record)
        if activations and number % 3 == 0:
            some.insert(chance.randrange(len(some)), chance.choice([1, 2]))
        every += some
        commit_rows(lake, "tap.s", ROW, ["id"], some, block_rows=20)
        states.append(texts(fold(every, ["id"])))
    return History(lake, lake.find("tap.s")[0], states)


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[History]]:
    folder = tmp_path_factory.mktemp("undo")
    yield [
        history(folder / "plain", 1, activations=False),
        history(folder / "versions", 2, activations=True),
    ]


@pytest.mark.parametrize(
    ("which", "numbers", "mode"),
    [
        (0, [4, 6], OnConflict.FAIL),
        (0, [1, 3, 7, 8], OnConflict.UNDO),
        (1, [2, 3, 8], OnConflict.KEEP),
        # Its history is in one of the others, its mode in another.
        pytest.param(1, [3, 6, 9], OnConflict.UNDO, marks=pytest.mark.variant),
    ],
)
def test_what_would_become_of_each_row(
    engine: EngineChoice,
    histories: list[History],
    which: int,
    numbers: list[int],
    mode: OnConflict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = histories[which]
    goal, touched = told.undone(numbers, mode)
    now = told.states[-1]
    with monkeypatch.context() as patch:
        patch.setattr(building, "LEAST_ROWS", 0)
        done = undo(told.table, engine, numbers, on_conflict=mode, dry_run=True)
    assert undo(told.table, engine, numbers, on_conflict=mode, dry_run=True) == done
    assert done.put_back == sum(now.get(key) != text for key, text in goal.items())
    assert done.deleted == len(now.keys() - goal.keys())
    assert done.conflicts == len(touched)
    assert {int(one.row) for one in done.first_conflicts} == touched
    assert all(one.deleted is (int(one.row) not in now) for one in done.first_conflicts)
    assert done.transaction is None
    assert told.table.snapshot().number == LAST
    assert touched and done.put_back and done.deleted, "nothing is tried"


def test_a_run_does_what_its_dry_run_said(engine: EngineChoice, histories: list[History]) -> None:
    for told, numbers in zip(histories, ([4, 6, 8], [2, 6]), strict=True):
        goal, _ = told.undone(numbers, OnConflict.UNDO)
        dry = undo(told.table, engine, numbers, on_conflict=OnConflict.UNDO, dry_run=True)
        done = undo(told.table, engine, numbers, on_conflict=OnConflict.UNDO)
        assert (done.put_back, done.deleted, done.conflicts) == (
            dry.put_back,
            dry.deleted,
            dry.conflicts,
        )
        rows = [{k: v for k, v in row.items() if k != GONE} for row in state(told.lake)]
        assert texts(rows) == goal
        # An undo of the undo leads back to where it began.
        again = undo(told.table, engine, [done.transaction or 0])
        assert (again.put_back + again.deleted, again.conflicts) == (
            done.put_back + done.deleted,
            0,
        )
        assert texts(state(told.lake)) == told.states[-1]
        assert check_log(told.table.store, told.table.name).problems == []


def test_a_few_rows_are_taken_back_without_an_index(
    engine: EngineChoice, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "LEAST_ROWS", 0)

    def rows(*ids: int, n: int) -> list[Message]:
        return [{"id": one, "n": n} for one in ids]

    commit_rows(lake, "tap.s", ROW, ["id"], rows(*range(40), n=1), block_rows=10)
    commit_rows(lake, "tap.s", ROW, ["id"], rows(7, 31, 50, n=2))
    commit_rows(lake, "tap.s", ROW, ["id"], rows(8, 31, n=3))
    table = lake.find("tap.s")[0]
    done = undo(table, engine, [2], on_conflict=OnConflict.KEEP)
    assert (done.put_back, done.deleted, done.conflicts) == (1, 1, 1)
    assert {row["id"]: row["n"] for row in state(lake)} == dict.fromkeys(range(40), 1) | {
        8: 3,
        31: 3,
    }
    assert [*lake.store.folders(table.name.indexes)] == []


@pytest.fixture
def orders(lake: Lake) -> Lake:
    """Transaction 2 changes 1 and 2, deletes 3, brings 4 under a new column; 3 touches 2 again."""
    old = '{"id": 1, "n": 1.0, "hidden": 1.10}'
    commit_rows(lake, "tap.s", {**ROW, "n": {}}, ["id"], [old, {"id": 2}, {"id": 3, "n": 3}])
    wide = {**ROW, "n": {}, "m": {"type": "integer"}}
    some: list[Any] = [{"id": 1, "m": 1}, {"id": 2, "m": 1}, {"id": 3, GONE: AT}, {"id": 4}]
    commit_rows(lake, "tap.s", wide, ["id"], some)
    commit_rows(lake, "tap.s", wide, ["id"], [{"id": 2, "m": 7}])
    return lake


def test_what_is_said_and_done_on_the_command_line(engine: EngineChoice, orders: Lake) -> None:
    table = orders.find("tap.s")[0]
    on = ("--engine", engine.name)
    refused = run(orders, "undo", "tap.s", *on, "2")
    assert refused.exit_code == 4, refused.output
    assert "1 row of tap.s that transaction 2 wrote was changed later" in refused.stderr
    assert "id 2: written again by transaction 3" in refused.stderr
    assert "--on-conflict keep" in refused.stderr and "--on-conflict undo" in refused.stderr
    would = run(orders, "undo", "tap.s", *on, "2", "--dry-run")
    assert "(dry run): 2 rows put back, 1 deleted" in would.stdout
    assert "id 2: written again by transaction 3" in would.stdout
    assert "and later transactions used it: the schema stays" in would.stderr
    assert table.snapshot().number == 3
    done = run_json(
        orders, "undo", "tap.s", *on, "2", "--on-conflict", "keep", "--comment", "bad sync"
    )
    assert (done["transaction"], done["put_back"], done["deleted"]) == (4, 2, 1)
    assert done["first_conflicts"] == [{"row": "2", "transaction": 3, "deleted": False}]
    by_id = {row["id"]: row for row in state(orders)}
    assert by_id == {
        1: {"id": 1, "n": 1.0, "hidden": 1.10},
        2: {"id": 2, "m": 7},
        3: {"id": 3, "n": 3},
    }
    lines = b"".join(table.read_block(block) for block in table.snapshot().blocks_after(3))
    assert b'{"id": 1, "n": 1.0, "hidden": 1.10}' in lines, "the bytes that it had"
    entry = list(table.entries())[3]
    said = {name: entry.metadata[name] for name in ("undone", "conflicts", "conflicts_kept")}
    assert said == {"undone": [2], "conflicts": 1, "conflicts_kept": "ours"}
    assert "without transaction 2: bad sync" in run(orders, "history", "tap.s").stdout
    again = run(orders, "undo", "tap.s", *on, "2", "--on-conflict", "keep")
    assert "nothing of transaction 2 is left to undo" in again.stdout
    assert table.snapshot().number == 4


def test_the_schema_goes_back_where_nobody_wrote_under_it_since(
    engine: EngineChoice, orders: Lake
) -> None:
    table = orders.find("tap.s")[0]
    first = table.snapshot().summary(1).schema_hash
    done = undo(table, engine, [2, 3])
    assert (done.transaction, done.schema_hash, done.conflicts) == (4, first, 0)
    assert table.snapshot().schema_hash == first
    assert state(orders) == state(orders, 1)


def test_a_first_transaction_leaves_what_came_after(engine: EngineChoice, orders: Lake) -> None:
    table = orders.find("tap.s")[0]
    done = undo(table, engine, [1], on_conflict=OnConflict.KEEP)
    assert (done.put_back, done.deleted, done.conflicts) == (0, 0, 2)
    assert done.transaction is None
    done = undo(table, engine, [1], on_conflict=OnConflict.UNDO)
    assert [row["id"] for row in state(orders)] == [4]
    assert done.first_conflicts == [Conflict("1", 2, False), Conflict("2", 3, False)]


@pytest.mark.usefixtures("each_operation")
def test_rows_that_break_what_is_asked_now_do_not_come_back(
    spark: SparkSession, orders: Lake
) -> None:
    engine = EngineChoice.of(spark=spark)
    table = orders.find("tap.s")[0]
    few = Constraint("enum", ["id"], values=[1, 2, 4])
    for name, one in (("few", few), ("apart", Constraint("unique", ["m"]))):
        asked = partial(with_constraint, name=name, constraint=one)
        alter(table.store, table.snapshot(), asked)
    with pytest.raises(ViolationsError, match="that would come back violate the current"):
        undo(table, engine, [2], on_conflict=OnConflict.KEEP)
    done = undo(table, engine, [2], on_conflict=OnConflict.KEEP, allow_violations=True)
    assert done.violations == ["few"]


@pytest.mark.parametrize("activates", [False, True])
def test_without_a_key_rows_go_by_their_places(
    engine: EngineChoice, lake: Lake, activates: bool
) -> None:
    for number in range(1, 5):
        some: list[Any] = [({"id": n, "n": number}, number) for n in range(2)]
        if activates and number == 3:
            some.insert(1, 3)
        commit_rows(lake, "tap.s", ROW, [], some)
    table = lake.find("tap.s")[0]
    dry = undo(table, engine, [3], dry_run=True)
    done = undo(table, engine, [3])
    assert (dry.put_back, dry.deleted) == (done.put_back, done.deleted)
    assert (done.put_back, done.deleted, done.whole) == (4 if activates else 0, 2, True)
    assert sorted(row["n"] for row in state(lake)) == [1, 1, 2, 2, 4, 4]
    back = undo(table, engine, [5])
    left = [3, 3, 4, 4] if activates else [1, 1, 2, 2, 3, 3, 4, 4]
    assert sorted(row["n"] for row in state(lake)) == left
    assert back.conflicts == 0


def test_somebody_else_commits_meanwhile(
    engine: EngineChoice, orders: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = merge.tally

    def late(*args: Any) -> Any:
        commit_rows(orders, "tap.s", ROW, ["id"], [{"id": 1, "n": 9}])
        return real(*args)

    monkeypatch.setattr(merge, "tally", late)
    with pytest.raises(ConflictError, match="run it again"):
        undo(orders.find("tap.s")[0], engine, [2], on_conflict=OnConflict.KEEP)
    assert orders.find("tap.s")[0].snapshot().number == 4
    assert {row["id"]: row for row in state(orders)}[1] == {"id": 1, "n": 9}
