"""One object that a vacuum found, and why it goes or stays."""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.format import file_paths
from singerlake.format.names import TableName


@dataclass(frozen=True)
class Item:
    """One object that a vacuum found.

    Attributes:
        reason: Why it goes, or why it stays.
        dropped: The transaction that dropped it; 0 for one that never was in the log.
        since: When nothing needed it any more, ISO 8601 in UTC; it stays for the retention.
    """

    key: str
    bytes: int
    reason: str
    dropped: int = 0
    since: str = ""

    def folder(self, table: TableName) -> str:
        """The folder whose lock its writer holds; empty for a list of files, which is in none."""
        path = self.key[len(table.folder) :]
        return "" if file_paths.is_list(path) else path.partition("/")[0]
