"""A table's files by their bytes: each content is stored once, and found again by its hash."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from singerlake.errors import StoreError
from singerlake.files.known import KnownFiles
from singerlake.format import file_paths, times
from singerlake.format.log import Operation
from singerlake.format.names import TableName
from singerlake.log.file_lists import lists_of
from singerlake.log.staging import publish_file
from singerlake.log.table_state import TableState
from singerlake.storage.base import Store
from singerlake.storage.unfinished import RESUMED_BYTES

SIDE_BY_SIDE = 8
"""Files that are read and stored at a time."""
CLOCKS_DIFFER = 3600.0
"""Seconds by which the clocks of a store and of a machine that vacuums may differ."""
LISTED_AT_ONCE = 100_000
"""Files up to which one listing shows them all; of more, each takes a 256th of them."""
_BEGINNINGS = frozenset(f"{number:02x}" for number in range(256))
"""Of all hashes: the folders that files lie in."""


@dataclass(frozen=True)
class _Namer:
    """Names a stored file of a table."""

    table: TableName
    digest: str
    wanted: list[str]

    def new_path(self) -> str:
        """Give the path that is wanted, and then others that nobody has had."""
        return self.wanted.pop() if self.wanted else file_paths.new_content(self.digest)


@dataclass(frozen=True)
class Stored:
    """A file in the lake.

    Attributes:
        path: Where it lies, within the table's folder.
    """

    path: str
    size: int

    @property
    def checksum(self) -> str:
        """Its hash as records have it."""
        return f"SHA-256:{file_paths.digest_in(self.path)}"


class Contents:
    """The files that a table has, and those stored now; for any number of threads.

    What the table's rows name and the store has lost counts as not there: it is stored again.

    Args:
        begin: Gives the snapshot that the next commit goes on from; asked for once, with the
            first file.
        check: Called now and then, from any thread; may raise to end the run.
        together: Whether what is stored becomes durable only with :meth:`settle`.
        looked_for: Whether all of the table's files are looked for in the store before the first;
            else, those whose hashes begin alike, with the first that is to be named again.
    """

    def __init__(
        self,
        store: Store,
        table: TableName,
        begin: Callable[[], TableState],
        check: Callable[[], None] = lambda: None,
        *,
        together: bool = False,
        looked_for: bool = False,
    ) -> None:
        self._store = store
        self._together = store.together() if together else None
        self._table = table
        self._begin = begin
        self._check = check
        self._looked_for = looked_for
        self._known: KnownFiles | None = None
        self._may_choose = self._had_any = False
        self._announced = -math.inf
        self._mutex = threading.Lock()
        self._busy: dict[str, threading.Lock] = {}
        self._looked_at: set[str] = set()
        self.stored = 0
        self.bytes = 0

    def load(self) -> KnownFiles:
        """Find out what the table has, unless that is known."""
        with self._mutex:
            if self._known is None:
                known, snapshot = KnownFiles(), self._begin()
                known.load(self._store, snapshot)
                vacuums = [
                    one.time
                    for one in snapshot.transactions
                    if one.operation == Operation.VACUUM_START
                ]
                # A name that another lake gave may be one that a vacuum deletes here.
                self._may_choose = not vacuums
                self._announced = max(map(_seconds, vacuums), default=-math.inf)
                self._had_any = any(block.files is not None for block in snapshot.blocks)
                if self._looked_for and self._had_any:
                    self._look_for(known, sum(one.files for one in lists_of(snapshot.blocks)))
                if self._looked_for or not self._had_any:
                    self._looked_at |= _BEGINNINGS
                self._known = known
            return self._known

    def __contains__(self, path: object) -> bool:
        """Tell whether a path is that of a file which the table has, or which was stored."""
        digest = file_paths.digest_in(path) if isinstance(path, str) else ""
        return bool(digest) and self.load().find(digest, str(path)) is not None

    def find(self, digest: str, wanted: str = "") -> Stored | None:
        """Find a file by its hash.

        Args:
            digest: Its SHA-256, as 64 hexadecimal digits.
            wanted: The path that it must have, where the table may take over names; or any.
        """
        self._check()
        known = self.load()
        wanted = wanted if self._may_choose else ""
        looked_at = digest[:2] in self._looked_at  # before: others may be about to forget it
        found = known.find(digest, wanted)
        if found is not None and not looked_at:
            with self._alone(digest):
                found = self._there(known, digest, wanted)
        return Stored(*found) if found is not None else None

    def put_unless_there(self, read: Callable[[], Iterable[bytes]]) -> Stored:
        """Store a file's bytes, without a copy in between of what the table has.

        Where it has files at all, the file is read for its hash first: most files of a folder
        are those of last time.

        Args:
            read: Reads the file, from its beginning.
        """
        self.load()
        found = self.find(self.digest(read())[0]) if self._had_any else None
        return found or self.put(read())

    def digest(self, pieces: Iterable[bytes]) -> tuple[str, int]:
        """Return the SHA-256 of a file's bytes, and how many there are."""
        hashed, size = hashlib.sha256(), 0
        for piece in pieces:
            self._check()
            hashed.update(piece)
            size += len(piece)
        return hashed.hexdigest(), size

    def put(
        self,
        pieces: Iterable[bytes],
        compare: Callable[[str, int], None] = lambda _digest, _size: None,
        wanted: str = "",
    ) -> Stored:
        """Store a file's bytes, unless the table has them.

        Args:
            pieces: The bytes, piece by piece.
            compare: Given their SHA-256 and their number, may raise to refuse them.
            wanted: The path that they are to get, if the table may take over names.
        """
        known = self.load()
        staged = self._store.stage_resumable()
        hashed = hashlib.sha256()
        try:
            for piece in pieces:
                self._check()
                hashed.update(piece)
                staged.write(piece)
            digest = hashed.hexdigest()
            compare(digest, staged.size)
            may_choose = self._may_choose and file_paths.digest_in(wanted) == digest
            with self._alone(digest):  # another thread may have the same
                there = self._there(known, digest, wanted if may_choose else "")
                if there is not None:
                    return Stored(*there)
                begun = self._begun(digest, staged.size)
                namer = _Namer(self._table, digest, [wanted] if may_choose else begun)
                path = publish_file(self._store, staged, namer, self._together)
                known.add(path, staged.size)
                with self._mutex:
                    self.stored += 1
                    self.bytes += staged.size
            return Stored(path, staged.size)
        finally:
            staged.discard()

    def _begun(self, digest: str, size: int) -> list[str]:
        """The name under which an earlier run began to store the same bytes, and broke off.

        No vacuum has announced it: what a table's vacuums announced was there by then, and an
        upload that began later is of a name that was given later.
        """
        if size < RESUMED_BYTES:
            return []
        start, beginning = len(self._table.folder), file_paths.content_beginning(digest)
        try:
            begun = self._store.begun(f"{self._table.folder}{beginning}")
        except StoreError:  # who may not list uploads begins anew
            return []
        names = {
            one.since: one.key[start:]
            for one in begun
            if one.since > self._announced + CLOCKS_DIFFER
            and file_paths.digest_in(one.key[start:]) == digest
        }
        return [names[max(names)]] if names else []

    def _there(self, known: KnownFiles, digest: str, wanted: str) -> tuple[str, int] | None:
        """Find a file that the store has; called by one thread at a time of those of its hash.

        One look for all hashes that begin alike: the table may have a million files, and a
        run name as many of them again.
        """
        found, beginning = known.find(digest, wanted), digest[:2]
        if found is None or beginning in self._looked_at:
            return found
        known.keep(self._listed(f"{beginning}/"), beginning)
        self._looked_at.add(beginning)
        return known.find(digest, wanted)

    def _look_for(self, known: KnownFiles, number: int) -> None:
        """Look for all files that rows name, beginning by beginning where they are very many.

        A store may have a listing in memory before it gives the first of it.
        """
        beginnings = sorted(_BEGINNINGS) if number > LISTED_AT_ONCE else [""]
        for beginning in beginnings:
            below = f"{beginning}/" if beginning else ""
            known.keep(self._listed(below), beginning)

    def _listed(self, below: str = "") -> Iterator[tuple[str, int]]:
        start = len(self._table.folder)
        for item in self._store.list(f"{self._table.content}{below}"):
            self._check()
            if file_paths.is_content(item.key[start:]):
                yield item.key[start:], item.size

    def settle(self) -> None:
        """Make durable what was stored; before that, nothing may be committed that names it.

        Raises:
            StoreError: The disk failed to take it.
        """
        if self._together is not None:
            self._together.settle()

    def close(self) -> None:
        """Let go of everything."""
        if self._together is not None:
            self._together.close()
        if self._known is not None:
            self._known.close()
            self._known = None

    def _alone(self, digest: str) -> threading.Lock:
        with self._mutex:
            # One of a few, not one for each file there ever was.
            return self._busy.setdefault(digest[:2], threading.Lock())


def _seconds(time: str) -> float:
    """When a log entry says that it was written; what cannot be read is later than all."""
    instant = times.parse(time)
    return math.inf if instant is None else instant.timestamp()
