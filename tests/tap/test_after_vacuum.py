"""The tap on tables that were vacuumed: everything once, wherever it goes on from."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.ops.vacuum import drop_history
from tests.build import commit_rows
from tests.ops.vacuum.plain_table import (
    DELETED,
    Event,
    cutoff_at,
    drop,
    events,
    freeze,
    state,
)
from tests.ops.vacuum.test_combine import combine
from tests.tap.run import Run, catalog_of, run, select

NAME = TableName("tap", "s")
ROW: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": "integer"}}
WIDE = {**ROW, "note": {"type": "string"}}


class Downstream:
    """A target that applies what comes in."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        self.state: dict[str, Any] | None = None
        self.messages: list[Event] = []

    def read(self, lake: Lake, **settings: Any) -> Run:
        out = run(lake, copy.deepcopy(self.state), **settings)
        self.take(out)
        return out

    def take(self, out: Run, until: int | None = None) -> None:
        """All of a run, or what came before it broke off."""
        for message in out.messages[:until]:
            if message["type"] == "RECORD":
                place = len(self.messages)
                version = message.get("version")
                self.messages.append(Event(1, place, 1, version, message["record"]))
            elif message["type"] == "ACTIVATE_VERSION":
                self.messages.append(Event(1, len(self.messages), 0, message["version"], {}))
            elif message["type"] == "STATE":
                self.state = message["value"]

    def rows(self) -> list[str]:
        return rows_of(state(self.messages, self.keys))


def rows_of(some: list[Event]) -> list[str]:
    return sorted(repr(sorted(event.record.items())) for event in some)


def fill(lake: Lake, keys: list[str]) -> None:
    """Nine transactions of some blocks each; rows that come again, go, or are replaced."""
    for n in range(3):
        rows: list[Any] = [{"id": i, "n": n} for i in range(5)]
        commit_rows(lake, "tap.s", ROW, keys, rows, 2)
        commit_rows(lake, "tap.s", WIDE, keys, [{"id": n, "n": 10 + n, "note": "w"}])
        gone = {"id": 4, "n": 0, DELETED: "2026-01-01T00:00:00Z"}
        some: list[Any] = (
            [gone, {"id": 6, "n": n}] if n else [({"id": 7, "n": 7}, 1), 1, ({"id": 8, "n": 8}, 1)]
        )
        commit_rows(lake, "tap.s", ROW, keys, some)


def vacuum(table: Table, *, history_too: bool) -> None:
    if history_too:
        snapshot = table.snapshot()
        plan = drop_history.plan_drop_history(snapshot, cutoff_at(snapshot, snapshot.number))
        assert plan is not None
        drop(table, snapshot, plan)
    combine(table, 1 << 20)


def head_rows(table: Table, keys: list[str]) -> list[str]:
    return rows_of(state(events(table, table.snapshot()), keys))


@pytest.mark.parametrize("history_too", [False, True])
@pytest.mark.parametrize("keys", [["id"], []])
def test_a_full_read_ends_in_the_same_state(lake: Lake, keys: list[str], history_too: bool) -> None:
    fill(lake, keys)
    table = lake.table(NAME)
    wanted = head_rows(table, keys)
    whole = run(lake)
    freeze(table, 4)
    version = Downstream(keys)
    version.read(lake, table_version="1")
    vacuum(table, history_too=history_too)
    reader = Downstream(keys)
    again = reader.read(lake)
    assert reader.rows() == wanted
    if not history_too:
        assert again.raw_records() == whole.raw_records(), "not a byte, and not the order"
    at_version = Downstream(keys)
    at_version.read(lake, table_version="1")
    assert at_version.rows() == version.rows()
    assert reader.read(lake).of("RECORD") == []


@pytest.mark.parametrize("keys", [["id"], []])
@pytest.mark.parametrize("stop", range(1, 9))
def test_going_on_from_the_middle_of_what_was_put_together(
    lake: Lake, keys: list[str], stop: int
) -> None:
    """A reader that saw some transactions goes on after a vacuum that merged across them."""
    table = lake.table(NAME)
    fill(lake, keys)
    commits = [entry.commit for entry in table.entries()]
    reader, ended = Downstream(keys), Downstream(keys)
    ended.read(lake)
    whole = run(lake)
    # As if the run had been broken off after the transaction's STATE.
    place = next(
        n
        for n, m in enumerate(whole.messages)
        if m["type"] == "STATE" and m["value"]["bookmarks"]["s"]["transaction"] == stop
    )
    reader.take(whole, place + 1)
    assert reader.state is not None
    assert reader.state["bookmarks"]["s"] == {"transaction": stop, "commit": commits[stop - 1]}
    vacuum(table, history_too=True)
    assert any(block.first_version for block in table.snapshot().blocks)
    reader.read(lake)
    assert reader.rows() == ended.rows() == head_rows(table, keys)


@pytest.mark.parametrize("keys", [["id"], []])
def test_a_run_broken_off_anywhere_after_a_vacuum(lake: Lake, keys: list[str]) -> None:
    """A bookmark never stands for rows that are not out: all comes, and keyless rows once."""
    table = lake.table(NAME)
    fill(lake, keys)
    for n in range(4):  # only a part of a transaction's blocks is put together with later ones
        commit_rows(lake, "tap.s", ROW, keys, [{"id": i, "n": 20 + n} for i in range(3)], 1)
        commit_rows(lake, "tap.s", WIDE, keys, [{"id": n, "n": 30 + n, "note": "x"}])
    vacuum(table, history_too=True)
    wanted = head_rows(table, keys)
    whole = run(lake)
    states = [n for n, m in enumerate(whole.messages) if m["type"] == "STATE"]
    assert len(states) > 2
    for place in states:
        reader = Downstream(keys)
        reader.take(whole, place + 1)
        reader.read(lake)
        assert reader.rows() == wanted, whole.messages[place]


def test_rows_of_one_transaction_that_went_into_a_later_block(lake: Lake) -> None:
    """The first blocks of a transaction stay, its last is put together with the next's."""
    table = lake.table(NAME)
    commit_rows(lake, "tap.s", ROW, [], [1, ({"id": 1, "n": 1}, 1)])
    many: list[Any] = [({"id": n, "n": 2}, 1) for n in range(12_600)]
    commit_rows(lake, "tap.s", ROW, [], [*many, ({"id": -1, "n": 2}, 1)], 12_600)
    commit_rows(lake, "tap.s", ROW, [], [({"id": -2, "n": 3}, 1)])
    vacuum(table, history_too=True)
    blocks = [(b.number, b.first_version, b.rows) for b in table.snapshot().blocks]
    assert blocks == [(1, 0, 1), (2, 0, 12_600), (4, 3, 2)]
    whole = run(lake)
    for place, message in enumerate(whole.messages):
        if message["type"] == "STATE":
            reader = Downstream([])
            reader.take(whole, place + 1)
            rows = reader.read(lake).records()
            before = [m for m in whole.messages[:place] if m["type"] == "RECORD"]
            assert len(before) + len(rows) == 12_603


def test_selection_and_types_hold_on_blocks_that_were_put_together(lake: Lake) -> None:
    """The slow way, record by record, says the same."""
    fill(lake, ["id"])
    table = lake.table(NAME)
    vacuum(table, history_too=True)
    catalog = select(catalog_of(lake), "s", "properties", "n", selected=False)
    found = run(lake, None, catalog)
    assert found.records() == [
        {name: value for name, value in record.items() if name != "n"}
        for record in run(lake).records()
    ]
