"""The tables that a copy of a lake version leaves out, noted before the entries come.

The entries of all lake versions before it go along, so that the chain proves it. Of the tables that
only these name, the destination says that they were not copied; it says so first, so that at no
moment an absence looks like a loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from singerlake.errors import DataError, SingerlakeError
from singerlake.format.lake_log import LakeVersion
from singerlake.format.names import TableName
from singerlake.log import lake_log, log, not_copied
from singerlake.log.capabilities import open_for_writing
from singerlake.log.not_copied import Absences, LakeEntry, entry_of
from singerlake.log.table_state import TableState
from singerlake.ops.verify.lake import lacks
from singerlake.storage.base import Store
from singerlake.storage.side_by_side import each

Asked = Mapping[LakeEntry, Iterable[TableName]]
"""Tables of lake versions, by these."""


def find(destination: Store, versions: Iterable[LakeVersion], asked: Asked) -> Absences:
    """Find those of some tables that the destination does not have at their versions.

    Args:
        versions: The lake versions that are asked for, and maybe others.
        asked: Of which lake version which tables.
    """
    wanted = {entry_of(one): one for one in versions if entry_of(one) in asked}
    tables = sorted({table for entry in wanted for table in asked[entry]})
    heads = dict(each(destination, lambda name: log.read_snapshot(destination, name), tables))
    for head in heads.values():
        if isinstance(head, SingerlakeError) and not isinstance(head, DataError):
            raise head  # whether it is there is not known; one that is damaged is
    return {entry: frozenset(_absent(one, asked[entry], heads)) for entry, one in wanted.items()}


def _absent(
    version: LakeVersion,
    tables: Iterable[TableName],
    heads: Mapping[TableName, TableState | SingerlakeError | None],
) -> Iterable[TableName]:
    for table in tables:
        said = version.table(table)
        if said is not None and lacks(heads[table], said):
            yield table


def announce(destination: Store, coming: Absences) -> None:
    """Note what is not there of lake versions whose entries are about to come.

    Raises:
        DamagedError: The file that says so cannot be read.
    """
    if not any(coming.values()):
        return
    open_for_writing(destination)

    def edit(present: Absences) -> Absences:
        both = present.keys() | coming.keys()
        none: frozenset[TableName] = frozenset()
        return {entry: present.get(entry, none) | coming.get(entry, none) for entry in both}

    not_copied.change(destination, edit)


def settle(destination: Store) -> Absences:
    """Take back what is said of tables that have come since.

    What is said of entries that are not there yet stays: another copy may be about to put them.

    Returns:
        What is still absent.

    Raises:
        DamagedError: The lake's log, or the file that says so, cannot be read.
    """
    noted = not_copied.read(destination)
    if not noted:
        return {}
    versions = lake_log.read(destination)
    found = find(destination, versions, noted)
    others = {entry: said for entry, said in noted.items() if entry[0] > len(versions)}
    left = {**found, **others}
    gone = {entry: said - left.get(entry, frozenset()) for entry, said in noted.items()}
    if any(gone.values()):
        open_for_writing(destination)

        def edit(present: Absences) -> Absences:
            return {entry: said - gone.get(entry, frozenset()) for entry, said in present.items()}

        not_copied.change(destination, edit)
    return {entry: said for entry, said in left.items() if said}
