"""The lists of files that rows name: kept, read, and held against what a vacuum is to delete.

An entry may name a file again that the table it follows names, be it only in its history; all
others are new, under names that nobody has had. What a vacuum has announced, no entry names: the
commit looks, and the announcement looks at what was committed before it. So no file that is to be
deleted is ever needed again, however late the deletion comes. See
``docs/decisions/085-files-beside-rows.md``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from singerlake.errors import ConflictError, DamagedError, DataError, InputError
from singerlake.format import content
from singerlake.format.log import Block, Entry, FileList, Operation
from singerlake.format.names import TableName
from singerlake.log.table_state import TableState
from singerlake.storage.base import READERS, KeyExistsError, KeyMissingError, Store
from singerlake.storage.side_by_side import threads


def publish(store: Store, table: TableName, listed: FileList, data: bytes) -> None:
    """Make a list durable. Nothing names it before the commit.

    Raises:
        StoreError: The store refused.
    """
    key = table.key(listed.path)
    try:
        store.put_if_absent(key, data)
    except KeyExistsError:
        # By ourselves, in a request whose reply was lost: nobody else draws this name.
        if store.get(key).data != data:
            raise


def read(store: Store, table: TableName, listed: FileList) -> dict[str, int]:
    """Read a list: the files' paths, and the sizes that rows say; 0 where they say none.

    Raises:
        DamagedError: It is gone, or damaged.
    """
    try:
        return content.decode_list(store.get(table.key(listed.path)).data, listed)
    except KeyMissingError as error:
        raise DamagedError(
            f"the list {table.key(listed.path)} is missing; check for other damage with: "
            f"singerlake verify {table}"
        ) from error


def read_all(
    store: Store, table: TableName, lists: Iterable[FileList]
) -> Iterator[tuple[FileList, Mapping[str, int]]]:
    """Read lists, several at a time, in order.

    Raises:
        DamagedError: One is gone, or damaged.
    """
    wanted = list(lists)
    with threads(READERS, "lists") as pool:
        # A stretch at a time: not all that were read wait for who takes them.
        for start in range(0, len(wanted), READERS):
            some = wanted[start : start + READERS]
            yield from zip(some, pool.map(lambda one: read(store, table, one), some), strict=True)


def lists_of(blocks: Iterable[Block]) -> list[FileList]:
    """Return the lists of some blocks."""
    return [block.files for block in blocks if block.files is not None]


def check_kept(store: Store, present: TableState, entry: Entry) -> None:
    """Refuse to name a file that a vacuum is about to delete.

    Args:
        store: The lake's store.
        present: The table that the entry is to follow.
        entry: What is to be committed.

    Raises:
        ConflictError: The entry names such a file.
        DamagedError: A list cannot be read.
    """
    lists = lists_of((*entry.blocks, *entry.moved))
    if not lists or not present.pending_lists:
        return
    table = present.table
    doomed: dict[str, int] = {}
    for by, listed in present.pending_lists:
        try:
            named = read(store, table, listed)
        except DataError as error:
            raise ConflictError(
                f"what a vacuum (transaction {by} of {table}) has deleted is no longer known: "
                "nothing was committed; run it again"
            ) from error
        doomed.update(dict.fromkeys(named, by))
    for _, paths in read_all(store, table, lists):
        for path in paths:
            if path in doomed:
                raise ConflictError(
                    f"a vacuum (transaction {doomed[path]} of {table}) is about to delete {path}, "
                    "which this commit references again: nothing was committed; run it again"
                )


def sizes(lists: Iterable[tuple[FileList, Mapping[str, int]]]) -> dict[str, int]:
    """Return what lists name, each file with its size; 0 where no row says it."""
    found: dict[str, int] = {}
    for _, named in lists:
        for path, size in named.items():
            found[path] = max(size, found.get(path, 0))
    return found


_GIVEN_BY_PEOPLE = frozenset({Operation.CHANGE, Operation.CREATE})
"""Operations whose rows may name files that were never stored."""


def check_there(store: Store, present: TableState, entry: Entry, stored: Container[str]) -> None:
    """Refuse rows that people gave and that name files which the table has not, or not so large.

    That a file lies there is not enough: a vacuum may have announced it, and be held up since.

    Args:
        store: The lake's store.
        present: The table that the entry is to follow.
        entry: What is to be committed.
        stored: Paths of the files that were stored for it.

    Raises:
        InputError: They do.
        DamagedError: A list cannot be read.
    """
    lists = lists_of(entry.blocks) if entry.operation in _GIVEN_BY_PEOPLE else []
    if not lists:
        return
    table = present.table
    said = sizes(read_all(store, table, lists))
    unknown = {*said}
    for _, known in read_all(store, table, lists_of(present.blocks)):
        unknown -= known.keys()
        for path in said.keys() & known.keys():
            if said[path] not in (0, known[path]) and known[path]:
                raise InputError(
                    f"a row declares that {path} has {said[path]:,} bytes, and it has "
                    f"{known[path]:,}: leave out the size, or correct it; nothing was changed"
                )
    with ThreadPoolExecutor(READERS, "lists") as pool:
        paths = sorted(unknown)
        for path, there in zip(paths, pool.map(store.exists, map(table.key, paths)), strict=True):
            if not there or path not in stored:
                raise InputError(
                    f"a row references the file {path}, which {table} does not have: leave out the "
                    "path, which is only known once the file is stored; nothing was changed"
                )
