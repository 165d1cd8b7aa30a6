"""What a table takes, and what of it a vacuum frees now and later."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from singerlake.format import times
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.ops.vacuum.plan import VacuumOptions, plan_vacuum
from singerlake.ops.vacuum.sizes import RETENTION, Sizes, sizes
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.ops.vacuum.test_combine import combine

NAME = TableName("tap", "s")
DAY = 86_400.0


@pytest.fixture
def combined(lake: Lake) -> Iterator[Table]:
    """Three files that one took the place of, just now."""
    for n in range(3):
        commit_rows(lake, str(NAME), {"id": {"type": "integer"}}, ["id"], [{"id": n}])
    table = lake.table(NAME)
    combine(table, 1 << 20)
    yield table


def measured(table: Table, now: float | None = None) -> Sizes:
    return sizes(table.store, table.snapshot(), now=now)


def on_disk(table: Table) -> int:
    assert isinstance(table.store, LocalStore)
    folders = [table.store.root / prefix for prefix in (table.name.folder, table.name.indexes)]
    return sum(p.stat().st_size for folder in folders for p in folder.rglob("*") if p.is_file())


def seconds(text: str | None) -> float:
    instant = times.parse(text or "")
    assert instant is not None
    return instant.timestamp()


def test_a_file_of_no_use_is_free_once_the_retention_is_over(combined: Table) -> None:
    plan = plan_vacuum(combined.store, combined.snapshot(), VacuumOptions())
    waiting = sum(item.bytes for item in plan.garbage.kept)
    young = measured(combined)
    assert (young.free_now_bytes, young.free_later_bytes) == (0, waiting)
    until = seconds(young.free_later_at)
    assert -60 <= until - RETENTION - times.now().timestamp() <= 1
    # To the second: at that time it is free, and just before it is not yet.
    assert measured(combined, until - 2).free_now_bytes == 0
    later = measured(combined, until)
    assert (later.free_now_bytes, later.free_later_bytes) == (waiting, 0)
    assert later.free_later_at is None
    plan = plan_vacuum(combined.store, combined.snapshot(), VacuumOptions(), now=until)
    assert sum(item.bytes for item in plan.garbage.files) == later.free_now_bytes


def test_a_leftover_waits_by_its_own_age(combined: Table) -> None:
    assert isinstance(combined.store, LocalStore)
    known = measured(combined)
    beside = combined.store.root / combined.name.data(combined.snapshot().blocks[0].file)
    stamp = "20260101T000000000000Z"
    leftover = beside.with_name(f"{NAME.stream}-{stamp}-{stamp}-9.singer.gz")
    leftover.write_bytes(b"x" * 100)
    found = measured(combined)
    assert found.free_later_bytes == known.free_later_bytes + 100
    old = time.time() - RETENTION - 5
    os.utime(leftover, (old, old))
    found = measured(combined)
    assert (found.free_now_bytes, found.free_later_bytes) == (100, known.free_later_bytes)


def test_all_that_lies_there_is_counted_and_indexes_by_themselves(combined: Table) -> None:
    assert isinstance(combined.store, LocalStore)
    before = measured(combined)
    assert before.store_bytes == on_disk(combined)
    assert (before.indexes, before.index_bytes) == (0, 0)
    for number in (1, 3):
        part = combined.store.root / combined.name.index(number) / "part-00000.parquet"
        part.parent.mkdir(parents=True)
        part.write_bytes(b"x" * 50)
    found = measured(combined)
    assert (found.indexes, found.index_bytes) == (2, 100)
    assert found.store_bytes == before.store_bytes + 100 == on_disk(combined)


def test_holes_wait_for_a_vacuum_and_for_the_retention(combined: Table) -> None:
    """A file of which most is no block's any more is written anew, and the old one waits."""
    assert isinstance(combined.store, LocalStore)
    known = measured(combined)
    file = combined.store.root / combined.name.data(combined.snapshot().blocks[0].file)
    with file.open("ab") as data:
        data.write(b"x" * 10_000)
    now = times.now().timestamp()
    found = measured(combined, now)
    assert found.free_now_bytes == 0
    assert found.free_later_bytes == known.free_later_bytes + 10_000
    assert seconds(found.free_later_at) >= now + RETENTION


def test_ls_says_now_and_later_apart_with_the_date_and_a_total(lake: Lake, combined: Table) -> None:
    commit_rows(lake, "tap.other", {"id": {"type": "integer"}}, ["id"], [{"id": 1}] * 5)
    (other, first) = run_json(lake, "ls", "--sizes")
    assert (other["table"], first["table"]) == ("tap.other", "tap.s")
    assert (first["free_now_bytes"], other["free_later_bytes"]) == (0, 0)
    text = run(lake, "ls", "--sizes").stdout
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert rows["total"][1] == "8"
    until = first["free_later_at"][:19].replace("T", " ")
    assert f"wait for the retention of 7 days: a vacuum frees all of it from {until} UTC" in text
    assert "0.0 " not in text


def test_ls_says_what_is_free_now(
    lake: Lake, combined: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = time.time() + 8 * DAY
    monkeypatch.setattr("singerlake.ops.vacuum.sizes.time.time", lambda: later)
    (table,) = run_json(lake, "ls", "--sizes")
    assert table["free_now_bytes"] > 0
    assert (table["free_later_bytes"], table["free_later_at"]) == (0, None)
    text = run(lake, "ls", "--sizes").stdout
    assert "to free now: singerlake vacuum --all" in text
    assert "wait for" not in text
