"""Making again what is lost: the log from the manifest, or from the files; the rest from it."""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from singerlake import FORMAT
from singerlake.errors import ConflictError, DamagedError, NotFoundError, SingerlakeError
from singerlake.format import names
from singerlake.format.log import MOVING, Block, Entry, SchemaEntry
from singerlake.format.metadata import TransactionSummary
from singerlake.format.names import TableName
from singerlake.format.sealed import PLAIN
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
    left = _entries_left(store, table)
    checkpoint = log.read_checkpoint(store, table)
    restored = adopted = 0
    if checkpoint is not None:
        moves = [entry for n, entry in left.items() if n <= checkpoint.head and is_move(entry)]
        wanted = entries_of(checkpoint, moves)
        with appending(store, table, read_back=False) as append:
            restored = _append_lost(append, table, wanted, left, checkpoint.chain)
    elif 1 not in left:
        wanted = _adopting(store, table, left, include_locked=include_locked)
        adopted = len(wanted[0].blocks)
        with appending(store, table, read_back=False) as append:
            _append_lost(append, table, wanted, left)
    snapshot = _fold(store, table)
    derived.write_checkpoint(store, snapshot)
    derived.update_catalogue(store, table, snapshot.schema)
    derived.update_lake_file(store, table.tap)
    return Rebuilt(table, snapshot.head, restored, adopted)


def _entries_left(store: Store, table: TableName) -> dict[int, Entry]:
    """The entries that are there, by number.

    Raises:
        DamagedError: One cannot be read.
    """
    numbers = {names.transaction_number(listed.key) or 0 for listed in store.list(table.log)}
    left: dict[int, Entry] = {}
    for number, entry in log.read_entries(store, table, sorted(numbers - {0})):
        if isinstance(entry, DamagedError):
            raise DamagedError(
                f"{entry}; bring it back from a backup, or move it away and run rebuild again: "
                "what else is known of it comes back"
            ) from entry
        if isinstance(entry, SingerlakeError):
            raise entry
        if entry is not None:
            left[number] = entry
    return left


def _append_lost(
    append: Callable[[Entry], Entry | None],
    table: TableName,
    wanted: list[Entry],
    left: dict[int, Entry],
    end: str = "",
) -> int:
    """Write the entries that are lost, so that the chain goes through them.

    A new entry has other bytes than the lost one, and so another hash. Where something is left
    that names the lost one's chain id, the new one says that it stands for that.

    Args:
        append: Into the log.
        table: Whose.
        wanted: What each entry said, from 1 on.
        left: The entries that are there.
        end: The chain id of the last of those wanted, where it is known.

    Returns:
        How many were written.
    """
    last_plain = max((n for n, entry in left.items() if entry.format == PLAIN), default=0)
    chain = ""
    for entry in wanted:
        number = entry.number
        present = left.get(number)
        if present is None:
            after = left.get(number + 1)
            stands_for = (
                after.previous if after is not None else end if number == len(wanted) else ""
            )
            links = {"format": FORMAT, "previous": chain, "stands_for": stands_for}
            if number < last_plain:  # what follows has no chain, and old releases read it
                links = {"format": PLAIN}
            present = _create(append, table, msgspec.structs.replace(entry, **links))
        chain = present.chain
    return sum(entry.number not in left for entry in wanted)


def is_move(entry: Entry) -> bool:
    """Whether a vacuum moved blocks by it."""
    return entry.operation in MOVING


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


def _adopting(
    store: Store, table: TableName, left: dict[int, Entry], *, include_locked: bool
) -> list[Entry]:
    """Entries 1 to k-1 in place of the lost ones before the first that is left, k."""
    known = frozenset((b.file, b.offset) for entry in left.values() for b in entry.blocks)
    entry = scan.adopting_entry(store, table, known=known, include_locked=include_locked)
    if entry is None and not left:
        raise NotFoundError(f"nothing is left of {table}: neither log, manifest nor files")
    count = len(entry.blocks) if entry is not None else 0
    expected = next((e.blocks[0].number - 1 for e in left.values() if e.blocks), count)
    if entry is None or count != expected:
        raise DamagedError(
            f"{table} has lost the log entries before {min(left)}, which held {expected} blocks, "
            f"and {count} blocks are in files that no entry names: they cannot be matched"
        )
    first = msgspec.structs.replace(entry, commit=uuid.uuid4().hex)
    empty = msgspec.structs.replace(first, blocks=[], schemas={})
    fillers = range(2, min(left, default=2))
    return [
        first,
        *(msgspec.structs.replace(empty, number=n, commit=uuid.uuid4().hex) for n in fillers),
    ]


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


def _create(append: Callable[[Entry], Entry | None], table: TableName, entry: Entry) -> Entry:
    written = append(entry)
    if written is None:
        raise ConflictError(
            f"transaction {entry.number} of {table} was written by another meanwhile: "
            "run rebuild again"
        )
    return written
