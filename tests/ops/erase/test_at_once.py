"""An erasure beside others, each let in at a chosen step of it: on one store, in one process.

On Spark: tests/ops/erase/test_erase_at_once_on_spark.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from singerlake.engine.choice import EngineChoice
from singerlake.errors import ConflictError
from singerlake.format.log import Operation
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.erase import table as job
from singerlake.ops.erase.check import check
from singerlake.ops.erase.plan import EraseOptions
from singerlake.ops.erase.sought import Key, KeyNames
from singerlake.ops.vacuum.plan import COMBINE, DELETE, VacuumOptions
from singerlake.ops.vacuum.vacuum import vacuum
from singerlake.overlay.alter import AlterOptions
from tests import erasing
from tests.build import commit_rows
from tests.frozen import HERE
from tests.histories import here
from tests.ops.vacuum.plain_table import states

NAME = TableName("tap", "t")
COLUMNS = {"id": {"type": "integer"}, "name": {"type": "string"}}
WHY = EraseOptions("request 12", lease_wait_seconds=0, lock_wait_seconds=60, stale_seconds=5)


def filled(lake: Lake) -> Table:
    """Two rows that are to go, each written twice; a version between; and one that stays."""
    rows: list[Any] = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}]
    commit_rows(lake, str(NAME), COLUMNS, ["id"], rows)
    table = lake.table(NAME)
    here.freeze(table)
    rows = [{"id": 1, "name": "Ada L."}, {"id": 2, "name": "Rob"}, {"id": 3, "name": "Cy"}]
    commit_rows(lake, str(NAME), COLUMNS, ["id"], rows)
    return table


@pytest.fixture
def engine() -> EngineChoice:
    return HERE


@pytest.fixture
def table(lake: Lake) -> Table:
    return filled(lake)


erase = partial(erasing.erase, options=WHY)


def meanwhile(patch: pytest.MonkeyPatch, step: str, what: Callable[[], object]) -> None:
    """Have something done once, right before a step of the next erasure."""
    plain, left = getattr(job._Job, step), [what]

    def stepped(self: Any, *args: Any) -> Any:
        if left:
            left.pop()()
        return plain(self, *args)

    patch.setattr(job._Job, step, stepped)


def check_nowhere(lake: Lake, table: Table, *ids: str) -> None:
    names = KeyNames.of(table.snapshot())
    found = check(lake, [Key(f"key {one}", one, names) for one in ids], NAME)
    assert found.is_clean
    assert here.problems(table) == []


def ids_at(table: Table) -> dict[int, list[int]]:
    some = states(table, table.snapshot()).items()
    return {at: sorted(row.record["id"] for row in rows) for at, rows in some}


@pytest.mark.usefixtures("many_cases")
def test_two_erasures_and_a_vacuum(
    lake: Lake, table: Table, engine: EngineChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take turns; and who was taken for dead commits nothing by what it had read."""
    parts = (COMBINE, DELETE)
    options = VacuumOptions(retain_seconds=0, guard=False, parts=parts, stale_seconds=5)
    refused = []

    def others() -> None:
        for other in (
            lambda: erase(engine, table, "2"),
            lambda: vacuum(table, options, engine),
        ):
            with pytest.raises(ConflictError, match="another vacuum"):
                other()
            refused.append(other)

    with monkeypatch.context() as patch:
        meanwhile(patch, "_commit", lambda: _taken_for_dead(lake, table, engine))
        with pytest.raises(ConflictError):
            erase(engine, table, "1")
    assert [t.operation for t in table.snapshot().transactions].count(Operation.ERASE) == 1
    assert ids_at(table)[1] == [1]
    with monkeypatch.context() as patch:
        meanwhile(patch, "_commit", others)
        assert erase(engine, table, "1").lines == 2
    assert len(refused) == 2
    check_nowhere(lake, table, "1", "2")
    assert ids_at(table)[3] == [3]


def _taken_for_dead(lake: Lake, table: Table, engine: EngineChoice) -> None:
    """Another finds the lock given up, and erases another row."""
    lake.store.delete(NAME.vacuum_lock)
    assert erase(engine, table, "2").lines == 2


def test_a_reader_keeps_its_rows_until_it_is_done(
    lake: Lake, table: Table, engine: EngineChoice
) -> None:
    with table.lease() as lease:
        before = lease.snapshot
        was = states(table, before)
        done = erase(engine, table, "1")
        assert done.lines == 2
        assert done.left and all("reader" in item.reason for item in done.left)
        assert states(table, before) == was, "by the files that it began with"
        assert ids_at(table)[3] == [2, 3], "and who comes later sees nothing of it"
    assert erase(engine, table, "1").left == []
    check_nowhere(lake, table, "1")


def test_dropped_and_brought_back_meanwhile_and_later(
    lake: Lake, table: Table, engine: EngineChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drop_and_bring_back() -> None:
        drop_table(lake.store, table.snapshot(), AlterOptions(), with_versions=True)
        undrop_table(lake.store, table.snapshot(dropped=True), AlterOptions())

    with monkeypatch.context() as patch:
        meanwhile(patch, "_commit", drop_and_bring_back)
        assert erase(engine, table, "1").lines == 2
    operations = [t.operation for t in table.snapshot().transactions]
    assert operations.index(Operation.ERASE) > operations.index(Operation.UNDROP)
    drop_and_bring_back()
    check_nowhere(lake, table, "1")
    assert ids_at(table)[1] == [2]
