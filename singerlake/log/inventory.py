"""What the lake's file and the catalogues list, held against the folders that are there.

Both lists are written after a commit and never shortened, so what they name was there once. The
catalogues can be made again from the logs; the lake's file cannot, for it has people's words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from singerlake.errors import (
    DamagedError,
    DataError,
    InvalidNameError,
    SingerlakeError,
)
from singerlake.format import metadata, names
from singerlake.format.metadata import Catalogue, CatalogueEntry, LakeFile
from singerlake.format.names import TableName
from singerlake.log import lake_file as lake_files
from singerlake.storage.base import KeyMissingError, Store
from singerlake.storage.side_by_side import each

LAKE_FILE_HINT = (
    "it contains annotations: correct it by hand, or restore it from a backup; a sync that found "
    f"it not to be a JSON object kept it as {names.damaged_lake('<digits>')}"
)
"""What may be done about a lake's file that is damaged."""


@dataclass(frozen=True)
class Lost:
    """A tap, or a table, that is listed and of which nothing is there.

    Attributes:
        tap: The tap.
        table: The table; None where all of the tap is gone.
        listed_in: Key of the list that names it.
    """

    tap: str
    table: TableName | None
    listed_in: str

    @property
    def folder(self) -> str:
        """Key prefix of what should be there."""
        return names.tap_folder(self.tap) if self.table is None else self.table.folder

    @property
    def hint(self) -> str:
        """What may be done about it."""
        if self.table is None:
            return (
                "restore it from a backup; or, if it was deleted on purpose, take "
                f'"{self.tap}" out of "taps" in {self.listed_in}'
            )
        return (
            f"restore it from a backup; or, if it was deleted on purpose, delete {self.listed_in}, "
            "and recreate it with: singerlake rebuild --all"
        )

    def __str__(self) -> str:
        what = f"the tap {self.tap}" if self.table is None else str(self.table)
        return (
            f"{what} is missing: {self.listed_in} lists it, and {self.folder} is empty: {self.hint}"
        )


@dataclass
class Inventory:
    """What holding the lists against the folders shows.

    Attributes:
        lost: What is listed and gone.
        problems: What is wrong with the lake's own file.
        unlisted: What to say of lists that are not there, or lack a tap; each with the tap whose
            tables it is about, or None for all.
        catalogued: What the catalogues say of the tables that they list.
    """

    lost: list[Lost] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unlisted: list[tuple[str | None, str]] = field(default_factory=list)
    catalogued: dict[TableName, CatalogueEntry] = field(default_factory=dict)

    def notes(self, taps: Collection[str]) -> list[str]:
        """What to say of the lists, where these taps have something that was committed."""
        return [text for tap, text in self.unlisted if tap in taps or (taps and tap is None)]


def take_inventory(
    store: Store,
    tables: Iterable[TableName],
    tap: str | None = None,
    lake_file: LakeFile | None = None,
) -> Inventory:
    """Hold the lists against the folders.

    Args:
        store: The lake's store.
        tables: The tables that are there; listed before this is called, so that none that is just
            being made looks lost.
        tap: The tap that they are of; all taps by default.
        lake_file: The lake's own file, where it was read already.

    Raises:
        StoreError: The store refused to show a list.
        NewerFormatError: A newer release wrote one.
    """
    inventory = Inventory()
    there = set(tables)
    taps = {table.tap for table in there} if tap is None else {tap}
    if tap is None:
        taps |= _listed_taps(store, lake_file, taps, inventory)

    def look(one: str) -> Catalogue:
        key = names.catalogue(one)
        return metadata.decode(store.get(key).data, Catalogue, key)

    for one, found in each(store, look, sorted(taps)):
        try:
            _check_catalogue(store, lake_file, one, found, there, inventory)
        except (DamagedError, InvalidNameError) as error:
            again = f"{error}; it can be derived: singerlake rebuild --all"
            inventory.unlisted.append((one, again))
    return inventory


def _listed_taps(
    store: Store, lake_file: LakeFile | None, taps: set[str], inventory: Inventory
) -> set[str]:
    """The taps that the lake's file lists."""
    try:
        lake_file = lake_file or lake_files.read(store)
    except DamagedError as error:
        inventory.problems.append(str(error))
        return set()
    if lake_file is None:
        missing = (
            f"{names.LAKE} is missing: singerlake rebuild --all writes a new one; if there were "
            "annotations in it, restore it from a backup"
        )
        inventory.unlisted.append((None, missing))
        return set()
    for tap in sorted(taps - lake_file.taps.keys()):
        again = "the next sync, or singerlake rebuild --all, adds it"
        inventory.unlisted.append((tap, f"{names.LAKE} does not list the tap {tap}: {again}"))
    return {*lake_file.taps}


def _check_catalogue(
    store: Store,
    lake_file: LakeFile | None,
    tap: str,
    found: Catalogue | SingerlakeError,
    there: set[TableName],
    inventory: Inventory,
) -> None:
    key = names.catalogue(tap)
    if isinstance(found, KeyMissingError):
        if not _is_empty(store, names.tap_folder(tap)):
            again = f"{key} is missing, and can be derived: singerlake rebuild --all writes it"
            inventory.unlisted.append((tap, f"{again} again"))
        elif tap in (lake_file or lake_files.read_if_readable(store) or LakeFile()).taps:
            inventory.lost.append(Lost(tap, None, names.LAKE))
        # Otherwise no first commit to any of its tables was ever finished.
        return
    if isinstance(found, SingerlakeError):
        raise found
    named = {TableName(tap, entry.tap_stream_id): entry for entry in found.streams}
    inventory.catalogued |= named
    for table in sorted(named.keys() - there):
        if _is_empty(store, table.folder):
            inventory.lost.append(Lost(tap, table, key))


def differing(store: Store, table: TableName, expected: CatalogueEntry) -> str | None:
    """Say that a catalogue, read again, has something else of a table than its log; None if not.

    It is derived from the log, so what it should hold is known bit by bit.

    Args:
        store: The lake's store.
        table: The table.
        expected: What its log says.
    """
    key = names.catalogue(table.tap)
    try:
        present = metadata.decode(store.get(key).data, Catalogue, key).streams
    except (KeyMissingError, DataError):
        present = []
    if [one for one in present if one.tap_stream_id == table.stream] == [expected]:
        return None  # a sync brought it up to date
    return f"{key} does not match the log of {table}: singerlake rebuild {table} writes it"


def _is_empty(store: Store, folder: str) -> bool:
    """Asked once more of each that seems lost: it may have been made since."""
    return next(iter(store.list(folder)), None) is None
