"""A state by a time, where a clock went back between two transactions."""

from __future__ import annotations

import logging
from dataclasses import replace

import msgspec
import pytest

from singerlake.lake import Lake
from singerlake.log.table_state import TableState
from tests.build import commit_rows

PROPERTIES = {"id": {"type": "integer"}}


@pytest.fixture
def snapshot(lake: Lake) -> TableState:
    for number in (1, 2, 3):
        commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": number}])
    return lake.find("tap.s")[0].snapshot()


def timed(snapshot: TableState, *hours: int) -> TableState:
    stamps = [f"2026-01-01T{hour:02d}:00:00.000000Z" for hour in hours]
    both = zip(snapshot.transactions, stamps, strict=True)
    return replace(snapshot, transactions=[msgspec.structs.replace(t, time=s) for t, s in both])


def test_state_by_time_names_transactions_out_of_order(
    snapshot: TableState, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    assert timed(snapshot, 1, 9, 3).at_time("2026-01-01T05:00:00Z").number == 3
    assert "times of tap.s are out of order" in caplog.text
    assert "transaction 2 has the time 2026-01-01T09" in caplog.text


def test_state_by_time_says_nothing_of_times_in_order(
    snapshot: TableState, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    assert timed(snapshot, 1, 3, 9).at_time("2026-01-01T05:00:00Z").number == 2
    assert timed(snapshot, 1, 9, 3).at_time("2026-01-01T10:00:00Z").number == 3
    assert not caplog.text
