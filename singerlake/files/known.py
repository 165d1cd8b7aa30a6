"""The files that a table has already, by hash, in memory that does not grow with them."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from singerlake.format import file_paths
from singerlake.format.log import FileList
from singerlake.format.names import TableName
from singerlake.log import file_lists
from singerlake.log.table_state import TableState
from singerlake.storage.base import Store

_DIGEST_BYTES = 32
_EMPTY = hashlib.sha256().digest()


class KnownFiles:
    """An index by hash, in a database that the system keeps on disk where it becomes large.

    What it holds may be named again by an entry that follows the snapshot it was loaded from.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute(
            "CREATE TABLE files (digest BLOB, path TEXT, size INTEGER, PRIMARY KEY (digest, path))"
            " WITHOUT ROWID"
        )
        self._db.execute("CREATE TABLE there (path TEXT PRIMARY KEY, size INTEGER)")

    def load(self, store: Store, snapshot: TableState) -> None:
        """Take in all files that a table's rows name.

        Raises:
            DamagedError: A list of them cannot be read.
        """
        self.load_lists(store, snapshot.table, file_lists.lists_of(snapshot.blocks))

    def load_lists(self, store: Store, table: TableName, lists: Iterable[FileList]) -> None:
        """Take in all files that some lists name.

        Raises:
            DamagedError: A list cannot be read.
        """
        for _, named in file_lists.read_all(store, table, lists):
            self._put((path, size) for path, size in named.items())

    def keep(self, there: Iterable[tuple[str, int]], beginning: str = "") -> None:
        """Forget all files but those that are there.

        Args:
            there: Paths and sizes of what the store has.
            beginning: The first digits of the hashes of those that are meant, an even number of
                them; all without.
        """
        least = bytes.fromhex(beginning)
        with self._mutex:
            self._db.execute("DELETE FROM there")
            self._insert("INSERT INTO there VALUES (?, ?)", there)
            self._db.execute(
                "DELETE FROM files WHERE digest BETWEEN ? AND ?"
                " AND (path, size) NOT IN (SELECT path, size FROM there)",
                [least, least.ljust(_DIGEST_BYTES, b"\xff")],
            )
            self._db.execute("DELETE FROM there")

    def add(self, path: str, size: int) -> None:
        """Take in one that was stored just now."""
        self._put([(path, size)])

    def find(self, digest: str, path: str = "") -> tuple[str, int] | None:
        """Return path and size of a file with a SHA-256; None where there is none.

        Args:
            digest: The SHA-256.
            path: The copy that it must be; without it, any.
        """
        with self._mutex:
            row = self._db.execute(
                "SELECT path, size FROM files WHERE digest = ? AND ? IN ('', path) LIMIT 1",
                [bytes.fromhex(digest), path],
            ).fetchone()
        return (str(row[0]), int(row[1])) if row else None

    def close(self) -> None:
        """Let go of the database's disk space."""
        with self._mutex:
            self._db.close()

    def _put(self, files: Iterable[tuple[str, int]]) -> None:
        digests = ((bytes.fromhex(file_paths.digest_in(path)), path, size) for path, size in files)
        # A row that a person gave need not say a size; one that is to name the file again does.
        rows = (row for row in digests if row[2] or row[0] == _EMPTY)
        with self._mutex:
            self._insert("INSERT OR IGNORE INTO files VALUES (?, ?, ?)", rows)

    def _insert(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Insert rows in one transaction; where reading them fails, those before stay."""
        self._db.execute("BEGIN")
        try:
            self._db.executemany(statement, rows)
        finally:
            # Without a journal nothing can be rolled back.
            self._db.execute("COMMIT")


@contextmanager
def finding(store: Store, snapshot: TableState) -> Iterator[Callable[[str], str | None]]:
    """Find the paths of files by their hashes; the table's lists are read with the first."""
    known: KnownFiles | None = None

    def find(digest: str) -> str | None:
        nonlocal known
        if known is None:
            known = KnownFiles()
            known.load(store, snapshot)
        found = known.find(digest)
        return None if found is None else found[0]

    try:
        yield find
    finally:
        if known is not None:
            known.close()
