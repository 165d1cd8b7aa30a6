"""Folding: log entries, one after the other, into what a table is after them.

A snapshot never changes, and a table may have hundreds of thousands of blocks: what is folded is
copied once, entries change the copy in place, and it becomes a snapshot at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain as chained

from msgspec import structs

from singerlake.errors import DamagedError
from singerlake.format.log import Block, Entry, FrozenVersion, Operation
from singerlake.format.metadata import DroppedFile
from singerlake.format.names import TableName
from singerlake.format.packed import PackedSequence
from singerlake.format.version_notes import Deleted
from singerlake.log import chain, erasures, lazy_history, lifetimes, versions
from singerlake.log.table_state import TableState
from singerlake.log.versions import by_number

ERASES_DROPPED = (Operation.ERASE_START, Operation.ERASE)
"""What names files of a table that was dropped, and lets it come back all the same."""


def fold(snapshot: TableState, entries: Iterable[Entry]) -> TableState:
    """Return the snapshot after some more transactions; itself where there are none.

    Raises:
        DamagedError: An entry does not continue this log.
    """
    rest = iter(entries)
    for entry in rest:  # a look that finds nothing new costs nothing, however long the log
        past = snapshot.past
        if past is not None and not past.is_read and lazy_history.only_adds(entry):
            snapshot = lazy_history.with_added(snapshot, past, entry)
            continue
        folding = Folding(lazy_history.whole(snapshot))
        for one in chained([entry], rest):
            folding.add(one)
        return folding.snapshot()
    return snapshot


def restored(snapshot: TableState) -> TableState:
    """Return a table that was dropped as an undrop would bring it back; another as it is.

    It is of the same transaction, for what looks at rows that nobody can read meanwhile.
    """
    if not snapshot.dropped_at or snapshot.restorable is None:
        return snapshot
    earlier = [v for v in snapshot.earlier_versions if v.transaction < snapshot.first]
    folding = Folding(
        replace(
            lazy_history.whole(snapshot),
            blocks=snapshot.restorable,
            restorable=None,
            drops=snapshot.drops[:-1],
            earlier_versions=earlier,
        )
    )
    for version in snapshot.earlier_versions[len(earlier) :]:
        folding.add_version(version)
    return folding.snapshot()


class Folding:
    """A table's state while entries are folded into it.

    Args:
        start: The snapshot to go on from; it stays as it is.
    """

    def __init__(self, start: TableState) -> None:
        self._start = start
        self._table = start.table
        self._transactions = (
            start.transactions.with_more()
            if isinstance(start.transactions, PackedSequence)
            else list(start.transactions)
        )
        self._schemas = dict(start.schemas)
        self._blocks = list(start.blocks)
        self._frozen = list(start.frozen)
        self._deleted_versions = list(start.deleted_versions)
        self._floor = start.floor
        self._dropped = dict(start.dropped)
        self._pending_deletes = dict(start.pending_deletes)
        self._pending_lists = list(start.pending_lists)
        self._vacuumed = start.vacuumed
        self._format, self._chain = start.format, start.chain
        self._anchored, self._doubtful = start.anchored, start.doubtful
        self._overlays = dict(start.overlays)
        self._drops = start.drops
        self._restorable = start.restorable
        self._earlier_versions = list(start.earlier_versions)
        self._erased_at = start.erased_at
        self._blocked = start.blocked

    def snapshot(self) -> TableState:
        """Return what was folded, as a snapshot; nothing more can be added then."""
        return replace(
            self._start,
            transactions=self._transactions,
            schemas=self._schemas,
            blocks=self._blocks,
            frozen=self._frozen,
            deleted_versions=self._deleted_versions,
            floor=self._floor,
            dropped=self._dropped,
            pending_deletes=self._pending_deletes,
            pending_lists=self._pending_lists,
            vacuumed=self._vacuumed,
            format=self._format,
            chain=self._chain,
            anchored=self._anchored,
            doubtful=self._doubtful,
            overlays=self._overlays,
            drops=self._drops,
            restorable=self._restorable,
            earlier_versions=self._earlier_versions,
            erased_at=self._erased_at,
            blocked=self._blocked,
        )

    def add(self, entry: Entry) -> None:
        """Fold in the log's next entry.

        Raises:
            DamagedError: It does not continue this log.
        """
        head = self._transactions[-1] if self._transactions else None
        chain.check_next(self._table, head.number if head else 0, entry)
        if entry.hash:  # one that was only put together, of what is left of a log, has none
            chain.check_link(self._table, self._format, self._chain, entry)
            if not entry.rewritten:  # those behind it are of the format that it had before
                self._format = entry.format
        last = chain.check_blocks(self._table, entry, head.last_block if head else 0)
        for block in entry.blocks:
            self._dropped.pop(block.file, None)  # format 1 used names again
        self._follow_drops(entry)
        self._blocks.extend(entry.blocks)
        self._schemas.update(entry.schemas)
        last = max(last, entry.last_block)
        self._transactions.append(chain.summarize(entry, last, head.schema_hash if head else ""))
        self._follow_versions(entry)
        if entry.moved or entry.removed:
            self._move(entry)
        if entry.operation == Operation.ERASE:
            self._erased_at = entry.number
            self._frozen = erasures.less_erased(self._frozen, entry)
            self._deleted_versions = erasures.less_erased(self._deleted_versions, entry)
            self._earlier_versions = erasures.less_erased(self._earlier_versions, entry)
        if entry.blocked is not None:
            self._blocked = entry.blocked if entry.blocked.keys else None
        self._floor = max(self._floor, entry.floor)
        if entry.overlay is not None:
            self._overlays[entry.number] = entry.overlay
        self._follow_vacuums(entry)
        self._chain, self._anchored, self._doubtful = entry.chain, True, ""

    def _follow_versions(self, entry: Entry) -> None:
        """Fold in the version that an entry makes, deletes or signs, and its pointer's move."""
        if entry.version is not None:  # behind the transaction, which may be the one it means
            self.add_version(entry.version)
        if entry.deletion is not None:
            self._delete_version(entry)
        if entry.pointer is not None:
            self._frozen = versions.with_pointer(self._frozen, entry)
        if entry.signature is not None:
            self._frozen = versions.with_signature(self._frozen, entry)

    def _follow_vacuums(self, entry: Entry) -> None:
        """Fold in what an entry says of files that a vacuum deletes, or has deleted."""
        for file in entry.deletes:
            self._pending_deletes[file] = entry.number
        if entry.operation == Operation.VACUUM:
            for by, listed in self._pending_lists:
                if by > self._vacuumed:  # a list of what was deleted has done its work
                    self._dropped[listed.path] = DroppedFile(listed.path, entry.number, entry.time)
            self._vacuumed = entry.number
        if entry.deletes_listed is not None:
            self._pending_lists.append((entry.number, entry.deletes_listed))
        for file in entry.deleted:
            self._dropped.pop(file, None)

    def _follow_drops(self, entry: Entry) -> None:
        """Fold in what an entry does to the table as a whole: it goes, comes back, or is new."""
        was_dropped = lifetimes.dropped_at(self._drops)
        self._drops = lifetimes.after(self._drops, entry.number, entry.operation)
        if entry.operation == Operation.DROP and not was_dropped:
            self._drop(entry)
        elif was_dropped and entry.operation == Operation.UNDROP:
            self._undrop(entry)
        elif was_dropped and not lifetimes.dropped_at(self._drops):
            self._restorable = None
        elif was_dropped and self._restorable is not None and entry.operation not in ERASES_DROPPED:
            going = {*entry.deletes, *entry.deleted}
            own = {path for block in self._restorable for path in block.paths}
            # Where no block is known, a rebuild may have lost them: anything that goes may be one.
            if entry.removed or own & going or (going and not own):
                self._restorable = None

    def _drop(self, entry: Entry) -> None:
        # A rebuild that does not know the blocks any more says that they are no more.
        self._restorable = None if entry.removed else self._blocks
        self._wait_dropped(self._blocks, entry.number, entry.time)
        self._blocks = []
        self._earlier_versions += by_number(self._frozen, self._deleted_versions)
        self._frozen, self._deleted_versions = [], []

    def _undrop(self, entry: Entry) -> None:
        if self._restorable is None:
            raise DamagedError(
                f"transaction {entry.number} of {self._table} restores a table whose data a vacuum "
                "had already deleted"
            )
        self._blocks, self._restorable = [*self._restorable], None
        for file in {path for block in self._blocks for path in block.paths}:
            self._dropped.pop(file, None)
        first = lifetimes.first(self._drops)
        earlier = self._earlier_versions
        self._earlier_versions = [v for v in earlier if v.transaction < first]
        for version in earlier[len(self._earlier_versions) :]:
            self.add_version(version)

    def add_version(self, version: FrozenVersion) -> None:
        """Take up a version."""
        if version.deleted is not None:
            self._deleted_versions = by_number([*self._deleted_versions, version])
            return
        self._frozen.append(version)

    def _delete_version(self, entry: Entry) -> None:
        """Take a version away; one that a rebuild could not bring back was gone before."""
        said = entry.deletion
        before, self._frozen = self._frozen, []
        for version in before:
            if said is not None and version.number == said.version:
                how = Deleted(entry.number, entry.time, said.reason, said.by)
                version = structs.replace(version, deleted=how)  # noqa: PLW2901  # one with how
            self.add_version(version)

    def _move(self, entry: Entry) -> None:
        """Fold in where blocks lie now, and which are no more; of a dropped table, would lie."""
        dropped_at = lifetimes.dropped_at(self._drops)
        blocks = self._restorable if dropped_at else self._blocks
        for block in entry.moved:
            chain.check_path(self._table, entry, block)
        if blocks is None:
            return  # nobody can bring them back
        before: dict[str, int] = {}
        for block in blocks:
            before[block.file] = before.get(block.file, 0) + block.length
            if block.files is not None:
                before[block.files.path] = 0
        kept = _moved(self._table, blocks, entry)
        for file in {path for block in entry.moved for path in block.paths}:
            self._dropped.pop(file, None)  # a rebuilt entry may have named it before
        after = {path for block in kept for path in block.paths}
        for file in sorted(before.keys() - after):
            self._dropped[file] = DroppedFile(file, entry.number, entry.time, before[file])
        if dropped_at:
            drop = self._transactions[dropped_at - 1]
            self._restorable = kept
            self._wait_dropped(kept, drop.number, drop.time)
        else:
            self._blocks = kept

    def _wait_dropped(self, blocks: Iterable[Block], number: int, time: str) -> None:
        """Have the files of a table's blocks wait for a vacuum since it was dropped."""
        sizes: dict[str, int] = {}
        for block in blocks:
            sizes[block.file] = sizes.get(block.file, 0) + block.length
            if block.files is not None:
                sizes[block.files.path] = 0
        for file, size in sizes.items():
            self._dropped[file] = DroppedFile(file, number, time, size)


def _moved(table: TableName, blocks: Sequence[Block], entry: Entry) -> list[Block]:
    """Return blocks as an entry leaves them that moves some and has others be no more.

    Raises:
        DamagedError: It moves one that is not there.
    """
    moved = {block.number: block for block in entry.moved}
    ranges = iter(sorted(entry.removed))
    first, last = next(ranges, (0, 0))
    kept: list[Block] = []
    for block in blocks:
        while last and block.number > last:
            first, last = next(ranges, (0, 0))
        if not first <= block.number <= last:
            kept.append(moved.pop(block.number, block))
    if moved:
        raise DamagedError(
            f"transaction {entry.number} of {table} moves block {min(moved)}, which does not exist"
        )
    return kept
