"""Vacuum beside everything else: one stops at a very operation, the other runs, both go on.

The hooks sit in the store, so that the points are those of the code itself: before an entry is
created, after the leases were listed, before a file is deleted. Executors get the plain store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from model.traces import steps, verdicts
from singerlake.errors import ConflictError, NotFoundError
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log.lease import ReaderLease
from singerlake.ops.vacuum.plan import PARTS, Vacuumed, VacuumOptions
from singerlake.snapshot import index
from singerlake.storage.base import Listed, Store
from tests.build import commit_rows
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import revert_on_spark as revert
from tests.frozen import undo_on_spark as undo
from tests.frozen import vacuum_on_spark
from tests.histories import here
from tests.log.broken import BrokenStore
from tests.ops.vacuum.plain_table import events, keys_at, state
from tests.recorder import recording

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("quick_plans")
NAME = TableName("tap", "s")
ROW: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": "integer"}}


@pytest.fixture(scope="module", autouse=True)
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What all of this module does to its lakes."""
    with recording(tmp_path_factory.mktemp("journal") / "journal") as path:
        yield path


class Stopping(BrokenStore):
    """Runs something else once, at the first operation that is asked for."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.reached = False

    def __reduce__(self) -> tuple[Any, ...]:
        return itemgetter(0), ((self.store,),)

    def list(self, prefix: str) -> Iterator[Listed]:
        self.before("look", prefix)
        found = list(self.store.list(prefix))
        self.after("list", prefix)
        return iter(found)

    def stop(self, method: str, part: str, work: Callable[[], object], *, skip: int = 0) -> None:
        left = [skip]

        def hook(done: str, key: str) -> None:
            if done != method or part not in key or self.reached:
                return
            if left[0]:
                left[0] -= 1
                return
            self.reached = True
            work()

        if method == "list":
            self.after = hook
        else:
            self.before = hook


class World:
    """A table with history, a frozen version in it, and what must read the same for ever."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self.spark, self.lake = spark, lake
        for n in range(3):
            self.append(1, 2, 3, n=n)
        self.plain = lake.table(NAME)
        self.store = Stopping(lake.store)
        self.stopping = Table(self.store, NAME)
        here.freeze(self.plain, at=1)
        self.rows = {1: 2, 2: 2, 3: 2}

    def append(self, *ids: int, n: int = 9) -> None:
        commit_rows(self.lake, "tap.s", ROW, ["id"], [{"id": i, "n": n} for i in ids])

    def vacuum(self, table: Table | None = None, *parts: str, **changes: Any) -> Vacuumed:
        given = {
            "retain_seconds": 0,
            "guard": False,
            "parts": parts or PARTS,
            "lease_wait_seconds": 0,
            "lock_wait_seconds": 0.5,
        }
        options = VacuumOptions(**{**given, **changes})
        return vacuum_on_spark(self.spark, table or self.plain, options)

    def present(self) -> dict[int, int]:
        head = self.plain.snapshot()
        rows = state(events(self.plain, head), keys_at(head, head.number))
        return {row.record["id"]: row.record["n"] for row in rows}

    def check(self) -> None:
        """Nothing acknowledged is lost, versions read the same, and a last run cleans up."""
        assert self.store.reached, "the point was never come to"
        assert self.present() == self.rows
        self.vacuum(lease_wait_seconds=60, lock_wait_seconds=60, stale_seconds=0.5)
        assert here.problems(self.plain) == []
        head = self.plain.snapshot()
        root = f"{NAME.folder}"
        present = {i.key[len(root) :] for i in self.lake.store.list(root) if ".gz" in i.key}
        assert present == {block.file for block in head.blocks}
        assert self.present() == self.rows


@pytest.fixture
def world(spark: SparkSession, lake: Lake) -> World:
    return World(spark, lake)


@pytest.mark.parametrize("at", ["drop", "leases", "delete"])
def test_an_append_in_the_middle_of_a_vacuum(world: World, at: str) -> None:
    points = {
        "drop": ("put", "transactions/", 1),
        "leases": ("list", "leases/", 0),
        "delete": ("delete", ".singer.gz", 0),
    }
    method, part, skip = points[at]
    world.store.stop(method, part, lambda: world.append(3, 4), skip=skip)
    world.vacuum(world.stopping, "drop-history", "delete")
    world.rows |= {3: 9, 4: 9}
    world.check()


@pytest.mark.parametrize("stale", [60.0, 0.3])
def test_a_vacuum_while_an_append_stands_between_publishing_and_commit(
    world: World, stale: float
) -> None:
    """Its files look like a dead writer's. If its lock seems dead too it must not commit."""
    writer_table = Table(world.store, NAME)
    world.store.stop(
        "put", "transactions/", lambda: world.vacuum(None, "delete", stale_seconds=stale)
    )
    lake = Lake(world.store)
    try:
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 4, "n": 9}])
    except ConflictError:
        assert stale < 1
    else:
        assert stale > 1
        world.rows[4] = 9
    assert writer_table.snapshot().number == world.plain.snapshot().number
    world.check()


def test_freezing_what_is_about_to_be_given_up(world: World) -> None:
    """The freeze comes first: the vacuum gives in, and leaves nothing behind."""
    files = {b.file for b in world.plain.snapshot().blocks}
    world.store.stop("put", "transactions/", lambda: here.freeze(world.plain, at=2), skip=1)
    with pytest.raises(ConflictError, match="version 2 of tap.s was frozen in the meantime"):
        world.vacuum(world.stopping)
    assert {b.file for b in world.plain.snapshot().blocks} == files
    content = here.content(world.plain, world.plain.snapshot_at("2"))
    world.check()
    assert here.content(world.plain, world.plain.snapshot_at("2")) == content


def test_giving_up_what_is_about_to_be_frozen(world: World) -> None:
    """The vacuum comes first: the freeze gives in."""
    world.store.stop("put", "transactions/", lambda: world.vacuum(lease_wait_seconds=0))
    with pytest.raises(ConflictError, match="nothing was frozen"):
        freeze(world.spark, world.stopping, at=2)
    assert [v.transaction for v in world.plain.snapshot().frozen] == [1]
    with pytest.raises(NotFoundError, match="is gone"):
        world.plain.snapshot_at("@2")
    world.check()


def test_freezing_the_head_beside_a_vacuum_either_way(world: World) -> None:
    world.append(1)
    world.rows[1] = 9
    world.store.stop("put", "transactions/", lambda: here.freeze(world.plain), skip=1)
    world.vacuum(world.stopping)
    assert len(world.plain.snapshot().frozen) == 2
    world.append(2)
    world.rows[2] = 9
    world.store.reached = False
    world.store.stop("put", "transactions/", world.vacuum)
    freeze(world.spark, world.stopping)
    assert len(world.plain.snapshot().frozen) == 3
    world.check()


def test_a_vacuum_while_an_index_is_built(world: World) -> None:
    """Files without a marker look like leftovers, and who builds has a lease."""
    world.append(1)
    world.rows[1] = 9
    world.store.stop("put", "_index.json", world.vacuum)
    made = freeze(world.spark, world.stopping)
    with world.plain.lease() as lease:
        at = lease.snapshot.at(made.transaction).earliest_equal()
        assert index.load(world.plain, at) is not None, "its files are still there"
    world.check()


def test_a_revert_beside_a_vacuum_either_way(world: World) -> None:
    world.store.stop("put", "transactions/", lambda: here.revert(world.plain, 1), skip=1)
    world.vacuum(world.stopping)
    world.rows = {1: 0, 2: 0, 3: 0}
    assert world.present() == world.rows
    world.append(3, n=4)
    world.rows[3] = 4
    world.store.reached = False
    world.store.stop("put", "transactions/", world.vacuum)
    before = world.plain.snapshot().number
    with suppress(ConflictError):  # what it read was given up: it may say so
        revert(world.spark, world.stopping, before - 1)
        world.rows[3] = 0
    world.check()


def test_an_undo_beside_a_vacuum_either_way(world: World) -> None:
    world.store.stop("put", "transactions/", lambda: undo(world.spark, world.plain, [3]), skip=1)
    world.vacuum(world.stopping)
    world.rows = {1: 1, 2: 1, 3: 1}
    assert world.present() == world.rows
    world.append(3, n=4)
    world.rows[3] = 4
    world.store.reached = False
    world.store.stop("put", "transactions/", world.vacuum)
    last = world.plain.snapshot().number
    with suppress(ConflictError):
        undo(world.spark, world.stopping, [last])
        world.rows[3] = 1
    world.check()


@pytest.mark.parametrize("dead", [False, True])
def test_a_second_vacuum(world: World, dead: bool) -> None:
    """While the first lives the second says so; one that only seemed dead gives in later."""

    def second() -> None:
        if dead:
            world.vacuum(stale_seconds=0.3, lock_wait_seconds=60)
            return
        # The first is refreshed in the background, by which it is seen to live.
        with pytest.raises(ConflictError, match="another vacuum of tap.s is running"):
            world.vacuum(stale_seconds=2, lock_wait_seconds=60)

    world.store.stop("put", "transactions/", second, skip=1)
    if dead:
        with pytest.raises(ConflictError):
            world.vacuum(world.stopping)
    else:
        world.vacuum(world.stopping, stale_seconds=2)
    world.check()


@pytest.mark.parametrize("when", ["before the drop", "after the drop", "after the listing"])
def test_a_reader_that_opens_while_a_vacuum_runs(world: World, when: str) -> None:
    """By what its lease showed it, it reads to the end, whatever is deleted meanwhile."""
    open_at = {
        "before the drop": ("put", "transactions/", 1),
        "after the drop": ("look", "leases/", 0),
        "after the listing": ("list", "leases/", 0),
    }
    stale = world.plain.snapshot()  # as a tap that discovered, and waited
    held: list[ReaderLease] = []
    method, part, skip = open_at[when]

    def read_on() -> None:
        held.append(ReaderLease(world.lake.store, stale).acquire())

    world.store.stop(method, part, read_on, skip=skip)
    done = world.vacuum(world.stopping, "drop-history", "delete")
    (lease,) = held
    for block in lease.snapshot.blocks:
        assert world.plain.read_block(block)
    if when == "before the drop":
        assert any("needed by the reader" in item.reason for item in done.kept)
        assert lease.snapshot.blocks == stale.blocks
    else:
        assert lease.snapshot.blocks != stale.blocks
    lease.release()
    world.check()


@pytest.mark.usefixtures("processes")
def test_all_of_these_are_behaviours_of_the_model(journal: Path) -> None:
    """The last of this file: the traces of those before it (docs/internals/model.md)."""
    with journal.open() as file:
        traces = steps(file)
    said = dict(zip(traces, verdicts([*traces.values()]), strict=True))
    assert {name: verdict for name, verdict in said.items() if not verdict.accepted} == {}
