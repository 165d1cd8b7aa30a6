"""Making again what is lost: the log from the manifest, or from the files; the rest from it."""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from singerlake import FORMAT
from singerlake.errors import ConflictError, DamagedError, NotFoundError
from singerlake.format import names
from singerlake.format.log import MOVING, Block, Entry, SchemaEntry
from singerlake.format.metadata import TransactionSummary
from singerlake.format.names import TableName
from singerlake.maintenance import scan
from singerlake.storage.base import Store
from singerlake.transactions import derived, log
from singerlake.transactions.commit import appending
from singerlake.transactions.snapshot import Snapshot


@dataclass(frozen=True)
class Rebuilt:
    """What a rebuild did to a table.

    Attributes:
        table: Which.
        transactions: Transactions the log has now.
        restored: Log entries that were written again from the manifest.
        adopted: Blocks that were taken in from files no log entry named.
    """

    table: TableName
    transactions: int
    restored: int
    adopted: int


def rebuild_table(store: Store, table: TableName, *, include_locked: bool = False) -> Rebuilt:
    """Make a table's log, manifest and catalogue entry again, from what is left.

    Nothing that is there is overwritten but what is derived from the log. From the manifest,
    every log entry comes back but for its metadata and metrics. From files alone, one
    transaction adopts every block in the order they were written; table versions cannot
    come back then, for nothing but the log and the manifest holds them.

    Args:
        store: The lake's store.
        table: The table.
        include_locked: Whether to adopt files beside a writer's lock. They may be of a
            transaction that was never committed.

    Raises:
        NotFoundError: There is nothing of the table.
        DamagedError: A log entry in the middle is gone and nothing else holds it.
        ConflictError: Somebody else rebuilt it at the same time.
    """
    present = sorted(
        number
        for listed in store.list(table.log)
        if (number := names.transaction_number(listed.key)) is not None
    )
    checkpoint = log.read_checkpoint(store, table)
    restored = adopted = 0
    if checkpoint is not None:
        missing = set(range(1, checkpoint.head + 1)) - set(present)
        moves = moves_left(store, checkpoint)
        with appending(store, table, read_back=False) as append:
            restored = _restore(append, checkpoint, moves, missing)
    elif not present or present[0] != 1:
        with appending(store, table, read_back=False) as append:
            adopted = _adopt(store, table, append, present, include_locked=include_locked)
    snapshot = _fold(store, table)
    derived.write_checkpoint(store, snapshot)
    derived.update_catalogue(store, table, snapshot.schema)
    derived.update_lake_file(store, table.tap)
    return Rebuilt(table, snapshot.head, restored, adopted)


def _restore(
    append: Callable[[Entry], bool], checkpoint: Snapshot, moves: list[Entry], missing: set[int]
) -> int:
    for entry in entries_of(checkpoint, moves):
        if entry.number in missing:
            _create(append, checkpoint.table, entry)
    return len(missing)


def moves_left(store: Store, checkpoint: Snapshot) -> list[Entry]:
    """The entries by which vacuums moved blocks before a checkpoint, those that can be read."""
    found = []
    for summary in checkpoint.transactions:
        if summary.operation in MOVING:
            with suppress(DamagedError):
                entry = log.read_entry(store, checkpoint.table, summary.number)
                found += [entry] if entry is not None else []
    return found


def entries_of(checkpoint: Snapshot, moves: Sequence[Entry] = ()) -> list[Entry]:
    """The log entries that a checkpoint was folded from, as far as it holds them.

    Args:
        checkpoint: What is left of the log.
        moves: Entries of vacuums that are not lost, in order. The others must go with them: a
            block that one of them moves has to be there before, also where it is no more.
    """
    by_number = {block.number: block for block in checkpoint.blocks}
    needed: dict[int, list[tuple[int, Block]]] = {}
    for entry in moves:
        for block in entry.moved:
            needed.setdefault(block.number, []).append((entry.number, block))

    numbers = sorted({*by_number, *needed})

    def block_at(number: int, transaction: int) -> Block | None:
        later = (block for by, block in needed.get(number, []) if by > transaction)
        return by_number.get(number) or next(later, None)

    def blocks_at(summary: TransactionSummary, after: int) -> list[Block]:
        some = numbers[bisect_right(numbers, after) : bisect_right(numbers, summary.last_block)]
        return [block for n in some if (block := block_at(n, summary.number)) is not None]

    found: list[Entry] = []
    seen: set[str] = set()
    frozen = iter(checkpoint.frozen)
    last = 0
    for summary in checkpoint.transactions:
        blocks = blocks_at(summary, last)
        whole = len(blocks) == summary.last_block - last
        last = summary.last_block
        # What a vacuum moved is where the checkpoint has it, whichever entries are lost.
        moving = summary.operation in MOVING
        moved = blocks_at(summary, 0) if moving else []
        used = [b.schema_hash for b in blocks] + [summary.schema_hash]
        new: dict[str, SchemaEntry] = {
            h: checkpoint.schema_of(h) for h in dict.fromkeys(used) if h and h not in seen
        }
        seen.update(new)
        found.append(
            Entry(
                format=FORMAT,
                number=summary.number,
                commit=summary.commit,
                operation=summary.operation,
                stream=checkpoint.table.stream,
                time=summary.time,
                writer=summary.writer,
                software=summary.software,
                schema_hash=summary.schema_hash,
                schemas=new,
                blocks=blocks,
                version=next(frozen, None) if summary.operation == "freeze" else None,
                last_block=0 if whole else summary.last_block,
                moved=moved,
                removed=_gaps(moved, summary.last_block) if moving else [],
                floor=checkpoint.floor if moving else 0,
            )
        )
    return found


def _gaps(blocks: list[Block], last: int) -> list[tuple[int, int]]:
    """The ranges of numbers up to the last that no block has."""
    numbers = [0, *(block.number for block in blocks), last + 1]
    return [(a + 1, b - 1) for a, b in pairwise(numbers) if b - a > 1]


def _adopt(
    store: Store,
    table: TableName,
    append: Callable[[Entry], bool],
    present: list[int],
    *,
    include_locked: bool,
) -> int:
    """Write entries 1 to k-1 in place of the lost ones before the first that is left, k."""
    left = [entry for n in present if (entry := log.read_entry(store, table, n)) is not None]
    known = frozenset((b.file, b.offset) for entry in left for b in entry.blocks)
    entry = scan.adopting_entry(store, table, known=known, include_locked=include_locked)
    if entry is None and not left:
        raise NotFoundError(f"nothing is left of {table}: neither log, manifest nor files")
    count = len(entry.blocks) if entry is not None else 0
    expected = next((e.blocks[0].number - 1 for e in left if e.blocks), count)
    if entry is None or count != expected:
        raise DamagedError(
            f"{table} has lost the log entries before {present[0]}, which held {expected} blocks, "
            f"and {count} blocks are in files that no entry names: they cannot be matched"
        )
    first = msgspec.structs.replace(entry, commit=uuid.uuid4().hex)
    _create(append, table, first)
    for number in range(2, present[0] if present else 2):
        filler = msgspec.structs.replace(
            first, number=number, commit=uuid.uuid4().hex, blocks=[], schemas={}
        )
        _create(append, table, filler)
    return count


def _fold(store: Store, table: TableName) -> Snapshot:
    snapshot = log.read_snapshot(store, table)
    if snapshot is None:
        raise NotFoundError(f"nothing is left of {table}: neither log, manifest nor files")
    later = [
        number
        for listed in store.list(table.log)
        if (number := names.transaction_number(listed.key) or 0) > snapshot.head
    ]
    if later:
        raise DamagedError(
            f"the log of {table} lacks transaction {snapshot.head + 1}, and has {min(later)}: "
            "bring the missing entry back from a backup"
        )
    return snapshot


def _create(append: Callable[[Entry], bool], table: TableName, entry: Entry) -> None:
    if not append(entry):
        raise ConflictError(
            f"transaction {entry.number} of {table} was written by another meanwhile: "
            "run rebuild again"
        )
