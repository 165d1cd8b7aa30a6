"""Lakes to copy from, vacuumed without Spark, and what must hold of a copy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions
from singerlake.ops.copy.lake_versions import (
    CopiedLakeVersion,
    choose_lake_version,
    coming_versions,
    copy_lake_versions,
)
from singerlake.ops.copy.outcome import Copied, CopyOptions
from singerlake.ops.copy.run import choose, copy_tables, finish
from singerlake.ops.copy.transfers import Meter
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.combine import commit_combine, write_group
from singerlake.ops.vacuum.plan import DELETE, VacuumOptions, plan_vacuum
from singerlake.ops.verify.data_files import check_files
from singerlake.ops.verify.plan import check_log
from singerlake.ops.verify.whole_table import check_block
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.faults import plain

ID = {"id": {"type": "integer"}}
NAME = "tap-test.t"
NOTHING = VacuumOptions(
    retain_seconds=0, guard=False, lease_wait_seconds=0, lock_wait_seconds=1, stale_seconds=0.5
)
QUICK = CopyOptions(
    transfers=2,
    tables=2,
    lease_wait_seconds=0,
    writing=WriteOptions(lock_wait_seconds=20),
)
"""Threads as in earnest, and nobody waits for long."""
AGAIN = replace(QUICK, writing=WriteOptions(lock_wait_seconds=20, lock_stale_seconds=0.3))
"""For a run after one that died: it takes over its locks."""
ONE_BY_ONE = replace(QUICK, transfers=1, tables=1)
"""Always the same requests in the same order."""


def write(lake: Lake, *ids: int, table: str = NAME) -> TableState:
    return commit_rows(lake, table, ID, ["id"], [{"id": n} for n in ids], block_rows=2)


def combine(lake: Lake, table: str = NAME) -> TableState:
    """Put all files of a table into one; the old ones stay."""
    found = lake.find(table)[0]
    plan = plan_vacuum(lake.store, found.snapshot(), NOTHING)
    written = [(g, write_group(lake.store, found.name, g)) for g in plan.combine]
    return commit_combine(lake.store, plan.snapshot, written, writer_id="test")


def delete(lake: Lake, table: str = NAME) -> list[str]:
    """Delete what nothing needs, as a vacuum does; names of what went."""
    found = lake.find(table)[0]
    options = replace(NOTHING, parts=(DELETE,))
    plan = plan_vacuum(lake.store, found.snapshot(dropped=True), options)
    after, garbage = vacuum.announce(lake.store, plan, options, "vacuum-1")
    deleted, _ = vacuum.delete_garbage(lake.store, after, garbage, options, check=lambda: None)
    vacuum.finish(
        lake.store, after, deleted, garbage.vanished, writer_id="vacuum-1", metrics={"n": 1}
    )
    return sorted(item.key for item in deleted)


def copy(
    source: Store, destination: Store, *tables: str, options: CopyOptions = QUICK
) -> list[Copied]:
    """Copy, and raise the first error there is."""
    lake = Lake(source)
    chosen = choose(lake, tables) if tables else dict.fromkeys(lake.tables(), ())
    came = [one for _, one in copy_tables(source, destination, chosen, options, Meter())]
    failed = [one for one in came if isinstance(one, SingerlakeError)]
    copied = [one for one in came if isinstance(one, Copied)]
    if not options.dry_run:
        finish(source, destination, copied, whole=not tables)
    if failed:
        raise failed[0]
    return copied


def copy_lake_version(
    source: Store, destination: Store, name: str, options: CopyOptions = QUICK
) -> list[CopiedLakeVersion]:
    """Copy a lake version, and raise the first error there is."""
    chosen, versions = choose_lake_version(Lake(source), name)
    coming_versions(destination, versions, last_alone=True)
    came = [one for _, one in copy_tables(source, destination, chosen, options, Meter())]
    finish(source, destination, [one for one in came if isinstance(one, Copied)], whole=False)
    for one in came:
        if isinstance(one, SingerlakeError):
            raise one
    return copy_lake_versions(source, destination, versions, [], last_alone=True)


def log_of(store: Store, table: str = NAME) -> dict[str, bytes]:
    name = Lake(store).find(table)[0].name
    return {item.key: store.get(item.key).data for item in store.list(name.log)}


def data_files(store: Store, table: str = NAME) -> dict[str, bytes]:
    name = Lake(store).find(table)[0].name
    keys = [item.key for item in store.list(name.folder) if item.key.endswith(".singer.gz")]
    return {key: store.get(key).data for key in keys}


def problems(store: Store, table: str = NAME) -> list[Any]:
    """What ``singerlake verify`` finds, without Spark."""
    name = Lake(store).find(table)[0].name
    found = check_log(store, name)
    head = found.snapshot
    if head.dropped_at:
        head = replace(head, blocks=head.restorable or [])
    missing, readable = check_files(head, store.list(name.folder))
    blocks = [p for b in readable for p in check_block(store, name, b)]
    return [*found.problems, *missing, *blocks]


def rows(store: LocalStore, upto: int | None = None) -> list[int]:
    """The ids of a table's rows, by a reader that shares no line with the project."""
    table = plain.tables(plain.dump_folder(Path(store.root)))[NAME]
    return [row["id"] for row in table.state(upto)]


def opens(store: Store, table: str = NAME) -> list[int]:
    """The ids of the rows that the project's own reader sees; every block is read."""
    found = Lake.open(store.uri).find(table)[0]
    snapshot = found.snapshot()
    lines = b"".join(found.read_block(block) for block in snapshot.blocks).splitlines()
    messages = [json.loads(line) for line in lines]
    return sorted(m["record"]["id"] for m in messages if m["type"] == "RECORD")
