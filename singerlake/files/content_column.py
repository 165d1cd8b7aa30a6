"""What files hold, as a column of bytes: read by tasks, as much at a time as fits into memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from singerlake import quantities
from singerlake.errors import UsageError
from singerlake.files import stored
from singerlake.files.known import KnownFiles
from singerlake.files.stored import Find, StoredFile
from singerlake.format.content import Place
from singerlake.format.log import FileList
from singerlake.format.names import TableName
from singerlake.storage.base import READERS, Store
from singerlake.storage.side_by_side import threads

MOST_BYTES = 64 << 20
"""The most that a file may have, unless the caller says otherwise."""
LARGEST_BYTES = 1 << 30
"""More than that no row may hold: Java's arrays, and Spark's rows, end at two gigabytes."""
_GROUP_BYTES = 32 << 20
"""Content that is handed on at a time: a batch of Spark's may be 10,000 rows."""
_GROUP_ROWS = 256

_Files: TypeAlias = "list[StoredFile | None] | None"
"""What a row names; None where it has no list."""


@dataclass(frozen=True)
class ContentColumn:
    """Makes of a column that names files one of what is in them.

    Attributes:
        store: The lake's store.
        table: The table.
        place: Where the values name files: they themselves, or each of their items.
        lists: Of the state's files, by which they are found where rows show hashes alone.
        most: The most that a file may have.
    """

    store: Store
    table: TableName
    place: Place
    lists: Sequence[FileList]
    most: int = MOST_BYTES

    @property
    def in_lists(self) -> bool:
        """Whether a row has a list of files, instead of one."""
        return not self.place.is_file

    def __call__(self, values: Iterator[pa.Array]) -> Iterator[pa.Array]:
        """Read what the files of some values hold; as many come out, in smaller arrays.

        Raises:
            UsageError: A file is larger than what is allowed.
            DamagedError: One is gone, or its bytes are not what was stored.
            StoreError: The store refused.
        """
        known: KnownFiles | None = None

        def find(digest: str) -> str | None:
            nonlocal known
            if known is None:
                known = KnownFiles()
                known.load_lists(self.store, self.table, self.lists)
            found = known.find(digest)
            return None if found is None else found[0]

        with threads(READERS, "contents") as pool:
            try:
                for array in values:
                    rows = (self._named(value, find) for value in array.to_pylist())
                    yield from (self._read(group, pool) for group in self._groups(rows))
            finally:
                if known is not None:
                    known.close()

    def _named(self, value: Any, find: Find) -> _Files:
        if not self.in_lists:
            return [_file(value, self.place, find)]
        if isinstance(value, str):
            value, find = json.loads(value), _nothing
        if not isinstance(value, list) or self.place.items is None:
            return None
        return [_file(item, self.place.items, find) for item in value]

    def _groups(self, rows: Iterator[_Files]) -> Iterator[list[_Files]]:
        group: list[_Files] = []
        weight = 0
        for row in rows:
            group.append(row)
            weight += sum(self._weight(file) for file in row or ())
            if weight >= _GROUP_BYTES or len(group) >= _GROUP_ROWS:
                yield group
                group, weight = [], 0
        yield group  # an array without rows is handed on as well

    def _weight(self, file: StoredFile | None) -> int:
        if file is None:
            return 0
        return self.most if file.size is None else file.size

    def _read(self, group: list[_Files], pool: ThreadPoolExecutor) -> pa.Array:
        files = [file for row in group for file in row or ()]
        contents = pool.map(self._content, files)
        if not self.in_lists:
            return pa.array(list(contents), pa.binary())
        lists = [None if row is None else [next(contents) for _ in row] for row in group]
        return pa.array(lists, pa.list_(pa.binary()))

    def _content(self, file: StoredFile | None) -> bytes | None:
        if file is None:
            return None
        if self._weight(file) <= self.most:
            with stored.opened(self.store, self.table, file) as source:
                data = source.read(self.most + 1)
            if len(data) <= self.most:
                return data
        raise UsageError(
            f"the file {file.name[:200]!r} of {self.table} is larger than the "
            f"{quantities.size(self.most)} that a row may contain: exclude such rows with where(), "
            "raise file_bytes, or read it as a stream with open_file()"
        )


def _file(value: Any, place: Place, find: Find) -> StoredFile | None:
    return next(stored.in_value(value, place, find), None)


def _nothing(_digest: str) -> None:
    return None
