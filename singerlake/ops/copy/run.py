"""One run of a copy: tables, what is derived of them, and the lake versions that name them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from singerlake.errors import DamagedError, DataError, NotFoundError, SingerlakeError, UsageError
from singerlake.format import metadata, names
from singerlake.format.lake_log import LakeVersion
from singerlake.format.metadata import LakeFile
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log import bookmarks, lake_file
from singerlake.log.capabilities import open_for_writing
from singerlake.log.writer import remove_from_catalogue, update_catalogues
from singerlake.ops.copy.absences import settle
from singerlake.ops.copy.lake_versions import (
    CopiedLakeVersion,
    choose_lake_version,
    coming_versions,
    copy_lake_versions,
)
from singerlake.ops.copy.outcome import Copied, CopyOptions
from singerlake.ops.copy.table import TableCopy
from singerlake.ops.copy.transfers import Meter
from singerlake.storage.base import KeyMissingError, Store


@dataclass(frozen=True)
class CopyRequest:
    """The selection to be copied: all of a lake, unless something is named.

    Attributes:
        tables: Tables, or versions of them, as ``tap.stream`` and ``tap.stream.2``.
        lake_version: A lake version, by number or label.
    """

    tables: Sequence[str] = ()
    lake_version: int | str | None = None

    @property
    def whole(self) -> bool:
        """Whether all of the lake is to be copied."""
        return not self.tables and self.lake_version is None


@dataclass(frozen=True)
class Failed:
    """Something that could not be copied.

    Attributes:
        table: Which table; None where it is no table, or one that the source only lists.
        missing: Whether a table is missing in the copy for it.
    """

    error: SingerlakeError
    table: TableName | None = None
    missing: bool = False


@dataclass(frozen=True)
class Note:
    """Something that is worth knowing."""

    text: str


Event: TypeAlias = "Copied | CopiedLakeVersion | Failed | Note"
Events: TypeAlias = "Generator[Event, None, None]"


def copy_lake(
    lake: Lake, destination: Store, asked: CopyRequest, options: CopyOptions, meter: Meter
) -> Events:
    """Copy a lake, or some of it, past what fails; yields what comes of each thing.

    Args:
        destination: Where to; see ``destination.check_place``.
        meter: Counts bytes, and stops it. Whoever closes the generator stops it, too.

    Raises:
        SingerlakeError: Nothing was copied, for what is asked for is not there or cannot be.
    """
    return _Run(lake, destination, asked, options, meter).events()


class _Run:
    """Goes from table to table, and remembers what failed."""

    def __init__(
        self, lake: Lake, destination: Store, asked: CopyRequest, options: CopyOptions, meter: Meter
    ) -> None:
        self._lake = lake
        self._destination = destination
        self._asked = asked
        self._options = options
        self._meter = meter
        self._failed: list[TableName] = []

    def events(self) -> Events:
        asked, options = self._asked, self._options
        chosen, versions = yield from self._chosen()
        done: list[Copied] = []
        store = self._lake.store
        # Before the tables: what they count as sent is copied then.
        kept = bookmarks.spelled(store) if asked.whole else {}
        results = copy_tables(store, self._destination, chosen, options, self._meter)
        # Closed at once after Ctrl-C, so that no thread goes on copying.
        with closing(results):
            for table, came in results:
                if isinstance(came, Copied):
                    done.append(came)
                    yield came
                elif not (asked.whole and isinstance(came, NotFoundError)):
                    # A folder in which nothing was ever committed is no table, as for `ls`.
                    self._failed.append(table)
                    yield Failed(came, table, missing=True)
        try:
            if not options.dry_run:
                finish(store, self._destination, done, whole=asked.whole)
                for key, data in kept.items():
                    bookmarks.put(self._destination, key, data)
            yield from self._with_versions(versions)
        except SingerlakeError as error:
            yield Failed(error)

    def _chosen(self) -> Generator[Event, None, tuple[Chosen, Sequence[LakeVersion]]]:
        """The tables to copy, and the source's lake versions, up to the one that is copied."""
        asked = self._asked
        if asked.lake_version is not None:
            chosen, versions = choose_lake_version(self._lake, asked.lake_version)
            # Before anything is copied: tables beside another lake's log would help nobody.
            coming_versions(self._destination, versions, last_alone=True)
            return chosen, versions
        if asked.tables:
            named = choose(self._lake, asked.tables)
        else:
            named, lost = choose_all(self._lake)
            for error in lost:
                yield Failed(error, missing=True)
        try:  # before any table is copied: whatever they name is copied then
            return named, self._lake.lake_versions()
        except DataError as error:  # a backup of the tables is a backup all the same
            yield Failed(error)
            return named, []

    def _with_versions(self, versions: Sequence[LakeVersion]) -> Events:
        """Copy lake versions, where tables are copied as they name them."""
        asked, dry_run = self._asked, self._options.dry_run
        if not versions:
            return
        if asked.tables:
            yield Note(
                "lake versions are copied with the whole lake, or with --lake-version, and not "
                "with tables"
            )
            if not dry_run:
                settle(self._destination)
            return
        alone = asked.lake_version is not None
        yield from copy_lake_versions(
            self._lake.store,
            self._destination,
            versions,
            self._failed,
            last_alone=alone,
            dry_run=dry_run,
        )
        if alone and self._failed:
            yield Note(
                f"{versions[-1]} is not copied yet, because some of its tables are missing: "
                "run it again"
            )


# Copying a lake: its tables side by side, then what is derived from them, and people's words.

Chosen = Mapping[TableName, Sequence[str]]
"""Tables, and of each the versions to copy; none for all of it."""
_OF_THE_PLACE = {"format", "taps", "conditional_writes", "probed", "lock_settle_seconds"}
"""Members of a lake's file that say something of its store, or are merged one by one."""
_WAIT_SECONDS = 0.2
"""After this long at the most a copy notices Ctrl-C."""
_ANYTHING = msgspec.json.Decoder(dict[str, Any])


def choose(lake: Lake, texts: Iterable[str]) -> Chosen:
    """Find the tables and versions that somebody names.

    Raises:
        NotFoundError: The lake has no such table, or version.
        UsageError: A table is named as a whole and by a version, or by a transaction.
    """
    chosen: dict[TableName, list[str]] = {}
    for text in texts:
        table, ref = lake.find(text)
        version = None
        if ref.version is not None:
            if ref.version.startswith("@") and not names.is_pointer(ref.version):
                raise UsageError(f"{text} is a transaction: freeze it, and copy the version")
            version = str(table.snapshot().version(ref.version).number)
        known = chosen.get(table.name)
        if known is not None and bool(known) is (ref.version is None):
            raise UsageError(f"{table.name} is named as a whole and by a version: keep one of them")
        versions = chosen.setdefault(table.name, [])
        if version is not None and version not in versions:
            versions.append(version)
    return chosen


def choose_all(lake: Lake) -> tuple[Chosen, list[DataError]]:
    """Find all tables, and what is to be said of those that the lake has lost.

    A backup that leaves out in silence what it cannot see would be none.
    """
    chosen: dict[TableName, Sequence[str]] = {}
    lost: list[DataError] = []
    for tap in lake.taps():
        try:
            chosen.update(dict.fromkeys(lake.tables(tap), ()))
        except DataError as error:
            lost.append(error)
    lost += [DamagedError(str(one)) for one in lake.inventory(chosen).lost]
    return chosen, lost


def copy_tables(
    source: Store, destination: Store, chosen: Chosen, options: CopyOptions, meter: Meter
) -> Generator[tuple[TableName, Copied | SingerlakeError], None, None]:
    """Copy tables, several at a time; in place of one that failed, the error.

    Args:
        destination: Where to; see ``destination.check_place``.
        meter: Counts the bytes, and stops it.
    """
    with (
        ThreadPoolExecutor(options.transfers, "transfer") as movers,
        ThreadPoolExecutor(options.tables, "table") as pool,
    ):

        def one(table: TableName) -> tuple[TableName, Copied | SingerlakeError]:
            copy = TableCopy(source, destination, table, chosen[table], options, meter, movers)
            meter.add(begun=1)
            try:
                meter.check()
                return table, copy.run()
            except SingerlakeError as error:
                return table, error

        meter.tables = len(chosen)
        results: list[Future[tuple[TableName, Copied | SingerlakeError]]] = []
        try:
            results += (pool.submit(one, table) for table in chosen)
            for result in results:
                # A Ctrl-C just before a wait is only noticed after it.
                while not result.done():
                    wait([result], timeout=_WAIT_SECONDS)
                yield result.result()
        except BaseException:  # Ctrl-C: what is under way ends at its next piece
            meter.stop()
            for result in results:
                result.cancel()
            raise


def finish(source: Store, destination: Store, copied: Sequence[Copied], *, whole: bool) -> None:
    """Bring the destination's catalogues and lake's file up to date with what was copied.

    Args:
        whole: Whether that is the lake, or only some of its tables.

    Raises:
        DamagedError: A lake's file cannot be read.
    """
    open_for_writing(destination)
    snapshots = [one.snapshot for one in copied]
    update_catalogues(destination, [one for one in snapshots if not one.dropped_at])
    for one in snapshots:
        if one.dropped_at:
            remove_from_catalogue(destination, one)
    theirs = _words(source)
    tables = {one.table for one in copied}

    def edit(present: dict[str, Any]) -> bool:
        before = msgspec.json.encode(present)
        if whole:
            present.update({k: v for k, v in theirs.items() if k not in _OF_THE_PLACE})
        taps = present.setdefault("taps", {})
        for tap in sorted({table.tap for table in tables}):
            streams = {table.stream for table in tables if table.tap == tap}
            said = theirs.get("taps", {}).get(tap, {})
            taps[tap] = _merged(taps.get(tap, {}), said, streams, whole=whole)
        return msgspec.json.encode(present) != before

    lake_file.change(destination, edit)


def _words(source: Store) -> dict[str, Any]:
    """The source's lake's file as it is spelled, with members that this release does not know."""
    try:
        data = source.get(names.LAKE).data
    except KeyMissingError:
        return {}
    metadata.decode(data, LakeFile, names.LAKE)
    return _ANYTHING.decode(data)


def _merged(
    here: dict[str, Any], there: dict[str, Any], streams: set[str], *, whole: bool
) -> dict[str, Any]:
    """Merge the entries of a tap: the source's, and those of tables that only this copy has.

    Of some tables only, what is said of the tap here stays, where the source says nothing.
    """
    tables = {name: said for name, said in here.get("tables", {}).items() if name not in streams}
    for name, said in there.get("tables", {}).items():
        if whole or name in streams:
            tables[name] = said
    merged = {} if whole else dict(here)
    merged.update((k, v) for k, v in there.items() if whole or v not in (None, []))
    merged.pop("tables", None)
    return {**merged, "tables": tables} if tables else merged
