"""Deleting at the destination what the source's log says that a vacuum deleted there."""

from __future__ import annotations

from singerlake.errors import SingerlakeError
from singerlake.format import file_paths, names
from singerlake.log import log
from singerlake.log.table_state import TableState
from singerlake.ops.copy import stored
from singerlake.ops.copy.outcome import needed_files
from singerlake.ops.copy.transfers import Meter
from singerlake.ops.vacuum.garbage import Garbage
from singerlake.ops.vacuum.items import Item
from singerlake.ops.vacuum.plan import VacuumOptions, delete_garbage
from singerlake.storage.base import Store


def delete_gone(
    source: Store, destination: Store, head: TableState, wait_seconds: float, meter: Meter
) -> tuple[int, int]:
    """Delete a table's files that its log says are deleted, once no reader there needs them.

    Only what the log names goes, so nothing of a writer at the destination does. The log there
    tells of it by now: whoever takes a lease from now on reads by a log without these files.

    Args:
        head: The table, as both have it.
        wait_seconds: How long to wait for readers.

    Returns:
        How many files were deleted, and how many readers still need.
    """
    options = VacuumOptions(lease_wait_seconds=wait_seconds)
    gone = find_gone(source, destination, head)
    start = len(head.table.folder)
    content = [item for item in gone if file_paths.is_content(item.key[start:])]
    others = [item for item in gone if not file_paths.is_content(item.key[start:])]
    deleted, needed = delete_garbage(
        destination,
        head,
        Garbage(files=others, content=content),
        options,
        check=meter.check,
        tick=meter.check,
    )
    return len(deleted), len(needed)


def find_gone(source: Store, destination: Store, head: TableState) -> list[Item]:
    """Find a table's files at the destination that its log says are deleted.

    Args:
        head: The table, as the source has it.
    """
    table = head.table
    start = len(table.folder)
    kept = needed_files(head).keys() | head.dropped.keys() | stored.lists_of(head).keys()
    listed = {item.key[start:]: item.size for item in destination.list(table.folder)}
    left = {path: size for path, size in listed.items() if path not in kept}
    if not any(names.is_data_path(path) or file_paths.is_list(path) for path in left):
        return []
    items: dict[str, Item] = {}
    for number, entry in log.read_entries(source, table, range(1, head.number + 1)):
        if entry is None or isinstance(entry, SingerlakeError):
            continue  # what an entry that cannot be read would have named stays
        for path in {*entry.deleted, *entry.deletes} & left.keys():
            items[path] = Item(
                table.key(path), left[path], f"deleted by transaction {number}", number
            )
    gone = stored.gone_with(destination, head, filter(file_paths.is_list, [*items]))
    for path in gone.keys() & left.keys():
        by = items[gone[path]]
        items[path] = Item(table.key(path), left[path], by.reason, by.dropped)
    return list(items.values())
