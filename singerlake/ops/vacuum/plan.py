"""Vacuum: the plan, its announcement, the deletion, and the word that it is done.

A vacuum is a ``vacuum-start`` in the log, which names the files that it is about to delete, so
that no writer that was held up commits one; then a ``combine`` and a ``drop-history``, if there is
anything for them to do; then the deletion; then a ``vacuum`` with
the counts. Killed anywhere, the table reads the same, and the next run finds what is left to do
by looking. The whole of it is ``ops/vacuum/vacuum.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

from singerlake.errors import ConflictError, LockTimeoutError, UsageError
from singerlake.format import file_paths
from singerlake.format.log import Entry, Operation
from singerlake.format.names import TableName
from singerlake.log import conflicts, lease, log
from singerlake.log.capabilities import open_for_writing
from singerlake.log.commit import commit, draft_entry
from singerlake.log.lease import LiveLease
from singerlake.log.locks.lock import SURE_SETTLES, WriterLock
from singerlake.log.staging import FILE_BYTES
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions, hold_locks
from singerlake.ops.vacuum import ages, garbage, unneeded_files
from singerlake.ops.vacuum.combine import Group, plan_listed
from singerlake.ops.vacuum.drop_history import DropHistoryPlan, plan_drop_history
from singerlake.ops.vacuum.garbage import DAY, Garbage
from singerlake.ops.vacuum.items import Item
from singerlake.storage.base import KeyMissingError, Store

COMBINE, DROP_HISTORY, DELETE = PARTS = ("combine", "drop-history", "delete")
"""What a vacuum does, by the words that people choose from."""
LEAST_RETENTION = DAY
BATCH = 100


@dataclass(frozen=True)
class VacuumOptions:
    """The options of a vacuum.

    Attributes:
        retain_seconds: What was needed, or made, in this time stays.
        target_file_bytes: Size that small files are combined to.
        parts: Which of ``PARTS`` to do.
        full: Whether to list the store for leftovers and indexes; else only what the log
            says was dropped is deleted.
        guard: Refuse a retention below a day.
        lease_wait_seconds: How long to wait for readers that may need what is to go.
        lock_wait_seconds: How long to wait for writers, and for another vacuum to show life.
        stale_seconds: How long a lock or lease stands still before it counts as dead.
        watch: Since when leases stand still; one for all tables that are vacuumed by the options.
    """

    retain_seconds: float = 7 * DAY
    target_file_bytes: int = FILE_BYTES
    parts: tuple[str, ...] = (COMBINE, DELETE)
    full: bool = True
    guard: bool = True
    lease_wait_seconds: float = 120.0
    lock_wait_seconds: float = 90.0
    stale_seconds: float = 60.0
    watch: lease.Watch = field(default_factory=lease.Watch, compare=False, repr=False)

    def check(self) -> None:
        """Refuse what could hurt.

        Raises:
            UsageError: The retention is below a day and the guard is on, or a value makes
                no sense.
        """
        if self.retain_seconds < LEAST_RETENTION and self.guard:
            raise UsageError(
                f"a retention of {self.retain_seconds / 3600:g} h is rejected: below 24 h, a "
                "reader without a lease may lose its files (if there are no readers, add "
                "--no-retention-guard)"
            )
        if self.retain_seconds < 0 or self.target_file_bytes < 1:
            raise UsageError("a retention cannot be negative, and a file not smaller than a byte")


@dataclass(frozen=True)
class VacuumPlan:
    """The plan of a vacuum of one table.

    Attributes:
        snapshot: The table's head when it was planned.
        cutoff: Nothing goes that was needed, or made, after it; seconds since 1970.
        combine: Files to put together. What dropping history leaves is combined as well,
            and not known before.
        garbage: What can be deleted, and what could but for its age.
    """

    snapshot: TableState
    cutoff: float
    combine: list[Group]
    drop_history: DropHistoryPlan | None
    garbage: Garbage
    leases: list[LiveLease]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (
            self.combine or self.drop_history or self.garbage.everything or self.garbage.vanished
        )

    @property
    def may_wait(self) -> bool:
        """Whether it may have to wait for readers."""
        return bool(self.leases and self.garbage.everything)

    @property
    def needs_no_run(self) -> bool:
        """Whether a vacuum need not even look: where rows were erased, its log may tell of them."""
        return self.empty and not self.snapshot.erased_at


@dataclass(frozen=True)
class Vacuumed:
    """The result of a vacuum of one table.

    Attributes:
        table: Which.
        transaction: The last transaction that it made; 0 where there was nothing to do.
        files_in: Small files that were combined.
        files_out: Files they became.
        bytes_copied: What was copied for it.
        rows_dropped: Rows of history that went.
        bytes_dropped: By how much that made the table smaller, compressed.
        files_deleted: Objects deleted.
        bytes_deleted: What that freed.
        bytes_written: What new files took instead, those included that were replaced again.
        kept: What nothing needs but could not go yet, and why.
    """

    table: TableName
    transaction: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_copied: int = 0
    rows_dropped: int = 0
    bytes_dropped: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0
    bytes_written: int = 0
    kept: list[Item] = field(default_factory=list)


def plan_vacuum(
    store: Store, snapshot: TableState, options: VacuumOptions, now: float | None = None
) -> VacuumPlan:
    """Look at a table, and change nothing.

    Args:
        now: The time, in seconds since 1970.

    Raises:
        UsageError: The table has no log, or an option makes no sense.
        SingerlakeError: The clock contradicts the log or the store, so that it tells no age.
    """
    options.check()
    table = snapshot.table
    snapshot.check_log()
    retain = options.retain_seconds
    cutoff = (time.time() if now is None else now) - retain
    limit = 0.0 if options.parts == (COMBINE,) else ages.limit(snapshot, retain, now)
    listed = list(store.list(table.folder)) if options.full else None
    groups = plan_listed(snapshot, options.target_file_bytes, listed)
    unneeded = Garbage()
    if DELETE in options.parts:
        unneeded = garbage.find(store, snapshot, limit, listed=listed)
        if options.lease_wait_seconds < options.stale_seconds:
            unneeded = unneeded.without_dead()
    history = plan_drop_history(snapshot, limit) if DROP_HISTORY in options.parts else None
    if now is None and retain and (history or unneeded.everything):
        ages.check_store(store)
    present = lease.leases(store, table, listed)
    options.watch.note(present)
    return VacuumPlan(
        snapshot=snapshot,
        cutoff=cutoff,
        combine=groups if COMBINE in options.parts else [],
        drop_history=history,
        garbage=unneeded,
        leases=present,
    )


def vacuum_lock(
    store: Store,
    table: TableName,
    writer_id: str,
    options: VacuumOptions,
    holder: str = "another vacuum",
) -> WriterLock:
    """The lock that keeps vacuums of one table apart; only a dead one's is waited for.

    Taking it raises ConflictError as soon as the other vacuum shows that it is alive.

    Args:
        holder: What the error calls the one that has the lock.
    """
    seen: list[str] = []

    def give_up_on_life() -> None:
        with suppress(KeyMissingError):
            seen.append(store.get(table.vacuum_lock).etag)
        if len(set(seen)) > 1:
            raise ConflictError(f"{holder} of {table} is running: let it finish")

    open_for_writing(store)
    return WriterLock(
        store,
        table.vacuum_lock,
        writer_id,
        wait_seconds=options.lock_wait_seconds,
        stale_seconds=options.stale_seconds,
        while_waiting=give_up_on_life,
        settles=SURE_SETTLES,
    )


def announce(
    store: Store, plan: VacuumPlan, options: VacuumOptions, writer_id: str
) -> tuple[TableState, Garbage]:
    """Say in the log that a vacuum begins, and which files it is about to delete.

    From then on no writer can commit one of them, however long it was held up. Before that, as a
    courtesy, writers at work in a folder with leftovers are let finish.

    Returns:
        The table after it, and what may be deleted of what was planned.

    What is deleted is gone for good, so the log is read from its beginning before: a manifest, or
    a log, of which one bit has changed may not name all that the table needs.

    Raises:
        ConflictError: A vacuum that was taken for dead moved blocks after the plan was made;
            nothing was announced.
        DamagedError: The log does not check; nothing was announced.
        StoreError: The store refused; nothing was announced.
    """
    log.check_whole(store, plan.snapshot)
    unneeded = plan.garbage
    table = plan.snapshot.table
    with ExitStack() as stack:
        folders = {item.folder(table) for item in unneeded.files if not item.dropped} - {""}
        write = WriteOptions(options.lock_wait_seconds, options.stale_seconds)
        busy: set[str] = set()
        for folder in sorted(folders):
            try:
                stack.enter_context(hold_locks(store, table, [folder], writer_id, write))
            except LockTimeoutError:
                busy.add(folder)
        going = [f for f in unneeded.files if f.dropped or f.folder(table) not in busy]
        left = [
            replace(item, reason="an orphan file next to a running writer")
            for item in unneeded.files
            if item not in going
        ]
        announced, content = list[str](), list[Item]()

        def draft(present: TableState) -> Entry:
            conflicts.check_blocks_unmoved(present, plan.snapshot.number)
            used = {path for block in present.blocks for path in block.paths}
            content[:], listed = unneeded_files.announced(
                store, plan.snapshot, present, unneeded.content
            )
            announced[:] = [
                path for item in going if (path := item.key[len(table.folder) :]) not in used
            ]
            count = len(announced) + len(content)
            return draft_entry(
                table,
                Operation.VACUUM_START,
                writer=writer_id,
                deletes=announced.copy(),
                deletes_listed=listed,
                metrics={"files_to_delete": count, "groups_to_combine": len(plan.combine)},
            )

        after = commit(store, plan.snapshot, draft)
    known = {table.key(path) for path in announced}
    files = [item for item in going if item.key in known]
    return after, replace(unneeded, files=files, content=content, kept=[*unneeded.kept, *left])


def with_newly_dropped(
    store: Store, snapshot: TableState, unneeded: Garbage, options: VacuumOptions
) -> Garbage:
    """Add to the garbage what the vacuum itself has dropped, if nothing is retained."""
    new = garbage.find(store, snapshot, ages.limit(snapshot, options.retain_seconds))
    known = {item.key for item in unneeded.everything} | {item.key for item in unneeded.kept}
    known |= {snapshot.table.key(path) for path in unneeded.vanished}
    # Nothing that an undrop brings back goes before the log has named it.
    known |= {snapshot.table.key(p) for b in snapshot.restorable or () for p in b.paths}
    return replace(
        unneeded,
        files=[*unneeded.files, *(item for item in new.files if item.key not in known)],
        kept=[*unneeded.kept, *(item for item in new.kept if item.key not in known)],
    )


def delete_garbage(
    store: Store,
    snapshot: TableState,
    unneeded: Garbage,
    options: VacuumOptions,
    *,
    check: Callable[[], None],
    tick: Callable[[], None] = lambda: None,
) -> tuple[list[Item], list[Item]]:
    """Delete what was announced, once no reader needs it any more.

    Args:
        snapshot: The table, with nothing of it referenced any more.
        unneeded: What may go.
        options: How long to wait for readers.
        check: Raises where the vacuum's lock was lost.
        tick: Called now and then; may raise to end it.

    Returns:
        What was deleted, and what stays for the next run, with the reason.

    Raises:
        ConflictError: The lock was lost.
        StoreError: The store refused; the next run goes on.
    """
    table = snapshot.table
    # What the table needs now is not deleted, whatever was planned.
    used = {table.key(path) for block in snapshot.blocks for path in block.paths}
    unneeded = replace(unneeded, files=[item for item in unneeded.files if item.key not in used])
    if not unneeded.everything:
        return [], []
    check()
    garbage.delete(store, [item.key for item in unneeded.at_once], tick)
    # Listed after the references are gone: who takes a lease from now on cannot know them.
    present = lease.leases(store, table)
    named = [*unneeded.content, *unneeded.files]  # the lists tell of the content
    needed = {
        one.key
        for one in present
        if unneeded.index_files or any(garbage.protected(item, [one]) for item in named)
    }
    live = lease.wait_out(
        store,
        table,
        needed | {item.key for item in unneeded.dead},
        wait_seconds=options.lease_wait_seconds,
        stale_seconds=options.stale_seconds,
        watch=options.watch,
        tick=tick,
    )
    going: list[Item] = []
    kept: list[Item] = []
    for item in named:
        by = garbage.protected(item, live)
        if by is None:
            going.append(item)
        else:
            kept.append(replace(item, reason=f"needed by the reader {by.reader_id}"))
    for item in garbage.unmarked(store, unneeded.index_files):
        if live:
            kept.append(replace(item, reason=f"the reader {live[0].reader_id} may need it"))
        else:
            going.append(item)
    for start in range(0, len(going), BATCH):
        check()
        garbage.delete(store, [item.key for item in going[start : start + BATCH]], tick)
    alive = {one.key for one in live}
    dead = [item for item in unneeded.dead if item.key not in alive]
    return [*unneeded.at_once, *dead, *going], kept


def finish(
    store: Store,
    snapshot: TableState,
    deleted: list[Item],
    vanished: list[str],
    *,
    writer_id: str,
    metrics: dict[str, int | float],
) -> TableState:
    """Say in the log that a vacuum is done, and what is no more."""
    table = snapshot.table
    paths = [item.key[len(table.folder) :] for item in deleted if item.dropped]
    gone = [path for path in paths if not file_paths.is_content(path)] + vanished

    def draft(_: TableState) -> Entry:
        return draft_entry(table, Operation.VACUUM, writer=writer_id, deleted=gone, metrics=metrics)

    return commit(store, snapshot, draft)
