"""The log behind a manifest is read several entries at a time where each costs a wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.errors import DamagedError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log import log
from singerlake.ops.verify.plan import check_log
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.far_store import FarStore

TABLE = TableName("tap", "s")
TRANSACTIONS = 60


@pytest.fixture
def far(lake: Lake) -> FarStore:
    for number in range(TRANSACTIONS):
        commit_rows(lake, str(TABLE), {"id": {"type": "integer"}}, ["id"], [{"id": number}])
    return FarStore(Path(lake.store.uri))


def test_entries_are_those_that_are_read_one_by_one(far: FarStore) -> None:
    near = LocalStore(far.place)
    for after in (0, 1, 51, 52, 55, TRANSACTIONS):
        assert [*log.entries(far, TABLE, after)] == [*log.entries(near, TABLE, after)]


def test_a_long_tail_takes_few_waits(far: FarStore) -> None:
    assert [entry.number for entry in log.entries(far, TABLE)][-1] == TRANSACTIONS
    assert far.most > 4
    assert far.in_vain() <= 32


@pytest.mark.parametrize("behind", [0, 1, 3, 7])
def test_a_short_tail_asks_for_nothing_in_vain(far: FarStore, behind: int) -> None:
    assert len([*log.entries(far, TABLE, TRANSACTIONS - behind)]) == behind
    assert len(far.asked) == behind + 1
    assert far.most == 1


def test_without_a_manifest_what_is_listed_is_read_side_by_side(far: FarStore) -> None:
    (far.place / TABLE.manifest).unlink()
    snapshot = log.read_snapshot(far, TABLE)
    assert snapshot is not None
    assert snapshot.number == TRANSACTIONS
    assert far.most > 4
    # The manifest, each entry once, and the first behind them that is not there.
    assert len(far.asked) == 1 + TRANSACTIONS + 1


def test_a_hole_is_where_the_log_ends_or_an_error(far: FarStore) -> None:
    entry = far.place / TABLE.transaction(30)
    entry.unlink()
    assert [one.number for one in log.entries(far, TABLE, 5)] == list(range(6, 30))
    (far.place / TABLE.manifest).unlink()
    with pytest.raises(DamagedError, match="lacks transaction 30, and continues to 60: restore"):
        log.read_snapshot(far, TABLE)
    (far.place / TABLE.transaction(1)).unlink()  # as where a first copy was stopped
    with pytest.raises(DamagedError, match="1, and continues to 60: if a copy to this place"):
        log.read_snapshot(far, TABLE)
    hints = {one.where: one.hint for one in check_log(far, TABLE).problems}
    assert hints[TABLE.transaction(1)].startswith(log.IF_COPIED)
    assert not hints[TABLE.transaction(30)].startswith(log.IF_COPIED)


def test_a_damaged_entry_counts_where_it_is_reached(far: FarStore) -> None:
    (far.place / TABLE.transaction(40)).write_text("{")
    with pytest.raises(DamagedError, match="000000000040"):
        list(log.entries(far, TABLE))
    (far.place / TABLE.transaction(39)).unlink()
    assert [one.number for one in log.entries(far, TABLE)][-1] == 38
