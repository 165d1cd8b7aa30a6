"""Erasing rows: which files are written again, what is said of versions, and the two commits.

An erasure takes lines out of blocks for good, under frozen versions too. Each file with such a
line is written again without it, all its other blocks along with the one: what is deleted is
whole files. So is a file with bytes that no block is, which may be such lines too. A block keeps
its number, and its lines their positions, so that nothing that goes by these notices.

Which rows, ``singerlake.ops.erase`` knows; the log does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from singerlake.errors import ConflictError, DroppedError, UsageError
from singerlake.format import times
from singerlake.format.log import Block, Entry, FrozenVersion, Operation
from singerlake.format.version_notes import ErasedVersion, Erasure
from singerlake.log import conflicts, erasures
from singerlake.log.commit import commit, draft_entry
from singerlake.log.table_state import TableState
from singerlake.ops.sign.sign import Signer
from singerlake.ops.vacuum.ages import Ages, check_log
from singerlake.ops.vacuum.items import Item
from singerlake.storage.base import Store

MAX_REASON = 1000
MAX_TELLING = 366 * 86_400.0
SKEW = 3600.0
"""By how many seconds the clocks of a store and of a machine that erases may differ."""


@dataclass(frozen=True)
class EraseOptions:
    """The options of an erasure.

    Attributes:
        reason: Why; whoever looks at a version that had them is told.
        dry_run: Only say what would be done.
        tell_seconds: How long readers that are behind are told which rows went, and so the keys
            of these are kept; 0 tells nobody.
        block: Whether no row may come with these keys again; keyed hashes of them are kept.
        earlier_versions: Whether what a bucket keeps of the table's objects from before goes, too.
        signer: Signs the versions that lose rows, once these are erased.
        lease_wait_seconds: How long to wait for readers that may need what is to go.
        lock_wait_seconds: How long to wait for writers, and for a vacuum to show life.
        stale_seconds: How long a lock or lease stands still before it counts as dead.
    """

    reason: str
    dry_run: bool = False
    tell_seconds: float = 0.0
    block: bool = False
    earlier_versions: bool = False
    signer: Signer | None = None
    lease_wait_seconds: float = 600.0
    lock_wait_seconds: float = 90.0
    stale_seconds: float = 60.0

    def check(self) -> None:
        """Refuse a reason that is none, and to keep keys for longer than makes sense.

        Raises:
            UsageError: The reason is empty, too long, or not one line; or keys would be kept for
                more than a year.
        """
        if not self.reason.strip() or not self.reason.isprintable():
            raise UsageError(
                "the reason is empty, or has control characters in it: write it in one line, "
                "without naming the person"
            )
        if len(self.reason) > MAX_REASON:
            raise UsageError(f"the reason is longer than {MAX_REASON:,} characters")
        if not 0 <= self.tell_seconds <= MAX_TELLING:
            raise UsageError(
                "a deletion notice is valid for up to a year, because the keys are kept that long"
            )


@dataclass(frozen=True)
class Erased:
    """The result of an erasure, or of its dry run.

    Attributes:
        transaction: The one that erased; None where none did.
        keys: Rows, each with all that it ever was; lines, in a table without a key.
        lines: RECORD lines.
        blocks: Blocks that lost lines.
        files: Files that were written again.
        versions: What versions are without the rows.
        files_deleted: Objects that were deleted.
        bytes_deleted: Their bytes.
        left: What could not be deleted yet, and why: run it again.
        told_until: How long readers are told of them; empty where nobody is.
        blocked: Keys that are blocked since.
    """

    transaction: int | None = None
    keys: int = 0
    lines: int = 0
    blocks: int = 0
    files: int = 0
    versions: list[ErasedVersion] = field(default_factory=list)
    files_deleted: int = 0
    bytes_deleted: int = 0
    left: list[Item] = field(default_factory=list)
    told_until: str = ""
    blocked: int = 0


@dataclass(frozen=True)
class Rewriting:
    """One block that goes into a new file.

    Attributes:
        erased: Whether lines of it go; else it is copied, byte for byte.
    """

    block: Block
    erased: bool


@dataclass(frozen=True)
class ErasePlan:
    """The plan of an erasure for a table's files.

    Attributes:
        snapshot: The table's head by which it was planned; dropped, if it was.
        keys: Rows that go, each with all that it ever was.
        lines: RECORD lines that go.
        files: For each file that is written again, its blocks in order.
    """

    snapshot: TableState
    keys: int
    lines: int
    files: list[list[Rewriting]]

    @property
    def blocks(self) -> list[Block]:
        """The blocks that lose lines, in order of number."""
        some = (one.block for file in self.files for one in file if one.erased)
        return sorted(some, key=lambda block: block.number)


def check_erasable(snapshot: TableState, options: EraseOptions) -> None:
    """Make sure that rows of a table can be erased at all, in this way.

    Of one that was dropped they can be as long as it can come back.

    Raises:
        DroppedError: The table was dropped, and cannot come back.
        UsageError: It has lost its log; or it has no key by which to tell readers of rows.
    """
    if snapshot.dropped_at and snapshot.restorable is None:
        raise DroppedError(
            f"{snapshot.table} was dropped (transaction {snapshot.dropped_at}), and a vacuum has "
            "begun to delete its data; delete the rest of it, with all its rows, with: singerlake "
            f"vacuum {snapshot.table} --retain 0s --no-retention-guard"
        )
    snapshot.check_log()
    if options.tell_seconds and not snapshot.key:
        raise UsageError(
            f"{snapshot.table} has no key, so targets cannot be notified which row to delete: "
            "leave out --notify-downstream, and delete the row downstream yourself"
        )
    if options.block:
        from singerlake.ops import suppression as blocking  # late: it needs Arrow

        blocking.members_of(snapshot)


def seconds_since(snapshot: TableState) -> float:
    """Return how long ago rows were erased last: younger objects were not left by that.

    A run that died may have left whatever was there before, named by the log or not.

    Raises:
        SingerlakeError: The clock is behind the log, so that it does not tell that.
    """
    check_log(snapshot)
    at = times.parse(Ages(snapshot).at(snapshot.erased_at)) if snapshot.erased_at else None
    if at is None:
        return 0.0
    return max(0.0, (times.now() - at).total_seconds() - SKEW)


def plan_files(
    snapshot: TableState, erased: Collection[int], sizes: Mapping[str, int]
) -> list[list[Rewriting]]:
    """Return the files that are written again.

    Args:
        snapshot: The table's head; one that was dropped, as it would come back.
        erased: Numbers of the blocks that lose lines.
        sizes: Bytes of the files there are, by path: where a file is larger than its blocks, it
            has bytes of blocks that are no more, and what was erased may be in these.
    """
    files: dict[str, list[Block]] = {}
    for block in snapshot.blocks:
        files.setdefault(block.file, []).append(block)
    return [
        [Rewriting(block, block.number in erased) for block in blocks]
        for path, blocks in files.items()
        if any(block.number in erased for block in blocks)
        or sizes.get(path, 0) > sum(block.length for block in blocks)
    ]


def announce(
    store: Store, plan: ErasePlan, erasure: Erasure, *, writer_id: str, check: Callable[[], None]
) -> TableState:
    """Say in the log that rows are about to be erased, and in which files they are.

    Raises:
        ConflictError: Somebody moved blocks since, or the lock was lost; nothing was changed.
    """
    planned = plan.snapshot.number
    files = sorted({one.block.file for file in plan.files for one in file})

    def draft(present: TableState) -> Entry:
        conflicts.check_blocks_unmoved(present, planned)
        return draft_entry(
            present.table,
            Operation.ERASE_START,
            writer=writer_id,
            erasure=erasure,
            deletes=files,
        )

    return commit(store, plan.snapshot, draft, check=check)


def draft_erase(
    snapshot: TableState, erasure: Erasure, written: Sequence[Block], erased: list[ErasedVersion]
) -> Entry:
    """Draft the log entry of an erasure.

    Args:
        erasure: What is said of it.
        written: The blocks where they are without the lines.
        erased: What versions are without them.
    """
    return draft_entry(
        snapshot.table,
        Operation.ERASE,
        erasure=erasure,
        erased=erased,
        moved=sorted(written, key=lambda block: block.number),
        metrics={
            "lines_erased": erasure.lines,
            "blocks_written": len(written),
            "versions_changed": len(erased),
        },
    )


def commit_erase(
    store: Store,
    planned: TableState,
    announced: TableState,
    entry: Entry,
    *,
    writer_id: str,
    check: Callable[[], None],
    still_none: Callable[[TableState], None],
) -> TableState:
    """Commit an erasure: from here on nobody reads the rows.

    Args:
        planned: The table by which it was planned.
        announced: The table after the announcement.
        entry: What :func:`draft_erase` made.
        check: Raises where the lock was lost.
        still_none: Raises where what others committed since has such rows.

    Raises:
        ConflictError: Somebody moved blocks, or made or deleted a version, or committed such
            rows since; nothing was changed.
    """

    def draft(present: TableState) -> Entry:
        check_versions_same(present, planned)
        conflicts.check_blocks_unmoved(present, planned.number)
        conflicts.check_key_unchanged(present, planned)
        if present.blocked != planned.blocked:
            raise erasures.changed(present.table)
        still_none(present)
        return replace(entry, writer=writer_id)

    return commit(store, announced, draft, check=check)


def check_versions_same(present: TableState, planned: TableState) -> None:
    """Refuse to say what versions are without some rows where there are others by now.

    Raises:
        ConflictError: One was frozen or deleted since.
    """
    if _numbers(present.frozen) != _numbers(planned.frozen):
        raise ConflictError(
            f"versions of {present.table} were frozen or deleted in the meantime: nothing was "
            "changed; run it again"
        )


def _numbers(some: Sequence[FrozenVersion]) -> list[int]:
    return [version.number for version in some]
