"""Retention by clocks that disagree: nothing is older than what came before it in the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import SingerlakeError
from singerlake.format import times
from singerlake.lake import Lake
from singerlake.log.table_state import TableState
from singerlake.ops.drop import describe
from singerlake.ops.erase import plan as erase
from singerlake.ops.vacuum import ages, drop_history
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.ages import TOLERANCE, Ages
from singerlake.ops.vacuum.garbage import DAY
from singerlake.ops.vacuum.leftovers import plan_leftovers
from singerlake.ops.vacuum.plan import COMBINE, DROP_HISTORY, VacuumOptions, plan_vacuum
from singerlake.ops.vacuum.sizes import sizes
from singerlake.storage.local.store import LocalStore
from singerlake.storage.unfinished import Leftover
from tests.cli.call import run
from tests.ops.test_drop import AT_ONCE, NAME, clean, data_files, drop, head, sync, undrop

WEEK = VacuumOptions(lease_wait_seconds=0, stale_seconds=0.01)
Clock = Callable[[float], AbstractContextManager[None]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let this machine's clock be so many seconds ahead for a while."""
    real, real_ns = time.time, time.time_ns

    @contextmanager
    def ahead(seconds: float) -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: real() + seconds)
            patch.setattr(time, "time_ns", lambda: real_ns() + int(seconds * 1e9))
            yield

    return ahead


def test_drop_under_a_clock_that_is_behind_can_be_undone(lake: Lake, clock: Clock) -> None:
    sync(lake, 1, 2)
    with clock(-9 * DAY):
        drop(lake)
    until = times.parse(describe(lake.store, head(lake)).until or "")
    assert until is not None and until - times.now() > timedelta(days=6.9)
    plan = plan_vacuum(lake.store, head(lake), WEEK)
    assert plan.garbage.files == []
    assert [item.since for item in plan.garbage.kept] == [head(lake).summary(1).time]
    clean(lake, WEEK)
    undrop(lake)
    assert data_files(lake) == 1
    with clock(9 * DAY):  # by then it has been dropped for long enough
        drop(lake)
    with clock(17 * DAY):
        clean(lake, WEEK)
    assert data_files(lake) == 0


@pytest.mark.parametrize("behind", [-1 / 144 - 0.001, -9], ids=["minutes", "days"])
def test_vacuum_under_a_clock_that_is_behind_the_log_deletes_nothing(
    lake: Lake, clock: Clock, behind: float
) -> None:
    sync(lake, 1, 2)
    with clock(-20 * DAY):
        sync(lake, 3)
        drop(lake)
    before = data_files(lake)
    with clock(behind * DAY):
        for options in (WEEK, replace(WEEK, full=False), replace(WEEK, parts=(DROP_HISTORY,))):
            with pytest.raises(
                SingerlakeError, match=r"is .* behind transaction 1 of tap.t \(2"
            ) as e:
                plan_vacuum(lake.store, head(lake), options)
            assert (e.value.kind, e.value.exit_code) == ("failed", 1)
            assert "Set the clock" in str(e.value)
        plan_vacuum(lake.store, head(lake), replace(WEEK, parts=(COMBINE,)))
        result = run(lake, "vacuum", "--all")
        assert result.exit_code == 1
        assert "behind transaction 1" in result.stderr and "Traceback" not in result.stderr
    assert data_files(lake) == before


def test_vacuum_under_a_clock_that_is_minutes_behind_goes_on(lake: Lake, clock: Clock) -> None:
    sync(lake, 1)
    with clock(-TOLERANCE / 2):
        assert plan_vacuum(lake.store, head(lake), WEEK).garbage.files == []


def test_vacuum_without_retention_asks_no_clock(lake: Lake, clock: Clock) -> None:
    """The way out where a transaction has a time that will not come."""
    with clock(50 * 365 * DAY):
        sync(lake, 1)
    drop(lake)
    with pytest.raises(SingerlakeError, match="--retain 0s --no-retention-guard"):
        plan_vacuum(lake.store, head(lake), WEEK)
    clean(lake, AT_ONCE)
    assert data_files(lake) == 0


def test_sizes_tell_when_what_was_dropped_is_old_enough(lake: Lake, clock: Clock) -> None:
    sync(lake, 1)
    with clock(-9 * DAY):
        drop(lake)
    found = sizes(lake.store, head(lake))
    at = times.parse(found.free_later_at or "")
    assert found.free_now_bytes == 0 and found.free_later_bytes > 0
    assert at is not None and at - times.now() > timedelta(days=6.9)


def test_history_is_kept_as_far_as_it_is_as_young_as_what_came_before(
    lake: Lake, clock: Clock
) -> None:
    with clock(-10 * DAY):
        sync(lake, 1)
    sync(lake, 1)
    with clock(-9 * DAY):
        sync(lake, 1)
    assert drop_history.floor_at(head(lake), time.time() - 7 * DAY) == 1


class ToldStore(LocalStore):
    """A folder whose file server tells the time."""

    ahead = 0.0

    def clock_ahead(self) -> float:
        return self.ahead


@pytest.mark.parametrize("ahead", [9 * DAY, -9 * DAY])
def test_nothing_is_deleted_by_a_clock_far_from_the_store_s(
    tmp_path: Path, clock: Clock, ahead: float
) -> None:
    store = ToldStore(tmp_path)
    lake = Lake(store)
    with clock(-8 * DAY):
        sync(lake, 1)
        drop(lake)
    store.ahead = ahead
    side = "ahead of" if ahead > 0 else "behind"
    with pytest.raises(SingerlakeError, match=rf"9 days {side} the clock of .*: set the clock"):
        plan_vacuum(store, head(lake), WEEK)
    plan_vacuum(store, head(lake), replace(WEEK, retain_seconds=30 * DAY))  # nothing is that old
    store.ahead = TOLERANCE / 2
    assert len(plan_vacuum(store, head(lake), WEEK).garbage.files) == 1


def test_leftovers_are_kept_by_a_clock_far_from_the_store_s(tmp_path: Path) -> None:
    class WithLeftover(ToldStore):
        def leftovers(self) -> Iterator[Leftover]:
            yield Leftover("staging/one", 1, time.time() - 8 * DAY, certain=True)

    store = WithLeftover(tmp_path)
    assert len(plan_leftovers(store, WEEK).going) == 1
    store.ahead = 9 * DAY
    with pytest.raises(SingerlakeError, match="9 days ahead of the clock"):
        plan_leftovers(store, WEEK)


def test_erasure_that_runs_again_sweeps_nothing_by_a_clock_that_is_behind(
    lake: Lake, clock: Clock
) -> None:
    sync(lake, 1)
    assert erase.seconds_since(head(lake)) == 0.0
    with clock(-9 * DAY), pytest.raises(SingerlakeError, match="behind transaction 1"):
        erase.seconds_since(head(lake))


def stub(spelled: list[str]) -> TableState:
    log = [SimpleNamespace(number=n, time=text) for n, text in enumerate(spelled, 1)]
    return SimpleNamespace(transactions=log, table=NAME)  # type: ignore[return-value]


SPELLINGS: list[Callable[[datetime], str]] = [
    times.iso,
    datetime.isoformat,
    lambda instant: f"{instant:%Y-%m-%d %H:%M:%S.%f}+00:00",
]
MICROS = st.integers(0, 4_000_000_000_000_000)


@given(st.lists(st.tuples(MICROS, st.sampled_from(SPELLINGS)), min_size=1, max_size=20))
def test_times_never_run_backwards(log: list[tuple[int, Callable[[datetime], str]]]) -> None:
    instants = [times.from_micros(micros) for micros, _ in log]
    found = Ages(stub([spell(one) for one, (_, spell) in zip(instants, log, strict=True)]))
    seen = [found.seconds(n) for n in range(1, len(log) + 1)]
    latest = [max(instants[: n + 1]).timestamp() for n in range(len(log))]
    assert seen == latest == sorted(seen)
    assert seen[found.newest_number - 1] == latest[-1]


def test_entry_whose_time_cannot_be_read_is_never_old() -> None:
    found = Ages(stub(["2020-01-01T00:00:00.000000Z", "yesterday", "2020-01-02T00:00:00.000000Z"]))
    assert found.seconds(2) == float("inf") > found.seconds(3)
    assert ages.limit(stub([]), 5.0, 7.0) == 2.0
    assert vacuum.DAY == DAY
