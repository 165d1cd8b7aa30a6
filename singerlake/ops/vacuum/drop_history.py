"""Dropping history: which states are kept for ever, and which rows they need.

Kept are the state at every frozen version, that at every version deleted after the history floor,
and every state from this floor on: the state that was the present one when the retention began. Let
these *protected* states be P1,
P2, … up to the floor, in order. A row that came after P(i-1) and not after Pi is needed by
some protected state just if it is the newest of its key *among those that came in that
interval*: were it the newest of its key at a later protected state, it would be so at Pi, and
what is not the newest at Pi never is again. So each interval is looked at alone, once.

Activations: what lies before the one that decides for Pi that it is gone whatever its version
(``different`` in ``rows/state/activations.py``) is gone for all later states as well. In a table
without keys so is every row that an activation has removed; in one with keys it stays, for it may
hide an older row of its key that the activation did not name.

Blocks after the floor are not touched.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from singerlake.format import block as format_block
from singerlake.format import times
from singerlake.format.log import Block, Entry, Operation, joined
from singerlake.log import conflicts, versions
from singerlake.log.commit import commit, draft_entry
from singerlake.log.table_state import TableState
from singerlake.storage.base import Store


@dataclass(frozen=True)
class Interval:
    """The blocks between two neighbouring protected states.

    Attributes:
        end: The protected transaction at its end.
        blocks: What came since the one before.
    """

    end: int
    blocks: Sequence[Block]


@dataclass(frozen=True)
class DropHistoryPlan:
    """The plan of expiring history.

    Attributes:
        floor: The new history floor.
        intervals: Those in which a row may be replaced by a later one.
        protected: Every protected transaction up to the floor, and what protects it.
    """

    floor: int
    intervals: list[Interval]
    protected: dict[int, str]

    @property
    def blocks(self) -> list[Block]:
        """All blocks that are looked at."""
        return [block for interval in self.intervals for block in interval.blocks]


@dataclass(frozen=True)
class Rewrite:
    """One block that takes the place of several.

    Attributes:
        sources: Blocks that it is made of, neighbours of one schema; its number is the last's.
        rows: Rows that are kept of them.
        activations: Those that are kept, all of the last source.
    """

    sources: list[Block]
    rows: int
    activations: list[tuple[int, int]]

    @property
    def number(self) -> int:
        """The new block's number."""
        return self.sources[-1].number

    @property
    def first_version(self) -> int:
        """The lowest version that its rows can have."""
        return self.sources[0].lowest_version

    @property
    def bytes(self) -> int:
        """The bytes to inflate for it."""
        return sum(block.bytes for block in self.sources)


def floor_at(snapshot: TableState, cutoff: float) -> int:
    """The last transaction before a time (seconds since 1970); 0 where all are later."""
    for transaction in snapshot.transactions:  # as far as all are older, in whatever order
        instant = times.parse(transaction.time)
        if instant is None or instant.timestamp() > cutoff:
            return transaction.number - 1
    return snapshot.number


def plan_drop_history(snapshot: TableState, cutoff: float) -> DropHistoryPlan | None:
    """Plan which history can go; None if there is nothing to look at.

    Args:
        cutoff: Every state since this time stays (seconds since 1970).
    """
    floor = floor_at(snapshot, cutoff)
    if floor <= snapshot.floor:
        return None
    known: dict[int, str] = {}
    for version in versions.protecting(snapshot, floor):
        label = f" ({version.label})" if version.label else ""
        if version.transaction <= floor:
            known.setdefault(version.transaction, f"version {version.number}{label}")
    known.setdefault(floor, "the history floor")
    done = snapshot.summary(snapshot.floor).last_block if snapshot.floor else 0
    given_up = [
        snapshot.summary(version.transaction).last_block
        for version in versions.deleted_since(snapshot, snapshot.floor)
        if version.transaction not in known
    ]
    intervals: list[Interval] = []
    begin = 0
    for transaction in sorted(known):
        end = snapshot.summary(transaction).last_block
        # A vacuum before has looked at all that lies between states that were protected then;
        # one whose version was deleted since does not part the two intervals any more.
        if end > max(begin, done) or any(begin < last < end for last in given_up):
            blocks = snapshot.blocks[_after(snapshot, begin) : _after(snapshot, end)]
            intervals.append(Interval(transaction, blocks))
        begin = max(begin, end)
    if not any(interval.blocks for interval in intervals):
        return None
    return DropHistoryPlan(floor, intervals, known)


def _after(snapshot: TableState, number: int) -> int:
    """The place of the first block beyond a number."""
    return bisect_right(snapshot.blocks, number, key=lambda block: block.number)


def plan_rewrites(
    interval: Interval, kept: Mapping[int, int], decided: tuple[int, int]
) -> tuple[list[Rewrite], list[Block]]:
    """Plan how an interval's blocks become fewer.

    Whole blocks that are large enough stay as they are. Between them neighbours are put
    together, but never more than a block's worth, and none goes on past a block with
    activations, so that these keep their places.

    Args:
        kept: Rows that are kept, by block number.
        decided: The position before which everything is gone for all protected states.

    Returns:
        New blocks, and blocks of which nothing is kept.
    """
    rewrites: list[Rewrite] = []
    gone: list[Block] = []
    pile = _Pile()

    def close() -> None:
        nonlocal pile
        if len(pile.blocks) > 1 or (pile.blocks and not _whole(pile.blocks[0], kept, decided)):
            last = pile.blocks[-1]
            rewrites.append(Rewrite(pile.blocks, pile.rows, _activations(last, decided)))
        pile = _Pile()

    for block in interval.blocks:
        rows = kept.get(block.number, 0)
        activations = _activations(block, decided)
        if not rows and not activations:
            gone.append(block)
            continue
        if _whole(block, kept, decided) and rows > format_block.MAX_ROWS // 2:
            close()
            continue
        if not pile.takes(block, rows):
            close()
        pile.add(block, rows)
        if activations:
            close()
    close()
    return rewrites, gone


class _Pile:
    """Neighbours on their way into one block."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.rows = 0
        self._size = 0

    def takes(self, block: Block, rows: int) -> bool:
        """Tell whether so many rows of another block still fit."""
        return not self.blocks or (
            self.rows + rows <= format_block.MAX_ROWS
            and self._size + _share(block, rows) <= format_block.BLOCK_BYTES
            and len(self.blocks) < format_block.MAX_REPLACED
            and self.blocks[-1].schema_hash == block.schema_hash
        )

    def add(self, block: Block, rows: int) -> None:
        self.blocks.append(block)
        self.rows += rows
        self._size += _share(block, rows)


def _share(block: Block, rows: int) -> int:
    """About what so many of a block's rows inflate to."""
    return block.bytes * rows // max(1, block.rows)


def _activations(block: Block, decided: tuple[int, int]) -> list[tuple[int, int]]:
    return [(rows, v) for rows, v in block.activations if (block.number, rows) >= decided]


def _whole(block: Block, kept: Mapping[int, int], decided: tuple[int, int]) -> bool:
    return (
        kept.get(block.number, 0) == block.rows
        and _activations(block, decided) == block.activations
    )


def draft_drop_history(
    snapshot: TableState,
    plan: DropHistoryPlan,
    rewritten: list[tuple[Rewrite, Block]],
    gone: list[Block],
) -> Entry:
    """Draft the log entry of dropped history.

    Args:
        plan: What was planned.
        rewritten: New blocks, with what they are made of.
        gone: Blocks of which nothing is kept.
    """
    sources = [block for rewrite, _ in rewritten for block in rewrite.sources]
    numbers = {block.number for block in (*sources, *gone)}
    numbers -= {rewrite.number for rewrite, _ in rewritten}
    rows_in = sum(block.rows for block in (*sources, *gone))
    rows_out = sum(block.rows for _, block in rewritten)
    bytes_in = sum(block.length for block in (*sources, *gone))
    bytes_out = sum(block.length for _, block in rewritten)
    return draft_entry(
        snapshot.table,
        Operation.DROP_HISTORY,
        moved=sorted((block for _, block in rewritten), key=lambda block: block.number),
        removed=joined((number, number) for number in sorted(numbers)),
        floor=plan.floor,
        metrics={
            "rows_dropped": rows_in - rows_out,
            "blocks_in": len(sources) + len(gone),
            "blocks_out": len(rewritten),
            "bytes_dropped": bytes_in - bytes_out,
        },
    )


def commit_drop_history(
    store: Store, snapshot: TableState, plan: DropHistoryPlan, entry: Entry, *, writer_id: str
) -> TableState:
    """Commit dropped history.

    Args:
        snapshot: The table by which it was planned.
        entry: What :func:`draft_drop_history` made.

    Raises:
        ConflictError: Another vacuum moved blocks meanwhile, or somebody froze a transaction
            that the plan gives up; nothing was changed.
    """
    planned = snapshot.number
    protected = {snapshot.summary(number).last_block for number in plan.protected}

    def draft(present: TableState) -> Entry:
        conflicts.check_blocks_unmoved(present, planned)
        conflicts.check_versions_kept(present, protected, plan.floor)
        conflicts.check_key_unchanged(present, snapshot)
        return replace(entry, writer=writer_id)

    return commit(store, snapshot, draft)
