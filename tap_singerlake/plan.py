"""The plan of what is left to read of a table, given a bookmark."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from singerlake.format import messages, rewritten, times
from singerlake.format.log import Block
from singerlake.format.metadata import TransactionSummary
from singerlake.format.overlaid import member_of
from singerlake.format.overlay import ColumnOverlay
from singerlake.log.table_state import TableState


@dataclass(frozen=True)
class Plan:
    """The plan of what to emit.

    Attributes:
        snapshot: The table up to the last transaction to read.
        start: The last transaction that was already put out; 0 for none.
        stale: Whether a target has rows that sending them again does not make others.
        known: Whether a target may have rows already, for there is a bookmark.
        doubt: What whoever carries it out should say of the bookmark; empty if nothing.
    """

    snapshot: TableState
    start: int
    stale: bool = False
    known: bool = False
    doubt: str = ""

    @property
    def seen(self) -> int:
        """The last block of the start; 0 for none."""
        return self.snapshot.summary(self.start).last_block if self.start else 0

    @property
    def begins_anew(self) -> bool:
        """Whether what was put out before has to go first."""
        return self.stale or 0 < self.start < self.snapshot.first

    def clearing(self) -> bytes:
        """Lines that remove from a target what it has.

        As a revert of a table without keys does it: no row can have both versions.
        """
        stream, schema = self.snapshot.table.stream, self.snapshot.schema
        began = times.parse(self.snapshot.summary(self.snapshot.first).time) or times.now()
        version = times.micros(began) // 1000  # as taps have it: the time in milliseconds
        lines = (messages.activate_version_line(stream, v) for v in (version - 1, version))
        return b"".join((messages.schema_line(stream, schema), *lines))

    def steps(self) -> Iterator[tuple[TransactionSummary, list[Block]]]:
        """Yield the transactions after the start, each with its blocks, in order of the log.

        Where a vacuum has put rows of a transaction together with later ones, its blocks come
        with the later transaction: a bookmark between them would stand for rows that are not
        out yet.
        """
        blocks = deque(self.blocks())
        own: list[Block] = []
        for transaction in self.snapshot.transactions[self.start :]:
            while blocks and blocks[0].number <= transaction.last_block:
                own.append(blocks.popleft())
            if blocks and blocks[0].rewritten and blocks[0].first_version <= transaction.last_block:
                continue
            yield transaction, own
            own = []

    def blocks(self) -> Sequence[Block]:
        """List the blocks of all steps."""
        if self.start >= self.snapshot.number:
            return []
        return self.snapshot.blocks_after(self.start)

    def new_in(self, block: Block, text: bytes) -> tuple[bytes, int]:
        """Leave out of a block what the start has seen; return its lines and number of rows.

        A vacuum may have put rows from before and after the start into one block.
        """
        if block.rewritten and block.first_version <= self.seen:
            return rewritten.lines_after(text, block, self.seen)
        return text, block.rows

    def bookmark(self, transaction: TransactionSummary) -> dict[str, Any]:
        """Build what the state keeps once a transaction is out.

        The commit id is kept beside the number, for a log that was lost and made again has
        the same numbers for other transactions. A table that was read from its files alone
        gets a bookmark that skips nothing.
        """
        if not self.snapshot.from_log:
            return {"transaction": 0, "commit": ""}
        return {"transaction": transaction.number, "commit": transaction.commit}


def make_plan(head: TableState, version: str | None, bookmark: Mapping[str, Any]) -> Plan:
    """Decide where to begin.

    Whenever the bookmark cannot be trusted everything is read again: rows may come twice,
    never not at all.

    Args:
        head: The table as it is now.
        version: Read up to this table version; None reads all of it.
        bookmark: Of an earlier run; may be empty.

    Raises:
        NotFoundError: The table has no such version.
    """
    snapshot = head if version is None else head.frozen_as(head.version(version))
    start, stale, doubt = _start(head, bookmark)
    if start > snapshot.number:
        doubt = (
            f"{head.table} was read up to transaction {start} already, and version {version} is "
            f"of transaction {snapshot.number}: there is nothing new"
        )
    return Plan(snapshot, start, stale, known=bool(bookmark), doubt=doubt)


def columns_differ(head: TableState, number: int) -> bool:
    """Tell whether rows up to a transaction go out otherwise now than they did by then."""
    if number < head.first:
        return False  # of a table that was dropped since; what there is of it is cleared
    old, new = head.overlay_at(number), head.overlay
    for member in old.columns.keys() | new.columns.keys():
        then, now = (one.columns.get(member, ColumnOverlay()) for one in (old, new))
        types = (one.type if isinstance(one.type, dict) else None for one in (then, now))
        if len({str(one) for one in types}) > 1 or (then.dropped and not now.dropped):
            return True
        if then.name != now.name and not now.dropped:
            return True
    added = (one for member, one in new.added.items() if member not in old.added)
    return any(one.defaults[0][1] is not None for one in added)


def _key_differs(head: TableState, number: int) -> bool:
    """Tell whether a target would take rows that are sent again for others than it has."""
    old, new = head.overlay_at(number), head.overlay
    keys = [member_of(new, name) for name in head.schema.key_properties]
    said = ([one.columns.get(key, ColumnOverlay()).name for key in keys] for one in (old, new))
    return not keys or len({tuple(names) for names in said}) > 1


def _start(head: TableState, bookmark: Mapping[str, Any]) -> tuple[int, bool, str]:
    """Return the last transaction that need not be read, and ``stale`` and ``doubt`` of a plan."""
    number = bookmark.get("transaction")
    if not bookmark or number == 0:
        return 0, False, ""
    stale = False
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        doubt = "the bookmark names no transaction, so it is not one of tap-singerlake's"
    elif not head.from_log:
        doubt = "its log is lost, so the bookmark has nothing to refer to"
    elif number > head.number:
        doubt = f"the bookmark is of transaction {number} and the log ends with {head.number}"
    elif head.summary(number).commit != bookmark.get("commit"):
        doubt = f"transaction {number} is not the one the bookmark was made for"
    elif columns_differ(head, number):
        doubt, stale = "its columns were altered since", _key_differs(head, number)
    else:
        return number, False, ""
    return 0, stale, f"{head.table}: {doubt}; reading everything again"
