"""What can be undone is known before Java starts, and what cannot says what to do instead."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.errors import ConflictError, NotFoundError, UsageError
from singerlake.lake import Lake, Table
from singerlake.ops.delete_version import delete_version
from singerlake.ops.drop import drop_table
from singerlake.ops.rows_back.revert_plan import commit_revert
from singerlake.ops.rows_back.undo_plan import UndoPlan, kept, plan
from singerlake.overlay.alter import AlterOptions
from tests.build import commit_rows
from tests.cli.call import run
from tests.ops.vacuum.plain_table import freeze

ROW: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": ["null", "integer"]}}
WIDE = {**ROW, "m": {"type": "integer"}}


def sync(lake: Lake, properties: dict[str, Any] = ROW, keys: str = "id", *more: Any) -> None:
    commit_rows(lake, "tap.s", properties, keys.split(), [*more, {"id": 1}])


@pytest.fixture
def table(lake: Lake) -> Table:
    """Syncs 1, 2, 4 and 6; 3 freezes the first, 5 is said of a column."""
    for number in (1, 2, 4, 6):
        if number == 4:
            freeze(lake.find("tap.s")[0], 1)
        if number == 6:
            run(lake, "alter", "tap.s", "describe", "n", "how many")
        sync(lake)
    return lake.find("tap.s")[0]


def planned(table: Table, *numbers: int, **more: Any) -> UndoPlan:
    return plan(table.store, table.snapshot(), numbers, **more)


def test_neighbours_are_undone_as_one(table: Table) -> None:
    for numbers, groups in (
        ([2], [[2]]),
        ([4, 2, 2], [[2, 4]]),  # only a freeze in between
        ([6, 2], [[2], [6]]),
        ([6, 1, 2], [[1, 2], [6]]),
        ([4, 6], [[4, 6]]),
    ):
        wanted = planned(table, *numbers)
        assert [list(group.numbers) for group in wanted.groups] == groups
        assert wanted.numbers == sorted(set(numbers))
    assert planned(table, 1).groups[0].before is None
    assert planned(table, 2).groups[0].blocks == (1, 2)


def test_what_cannot_be_undone(table: Table, lake: Lake) -> None:
    delete_version(lake.store, table.snapshot(), "1", "wrong")
    for number, error, says in (
        (3, UsageError, "is a freeze, which changed no row: there is nothing to undo"),
        (7, UsageError, "is a delete-version, which changed no row"),
        (5, UsageError, "is an alter, and an override of columns"),
        (8, NotFoundError, "its last is 7"),
    ):
        with pytest.raises(error, match=says):
            planned(table, 2, number)
    with pytest.raises(ConflictError, match="not 2 any more"):
        planned(table, 2, if_transaction=2)
    with pytest.raises(UsageError, match="'undone' is written by Singerlake"):
        kept({"undone": 1}, None)


def test_a_key_that_is_another_now(table: Table, lake: Lake) -> None:
    sync(lake, ROW, "id n")
    with pytest.raises(UsageError, match="--to-transaction 1"):
        planned(table, 2)
    sync(lake, ROW, "")
    with pytest.raises(UsageError, match="the key of tap.s has changed"):
        planned(table, 2)


def test_without_a_key_nothing_may_have_written_all_rows_since(lake: Lake) -> None:
    for more in ([], [7], []):
        sync(lake, ROW, "", *more)
    table = lake.find("tap.s")[0]
    for number in (2, 3):
        planned(table, number)
    said = r"transaction 2 has written its rows again.*singerlake drop tap\.s"
    with pytest.raises(UsageError, match=said):
        planned(table, 1)


def test_the_schema_goes_back_only_with_all_that_was_written_under_it(lake: Lake) -> None:
    for properties in (ROW, WIDE, WIDE, {**WIDE, "x": {}}):
        sync(lake, properties)
    table = lake.find("tap.s")[0]
    hashes = [table.snapshot().summary(number).schema_hash for number in range(1, 5)]
    for numbers, after, stays in (
        ([4], hashes[2], False),
        ([3], hashes[3], False),
        ([2], hashes[3], False),
        ([3, 4], hashes[2], False),
        ([2, 3, 4], hashes[0], False),
        ([2, 4], hashes[2], False),
    ):
        wanted = planned(table, *numbers)
        assert (wanted.schema_hash, wanted.schema_stays) == (after, stays), numbers
    sync(lake, {**WIDE, "x": {}})
    assert planned(table, 4).schema_stays
    assert planned(table, 4).schema_hash == hashes[3]


def test_a_table_that_was_dropped_before(table: Table, lake: Lake) -> None:
    drop_table(lake.store, table.snapshot(), AlterOptions(), with_versions=True)
    sync(lake)
    sync(lake)
    assert planned(table, 8).groups[0].before is None
    for number, error in ((7, NotFoundError), (2, NotFoundError)):
        with pytest.raises(error):
            planned(table, number)


def test_rows_that_came_in_between_are_a_conflict(table: Table, lake: Lake) -> None:
    wanted = planned(table, 2)

    def commit() -> None:
        commit_revert(
            lake.store, wanted, [], {}, writer_id="w", metrics={}, metadata={"undone": [2]}
        )

    freeze(table, 2)
    commit()
    with pytest.raises(ConflictError, match="run it again"):
        commit()


def test_what_is_asked_wrongly(table: Table, lake: Lake) -> None:
    for args, says in (
        (["x"], "'x' is not a transaction number"),
        ([","], "',' is not a transaction number"),
        ([], "Missing argument 'NUMBER...'"),
        (["2", "3"], "is a freeze"),
        (["2", "--metadata", "undone=1"], "rename it"),
    ):
        result = run(lake, "undo", "tap.s", *args)
        assert result.exit_code == 2, (args, result.output)
        assert says in result.stderr, args
