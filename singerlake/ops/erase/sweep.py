"""Deletes what had the rows, and nothing needs any more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from singerlake.lake import Table
from singerlake.log.folding import restored
from singerlake.log.locks.lock import WriterLock
from singerlake.ops.vacuum import leftovers
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.items import Item
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake.ops.vacuum.run import sweep

ROUNDS = 3
"""Sweeps after the commit: the first drops lists of files, the second then the files."""


@dataclass(frozen=True)
class Swept:
    """The objects that were deleted.

    Attributes:
        left: What could not be deleted yet, and why.
    """

    files: int = 0
    bytes: int = 0
    left: list[Item] = field(default_factory=list)


def sweep_erased(table: Table, options: VacuumOptions, writer_id: str, lock: WriterLock) -> Swept:
    """Delete all that may have the rows and that nobody needs any more.

    Of a table that was dropped, what an undrop would bring back stays: it has no such row any more,
    and waits for a vacuum.

    Args:
        options: Its retention is how old something is at least: what is younger cannot have them.

    Raises:
        SingerlakeError: As of a vacuum.
    """
    store, younger = table.store, options.retain_seconds
    now = None if younger else float("inf")
    files = size = 0
    left: list[Item] = []
    for sweeps in range(ROUNDS + 1):
        head = table.snapshot(dropped=True)
        plan = vacuum.plan_vacuum(store, restored(head), options, now=now)
        plan = replace(plan, snapshot=head)
        young = {item.key for item in plan.garbage.kept} if younger else set()
        left = [item for item in plan.garbage.kept if item.key not in young]
        if plan.empty:
            break
        if sweeps == ROUNDS:  # somebody leaves files as fast as they are deleted
            why = f"it was found after everything had been deleted {ROUNDS} times"
            left += [replace(item, reason=why) for item in plan.garbage.everything]
            break
        swept = sweep(table, options, writer_id, lock, plan)
        files, size = files + swept.files_deleted, size + swept.bytes_deleted
        left = [item for item in swept.kept if item.key not in young]
        if swept.kept:
            break  # who needs it was waited for
    staged = leftovers.plan_leftovers(store, options)
    files += len(leftovers.remove_leftovers(store, staged))
    left += [] if younger else staged.kept
    return Swept(files, size, left)
