"""The rows that a folder's files make: one for each, whose content is in the lake before it is.

The same columns for every folder, keyed by the path, so that a later upload finds the rows again
and changes those alone whose files are others.
"""

from __future__ import annotations

import mimetypes
import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec

from singerlake.errors import UsageError
from singerlake.files.contents import SIDE_BY_SIDE, Contents, Stored
from singerlake.files.folder import Folder, FolderFile
from singerlake.format import content, file_paths, times
from singerlake.format.log import SchemaEntry
from singerlake.format.names import TableName
from singerlake.log.table_state import TableState
from singerlake.storage.base import Store

KEY = "path"
SCHEMA = SchemaEntry(
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "name": {"type": ["null", "string"]},
            "size": {"type": ["null", "integer"]},
            "content_type": {"type": ["null", "string"]},
            "modified": {"type": ["null", "string"], "format": "date-time"},
            "checksum": {"type": ["null", "string"]},
            "file": {"type": ["null", "object"], "format": content.FORMAT},
        },
    },
    [KEY],
)
"""What a table of a folder's files has."""
_AHEAD = 4 * SIDE_BY_SIDE
"""Files that may be under way: more of them than threads, for a large one holds up the others."""
_LIKE_A_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def check_fits(present: TableState) -> None:
    """Make sure that a table can have the rows of a folder's files.

    Raises:
        UsageError: It cannot.
    """
    keys, columns = present.schema.key_properties, {name for name, _ in present.columns}
    place = content.place_in(present.schema.schema)
    lacking = [name for name in SCHEMA.schema["properties"] if name not in columns]
    has_files = place is not None and "file" in place.members
    if keys == [KEY] and not lacking and has_files:
        return
    why = f"its key is {', '.join(keys) or 'none'}" if keys != [KEY] else "column 'file' is none"
    if keys == [KEY] and lacking:
        why = f"it has no column {lacking[0]!r}"
    raise UsageError(
        f"{present.table} is not a table of a folder's files ({why}): name a new table, which gets "
        f"the columns {', '.join(SCHEMA.schema['properties'])}"
    )


class FolderRows:
    """Stores a folder's files, and says the rows that they make.

    Args:
        store: The lake's store.
        table: The table.
        begin: Gives the snapshot that the commit goes on from.
        folder: The folder.
        dry_run: Whether files are only read.

    Attributes:
        done: Files that are read, and stored where the table did not have them.
        bytes: How many bytes they have.
        contents: What the table has, and what was stored.
    """

    def __init__(
        self,
        store: Store,
        table: TableName,
        begin: Callable[[], TableState],
        folder: Folder,
        *,
        dry_run: bool,
    ) -> None:
        self._folder = folder
        self._dry_run = dry_run
        self._stopped = False
        self.contents = Contents(store, table, begin, self._check, together=True, looked_for=True)
        self.done = 0
        self.bytes = 0

    def lines(self) -> Iterator[bytes]:
        """Yield the rows as lines of JSON, in order, while the next files are read.

        Raises:
            InputError: A file or the folder is not what it was.
            StoreError: The store refused.
        """
        waiting: deque[Future[dict[str, Any]]] = deque()
        self.contents.load()
        pool = ThreadPoolExecutor(SIDE_BY_SIDE, "files")
        try:
            for file in self._folder.files():
                if len(waiting) >= _AHEAD:
                    yield self._next(waiting)
                waiting.append(pool.submit(self._row, file))
            while waiting:
                yield self._next(waiting)
            self.contents.settle()  # before who takes the rows can commit them
        finally:
            self._stopped = True  # a large file is not read to its end first
            pool.shutdown(wait=True, cancel_futures=True)

    def _next(self, waiting: deque[Future[dict[str, Any]]]) -> bytes:
        row = waiting.popleft().result()
        self.done += 1
        self.bytes += row["size"]
        return msgspec.json.encode(row) + b"\n"

    def _check(self) -> None:
        if self._stopped:
            raise UsageError("the upload was stopped: run it again")  # nobody sees it

    def _row(self, file: FolderFile) -> dict[str, Any]:
        return row_of(file, self._stored(file))

    def _stored(self, file: FolderFile) -> Stored:
        def read() -> Iterator[bytes]:
            return self._folder.pieces(file)

        if not self._dry_run:
            return self.contents.put_unless_there(read)
        digest, size = self.contents.digest(read())
        # A name that nobody will have; only that it is another one counts.
        return self.contents.find(digest) or Stored(file_paths.new_content(digest), size)


def row_of(file: FolderFile, stored: Stored) -> dict[str, Any]:
    """Return the row of a file.

    Args:
        file: The file as it was found.
        stored: Its content in the lake.
    """
    media = mimetypes.guess_type(f"./{file.name}", strict=False)[0]
    # What looks like the scheme of a URI would be taken for one by whoever exports the file.
    uri = f"./{file.path}" if _LIKE_A_SCHEME.match(file.path) else file.path
    said = {} if media is None else {"content_type": media}
    return {
        "path": file.path,
        "name": file.name,
        "size": stored.size,
        "content_type": media,
        "modified": times.iso(times.from_micros(file.modified // 1000)),
        "checksum": stored.checksum,
        "file": {
            "uri": uri,
            **said,
            "checksum": stored.checksum,
            "size": stored.size,
            "path": stored.path,
        },
    }
