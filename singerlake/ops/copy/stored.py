"""The files that rows name, on their way to another store: each hashed while it goes by.

They go before the lists that name them, and these before the log's entries, so that a list that is
there has its files beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from singerlake.errors import DamagedError
from singerlake.format import content, file_paths
from singerlake.format.log import FileList
from singerlake.format.names import TableName
from singerlake.log import file_lists, log
from singerlake.log.table_state import TableState
from singerlake.ops.copy.transfers import Meter, pieces, publish
from singerlake.storage.base import KeyMissingError, Store


@dataclass(frozen=True)
class NamedFile:
    """A file that rows name.

    Attributes:
        path: Where it lies, within the table's folder.
        size: Its bytes; 0 where no row says how many.
    """

    path: str
    size: int


class StoredFiles:
    """The files that rows of one table name.

    Args:
        source: Whence.
        destination: Where to.
        table: The table.
        meter: Counts bytes, and stops it.
        in_threads: Does something with each of some things, several at a time.
    """

    def __init__(
        self,
        source: Store,
        destination: Store,
        table: TableName,
        meter: Meter,
        in_threads: Callable[[Callable[..., int], Iterable[object]], list[int]],
    ) -> None:
        self._source = source
        self._destination = destination
        self._table = table
        self._meter = meter
        self._in_threads = in_threads

    def due(self, head: TableState, present: TableState, *, every: bool) -> list[FileList]:
        """Return the lists whose files the destination may lack.

        Args:
            head: The table as it is to be there.
            present: As it is there now.
            every: Whether to look for all, also for those that it should have.
        """
        known = set() if every else lists_of(present).keys()
        return [listed for path, listed in lists_of(head).items() if path not in known]

    def copy(self, lists: list[FileList]) -> int:
        """Copy the files of some lists, and then the lists.

        Returns:
            The bytes of the files that were copied.

        Raises:
            KeyMissingError: One is gone at the source.
            DamagedError: One is damaged.
            StoreError: A store refused.
        """
        if not lists:
            return 0
        named = files_in(self._source, self._table, lists)
        files = [*missing(self._destination, self._table, named)]
        self._meter.add(total=sum(file.size for file in files))

        def move(file: NamedFile) -> int:
            return copy_file(self._source, self._destination, self._table, file, self._meter)

        def put(listed: FileList) -> int:
            copy_list(self._source, self._destination, self._table, listed)
            return 0

        try:
            copied = sum(self._in_threads(move, files))
            self._in_threads(put, lists)
        except KeyMissingError as error:
            head = log.read_snapshot(self._source, self._table)
            if head is None or not lists_of(head).keys().isdisjoint(one.path for one in lists):
                raise DamagedError(
                    f"a file that {self._table} needs is missing: {error}"
                ) from error
            raise
        return copied

    def verify(self, head: TableState) -> int:
        """Read all files that the destination has of a table again; how many these are.

        Raises:
            DamagedError: One is gone, or damaged.
        """
        named = files_in(self._destination, self._table, lists_of(head).values())
        self._meter.add(total=sum(file.size for file in named.values()))

        def check(file: NamedFile) -> int:
            check_file(self._destination, self._table, file, self._meter)
            return 1

        return sum(self._in_threads(check, named.values()))


def lists_of(head: TableState) -> dict[str, FileList]:
    """Return the lists of all blocks that are there, or would come back, by path."""
    blocks = (*head.blocks, *(head.restorable or ()))
    return {listed.path: listed for listed in file_lists.lists_of(blocks)}


def files_in(store: Store, table: TableName, lists: Iterable[FileList]) -> dict[str, NamedFile]:
    """Return what some lists name, by path.

    Raises:
        DamagedError: One cannot be read.
    """
    sizes = file_lists.sizes(file_lists.read_all(store, table, lists))
    return {path: NamedFile(path, size) for path, size in sizes.items()}


def missing(
    destination: Store, table: TableName, named: dict[str, NamedFile]
) -> Iterator[NamedFile]:
    """Yield those of some files that the destination has not.

    Raises:
        DamagedError: One there is of another size.
    """
    start = len(table.folder)
    sizes = {item.key[start:]: item.size for item in destination.list(table.content)}
    for path, file in named.items():
        size = sizes.get(path)
        if size is None:
            yield file
        elif file.size not in (0, size):
            raise DamagedError(
                f"{destination.uri}/{table.key(path)} has {size:,} bytes, and {file.size:,} are "
                "right; move it away, and copy again with --verify"
            )


def copy_file(
    source: Store, destination: Store, table: TableName, file: NamedFile, meter: Meter
) -> int:
    """Copy a file; what has not the hash of its name is never published.

    Returns:
        How many bytes it has.

    Raises:
        KeyMissingError: The source does not have it, any more.
        DamagedError: It is damaged at the source.
        StoreError: A store refused.
    """
    key = table.key(file.path)
    staged = destination.stage()
    try:
        hashed = hashlib.sha256()
        for data in pieces(source, key, meter):
            hashed.update(data)
            staged.write(data)
        _check(source, key, file, hashed.hexdigest())
        publish(destination, staged, key)
        return staged.size
    finally:
        staged.discard()


def copy_list(source: Store, destination: Store, table: TableName, listed: FileList) -> None:
    """Copy a list of files; they are there already.

    Raises:
        DamagedError: It is gone, or damaged.
        StoreError: A store refused.
    """
    data = source.get(table.key(listed.path)).data
    content.decode_list(data, listed)
    file_lists.publish(destination, table, listed, data)


def check_file(store: Store, table: TableName, file: NamedFile, meter: Meter) -> None:
    """Read a file to its end, and hold it against its name.

    Raises:
        DamagedError: It is not there, or another.
        StoreError: The store refused.
    """
    key, hashed = table.key(file.path), hashlib.sha256()
    try:
        for data in pieces(store, key, meter):
            hashed.update(data)
    except KeyMissingError as error:
        raise DamagedError(f"{store.uri}/{key} is missing") from error
    _check(store, key, file, hashed.hexdigest())


def gone_with(store: Store, head: TableState, lists: Iterable[str]) -> dict[str, str]:
    """Find the files that only lists name which are about to go, each with one of these.

    Args:
        store: Where the files are to go.
        head: The table.
        lists: The paths of these lists.

    Raises:
        DamagedError: A list of files that stay cannot be read.
    """
    table = head.table
    going: dict[str, str] = {}
    for path in lists:
        if not file_paths.is_doomed(path):
            named = _named(store, table, path)
            going.update(dict.fromkeys(named, path))
    if going:
        for path in files_in(store, table, lists_of(head).values()):
            going.pop(path, None)
        for path in filter(file_paths.is_list, head.dropped):
            for one in _named(store, table, path) if not file_paths.is_doomed(path) else ():
                going.pop(one, None)
    return going


def _named(store: Store, table: TableName, path: str) -> Iterable[str]:
    try:
        return content.decode_list(store.get(table.key(path)).data, path)
    except KeyMissingError:
        return ()


def _check(store: Store, key: str, file: NamedFile, actual: str) -> None:
    if actual != file_paths.digest_in(file.path):
        raise DamagedError(
            f"{store.uri}/{key} is damaged: its SHA-256 is not that of its name; check for other "
            "damage with: singerlake verify"
        )
