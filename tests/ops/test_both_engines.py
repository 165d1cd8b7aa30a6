"""The same lakes through the same operations, in this process and on Spark: they answer alike."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.format.log import Entry
from singerlake.lake import Lake, Table
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake.ops.freeze_lake import LakeFreezeOptions, freeze_lake, plan
from singerlake.ops.revert import RevertOptions, revert
from singerlake.ops.vacuum.plan import COMBINE, DELETE, PARTS, VacuumOptions
from singerlake.ops.vacuum.vacuum import vacuum
from singerlake.ops.verify.verify import upgrade, verify
from singerlake.rows.blocks import block_tasks
from singerlake.snapshot import building
from tests.build import commit_rows
from tests.needs import MORE
from tests.ops.rows_back import histories
from tests.ops.rows_back.histories import NAME

pytestmark = pytest.mark.usefixtures("each_operation")
CHANGES_BY_RUN = {"commit", "salt", "time", "writer", "previous", "hash", "stands_for"}
"""What no two entries have in common."""
CORPUS: dict[str, Callable[[Lake], Table]] = {
    "random": partial(histories.random_messages, seed=21, keys=["id"]),
    "compound keys": partial(histories.random_messages, seed=22, keys=["part", "id"]),
    "keyless": partial(histories.random_messages, seed=23, keys=[]),
    "all kinds of keys": histories.keys_of_all_kinds,
    "other schemas": histories.other_schemas_and_defaults,
    "activations": histories.without_a_key,
}


def entry(table: Table, number: int) -> dict[str, Any]:
    """An entry of the log as plain data, but for ids and times."""
    (found,) = [one for one in table.entries() if one.number == number]
    return said(found)


def said(found: Entry) -> dict[str, Any]:
    members = msgspec.to_builtins(found)
    return {name: value for name, value in members.items() if name not in CHANGES_BY_RUN}


@pytest.fixture
def tasks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "one task":
        monkeypatch.setattr(block_tasks, "TASK_BYTES", 2_000)
        monkeypatch.setattr(block_tasks, "_WORTHWHILE", 1)
    if request.param == "layers":
        monkeypatch.setattr(building, "LEAST_ROWS", 1)
        monkeypatch.setattr(building, "SHARE", 1)


@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize(
    ("tasks", "name"),
    [
        pytest.param("one task", "all kinds of keys", marks=MORE),
        ("one task", "other schemas"),
        pytest.param("one task", "activations", marks=MORE),
        pytest.param("many tasks", "random", marks=MORE),
        ("many tasks", "keyless"),
        pytest.param("layers", "compound keys", marks=MORE),
    ],
    indirect=["tasks"],
)
def test_freeze_verify_and_revert_answer_alike(spark: SparkSession, lake: Lake, name: str) -> None:
    CORPUS[name](lake)
    other = Lake.open(str(shutil.copytree(lake.store.uri, f"{lake.store.uri}-spark")))
    found = []
    for one, choice in ((lake, EngineChoice(LOCAL)), (other, EngineChoice.of(spark=spark))):
        table = one.find(NAME)[0]
        head = table.snapshot().number
        versions = [
            freeze(table, FreezeOptions(at=number, label=f"v{number}"), choice)
            for number in (1, head)
        ]
        assert all(version.new for version in versions)
        assert not freeze(table, FreezeOptions(at=1), choice).new
        reports = [verify(table, None, choice), verify(table, 1, choice)]
        would = revert(table, RevertOptions(1, dry_run=True), choice)
        done = revert(table, RevertOptions(1), choice)
        assert (would.put_back, would.deleted) == (done.put_back, done.deleted)
        again = freeze(table, None, choice).version
        assert again.rows == versions[0].version.rows
        checked = upgrade(table, choice)
        entries = [entry(table, number) for number in (head + 1, head + 2)]
        found.append((reports, would, done, again.fingerprint, checked, without_times(entries)))
    assert found[0] == found[1]
    assert not found[0][0][0].problems


def without_times(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for one in entries:
        del one["version"]["time"]
    return entries


def test_lake_versions_have_one_fingerprint(spark: SparkSession, lake: Lake) -> None:
    histories.random_messages(lake, 24, ["id"])
    other = Lake.open(str(shutil.copytree(lake.store.uri, f"{lake.store.uri}-spark")))
    made = []
    for one, choice in ((lake, EngineChoice(LOCAL)), (other, EngineChoice.of(spark=spark))):
        options = LakeFreezeOptions("q3")
        done = freeze_lake(one, plan(one, one.tables, options), options, choice)
        assert done.version is not None
        made.append((done.new, done.version.fingerprint, [*done.made], [*done.failed]))
    assert made[0] == made[1]


@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize(
    ("tasks", "name"),
    [
        pytest.param("one task", "all kinds of keys", marks=MORE),
        ("one task", "activations"),
        pytest.param("many tasks", "random", marks=MORE),
        pytest.param("many tasks", "keyless", marks=MORE),
        ("many tasks", "other schemas"),
        pytest.param("many tasks", "compound keys", marks=MORE),
    ],
    indirect=["tasks"],
)
def test_vacuums_leave_the_same(spark: SparkSession, lake: Lake, name: str) -> None:
    """History goes before, between and behind versions, and files are compacted."""
    table = CORPUS[name](lake)
    freeze(table, FreezeOptions(at=2), EngineChoice(LOCAL))
    other = Lake.open(str(shutil.copytree(lake.store.uri, f"{lake.store.uri}-spark")))
    options = VacuumOptions(retain_seconds=0, parts=PARTS, guard=False)
    compact = replace(options, parts=(COMBINE, DELETE))
    left = []
    for one, choice in ((lake, EngineChoice(LOCAL)), (other, EngineChoice.of(spark=spark))):
        table = one.find(NAME)[0]
        head = table.snapshot().number
        done = [vacuum(table, compact, choice), vacuum(table, options, choice)]
        assert done[0].files_in > done[0].files_out > 0
        freeze(table, None, EngineChoice(LOCAL))
        commit_rows(one, NAME, histories.ROW, [], [{"id": 1, "n": n} for n in range(40)], 9)
        done += [vacuum(table, options, choice), vacuum(table, options, choice)]
        assert done[-1].transaction == 0, "nothing is left to do"
        numbers = range(head + 1, table.snapshot().number + 1)
        entries = [without_files(entry(table, number)) for number in numbers]
        entries = [one for one in entries if one["operation"] != "freeze"]
        blocks = [table.read_block(block) for block in table.snapshot().blocks]
        left.append((done, entries, blocks))
        assert not verify(table, None, EngineChoice(LOCAL)).problems
    for here, there in zip(left[0][0], left[1][0], strict=True):
        assert here == there
    assert left[0][1:] == left[1][1:]
    assert [one["operation"] for one in left[0][1]].count("drop-history") == 2


def without_files(said: dict[str, Any]) -> dict[str, Any]:
    """An entry without the names of its files, which nobody chose."""
    for member in ("deletes", "deleted"):
        said[member] = len(said.get(member, ()))
    for block in (*said.get("moved", ()), *said.get("blocks", ())):
        block.pop("file", None)
    return said
