"""The objects that plugins and jobs hold: a lake and its tables."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from singerlake.errors import (
    DamagedError,
    DataError,
    InvalidNameError,
    NotFoundError,
    SingerlakeError,
    UsageError,
)
from singerlake.format import metadata, names
from singerlake.format.log import Block, Entry, FrozenVersion
from singerlake.format.metadata import Catalogue, LakeFile
from singerlake.format.names import TableName, TableRef
from singerlake.log import lake_file, log
from singerlake.log.blocks import read_block
from singerlake.log.table_state import TableState
from singerlake.nearest import bare, offer
from singerlake.storage.base import KeyMissingError, Store
from singerlake.storage.opening import default_uri, open_store
from singerlake.storage.options import StoreOptions
from singerlake.storage.side_by_side import each

if TYPE_CHECKING:  # each is imported where it is used: listing tables needs none of them
    from singerlake.format.lake_log import LakeVersion
    from singerlake.log.inventory import Inventory
    from singerlake.log.lease import ReaderLease
    from singerlake.log.writer import TableWriter, WriteOptions

logger = logging.getLogger(__name__)
_Lake = TypeVar("_Lake", bound="Lake")
_Found = TypeVar("_Found")


class Table:
    """One stream of one tap.

    Args:
        store: The lake's store.
        name: Which table.
    """

    def __init__(self, store: Store, name: TableName) -> None:
        self.store = store
        self.name = name

    def __repr__(self) -> str:
        return f"Table({self.name})"

    def versions(self) -> list[FrozenVersion]:
        """List the table's frozen versions, oldest first.

        Raises:
            NotFoundError: There is no such table.
            DamagedError: The log has a gap or cannot be read.
        """
        return list(self.snapshot().frozen)

    def snapshot(self, *, dropped: bool = False) -> TableState:
        """The table's head, as of now.

        Where the log and the manifest are both lost, the files are looked through instead.

        Args:
            dropped: Give that of a table that was dropped, too.

        Raises:
            NotFoundError: There is no such table.
            DroppedError: It was dropped.
            DamagedError: The log has a gap or cannot be read.
        """
        snapshot = log.read_snapshot(self.store, self.name)
        if snapshot is None:
            from singerlake.log import scan

            snapshot = scan.read_files(self.store, self.name)
        if snapshot is None:
            raise NotFoundError(
                f"the lake has no table {self.name}: list its tables with: singerlake ls"
            )
        if not dropped:
            snapshot.check_there()
        return snapshot

    def snapshot_at(self, version: str | None) -> TableState:
        """The table at a version's number or label, or at ``@17``; the head for None.

        Raises:
            NotFoundError: There is no such table or version.
        """
        snapshot = self.snapshot()
        if version is None:
            return snapshot
        return snapshot.named(version)[1]

    def entries(self) -> Iterator[Entry]:
        """The log's entries, oldest first."""
        return log.entries(self.store, self.name)

    def read_block(self, block: Block) -> bytes:
        """A block's lines, checked.

        Raises:
            DamagedError: It is missing, cut or altered.
        """
        return read_block(self.store, self.name, block)

    def lease(self) -> ReaderLease:
        """A lease, to be entered: while it lasts no vacuum deletes what its snapshot names.

        Raises:
            NotFoundError: There is no such table.
            DamagedError: The log has a gap or cannot be read.
        """
        from singerlake.log.lease import ReaderLease

        return ReaderLease(self.store, self.checkpoint())

    def checkpoint(self) -> TableState:
        """The table as its manifest has it, which may be behind; the head where there is none.

        Enough to begin a lease with, or to be brought up to date: the log's end is then looked
        for once, not twice.

        Raises:
            NotFoundError: There is no such table.
            DamagedError: The log has a gap or cannot be read.
        """
        return log.read_checkpoint(self.store, self.name) or self.snapshot()

    def writer(
        self, options: WriteOptions | None = None, writer_id: str | None = None
    ) -> TableWriter:
        """Something to commit rows with."""
        from singerlake.log.writer import TableWriter

        return TableWriter(self.store, self.name, options, writer_id)


class Lake:
    """A lake in a store.

    Args:
        store: Where it lies.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.file: LakeFile | None = None
        """The lake's own file as it was when the lake was opened; None where it was of no use."""

    def __repr__(self) -> str:
        return f"Lake({self.store.uri!r})"

    @classmethod
    def open(
        cls: type[_Lake],
        uri: str | os.PathLike[str] | None = None,
        options: StoreOptions | None = None,
        *,
        create: bool = False,
    ) -> _Lake:
        """Open a lake. See :func:`singerlake.open`.

        Raises:
            NotFoundError: There is no lake there, and ``create`` is not set.
            NewerFormatError: A newer release wrote it.
        """
        lake = cls(open_store(default_uri() if uri is None else os.fspath(uri), options))
        if not lake._read_file() and not create and not lake.store.folders(names.RAW):
            raise NotFoundError(
                f"there is no lake at {lake.store.uri}: create one with target-singerlake, "
                "singerlake upload or create-table, or name another with --lake or "
                "SINGERLAKE_LAKE"
            )
        return lake

    def _read_file(self) -> bool:
        """Read the lake's file, and say whether it is there; a damaged one stops nobody.

        Raises:
            NewerFormatError: A newer release wrote it.
        """
        try:
            self.file = lake_file.read(self.store)
        except DamagedError as error:
            logger.warning(
                "%s; it contains the annotations of the lake: see singerlake verify --all", error
            )
            return True
        self.store.recorded_capabilities = lake_file.recorded_capabilities(self.store, self.file)
        return self.file is not None

    def taps(self) -> list[str]:
        """The ids of the lake's taps, sorted."""
        return _decoded(self.store.folders(names.RAW), "tap")

    def tables(self, tap: str | None = None) -> list[TableName]:
        """The lake's tables, sorted.

        These are folders, because a catalogue may lag behind the logs: in one, a writer may not
        have committed anything yet. Of all taps, one that is a symbolic link is skipped.

        Raises:
            DamagedError: The folder of the tap that is asked for is none, or no tap's is one.
        """
        if tap is not None:
            return self._tables_of(tap)
        listed: list[TableName] = []
        refused: list[DamagedError] = []
        for one, found in each(self.store, self._tables_of, self.taps()):
            if isinstance(found, DamagedError):
                refused.append(found)
                logger.warning("skipped the tap %s: %s", one, found)
            elif isinstance(found, SingerlakeError):
                raise found
            else:
                listed += found
        if refused and not listed:
            raise refused[0]
        return listed

    def _tables_of(self, tap: str) -> list[TableName]:
        streams = _decoded(self.store.folders(names.tap_folder(tap)), "stream")
        return [TableName(tap, stream) for stream in streams]

    def each(
        self, tables: Iterable[TableName], look: Callable[[Table], _Found]
    ) -> Iterator[tuple[TableName, _Found | SingerlakeError]]:
        """Look at tables, on a remote store several at a time, and yield what is found in order.

        Args:
            tables: Which.
            look: Called on threads. An error that it raises stands in the place of what it
                finds, so that one broken table does not hide the others.
        """
        return each(self.store, lambda name: look(self.table(name)), tables)

    def annotations(self, *, strict: bool = False) -> LakeFile:
        """Return the annotations of the lake, as they were when it was opened.

        Args:
            strict: Fail if the lake's file cannot be read; otherwise it counts as empty. For
                output that leaves the lake: classified columns would count as public.

        Raises:
            DamagedError: ``strict``, and the lake's file cannot be read.
        """
        if self.file is None and strict:
            return lake_file.read(self.store) or LakeFile()
        return self.file or LakeFile()

    def lake_versions(self) -> list[LakeVersion]:
        """List the lake's versions, oldest first: each names one version of each of its tables.

        Raises:
            DamagedError: The lake's log cannot be read.
        """
        from singerlake.log import lake_log

        return lake_log.read(self.store)

    def lake_version(self, name: int | str, *, whole: bool = True) -> LakeVersion:
        """Return a lake version by its number or its label.

        Args:
            name: Either.
            whole: Refuse one whose tables were not all copied here.

        Raises:
            NotFoundError: There is none of this name, or it is not whole.
            DamagedError: It cannot be read.
        """
        from singerlake.log import lake_log, not_copied

        version = lake_log.named(self.store, str(name))
        if whole:
            not_copied.check_whole(self.store, version)
        return version

    def catalogue(self, tap: str) -> Catalogue | None:
        """A tap's catalogue; None where it is missing or cannot be read."""
        key = names.catalogue(tap)
        try:
            return metadata.decode(self.store.get(key).data, Catalogue, key)
        except KeyMissingError:
            return None
        except DataError as error:
            logger.warning("%s; reading the tables instead", error)
            return None

    def table(self, name: str | TableName) -> Table:
        """Get one table.

        Args:
            name: ``tap.stream`` of an existing table; or any :class:`TableName`, existing or not.

        Raises:
            InvalidNameError: The text is no table's name.
            NotFoundError: The lake has no table of this text.
            UsageError: The text names a version, or it is no text.
        """
        if not isinstance(name, str | TableName):
            raise UsageError(f"{name!r} is not a table: use its name, as tap.stream")
        if isinstance(name, TableName):
            return Table(self.store, name)
        table, ref = self.find(name)
        if ref.version is not None:
            raise UsageError(
                f"{name} is a version of {table.name}: get the table, and then its version"
            )
        return table

    def find(self, text: str) -> tuple[Table, TableRef]:
        """The table that a person's ``tap.stream`` or ``tap.stream.2`` means.

        As in SQL, a dash may be written as an underscore, where only one table can be meant.

        Raises:
            InvalidNameError: It is no table reference, or could mean several tables.
            NotFoundError: The lake has no such table.
            DamagedError: The table's folder is gone.
        """
        # Its own tap's streams decide what it means; the others only where it is not among them.
        known = set(self.tables(names.parse_ref(text).table.tap))
        ref = names.parse_ref(text, known)
        if ref.table not in known:
            ref = self._find_alike(names.parse_ref(text))
            known = set(self.tables(ref.table.tap))
        table = self.table(ref.table)
        other = TableName(ref.table.tap, f"{ref.table.stream}.{ref.version}")
        if ref.version is not None and other in known:
            _check_meant(table, ref.version, names.written(other, known))
        return table, ref

    def _find_alike(self, ref: TableRef) -> TableRef:
        """The table that is meant by a name with underscores in the place of dashes."""
        from singerlake.log.scan import is_table

        like = [tap for tap in self.taps() if bare(tap) == bare(ref.table.tap)]
        known = [table for tap in like for table in self.tables(tap)]
        readings = [ref]
        if ref.version is not None:
            readings.append(TableRef(TableName(ref.table.tap, f"{ref.table.stream}.{ref.version}")))
        for reading in readings:
            matches = [t for t in names.alike(reading.table, known) if is_table(self.store, t)]
            if len(matches) > 1:
                raise InvalidNameError(
                    f"{reading.table} could mean {' or '.join(map(str, matches))}: write it"
                )
            if matches:
                return TableRef(matches[0], reading.version)
        raise self.missing(ref.table)

    def missing(self, table: TableName) -> SingerlakeError:
        """What to raise where a table that is asked for is not there: what is known of it."""
        known = self.tables()
        for lost in self.inventory(known).lost:
            if names.alike(table, [lost.table or TableName(lost.tap, table.stream)]):
                return DamagedError(str(lost))
        hint = offer(str(table), map(str, known), "it is empty")
        return NotFoundError(f"the lake at {self.store.uri} has no table {table}: {hint}")

    def inventory(self, tables: Iterable[TableName], tap: str | None = None) -> Inventory:
        """What the lake's file and the catalogues list, held against the tables there are.

        Args:
            tables: The tables, as :meth:`tables` has listed them.
            tap: The tap that they are of; all taps by default.
        """
        from singerlake.log.inventory import take_inventory

        return take_inventory(self.store, tables, tap, self.file)


def _check_meant(table: Table, version: str, other: str) -> None:
    """Where a stream has the name of another's version, say so if there is no such version."""
    try:
        table.snapshot_at(version)
    except NotFoundError as error:
        raise NotFoundError(f"{error}; the stream of that name is written {other}") from None


def _decoded(folders: Sequence[str], kind: str) -> list[str]:
    decoded = []
    for folder in folders:
        try:
            decoded.append(names.decode(folder))
        except InvalidNameError:
            logger.warning("ignored the folder %r, which is not the name of a %s", folder, kind)
    return sorted(decoded)
