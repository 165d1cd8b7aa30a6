"""Making again what is lost: the log from the manifest, or from the files; the rest from it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import msgspec

from singerlake.errors import ConflictError, DamagedError, NotFoundError, SingerlakeError
from singerlake.format import block as format_block
from singerlake.format import content, names
from singerlake.format.log import Entry, seal_entry
from singerlake.format.names import TableName
from singerlake.format.sealed import PLAIN
from singerlake.log import catalogue, file_lists, files, lake_file, log, scan
from singerlake.log.appending import appending
from singerlake.log.blocks import read_block
from singerlake.log.capabilities import open_for_writing
from singerlake.log.checkpoint import differing, write_checkpoint
from singerlake.log.files import DataFiles
from singerlake.log.table_state import TableState
from singerlake.log.unfolding import entries_of
from singerlake.storage.base import Listed, Store
from singerlake.version import FORMAT


@dataclass(frozen=True)
class Rebuilt:
    """The result of a rebuild of a table.

    Attributes:
        table: Which.
        transactions: Transactions the log has now.
        restored: Log entries that were written again from the manifest.
        adopted: Blocks that were taken in from files no log entry named.
        left: Files beside a writer's lock that were left out, as it was asked for.
        dropped: Whether the table is dropped, and stays so.
    """

    table: TableName
    transactions: int
    restored: int
    adopted: int
    left: int = 0
    dropped: bool = False


def rebuild_table(
    store: Store, table: TableName, *, include_locked: bool = False, leave_locked: bool = False
) -> Rebuilt:
    """Make a table's log, manifest and catalogue entry again, from what is left.

    Nothing that is there is overwritten but what is derived from the log. From the manifest,
    every log entry comes back but for its metadata and metrics; where the log's end is lost as
    well, one more transaction adopts the blocks that nothing names. From files alone, one
    transaction adopts every block in the order they were written; table versions cannot
    come back then, for nothing but the log and the manifest holds them.

    Args:
        include_locked: Whether to adopt files beside a writer's lock. They may be of a
            transaction that was never committed.
        leave_locked: Whether to go on without them, for good.

    Raises:
        NotFoundError: There is nothing of the table.
        DamagedError: A log entry in the middle is gone and nothing else holds it; or there are
            files beside a lock, and neither way to treat them was chosen.
        ConflictError: Somebody else rebuilt it at the same time.
    """
    locked = _Locked(table, include=include_locked, leave=leave_locked)
    checkpoint = log.read_checkpoint(store, table)
    left = _entries_left(store, table, checkpoint.number if checkpoint is not None else 0)
    restored = adopted = 0
    if checkpoint is not None:
        folded = [entry for n, entry in left.items() if n <= checkpoint.number]
        lost = _linked(entries_of(checkpoint, folded), left, checkpoint.chain)
        more = _lost_end(store, checkpoint, lost, left, locked)
        adopted = sum(len(entry.blocks) for entry in more)
        # First what is behind the manifest: once its last entry is there again, nothing tells
        # any more that others were lost.
        _append(store, table, [*more, *lost])
        restored = len(lost)
    elif 1 not in left:
        lost = _linked(_adopting(store, table, left, locked), left)
        adopted = len(lost[0].blocks)
        _append(store, table, lost)
    snapshot = _fold(store, table)
    if checkpoint is not None:
        snapshot = _as_the_log_says(store, snapshot)
    open_for_writing(store)
    write_checkpoint(store, snapshot)
    dropped = bool(snapshot.dropped_at)
    if dropped:
        catalogue.remove(store, table)
    else:
        laid_over = not snapshot.overlay.only_texts
        entry = catalogue.entry_of(table, snapshot.schema, laid_over=laid_over)
        catalogue.update(store, table.tap, [entry])
    lake_file.add_tap(store, table.tap)
    return Rebuilt(table, snapshot.number, restored, adopted, locked.left, dropped)


@dataclass
class _Locked:
    """The files beside a writer's lock that nothing names, and their fate.

    Attributes:
        include: They are taken in.
        leave: They are left out; if neither, they are an error.
        left: How many were left out.
    """

    table: TableName
    include: bool
    leave: bool
    left: int = 0

    def chosen(
        self, free: list[Listed], present: DataFiles, *, all_there_is: bool = False
    ) -> list[Listed]:
        """The files to take in, of those without a lock and those beside one.

        Args:
            free: Those without.
            present: Those beside one, among others.
            all_there_is: Whether nothing else is left of the table.

        Raises:
            DamagedError: There are some beside one, and nobody has said what to do.
        """
        if present.locked and self.include:
            return [*free, *present.locked]
        if present.locked and not self.leave:
            raise DamagedError(files.left_aside(self.table, present, all_there_is=all_there_is))
        self.left = len(present.locked)
        return free


def _entries_left(store: Store, table: TableName, head: int) -> dict[int, Entry]:
    """The entries that are there, by number.

    Args:
        head: Up to which number to look for them whatever a listing shows.

    Raises:
        DamagedError: One cannot be read.
    """
    numbers = {names.transaction_number(listed.key) or 0 for listed in store.list(table.log)}
    numbers |= {*range(1, head + 1)}
    left: dict[int, Entry] = {}
    for number, entry in log.read_entries(store, table, sorted(numbers - {0})):
        if isinstance(entry, DamagedError):
            raise DamagedError(
                f"{entry}; restore it from a backup, or move it away and run rebuild again: "
                "everything else is restored"
            ) from entry
        if isinstance(entry, SingerlakeError):
            raise entry
        if entry is not None:
            left[number] = entry
    return left


def _linked(wanted: list[Entry], left: dict[int, Entry], end: str = "") -> list[Entry]:
    """The entries that are lost, such that the chain goes through them.

    A new entry has other bytes than the lost one, and so another hash. Where something is left
    that names the lost one's chain id, the new one says that it stands for that.

    Args:
        wanted: What each entry said, from 1 on.
        end: The chain id of the last of those wanted, where it is known.
    """
    last_plain = max((n for n, entry in left.items() if entry.format == PLAIN), default=0)
    signed = {one.signature.head: one.signature.chain for one in wanted if one.signature}
    chain = ""
    lost: list[Entry] = []
    for entry in wanted:
        number = entry.number
        present = left.get(number)
        if present is None:
            known = left[number + 1].previous if number + 1 in left else signed.get(number, "")
            links = {
                "format": FORMAT,
                "previous": chain,
                "stands_for": known or (end if number == len(wanted) else ""),
            }
            if number < last_plain:  # what follows has no chain, and old releases read it
                links = {"format": PLAIN}
            present, _ = seal_entry(msgspec.structs.replace(entry, **links))
            lost.append(present)
        chain = present.chain
    return lost


def _lost_end(
    store: Store,
    checkpoint: TableState,
    lost: list[Entry],
    left: dict[int, Entry],
    locked: _Locked,
) -> list[Entry]:
    """The entry that takes in what was committed behind the manifest, where that is lost."""
    if max(left, default=0) >= checkpoint.number:
        return []
    table = checkpoint.table
    present = files.list_files(store, table)
    beside = replace(present, locked=log.unnamed_files(table, present.locked, checkpoint))
    chosen = locked.chosen(log.unnamed_files(table, present.free, checkpoint), beside)
    entry = scan.unnamed_entry(store, checkpoint, chosen)
    if entry is None:
        return []
    entry = _with_lists(store, table, entry)
    links = {"previous": lost[-1].chain, "format": FORMAT}
    return [msgspec.structs.replace(entry, commit=uuid.uuid4().hex, **links)]


def _with_lists(store: Store, table: TableName, entry: Entry) -> Entry:
    """An entry whose blocks have lists of the files that their rows name, made of the rows."""
    blocks = []
    for block in entry.blocks:
        text = read_block(store, table, block)
        place = content.place_in_line(format_block.lines(text)[0])
        named = content.named_in(text, place) if place is not None else {}
        if named:
            listed, data = content.encode_list(named)
            file_lists.publish(store, table, listed, data)
            blocks.append(msgspec.structs.replace(block, files=listed))
        else:
            blocks.append(block)
    return msgspec.structs.replace(entry, blocks=blocks)


def _append(store: Store, table: TableName, entries: list[Entry]) -> None:
    with appending(log.TableLog(store, table), read_back=False) as append:
        for entry in entries:
            if append(entry) is None:
                raise ConflictError(
                    f"transaction {entry.number} of {table} was written by another process in the "
                    "meantime: run rebuild again"
                )


def _adopting(
    store: Store, table: TableName, left: dict[int, Entry], locked: _Locked
) -> list[Entry]:
    """Entries 1 to k-1 in place of the lost ones before the first that is left, k."""
    known = frozenset((b.file, b.offset) for entry in left.values() for b in entry.blocks)
    paths = {file for file, _ in known}
    present = files.list_files(store, table)
    beside = [item for item in present.locked if item.key[len(table.folder) :] not in paths]
    nothing_else = not left and not present.free
    if nothing_else and beside and not locked.include:
        at_work = present.idle_seconds < files.DEAD_SECONDS
        if at_work or locked.leave:
            raise NotFoundError(_only_locked(table, present, at_work=at_work))
    chosen = locked.chosen(present.free, replace(present, locked=beside), all_there_is=nothing_else)
    entry = scan.adopting_entry(store, table, chosen, known=known)
    if entry is None and not left:
        raise NotFoundError(f"nothing is left of {table}: neither log, manifest nor files")
    count = len(entry.blocks) if entry is not None else 0
    expected = next((e.blocks[0].number - 1 for e in left.values() if e.blocks), count)
    if entry is None or count != expected:
        raise DamagedError(
            f"{table} has lost the log entries before {min(left)}, which contained {expected} "
            f"blocks, and {count} blocks are in files that no entry lists: they cannot be matched"
        )
    first = msgspec.structs.replace(_with_lists(store, table, entry), commit=uuid.uuid4().hex)
    empty = msgspec.structs.replace(first, blocks=[], schemas={})
    fillers = range(2, min(left, default=2))
    return [
        first,
        *(msgspec.structs.replace(empty, number=n, commit=uuid.uuid4().hex) for n in fillers),
    ]


def _only_locked(table: TableName, present: DataFiles, *, at_work: bool) -> str:
    """Describe a table of which only files beside a lock are left, and which stays out."""
    what_then = (
        "its first writer is running: wait for it"
        if at_work
        else "without them there is nothing to rebuild: adopt them with: singerlake rebuild "
        f"{table} --include-locked, or delete them, if you know that they were never committed"
    )
    return (
        f"nothing is left of {table} but {len(present.locked)} data files next to a writer's lock "
        f"(the first is {present.locked[0].key}), which was refreshed {present.idle_seconds:,.0f} "
        f"s ago; {what_then}"
    )


def _as_the_log_says(store: Store, snapshot: TableState) -> TableState:
    """The table by its log alone, where the manifest says something else.

    An entry that was written again does not say all that the lost one said: where a block lay
    before it was moved, how many rows were dropped since. A vacuum would not go on with a manifest
    that still does.
    """
    whole = log.read_whole(store, snapshot.table, snapshot.number)
    if next(differing(whole, snapshot), None) is None:
        return snapshot
    store.delete(snapshot.table.manifest)
    store.delete(snapshot.table.head_file)
    return whole


def _fold(store: Store, table: TableName) -> TableState:
    snapshot = log.read_snapshot(store, table)
    if snapshot is None:
        raise NotFoundError(f"nothing is left of {table}: neither log, manifest nor files")
    later = [
        number
        for listed in store.list(table.log)
        if (number := names.transaction_number(listed.key) or 0) > snapshot.number
    ]
    if later:
        raise DamagedError(
            f"the log of {table} lacks transaction {snapshot.number + 1}, and has {min(later)}: "
            "restore the missing entry from a backup"
        )
    return snapshot
