"""Unfolding: the log entries that a checkpoint was folded from, as far as it holds them."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import structs

from singerlake.format.log import (
    FREEZES_ITSELF,
    Block,
    Entry,
    FrozenVersion,
    Operation,
    SchemaEntry,
)
from singerlake.format.metadata import TransactionSummary
from singerlake.format.version_notes import (
    BlockedKeys,
    ErasedVersion,
    Erasure,
    PointerMove,
    SignatureNote,
    VersionDeletion,
    VersionSignature,
)
from singerlake.log import versions
from singerlake.log.conflicts import MOVES_BLOCKS
from singerlake.log.table_state import TableState
from singerlake.version import FORMAT

_MAY_BLOCK = (Operation.ERASE, Operation.BLOCK_KEYS)
"""Operations whose entries may say which keys are blocked."""


def entries_of(checkpoint: TableState, left: Sequence[Entry] = ()) -> list[Entry]:
    """Unfold the log entries that a checkpoint was folded from, but for metadata and metrics.

    Args:
        checkpoint: What is left of the log.
        left: Entries up to it that are not lost, in order. The others must go with them: a
            block that one of them moves has to be there before, also where it is no more.
    """
    return [*_Unfolding(checkpoint, left).entries()]


class _Unfolding:
    """Says, transaction by transaction, what each entry must have said."""

    def __init__(self, checkpoint: TableState, left: Sequence[Entry]) -> None:
        self._checkpoint = checkpoint
        self._left = left
        blocks = checkpoint.blocks or checkpoint.restorable or []
        self._by_number = {block.number: block for block in blocks}
        self._moved: dict[int, list[tuple[int, Block]]] = {}
        for entry in left:
            for block in entry.moved:
                self._moved.setdefault(block.number, []).append((entry.number, block))
        self._numbers = sorted({*self._by_number, *self._moved})
        self._pending: dict[int, list[str]] = {}
        for file, by in checkpoint.pending_deletes.items():
            self._pending.setdefault(by, []).append(file)
        self._pending_lists = dict(checkpoint.pending_lists)
        self._seen: set[str] = set()
        every = versions.known(checkpoint)
        self._frozen = deque(
            structs.replace(one, deleted=None, erased=[], pointed=[], signed=[]) for one in every
        )
        self._deletions = {
            one.deleted.transaction: VersionDeletion(one.number, one.deleted.reason, one.deleted.by)
            for one in every
            if one.deleted is not None
        }
        self._moves = {
            note.transaction: PointerMove(note.name, 0 if note.removed else one.number, note.by)
            for one in every
            for note in one.pointed
        }
        self._signatures = {
            note.transaction: _signature(one.number, note) for one in every for note in one.signed
        }
        self._blocked_by = _last_of_blocked(checkpoint, {entry.number for entry in left})
        self._erasures: dict[int, Erasure] = {}
        self._erased: dict[int, list[ErasedVersion]] = {}
        for version in every:
            self._add_erasures(version)

    def _add_erasures(self, version: FrozenVersion) -> None:
        """Note what a version says of erasures; each is told with the last one's fingerprints.

        What an erasure left before another came nobody needs, and it was to be forgotten.
        """
        for note in version.erased:
            self._erasures[note.transaction] = Erasure(note.reason, note.by)
            left = ErasedVersion(
                version=version.number,
                rows_before=note.rows_before,
                rows=note.rows,
                fingerprint=version.fingerprint,
                record_fingerprint=version.record_fingerprint,
            )
            self._erased.setdefault(note.transaction, []).append(left)

    def entries(self) -> Iterator[Entry]:
        last = 0
        for summary in self._checkpoint.transactions:
            blocks = self._blocks(summary, last)
            whole = len(blocks) == summary.last_block - last
            last = summary.last_block
            yield self._entry(summary, blocks, last_block=0 if whole else last)

    def _entry(self, summary: TransactionSummary, blocks: list[Block], last_block: int) -> Entry:
        checkpoint, operation = self._checkpoint, summary.operation
        # What a vacuum moved is where the checkpoint has it, whichever entries are lost.
        moving = operation in MOVES_BLOCKS
        moved = self._blocks(summary, 0) if moving else []
        return Entry(
            format=FORMAT,
            number=summary.number,
            commit=summary.commit,
            operation=operation,
            stream=checkpoint.table.stream,
            time=summary.time,
            writer=summary.writer,
            software=summary.software,
            schema_hash=summary.schema_hash,
            schemas=self._new_schemas(summary, blocks),
            blocks=blocks,
            version=self._version(summary),
            deletion=self._deletions.get(summary.number),
            pointer=self._moves.get(summary.number),
            signature=self._signatures.get(summary.number),
            erasure=self._erasures.get(summary.number),
            erased=self._erased.get(summary.number, []),
            blocked=self._blocked(summary.number),
            last_block=last_block,
            moved=moved,
            removed=_gaps(moved, summary.last_block) if moving else self._gone(summary),
            floor=checkpoint.floor if moving else 0,
            overlay=checkpoint.overlays.get(summary.number),
            deletes=self._pending.get(summary.number, []),
            deletes_listed=self._pending_lists.get(summary.number),
            deleted=self._deleted(summary.number) if operation == Operation.VACUUM else [],
        )

    def _blocked(self, number: int) -> BlockedKeys | None:
        if number != self._blocked_by:
            return None
        return self._checkpoint.blocked or BlockedKeys(0)

    def _gone(self, summary: TransactionSummary) -> list[tuple[int, int]]:
        """All blocks, from the drop of a table on whose data a vacuum has begun to delete."""
        checkpoint = self._checkpoint
        gone = 0 < checkpoint.dropped_at <= summary.number and checkpoint.restorable is None
        return [(1, summary.last_block)] if gone and summary.last_block else []

    def _version(self, summary: TransactionSummary) -> FrozenVersion | None:
        """The version that a transaction made: they were numbered in its order."""
        if not self._frozen:
            return None
        # A freeze right behind a change, or behind a table's making, means the same transaction:
        # only the version of its own was stamped with its time.
        own = (self._frozen[0].transaction, self._frozen[0].time) == (summary.number, summary.time)
        if summary.operation == Operation.FREEZE or (summary.operation in FREEZES_ITSELF and own):
            return self._frozen.popleft()
        return None

    def _blocks(self, summary: TransactionSummary, after: int) -> list[Block]:
        """The blocks beyond a number, up to a transaction's last."""
        numbers = self._numbers
        some = numbers[bisect_right(numbers, after) : bisect_right(numbers, summary.last_block)]
        blocks = (self._block(number, summary.number) for number in some)
        return [block for block in blocks if block is not None]

    def _block(self, number: int, transaction: int) -> Block | None:
        """Return where a block lay after a transaction."""
        later = (block for by, block in self._moved.get(number, []) if by > transaction)
        return self._by_number.get(number) or next(later, None)

    def _new_schemas(
        self, summary: TransactionSummary, blocks: list[Block]
    ) -> dict[str, SchemaEntry]:
        used = dict.fromkeys([*(block.schema_hash for block in blocks), summary.schema_hash])
        new = [name for name in used if name and name not in self._seen]
        self._seen.update(new)
        return {name: self._checkpoint.schema_of(name) for name in new}

    def _deleted(self, number: int) -> list[str]:
        """The files that entries before a transaction named, and that are no more."""
        checkpoint = self._checkpoint
        still = {path for block in checkpoint.blocks for path in block.paths}
        still |= checkpoint.dropped.keys()
        named = {
            path
            for entry in self._left
            if entry.number < number
            for block in (*entry.blocks, *entry.moved)
            for path in block.paths
        }
        return sorted(named - still)


def _signature(version: int, note: SignatureNote) -> VersionSignature:
    known = structs.asdict(note)
    del known["transaction"]
    return VersionSignature(version=version, **known)


def _gaps(blocks: list[Block], last: int) -> list[tuple[int, int]]:
    """The ranges of numbers up to the last that no block has."""
    numbers = [0, *(block.number for block in blocks), last + 1]
    return [(a + 1, b - 1) for a, b in pairwise(numbers) if b - a > 1]


def _last_of_blocked(checkpoint: TableState, left: set[int]) -> int:
    """The last lost entry that may have said which keys are blocked; 0 where none may.

    It says what the manifest has: what is left behind it says it anew, if it says anything.
    """
    some = [t for t in checkpoint.transactions if t.operation in _MAY_BLOCK]
    if checkpoint.blocked is None and not any(t.operation == Operation.BLOCK_KEYS for t in some):
        return 0
    return max((t.number for t in some if t.number not in left), default=0)
