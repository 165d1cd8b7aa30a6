"""The objects that plugins and jobs hold: a lake and its tables."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from singerlake.errors import (
    DamagedError,
    InvalidNameError,
    NewerFormatError,
    NotFoundError,
)
from singerlake.format import metadata, names
from singerlake.format.log import Block, Entry
from singerlake.format.metadata import Catalogue
from singerlake.format.names import TableName, TableRef
from singerlake.maintenance import scan
from singerlake.storage import StoreOptions, open_store
from singerlake.storage.base import KeyMissingError, Store
from singerlake.transactions import derived, log
from singerlake.transactions.blocks import read_block
from singerlake.transactions.lease import ReaderLease
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.writer import TableWriter, WriteOptions

logger = logging.getLogger(__name__)


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

    def snapshot(self) -> Snapshot:
        """The table's head, as of now.

        Where the log and the manifest are both lost, the files are looked through instead.

        Raises:
            NotFoundError: There is no such table.
            DamagedError: The log has a gap or cannot be read.
        """
        snapshot = log.read_snapshot(self.store, self.name)
        if snapshot is None:
            snapshot = scan.read_files(self.store, self.name)
        if snapshot is None:
            raise NotFoundError(
                f"the lake has no table {self.name}: see what it has with: singerlake ls"
            )
        return snapshot

    def snapshot_at(self, version: str | None) -> Snapshot:
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
        return ReaderLease(self.store, self.checkpoint())

    def checkpoint(self) -> Snapshot:
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
        return TableWriter(self.store, self.name, options, writer_id)


class Lake:
    """A lake in a store.

    Args:
        store: Where it lies.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def __repr__(self) -> str:
        return f"Lake({self.store.uri!r})"

    @classmethod
    def open(cls, uri: str, options: StoreOptions | None = None, *, create: bool = False) -> Lake:
        """Open a lake.

        Args:
            uri: A folder, or ``s3://bucket/prefix``.
            options: For S3.
            create: Begin one where there is none.

        Raises:
            NotFoundError: There is no lake there, and ``create`` is not set.
            NewerFormatError: A newer release wrote it.
        """
        lake = cls(open_store(uri, options))
        if not lake._is_known() and not create and not lake.store.folders(names.RAW):
            raise NotFoundError(
                f"there is no lake at {lake.store.uri}: sync into it with target-singerlake, "
                "or name another with --lake or SINGERLAKE_LAKE"
            )
        return lake

    def _is_known(self) -> bool:
        """Whether the lake's file is there; it is derived, so a damaged one stops nobody.

        Raises:
            NewerFormatError: A newer release wrote it.
        """
        try:
            return derived.read_lake_file(self.store) is not None
        except NewerFormatError:
            raise
        except DamagedError as error:
            logger.warning("%s; the next sync or `singerlake rebuild --all` makes it anew", error)
        return True

    def taps(self) -> list[str]:
        """The ids of the lake's taps, sorted."""
        return _decoded(self.store.folders(names.RAW), "tap")

    def tables(self, tap: str | None = None) -> list[TableName]:
        """The lake's tables, sorted.

        Folders are listed rather than the catalogue read, for the catalogue may be behind
        the log. Where all taps are asked for, one whose folder is none (a symbolic link) is
        passed over with a warning, so that it does not hide the others.

        Raises:
            DamagedError: The folder of the tap that is asked for is none, or no tap's is one.
        """
        if tap is not None:
            return self._tables_of(tap)
        found: list[TableName] = []
        refused: list[DamagedError] = []
        for one in self.taps():
            try:
                found += self._tables_of(one)
            except DamagedError as error:
                refused.append(error)
                logger.warning("passed over the tap %s: %s", one, error)
        if refused and not found:
            raise refused[0]
        return found

    def _tables_of(self, tap: str) -> list[TableName]:
        streams = _decoded(self.store.folders(names.tap_folder(tap)), "stream")
        return [TableName(tap, stream) for stream in streams]

    def catalogue(self, tap: str) -> Catalogue | None:
        """A tap's catalogue; None where it is missing or cannot be read."""
        key = names.catalogue(tap)
        try:
            return metadata.decode(self.store.get(key).data, Catalogue, key)
        except KeyMissingError:
            return None
        except DamagedError as error:
            logger.warning("%s; reading the tables instead", error)
            return None

    def table(self, name: TableName) -> Table:
        """One table, whether or not it exists yet."""
        return Table(self.store, name)

    def find(self, text: str) -> tuple[Table, TableRef]:
        """The table that a person's ``tap.stream`` or ``tap.stream.2`` means.

        Raises:
            InvalidNameError: It is no table reference.
            NotFoundError: The lake has no such table.
        """
        # Its own tap's streams decide what it means; the others are only for the error.
        known = set(self.tables(names.parse_ref(text).table.tap))
        ref = names.parse_ref(text, known)
        if ref.table not in known:
            near = ", ".join(str(name) for name in self.tables()[:10])
            raise NotFoundError(
                f"the lake at {self.store.uri} has no table {ref.table}: "
                + (f"it has {near}" if near else "it is empty")
            )
        table = self.table(ref.table)
        other = TableName(ref.table.tap, f"{ref.table.stream}.{ref.version}")
        if ref.version is not None and other in known:
            _check_meant(table, ref.version, names.written(other, known))
        return table, ref


def _check_meant(table: Table, version: str, other: str) -> None:
    """Where a stream has the name of another's version, say so if there is no such version."""
    try:
        table.snapshot_at(version)
    except NotFoundError as error:
        raise NotFoundError(f"{error}; the stream of that name is written {other}") from None


def _decoded(folders: Sequence[str], kind: str) -> list[str]:
    found = []
    for folder in folders:
        try:
            found.append(names.decode(folder))
        except InvalidNameError:
            logger.warning("left out the folder %r, which names no %s", folder, kind)
    return sorted(found)
