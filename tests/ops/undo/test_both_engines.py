"""The same transactions are undone in this process and on Spark: the same lines are written."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import SingerlakeError
from singerlake.lake import Lake, Table
from singerlake.ops.freeze import freeze
from singerlake.ops.rows_back import merge
from singerlake.ops.rows_back.undo_plan import OnConflict
from singerlake.ops.undo import UndoOptions, undo
from tests.needs import MORE
from tests.ops.rows_back.histories import NAME
from tests.ops.rows_back.written import written
from tests.ops.test_both_engines import CORPUS, tasks

__all__ = ["tasks"]
pytestmark = pytest.mark.usefixtures("each_operation")


def answers(table: Table, choice: EngineChoice, numbers: Sequence[int]) -> list[Any]:
    """What undos of some transactions say and write, each alone and then all together."""
    found: list[Any] = []
    head = table.snapshot().number
    for some in (*([number] for number in numbers), [*numbers]):
        for mode in OnConflict:
            options = UndoOptions(some, mode, dry_run=mode is OnConflict.KEEP)
            try:
                done = undo(table, options, choice)
            except SingerlakeError as error:
                found.append((type(error), str(error)))
                continue
            found.append(asdict(done))
            if done.transaction is not None:
                found.append(written(table, done.transaction))
    assert table.snapshot().number > head, "nothing is tried"
    return [*found, freeze(table, None, choice).version.fingerprint]


@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize(
    ("tasks", "name", "numbers"),
    [
        pytest.param("one task", "all kinds of keys", [1, 2], marks=MORE),
        ("one task", "other schemas", [1, 3, 4]),
        pytest.param("one task", "activations", [1, 2], marks=MORE),
        pytest.param("many tasks", "random", [2, 4], marks=MORE),
        ("many tasks", "keyless", [4]),
        pytest.param("layers", "compound keys", [1, 3], marks=MORE),
    ],
    indirect=["tasks"],
)
def test_undos_answer_alike(
    spark: SparkSession, lake: Lake, name: str, numbers: Sequence[int]
) -> None:
    CORPUS[name](lake)
    other = Lake.open(str(shutil.copytree(lake.store.uri, f"{lake.store.uri}-spark")))
    here = answers(lake.find(NAME)[0], EngineChoice(LOCAL), numbers)
    assert here == answers(other.find(NAME)[0], EngineChoice.of(spark=spark), numbers)


def test_keys_of_few_rows_are_looked_for_alike(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    few = merge._few_keys

    def noted(*args: Any) -> Any:
        found = few(*args)
        asked.append(found is not None)
        return found

    monkeypatch.setattr(merge, "_few_keys", noted)
    monkeypatch.setattr("singerlake.snapshot.building.LEAST_ROWS", 1)
    CORPUS["random"](lake)
    other = Lake.open(str(shutil.copytree(lake.store.uri, f"{lake.store.uri}-spark")))
    options = UndoOptions([3], OnConflict.KEEP)
    found = []
    for one, choice in ((lake, EngineChoice(LOCAL)), (other, EngineChoice.of(spark=spark))):
        done = undo(one.find(NAME)[0], options, choice)
        assert done.transaction is not None
        found.append((done, written(one.find(NAME)[0], done.transaction)))
    assert found[0] == found[1]
    assert asked == [True, True]
