"""What of the lake's versions was not copied, where a lake is a copy of some of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from singerlake.errors import DamagedError, DataError, NotFoundError
from singerlake.format import names
from singerlake.format import not_copied as format_not_copied
from singerlake.format.lake_log import LakeVersion
from singerlake.format.names import TableName
from singerlake.format.not_copied import Absence, AbsentTable, NotCopied
from singerlake.storage.base import KeyMissingError, Store

LakeEntry: TypeAlias = tuple[int, str]
"""A lake version, by its number and the chain id of its entry."""
Absences: TypeAlias = Mapping[LakeEntry, frozenset[TableName]]
"""The tables that are not there, by the lake versions that name them."""
SHOWN = 3
"""Tables that a message names."""
_CURE = (
    "restore it from a backup; or delete it, and copy the lake versions again whose tables "
    "singerlake verify --all then reports as missing"
)


def entry_of(version: LakeVersion) -> LakeEntry:
    """Return what a lake version is noted as."""
    return version.number, version.chain


def read(store: Store) -> Absences:
    """Return what was not copied; nothing, where the lake is no such copy.

    Raises:
        DamagedError: The file that says so cannot be read.
        NewerFormatError: A newer release wrote it.
    """
    try:
        data = store.get(names.NOT_COPIED).data
    except KeyMissingError:
        return {}
    return absences_of(_decoded(data))


def _decoded(data: bytes) -> NotCopied:
    try:
        return format_not_copied.decode(data, names.NOT_COPIED)
    except DamagedError as error:
        raise DamagedError(f"{error}; {_CURE}") from error


def absences_of(content: NotCopied) -> Absences:
    """Return what the file says."""
    return {
        (one.number, one.chain): frozenset(table.name for table in one.tables)
        for one in content.lake_versions
    }


def check_whole(store: Store, version: LakeVersion) -> None:
    """Make sure that no table of a lake version was left out by the copy that this lake is.

    Raises:
        NotFoundError: One was.
    """
    try:
        absent = read(store).get(entry_of(version))
    except DataError:
        return  # verify tells of that; what is not there is told where it is looked for
    if absent:
        raise NotFoundError(
            f"{version} was not copied completely: this lake is a copy of others, without "
            f"{shown(absent)}; read it in the original lake, or copy it with: singerlake copy SRC "
            f"{store.uri} --lake-version {version.number}"
        )


def words(version: LakeVersion, tables: Collection[TableName]) -> str:
    """Say that tables of a lake version were not copied."""
    return f"{version} was not copied completely: {shown(tables)} left out"


def shown(tables: Collection[TableName]) -> str:
    """Name tables in a message: a few, and how many more."""
    first = sorted(tables)[:SHOWN]
    more = len(tables) - len(first)
    return ", ".join(map(str, first)) + (f" and {more} more" if more else "")


def change(store: Store, edit: Callable[[Absences], Absences]) -> None:
    """Change what the file says, so that of two who do it at once both come through.

    Args:
        store: The lake's store, open for writing.
        edit: Gives what it is to say, by what it says. Called again where another was sooner.

    Raises:
        DamagedError: The file cannot be read.
        LockTimeoutError: On a store that ignores conditions, another held the lock too long.
    """
    from singerlake.log.shared_file import Present, merge  # late: readers need no locks

    def present() -> Present[NotCopied]:
        try:
            found = store.get(names.NOT_COPIED)
        except KeyMissingError:
            return NotCopied(), None
        return _decoded(found.data), found.etag

    def changed(content: NotCopied) -> NotCopied | None:
        wanted = _file_of(edit(absences_of(content)))
        return None if wanted == content else wanted

    merge(store, names.NOT_COPIED, present, changed, sure=True, spell=format_not_copied.encode)


def _file_of(absences: Absences) -> NotCopied:
    return NotCopied(
        lake_versions=[
            Absence(number, chain, [AbsentTable(t.tap, t.stream) for t in sorted(tables)])
            for (number, chain), tables in sorted(absences.items())
            if tables
        ]
    )
