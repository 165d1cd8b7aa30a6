"""Counts the records that a run leaves out because their keys are blocked in the lake."""

from __future__ import annotations

from collections import Counter

from singerlake.format.names import TableName
from singerlake.log.staging import StagedTable
from singerlake.log.table_state import TableState
from singerlake.storage.base import Store


class BlockedCounts:
    """Leaves them out, table by table; called from several threads, each of which has its table.

    Attributes:
        counts: Records that were left out.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.counts: Counter[TableName] = Counter()

    def __call__(self, table: TableState, staged: StagedTable) -> None:
        """Take such records out of what was staged."""
        from target_singerlake.blocked import leave_out  # late: few tables have any, or need Arrow

        if count := leave_out(self._store, table, staged):
            self.counts[table.table] += count
