"""Changes of rows beside everything else: one stops at a very operation, the other runs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.errors import ConflictError
from singerlake.lake import Lake, Table
from singerlake.ops.change.job import Changed
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.drop import drop_table
from singerlake.overlay.alter import AlterOptions
from tests.build import commit_rows, retype
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import revert_on_spark as revert
from tests.histories.test_interleavings import ROW, World
from tests.ops.change.row_sets import change, row_set
from tests.sql.index_frames import state_content

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("quick_plans")
ENTRY = ("put", "transactions/")
LOCK = ("put", "singerlake.lock")
"""A change has worked out and not yet written; while it writes, others of its schema wait."""


class Changing(World):
    """Rows 1 to 3 with n = 2, which block 3 holds; transaction 4 froze the state at 1."""

    def change(self, table: Table, *rows: dict[str, Any], **options: Any) -> Changed:
        return change(
            self.spark,
            table,
            lambda present: [row_set(self.spark, present, rows, names=["id", "n"])],
            Mode.UPSERT,
            options=ChangeOptions(**options),
        )

    def stop_again(self, point: tuple[str, str], work: Any, *, skip: int = 0) -> None:
        self.store.reached = False
        self.store.stop(*point, work, skip=skip)


@pytest.fixture
def world(spark: SparkSession, lake: Lake) -> Changing:
    return Changing(spark, lake)


def test_somebody_syncs_while_a_change_has_not_written_yet(world: Changing) -> None:
    """Another row is theirs; the same row is mine on top of theirs, if I did not go by the old."""
    world.stop_again(LOCK, lambda: world.append(2, 4))
    assert world.change(world.stopping, {"id": 1, "n": 5, "_row_version": 3}).updated == 1
    world.rows |= {1: 5, 2: 9, 4: 9}
    assert world.present() == world.rows
    world.stop_again(LOCK, lambda: world.append(1, n=8))
    with pytest.raises(
        ConflictError, match=r"id 1: was row version 5 when read, and is row version 6 now"
    ):
        world.change(world.stopping, {"id": 1, "n": 6, "_row_version": 5}, {"id": 2, "n": 6})
    world.rows |= {1: 8}
    assert world.present() == world.rows
    # Theirs is what mine is to be: there is nothing left to do.
    world.stop_again(LOCK, lambda: world.append(1, n=7))
    done = world.change(world.stopping, {"id": 1, "n": 7})
    assert (done.transaction, done.unchanged) == (None, 1)
    world.stop_again(LOCK, lambda: world.append(3, n=7))
    assert world.change(world.stopping, {"id": 3, "_delete": True}).deleted == 1
    world.rows[1] = 7
    del world.rows[3]
    world.check()


def test_two_changes_at_once(world: Changing) -> None:
    """Of two who have read the same row one is refused; of other rows both are kept."""

    def theirs() -> None:
        world.change(world.plain, {"id": 1, "n": 7, "_row_version": 3}, {"id": 4, "n": 7})

    world.stop_again(LOCK, theirs)
    with pytest.raises(
        ConflictError, match=r"id 1: was row version 3 when read, and is row version 4 now"
    ):
        world.change(world.stopping, {"id": 1, "n": 5, "_row_version": 3})
    world.rows |= {1: 7, 4: 7}
    assert world.present() == world.rows
    world.stop_again(LOCK, lambda: world.change(world.plain, {"id": 2, "n": 7}))
    world.change(world.stopping, {"id": 3, "n": 5, "_row_version": 3})
    world.rows |= {2: 7, 3: 5}
    world.stop_again(LOCK, lambda: world.change(world.plain, {"id": 5, "n": 7}))
    assert world.change(world.stopping, {"id": 5, "n": 5}).updated == 1
    world.rows |= {5: 5}
    world.check()


def test_a_change_beside_a_freeze_either_way(world: Changing) -> None:
    world.stop_again(ENTRY, lambda: freeze(world.spark, world.plain))
    done = world.change(world.stopping, {"id": 1, "n": 5}, new_version=True)
    assert done.version is not None
    theirs, mine = world.plain.snapshot().frozen[-2:]
    assert (theirs.number, mine.number) == (2, done.version.number) == (2, 3)
    world.rows[1] = 5
    assert world.present() == world.rows
    world.stop_again(ENTRY, lambda: world.change(world.plain, {"id": 2, "n": 5}))
    made = freeze(world.spark, world.stopping)
    world.rows[2] = 5
    for version in (theirs, mine, made):
        at = world.plain.snapshot_at(f"@{version.transaction}")
        assert state_content(world.spark, world.plain, at).fingerprint == version.fingerprint
    world.check()


def test_a_change_beside_a_vacuum_either_way(world: Changing) -> None:
    """What a change reads is leased; what it has published and not committed looks like waste."""
    world.append(1, n=4)
    world.stop_again(ENTRY, world.vacuum)
    world.change(world.stopping, {"id": 1, "n": 5}, {"id": 4, "n": 5})
    world.rows |= {1: 5, 4: 5}
    assert world.present() == world.rows
    changed = lambda: world.change(world.plain, {"id": 2, "n": 6}, {"id": 3, "_delete": True})  # noqa: E731
    world.stop_again(ENTRY, changed, skip=1)
    with suppress(ConflictError):
        world.vacuum(world.stopping)
    world.rows[2] = 6
    del world.rows[3]
    world.check()


def test_a_change_beside_a_revert_either_way(world: Changing) -> None:
    world.stop_again(LOCK, lambda: revert(world.spark, world.plain, 1))
    assert world.change(world.stopping, {"id": 1, "n": 5}).updated == 1
    world.rows = {1: 5, 2: 0, 3: 0}
    assert world.present() == world.rows
    world.stop_again(LOCK, lambda: world.change(world.plain, {"id": 2, "n": 6}))
    with pytest.raises(ConflictError):
        revert(world.spark, world.stopping, 2)
    world.rows[2] = 6
    world.check()


@pytest.mark.parametrize("how", ["sync", "alter"])
def test_the_columns_change_while_rows_do(world: Changing, how: str) -> None:
    """What a cell means may be another now, so nothing is changed."""
    wider = {**ROW, "x": {"type": "string"}}
    by = {
        "sync": lambda: commit_rows(world.lake, "tap.s", wider, ["id"], [{"id": 2, "n": 9}]),
        "alter": lambda: retype(world.lake.store, world.plain.snapshot(), "n"),
    }
    world.stop_again(ENTRY, by[how])
    with pytest.raises(ConflictError, match="columns of tap.s were changed in the meantime"):
        world.change(world.stopping, {"id": 1, "n": 5})
    world.rows |= {2: 9} if how == "sync" else {}
    world.check()


def test_another_table_begins_while_rows_change(world: Changing) -> None:
    """Even where it has rows of the same keys, so that the change is to be worked out anew."""

    def another() -> None:
        drop_table(world.lake.store, world.plain.snapshot(), AlterOptions(), with_versions=True)
        commit_rows(world.lake, "tap.s", ROW, ["id"], [{"id": 1, "n": 8}])

    world.stop_again(LOCK, another)
    with pytest.raises(ConflictError, match="was dropped in the meantime"):
        world.change(world.stopping, {"id": 1, "n": 5})
    world.rows = {1: 8}
    assert world.present() == world.rows
