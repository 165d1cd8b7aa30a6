"""What an erasure keeps of keys, if somebody asks: for readers that are behind, or to block them.

Neither is in the log, which is for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow as pa

from singerlake.errors import UsageError
from singerlake.format import times
from singerlake.format.erased_keys import MOST_BYTES, KeyHashes
from singerlake.format.names import TableName
from singerlake.format.version_notes import BlockedKeys, Notice
from singerlake.log import blocked, erasures, notices
from singerlake.log.table_state import TableState
from singerlake.ops import suppression as blocking
from singerlake.ops.vacuum.ages import check_log
from singerlake.rows.batches import packing
from singerlake.rows.lines.arrow_lines import ArrowLines
from singerlake.rows.state.blocked_keys import compared
from singerlake.rows.state.shape import shape_of
from singerlake.storage.base import Store

MOST_TOLD = 100_000
"""Rows of which readers are told, or whose keys are blocked, at once: through this process."""


def key_lines(head: TableState, keys: pa.Table, count: int) -> bytes:
    """Return the keys of rows that go, as a notice has them.

    Args:
        head: The table.
        keys: The keys, each once; they may be left out if there are more than :data:`MOST_TOLD`.
        count: How many rows go.

    Raises:
        UsageError: They are too many.
    """
    if count > MOST_TOLD:
        raise UsageError(
            f"{count:,} rows of {head.table} are too many for one notice; nothing was changed: "
            f"erase {MOST_TOLD:,} at a time, or leave out --notify-downstream"
        )
    named = keys.rename_columns([name for name, _ in shape_of(head).key_columns])
    writer = ArrowLines(head.schema)
    batches: list[pa.RecordBatch] = named.to_batches()
    lines = b"".join(map(writer.lines, batches))
    if len(lines) > MOST_BYTES:
        raise UsageError(
            f"the keys of these rows of {head.table} are too long for one notice; nothing was "
            "changed: erase fewer at a time, or leave out --notify-downstream"
        )
    return lines


@dataclass(frozen=True)
class KeptKeys:
    """What is to be kept of the keys of rows that go.

    Attributes:
        told: The keys, for readers that are behind; empty where nobody is told.
        hashes: Of all keys that are to be blocked from then on; None where they stay as they are.
        new: How many of them were not blocked before.
    """

    told: bytes = b""
    hashes: KeyHashes | None = None
    new: int = 0

    def with_blocked(self, store: Store, head: TableState, keys: pa.Table) -> KeptKeys:
        """Have keys blocked, too.

        Args:
            store: The lake's store.
            head: The table.
            keys: Each once.

        Raises:
            UsageError: They are too many, or rows cannot be told by them.
            DamagedError: It is not known any more which are blocked.
        """
        if head.blocked is not None:
            erasures.check_key(head, head.tap_schema, head.overlay)
        known = blocked.read(store, head)
        rows = blocking.rows_of(head, known)
        if len(keys) > MOST_TOLD:
            raise UsageError(
                f"more than {MOST_TOLD:,} keys of {head.table} are too many to block at once; "
                f"nothing was changed: erase and block {MOST_TOLD:,} at a time"
            )
        cells = [packing.one_array(column) for column in keys.columns]
        hashes = rows.added(compared(cells, rows.columns))
        new = len(hashes.hashes) - len(known.hashes)
        return replace(self, hashes=hashes, new=new) if new else self

    def put(self, store: Store, head: TableState, seconds: float) -> Put:
        """Write it, before the entry that names it.

        Args:
            store: The lake's store.
            head: The table.
            seconds: How long readers are told.

        Raises:
            StoreError: The store refused.
            SingerlakeError: The clock is behind the log, so that it does not tell until when.
        """
        if self.told:
            check_log(head, way_out="erase without --notify-downstream")
        until = times.iso(times.now() + timedelta(seconds=seconds))
        notice = notices.write(store, head.table, self.told, until) if self.told else None
        if self.hashes is None:
            return Put(notice)
        members = blocking.members_of(head)
        return Put(notice, blocked.write(store, head.table, self.hashes, members))


@dataclass(frozen=True)
class Put:
    """What was written, and is named by the entry.

    Attributes:
        notice: For readers.
        blocked: The keys that are blocked from then on; None where they stay as they are.
    """

    notice: Notice | None = None
    blocked: BlockedKeys | None = None

    def withdraw(self, store: Store, table: TableName) -> None:
        """Delete it, when it is certain that no entry names it."""
        if self.notice is not None:
            store.delete(notices.key_of(table, self.notice))
        if self.blocked is not None:
            store.delete(blocked.key_of(table, self.blocked))
