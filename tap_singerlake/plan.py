"""What is left to read of a table, given a bookmark."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from singerlake.format import rewritten
from singerlake.format.log import Block
from singerlake.format.metadata import TransactionSummary
from singerlake.transactions.snapshot import Snapshot


@dataclass(frozen=True)
class Plan:
    """What to put out.

    Attributes:
        snapshot: The table up to the last transaction to read.
        start: The last transaction that was already put out; 0 for none.
    """

    snapshot: Snapshot
    start: int

    def steps(self) -> Iterator[tuple[TransactionSummary, list[Block]]]:
        """The transactions after the start, each with its blocks, in order of the log.

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

    def blocks(self) -> list[Block]:
        """The blocks of all steps."""
        if self.start >= self.snapshot.head:
            return []
        return self.snapshot.blocks_after(self.start)

    def new_in(self, block: Block, text: bytes) -> tuple[bytes, int]:
        """A block's lines and its number of rows, without what the start has seen already.

        A vacuum may have put rows from before and after the start into one block.

        Args:
            block: One of the plan's.
            text: Its lines.
        """
        seen = self.snapshot.summary(self.start).last_block if self.start else 0
        if block.rewritten and block.first_version <= seen:
            return rewritten.lines_after(text, block, seen)
        return text, block.rows

    def bookmark(self, transaction: TransactionSummary) -> dict[str, Any]:
        """What the state keeps once a transaction is out.

        The commit id is kept beside the number, for a log that was lost and made again has
        the same numbers for other transactions. A table that was read from its files alone
        gets a bookmark that skips nothing.
        """
        if not self.snapshot.from_log:
            return {"transaction": 0, "commit": ""}
        return {"transaction": transaction.number, "commit": transaction.commit}


def make_plan(
    head: Snapshot, version: str | None, bookmark: Mapping[str, Any], logger: logging.Logger
) -> Plan:
    """Decide where to begin.

    Whenever the bookmark cannot be trusted everything is read again: rows may come twice,
    never not at all.

    Args:
        head: The table as it is now.
        version: Read up to this table version; None reads all of it.
        bookmark: Of an earlier run; may be empty.
        logger: Where doubts about the bookmark go.

    Raises:
        NotFoundError: The table has no such version.
    """
    snapshot = head if version is None else head.at(head.version(version).transaction)
    start = _start(head, bookmark, logger)
    if start > snapshot.head:
        logger.warning(
            "%s was read up to transaction %d already, and version %s is of transaction %d: "
            "nothing new comes out",
            head.table,
            start,
            version,
            snapshot.head,
        )
    return Plan(snapshot, start)


def _start(head: Snapshot, bookmark: Mapping[str, Any], logger: logging.Logger) -> int:
    if not bookmark:
        return 0
    number = bookmark.get("transaction")
    if number == 0:
        return 0
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        doubt = "the bookmark names no transaction, so it is not one of tap-singerlake's"
    elif not head.from_log:
        doubt = "its log is lost, so the bookmark has nothing to refer to"
    elif number > head.head:
        doubt = f"the bookmark is of transaction {number} and the log ends with {head.head}"
    elif head.summary(number).commit != bookmark.get("commit"):
        doubt = f"transaction {number} is not the one the bookmark was made for"
    else:
        return number
    logger.warning("%s: %s; reading everything again", head.table, doubt)
    return 0
