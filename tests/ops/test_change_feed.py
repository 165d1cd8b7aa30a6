"""The changes of a table, held to its states: whoever applies them has the rows of each place."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from singerlake.errors import ConflictError, DroppedError, NotFoundError, UsageError
from singerlake.format.types import STRING
from singerlake.lake import Lake, Table
from singerlake.log import lease
from singerlake.log.table_state import TableState
from singerlake.ops import change_feed
from singerlake.ops.change_feed import NO_LIMITS, ChangeFeed, Limits, Place
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.vacuum import vacuum as vacuums
from singerlake.ops.vacuum.plan import COMBINE, DELETE, PARTS, VacuumOptions
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions, alter
from singerlake.rows.blocks import block_tasks
from singerlake.snapshot.from_blocks import local_rows
from tests.build import commit_rows
from tests.histories import here
from tests.needs import MORE
from tests.ops.erase import by_hand

PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}
DELETED = "2026-01-02T00:00:00Z"
SOON = "2999-01-01T00:00:00.000000Z"
Row = tuple[Any, ...]


def vacuum(table: Table, *parts: str) -> None:
    wanted = VacuumOptions(retain_seconds=0, guard=False, parts=parts, lease_wait_seconds=0)
    vacuums.vacuum(table, wanted)


def write(
    lake: Lake, *messages: Any, keys: tuple[str, ...] = ("id",), **options: Any
) -> TableState:
    return commit_rows(lake, "tap.t", PROPERTIES, [*keys], [*messages], **options)


def row(number: int, name: str | None = "a") -> dict[str, Any]:
    return {"id": number, "name": name}


def gone(number: int) -> dict[str, Any]:
    return {"id": number, "_sdc_deleted_at": DELETED}


def state(table: Table, number: int | None = None) -> Counter[Row]:
    head = table.snapshot()
    at = head if number is None else head.at(number)
    return Counter(
        tuple(one[f"c{place}"] for place in range(len(at.columns)))
        for batch in local_rows(table, at)
        for one in batch.to_pylist()
    )


def read(feed: ChangeFeed, start: Place, end: Place) -> list[dict[str, Any]]:
    rows = [row for part in feed.parts(start, end) for b in part.rows() for row in b.to_pylist()]
    return sorted(rows, key=lambda row: row["_sequence"])


def changes(table: Table, start: Place | None = None) -> list[Row]:
    """All changes after a place, without their sequence."""
    feed, start = ChangeFeed(table), start or Place()
    rows = read(feed, start, feed.next_place(start, feed.latest()))
    return [tuple(value for name, value in row.items() if name != "_sequence") for row in rows]


class Sink:
    """Somebody who keeps a copy of a table by its changes."""

    def __init__(self, table: Table, keyed: bool) -> None:
        self.table, self.keyed = table, keyed
        self.begin()

    def begin(self) -> None:
        self.place, self.rows, self.seen = Place(), Counter[Row](), 0

    def follow(self, limits: Limits, batches: int) -> None:
        feed = ChangeFeed(self.table)
        for _ in range(batches):
            end = feed.next_place(self.place, feed.latest(), limits)
            if end == self.place:
                break
            for one in read(feed, self.place, end):
                self.apply(one)
            self.place = end

    def apply(self, change: dict[str, Any]) -> None:
        assert self.place.transaction < change["_transaction"]
        assert change["_sequence"] > self.seen or change["_change_type"] == "delete"
        self.seen = change["_sequence"]
        cells = (change["id"], change["name"])
        if self.keyed:
            for old in [one for one in self.rows if one[0] == change["id"]]:
                del self.rows[old]
        if change["_change_type"] == "delete":
            if not self.keyed:
                assert self.rows[cells] > 0
                self.rows[cells] -= 1
        else:
            self.rows[cells] += 1
        self.rows = +self.rows


class Story:
    """Random transactions of all kinds."""

    def __init__(self, lake: Lake, seed: int, keyed: bool) -> None:
        self.lake, self.random = lake, random.Random(seed)
        self.keys = ("id",) if keyed else ()
        self.version = 1
        self.table = Table(lake.store, write(lake, row(0), keys=self.keys).table)

    def step(self) -> None:
        kind = self.random.choices(
            ["sync", "activate", "freeze", "revert", "combine", "expire"], [8, 2, 1, 1, 1, 1]
        )[0]
        getattr(self, kind)()

    def sync(self, *more: Any) -> None:
        some: list[Any] = []
        for _ in range(self.random.randrange(1, 6)):
            number = self.random.randrange(8)
            one = gone(number) if self.random.random() < 0.3 else row(number, self.name())
            some.append((one, self.version))
        write(self.lake, *some, *more, keys=self.keys, block_rows=self.random.choice([2, 100]))

    def name(self) -> str | None:
        return self.random.choice(["a", "b", None])

    def activate(self) -> None:
        self.version += self.random.choice([0, 1])
        self.sync(self.version, *[(row(9, self.name()), self.version)] * self.random.randrange(2))

    def freeze(self) -> None:
        here.freeze(self.table)

    def revert(self) -> None:
        head = self.table.snapshot()
        numbers = [n for n in range(max(1, head.floor), head.number + 1) if head.readable(n)]
        here.revert(self.table, self.random.choice(numbers))

    def combine(self) -> None:
        vacuum(self.table, COMBINE, DELETE)

    def expire(self) -> None:
        vacuum(self.table, *PARTS)


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=MORE) for n in range(2, 20))])
def test_changes_applied_in_order_are_the_state_at_each_place(
    lake: Lake, seed: int, keyed: bool
) -> None:
    story = Story(lake, seed, keyed)
    sink, chance = Sink(story.table, keyed), random.Random(seed)
    for _ in range(25):
        story.step()
        limits = chance.choice([NO_LIMITS, Limits(transactions=1), Limits(rows=4)])
        head, at = story.table.snapshot(), sink.place.transaction
        expired = at and head.summary(at).last_block < head.summary(head.floor or 1).last_block
        if expired and head.floor:
            with pytest.raises(NotFoundError, match="have expired: history begins with"):
                sink.follow(limits, 1)
            sink.begin()
        sink.follow(limits, chance.choice([0, 1, 1, 100]))
        if sink.place.transaction:
            assert sink.rows == state(story.table, sink.place.transaction)
    sink.follow(NO_LIMITS, 1)
    assert sink.rows == state(story.table)


def test_a_transaction_gives_each_row_that_it_brought(lake: Lake) -> None:
    head = write(lake, row(1), row(2))
    write(lake, row(1, "b"), gone(2), row(1, "c"))
    table = Table(lake.store, head.table)
    assert changes(table, Place.at(head, 1)) == [
        (1, "b", "upsert", 2),
        (2, None, "delete", 2),
        (1, "c", "upsert", 2),
    ]


def test_a_table_without_a_key_gives_whole_rows_that_are_gone(lake: Lake) -> None:
    head = write(lake, (row(1), 1), (row(1), 1), gone(1), keys=())
    write(lake, (row(2), 2), 2, keys=())
    assert changes(Table(lake.store, head.table)) == [
        *[(1, "a", "insert", 1)] * 2,
        (2, "a", "insert", 2),
        *[(1, "a", "delete", 2)] * 2,
    ]


def test_freezes_and_vacuums_are_nothing_new(lake: Lake) -> None:
    table = Table(lake.store, write(lake, row(1)).table)
    place = Place.at(table.snapshot(), 1)
    here.freeze(table)
    vacuum(table, *PARTS)
    feed = ChangeFeed(table)
    assert feed.latest() > 2
    assert feed.next_place(place, feed.latest()) == place
    assert feed.parts(place, place) == []


def test_limits_never_split_a_transaction(lake: Lake) -> None:
    for number in (1, 2, 3):
        head = write(lake, *(row(n) for n in range(number)))
    feed = ChangeFeed(Table(lake.store, head.table))

    def ends(limits: Limits) -> list[int]:
        found, place = [], Place()
        while (after := feed.next_place(place, 3, limits)) != place:
            place = after
            found.append(place.transaction)
        return found

    assert ends(NO_LIMITS) == [3]
    assert ends(Limits(transactions=2)) == [2, 3]
    assert ends(Limits(rows=3)) == [2, 3]
    assert ends(Limits(rows=1)) == [1, 2, 3]
    assert ends(Limits(transactions=1, rows=100)) == [1, 2, 3]


def test_blocks_are_shared_out_by_size(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    head = write(lake, *(row(n) for n in range(40)), block_rows=10)
    monkeypatch.setattr(block_tasks, "TASK_BYTES", head.blocks[0].bytes * 2)
    feed = ChangeFeed(Table(lake.store, head.table))
    parts = feed.parts(Place(), Place.at(head, 1))
    assert [sum(map(len, part.rows())) for part in parts] == [10, 20, 10]


def test_a_block_that_a_vacuum_put_together_gives_what_came_since(lake: Lake) -> None:
    table = lake.table(by_hand.commit_rows(lake, "tap.t", by_hand.PROPERTIES, ["id"], []).table)
    head = by_hand.write(lake, table, {"id": 1, "name": "Ada"})
    first, second = head.number, head.number + 1
    place = Place.at(head, first)
    by_hand.write(lake, table, {"id": 2, "name": "Bob"})
    by_hand.write(lake, table, {"id": 3, "name": "Cy"})
    assert [block.rows for block in by_hand.merge(table, 1, first).blocks] == [3]
    feed = ChangeFeed(table)
    told = [
        [(one["id"], one["_transaction"]) for one in rows]
        for rows in (
            read(feed, place, Place.at(feed.head, second)),
            read(feed, place, Place.at(feed.head, second + 1)),
        )
    ]
    assert told == [[(2, second)], [(2, second), (3, second + 1)]]


@pytest.mark.parametrize("since", ["1", "first", "@1"])
def test_a_reader_may_begin_after_any_state(lake: Lake, since: str) -> None:
    table = Table(lake.store, write(lake, row(1)).table)
    here.freeze(table, label="first")
    write(lake, row(2))
    assert changes(table, ChangeFeed(table).since(since)) == [(2, "a", "upsert", 3)]


def test_erased_rows_are_deletions_while_there_is_a_notice(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    table = lake.table(by_hand.commit_rows(lake, "tap.t", by_hand.PROPERTIES, ["id"], []).table)
    by_hand.write(lake, table, {"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"})
    place = Place.at(table.snapshot(), table.snapshot().number)
    by_hand.erase(table, 2, until=SOON)
    by_hand.write(lake, table, {"id": 2, "name": "anew"})
    erased = table.snapshot().erased_at
    last = table.snapshot().number
    assert changes(table, place) == [(2, None, "delete", erased), (2, "anew", "upsert", last)]
    by_hand.erase(table, 1)
    place = Place.at(table.snapshot(), last)
    assert changes(table, place) == []
    assert "there is no notice of their keys" in caplog.text


def test_a_notice_of_another_key_is_not_read(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    table = lake.table(by_hand.commit_rows(lake, "tap.t", by_hand.PROPERTIES, ["id"], []).table)
    by_hand.write(lake, table, {"id": 2, "name": "Bob"})
    place = Place.at(table.snapshot(), table.snapshot().number)
    by_hand.erase(table, 2, until=SOON, told=b'{"other":2}\n')
    assert changes(table, place) == []
    assert "there is no notice of their keys" in caplog.text


def test_what_is_read_is_protected_and_nothing_in_between(lake: Lake) -> None:
    table = Table(lake.store, write(lake, row(1)).table)
    [part] = ChangeFeed(table).parts(Place(), Place.at(table.snapshot(), 1))
    assert lease.leases(lake.store, table.name) == []
    rows = part.rows()
    next(rows)
    assert len(lease.leases(lake.store, table.name)) == 1
    assert [*rows] == []
    assert lease.leases(lake.store, table.name) == []


def test_a_batch_that_is_planned_finds_rows_where_a_vacuum_has_put_them(lake: Lake) -> None:
    write(lake, row(0))
    table = Table(lake.store, write(lake, row(1), row(2)).table)
    head = write(lake, row(3), 1)
    feed = ChangeFeed(table)
    start = Place.at(head, 1)
    parts = feed.parts(start, Place.at(head, 2))
    vacuum(table, COMBINE, DELETE)
    assert table.snapshot().blocks[-1].file != head.blocks[-1].file
    assert [len(batch) for part in parts for batch in part.rows()] == [2]
    vacuum(table, *PARTS)
    with pytest.raises(NotFoundError, match="have expired"):
        [*parts[0].rows()]


def test_a_log_that_is_another_is_refused(lake: Lake) -> None:
    table = Table(lake.store, write(lake, row(1)).table)
    feed = ChangeFeed(table)
    for place, said in (
        (Place(1, "another"), "is not the one that the checkpoint was made for"),
        (Place(7, ""), "its log ends with 1: start a new query with a new checkpoint"),
    ):
        with pytest.raises(NotFoundError, match=said):
            feed.next_place(place, 1)
        with pytest.raises(NotFoundError, match=said):
            feed.parts(Place(), place)


def test_a_table_that_was_dropped_ends_it(lake: Lake) -> None:
    table = Table(lake.store, write(lake, row(1)).table)
    feed, place = ChangeFeed(table), Place.at(table.snapshot(), 1)
    drop_table(lake.store, table.snapshot(), AlterOptions())
    with pytest.raises(DroppedError):
        feed.latest()
    undrop_table(lake.store, table.snapshot(dropped=True), AlterOptions())
    feed = ChangeFeed(table)
    feed.latest()
    assert feed.next_place(place, feed.latest()) == place
    drop_table(lake.store, table.snapshot(), AlterOptions(), with_versions=True)
    write(lake, row(2))
    feed = ChangeFeed(table)
    with pytest.raises(NotFoundError, match="another table of this name begins with transaction 5"):
        feed.next_place(place, feed.latest())
    assert changes(table) == [(2, "a", "upsert", 5)]


def test_columns_that_change_end_it_until_it_begins_again(lake: Lake) -> None:
    table = Table(lake.store, write(lake, row(1)).table)
    feed, place = ChangeFeed(table), Place.at(table.snapshot(), 1)
    more = {**PROPERTIES, "total": {"type": ["null", "integer"]}}
    commit_rows(lake, "tap.t", more, ["id"], [{"id": 2, "name": "b", "total": 5}])
    with pytest.raises(ConflictError, match=r"have changed \(added: total\): start the query"):
        feed.latest()
    assert changes(table, place) == [(2, "b", 5, "upsert", 2)]


def test_another_key_ends_it(lake: Lake) -> None:
    table = Table(lake.store, write(lake, row(1)).table)
    place = Place.at(table.snapshot(), 1)
    write(lake, row(1), keys=("id", "name"))
    with pytest.raises(NotFoundError, match="has another key than at transaction 1"):
        changes(table, place)


def test_columns_of_its_own_give_way_to_the_tables() -> None:
    columns = (("_Transaction", STRING), ("__transaction", STRING))
    names = change_feed.column_names(columns)
    assert names == ("_change_type", "___transaction", "_sequence")


def test_values_that_do_not_fit_fail_or_are_null(lake: Lake) -> None:
    head = write(lake, '{"id": 1, "name": 5}')
    table = Table(lake.store, head.table)
    feed = ChangeFeed(table, "null")
    [found] = read(feed, Place(), Place.at(head, 1))
    assert found["name"] in (None, "5")


def test_a_table_without_its_log_is_refused(lake: Lake) -> None:
    head = write(lake, row(1))
    feed = ChangeFeed(Table(lake.store, head.table))
    feed.head = replace(head, from_log=False)
    with pytest.raises(UsageError, match="rebuild it with: singerlake rebuild"):
        feed.next_place(Place(), 1)


def test_a_renamed_column_is_another(lake: Lake) -> None:
    table = Table(lake.store, write(lake, row(1)).table)
    feed = ChangeFeed(table)
    renamed = lambda state: says.with_name(state, name="name", new="title")  # noqa: E731
    alter(lake.store, table.snapshot(), renamed, AlterOptions())
    with pytest.raises(ConflictError, match="added: title; removed: name"):
        feed.latest()
