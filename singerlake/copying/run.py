"""One run of a copy: tables, what is derived of them, and the lake versions that name them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeAlias

from singerlake.copying.absences import settle
from singerlake.copying.lake_versions import (
    CopiedLakeVersion,
    choose_lake_version,
    coming_versions,
    copy_lake_versions,
)
from singerlake.copying.lakes import Chosen, choose, choose_all, copy_tables, finish
from singerlake.copying.outcome import Copied, CopyOptions
from singerlake.copying.transfers import Meter
from singerlake.errors import DamagedError, NotFoundError, SingerlakeError
from singerlake.format.lake_log import LakeVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.storage.base import Store


@dataclass(frozen=True)
class Asked:
    """What is to be copied: all of a lake, unless something is named.

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
        error: Why.
        table: Which table; None where it is no table, or one that the source only lists.
        missing: Whether a table is missing in the copy for it.
    """

    error: SingerlakeError
    table: TableName | None = None
    missing: bool = False


@dataclass(frozen=True)
class Note:
    """Something that is worth knowing.

    Attributes:
        text: In words.
    """

    text: str


Event: TypeAlias = "Copied | CopiedLakeVersion | Failed | Note"
Events: TypeAlias = "Generator[Event, None, None]"


def copy_lake(
    lake: Lake, destination: Store, asked: Asked, options: CopyOptions, meter: Meter
) -> Events:
    """Copy a lake, or some of it, past what fails; yields what comes of each thing.

    Args:
        lake: The source.
        destination: Where to; see ``destination.check_place``.
        asked: What of it.
        options: How.
        meter: Counts bytes, and stops it. Whoever closes the generator stops it, too.

    Raises:
        SingerlakeError: Nothing was copied, for what is asked for is not there or cannot be.
    """
    return _Run(lake, destination, asked, options, meter).events()


class _Run:
    """Goes from table to table, and remembers what failed."""

    def __init__(
        self, lake: Lake, destination: Store, asked: Asked, options: CopyOptions, meter: Meter
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
        except DamagedError as error:  # a backup of the tables is a backup all the same
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
                f"{versions[-1]} is not copied yet, for not all of its tables are: run it again"
            )
