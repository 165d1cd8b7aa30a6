"""Small tables with photos, by the target, and vacuums of them without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from singerlake.format import content, file_paths
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log import file_lists
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.drop_history import plan_drop_history
from singerlake.ops.vacuum.plan import DELETE, VacuumOptions
from singerlake.storage.base import Store
from tests.ops.vacuum.plain_table import cutoff_at, drop
from tests.target.harness import TAP, record, run, schema

FILE = {"type": ["object", "null"], "format": "singer.file"}
PHOTOS = {"id": {"type": "integer"}, "photo": FILE}
NAME = TableName(TAP, "photos")
AT_ONCE = VacuumOptions(
    retain_seconds=0, guard=False, lease_wait_seconds=0, lock_wait_seconds=0, parts=(DELETE,)
)


def sync(lake: Path | str, photos: dict[int, Any], **config: Any) -> None:
    """Take in rows whose photo is what is given: a URI, or the object itself."""
    lines = [schema("photos", PHOTOS, ["id"])]
    for id_, photo in photos.items():
        said = {"uri": photo} if isinstance(photo, str) else photo
        lines.append(record("photos", {"id": id_, "photo": said}))
    run(lake, lines, **config)


def table_of(lake: Path | str) -> Table:
    return Lake.open(str(lake)).table(NAME)


def listed(table: Table) -> set[str]:
    """What the lists of the table's blocks name."""
    lists = file_lists.lists_of(table.snapshot(dropped=True).blocks)
    return {path for _, named in file_lists.read_all(table.store, NAME, lists) for path in named}


def stored(store: Store) -> set[str]:
    """The files that are there."""
    start = len(NAME.folder)
    paths = (item.key[start:] for item in store.list(NAME.content))
    return {path for path in paths if file_paths.is_content(path)}


def lists(store: Store) -> set[str]:
    """The lists that are there."""
    start = len(NAME.folder)
    return {i.key[start:] for i in store.list(NAME.content) if file_paths.is_list(i.key[start:])}


def clean(table: Table, options: VacuumOptions = AT_ONCE) -> None:
    """A vacuum that only deletes, as its job does."""
    plan = vacuum.plan_vacuum(table.store, table.snapshot(dropped=True), options)
    after, garbage = vacuum.announce(table.store, plan, options, "vacuum")
    finish(table, after, garbage, options)


def finish(table: Table, after: Any, garbage: Any, options: VacuumOptions = AT_ONCE) -> None:
    """The rest of one that has been announced."""
    deleted, _ = vacuum.delete_garbage(table.store, after, garbage, options, check=lambda: None)
    vacuum.finish(table.store, after, deleted, garbage.vanished, writer_id="v", metrics={})


def forget(table: Table) -> None:
    """Drop all history."""
    head = table.snapshot()
    plan = plan_drop_history(head, cutoff_at(head, head.number))
    assert plan is not None
    drop(table, head, plan)


def named_by_rows(table: Table) -> Iterator[str]:
    """What is said in the rows themselves."""
    for block in table.snapshot().blocks:
        text = table.read_block(block)
        place = content.place_in_line(text[: text.index(b"\n") + 1])
        if place is not None:
            yield from content.named_in(text, place)
