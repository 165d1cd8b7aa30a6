"""What an erasure deletes behind it, and what it says of what it could not: no Spark."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log.commit import new_writer_id
from singerlake.ops.erase import sweep as sweeping
from singerlake.ops.erase.sweep import ROUNDS, Swept, sweep_erased
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.plan import DELETE, VacuumOptions
from tests.ops.erase import by_hand

NAME = TableName("tap", "t")
AT_ONCE = VacuumOptions(
    retain_seconds=0, parts=(DELETE,), guard=False, lease_wait_seconds=0, stale_seconds=0.01
)


@pytest.fixture
def table(lake: Lake) -> Table:
    """A table with a row erased, and nothing deleted yet."""
    table = lake.table(NAME)
    by_hand.write(lake, table, {"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"})
    by_hand.erase(table, 2, deleted=False)
    return table


def swept(table: Table) -> Swept:
    writer = new_writer_id()
    with vacuum.vacuum_lock(table.store, NAME, writer, AT_ONCE) as lock:
        return sweep_erased(table, AT_ONCE, writer, lock)


def leaving(patch: pytest.MonkeyPatch, table: Table, times: int) -> list[str]:
    """Have somebody leave a file behind each of some sweeps; return their keys."""
    plain, keys = sweeping.sweep, list[str]()
    file = table.snapshot().blocks[0].file
    data = table.store.get(NAME.key(file)).data
    numbers = itertools.count(1)

    def sweep(*args: Any) -> Any:
        done = plain(*args)
        if len(keys) < times:
            stem = file.removesuffix(".singer.gz")[:-16]
            keys.append(NAME.key(f"{stem}{next(numbers):016x}.singer.gz"))
            table.store.put_if_absent(keys[-1], data)
        return done

    patch.setattr(sweeping, "sweep", sweep)
    return keys


def test_what_comes_meanwhile_goes_too(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = leaving(monkeypatch, table, ROUNDS - 1)
    done = swept(table)
    assert (done.files, done.left) == (ROUNDS, [])
    assert not any(map(table.store.exists, keys))


def test_what_is_there_after_the_last_sweep_is_said(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = leaving(monkeypatch, table, ROUNDS)
    done = swept(table)
    assert done.files == ROUNDS
    assert [(one.key, one.reason) for one in done.left] == [
        (keys[-1], f"it was found after everything had been deleted {ROUNDS} times")
    ]
    assert table.store.exists(keys[-1]), "and it is still there"
    assert swept(table).left == [], "until it is run again"
