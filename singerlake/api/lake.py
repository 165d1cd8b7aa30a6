"""A lake as programs hold it: its tables, its versions, and all that can be done to it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singerlake import lake
from singerlake.api.table import Table
from singerlake.engine.choice import EngineChoice
from singerlake.errors import InvalidNameError, NotFoundError, SingerlakeError, UsageError
from singerlake.format.names import TableName
from singerlake.log import lake_log
from singerlake.quantities import count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from singerlake.api.snapshot import Snapshot
    from singerlake.format.lake_log import LakeVersion
    from singerlake.ops.copy.copies import LakeCopy
    from singerlake.ops.publish.outcome import Outcome
    from singerlake.sql.local.query import LocalQueryResult
    from singerlake.sql.result import QueryResult
    from singerlake.storage.options import StoreOptions


class LakeSnapshot:
    """The tables of a lake as one lake version means them, which :meth:`Lake.at` gives."""

    def __init__(self, lake: Lake, version: LakeVersion) -> None:
        self._lake = lake
        self.tables = [table.name for table in version.tables]
        self.version = version
        """The lake version: its number, label, fingerprint and what it says of its tables."""

    def __repr__(self) -> str:
        version = self.version
        label = "" if version.label is None else f" {version.label!r}"
        return (
            f"LakeSnapshot({version.number}{label}, {count(len(self), 'table')}, "
            f"fingerprint {version.fingerprint})"
        )

    def _repr_html_(self) -> str:
        """Show the lake version and its tables in a notebook."""
        return self.version._repr_html_()

    def _ipython_key_completions_(self) -> list[str]:
        """Complete ``lake.at(1)["`` by names of tables."""
        return [str(name) for name in self.tables]

    def __len__(self) -> int:
        return len(self.tables)

    def __iter__(self) -> Iterator[TableName]:
        return iter(self.tables)

    def __contains__(self, name: object) -> bool:
        return any(name in (table, str(table)) for table in self.tables)

    def __getitem__(self, name: str | TableName) -> Snapshot:
        """Get the state of one table: ``lake.at("2026-q3")["tap-shop.orders"]``.

        Raises:
            NotFoundError: The lake version has no such table, or it cannot be read any more.
        """
        # By its name here, for its folder may be gone by now.
        table = self._lake.table(next((t for t in self.tables if str(t) == str(name)), name))
        return table.at(lake_log.version_of(self.version, table.name))

    def query(self, sql: str, **options: Any) -> LocalQueryResult | QueryResult:
        """Query the tables as they were: see :meth:`Lake.query`, which has the same options."""
        return self._lake.query(sql, lake_version=self.version, **options)


class Lake(lake.Lake):
    """A lake in a store."""

    _engine: str | None = None

    def _repr_html_(self) -> str:
        """Show the lake's tables in a notebook, by their names."""
        from singerlake.cards import card

        try:
            tables = [(name,) for name in self.tables()]
        except SingerlakeError as error:
            return card("Lake", {"at": self.store.uri, "error": error})
        return card("Lake", {"at": self.store.uri, "tables": len(tables)}, ("table",), tables)

    def _ipython_key_completions_(self) -> list[str]:
        """Complete ``lake["`` by names of tables."""
        return [str(name) for name in self.tables()]

    def use_engine(self, name: str) -> None:
        """Set what operations run on if they name no engine; see :func:`singerlake.open`.

        Raises:
            UsageError: There is no such engine.
        """
        self._engine = EngineChoice.of(name).name

    def table(self, name: str | TableName) -> Table:
        """Get one table; see :meth:`singerlake.lake.Lake.table`."""
        found = super().table(name)
        table = found if isinstance(found, Table) else Table(found.store, found.name)
        table._engine = self._engine
        return table

    def __getitem__(self, name: str | TableName) -> Table:
        """Get one table: ``lake["tap-shop.orders"]``."""
        return self.table(name)

    def __contains__(self, name: object) -> bool:
        """Tell whether the lake has a table, also if it was dropped: ``"tap-shop.orders" in lake``.

        Raises:
            SingerlakeError: The lake cannot be read.
        """
        if isinstance(name, TableName):
            return name in self.tables(name.tap)
        if not isinstance(name, str):
            return False
        try:
            return self.find(name)[1].version is None
        except (NotFoundError, InvalidNameError):
            return False

    __iter__ = None
    """Without it, Python would take the lake for a list of tables by number."""

    def at(self, version: int | str) -> LakeSnapshot:
        """Get the tables as a lake version means them, by its number or label.

        Raises:
            NotFoundError: There is no such lake version.
            DamagedError: The lake's log cannot be read.
        """
        return LakeSnapshot(self, self.lake_version(version))

    def freeze(
        self,
        label: str | None = None,
        *,
        tables: Sequence[str | TableName] | None = None,
        comment: str | None = None,
        allow_violations: bool = False,
        again: bool = False,
        require: Sequence[str] = (),
        sign: str | Path | None = None,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> LakeVersion:
        """Freeze tables as one lake version, of one moment.

        If a lake version names the same versions already, that is returned, unless ``label`` is
        another.

        Args:
            label: A name that can stand for the lake version's number.
            tables: Which; all by default.
            comment: Why; kept with it, and with the table versions that are made.
            allow_violations: Even if rows break a constraint of their table.
            again: Make a new lake version even if one names the same versions.
            require: Requirements that each table must meet, as for :meth:`Table.freeze`, except
                dead-letter tables that are not named; each statement is run once. Unless all are
                met, no table is frozen.
            sign: The file of a key with which the version of each table is signed, before the
                lake version is made; see :meth:`Table.sign`.
            engine: As for :meth:`Table.freeze`.
            spark: As for :meth:`Table.freeze`.

        Raises:
            SingerlakeError: A table could not be frozen, or its version could not be signed; see
                :meth:`Table.freeze`. There is no lake version then; the next run uses the versions
                that were made.
            UsageError: The label cannot be one or is taken, or the list of tables is empty.
            RequirementsError: A table does not meet a requirement.
            ConflictError: Some table moved at every moment.
        """
        from singerlake.ops.freeze_lake import LakeFreezeOptions, freeze_lake, plan
        from singerlake.ops.sign.openssh import SigningKey

        if tables is not None and not tables:
            raise UsageError("the list of tables is empty: leave it out to freeze all of them")
        named = [self.table(name).name for name in tables or ()]
        signer = None if sign is None else SigningKey.of(sign)
        options = LakeFreezeOptions(label, comment, again, allow_violations, named, require, signer)
        choice = EngineChoice.of(engine, default=self._engine, spark=spark)
        wanted = plan(self, self.tables if tables is None else lambda: named, options)
        done = freeze_lake(self, wanted, options, choice)
        if done.version is None:
            raise next(iter(done.failed.values()))
        return done.version

    def query(
        self,
        sql: str,
        *,
        row_metadata: bool = False,
        on_type_mismatch: str = "fail",
        lake_version: LakeVersion | None = None,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> LocalQueryResult | QueryResult:
        """Query the lake in SQL.

        Simple statements on tables that are small or materialized are answered in this process,
        all others on Spark.

        Tables are written ``tap.stream`` or ``tap.stream.2``, a dash as an underscore or the part
        in backticks.

        ::

            with lake.query("select status, count(*) from tap_shop.orders group by all") as result:
                table = result.to_arrow()

        Args:
            sql: One SELECT.
            row_metadata: Give every table three more columns: ``_row_id``, ``_row_version``, the
                number of the row's block, and ``_transaction``, which brought the block.
            on_type_mismatch: What becomes of values that do not fit: ``fail``, ``null`` or
                ``text``.
            lake_version: Read tables that are named without a version at that of this one.
            engine: As for :meth:`Table.freeze`; with ``local`` a statement that only Spark answers
                is an error.
            spark: The session; it means Spark.

        Returns:
            The result, which is computed as its rows are taken. While it is held, no vacuum deletes
            what it reads.

        Raises:
            InvalidQueryError: It is no SELECT, does not parse, or names no column of the tables.
            NotFoundError: It names a table or a version that is not there.
            DamagedError: A table's data cannot be read.
            RuntimeMissingError: Spark or Java is not installed.
        """
        from singerlake.sql.answers import answer

        return answer(
            self,
            sql,
            EngineChoice.of(engine, default=self._engine, spark=spark),
            row_metadata=row_metadata,
            on_type_mismatch=on_type_mismatch,
            lake_version=lake_version,
        )

    def publish(
        self,
        names: Iterable[str] | None = None,
        *,
        projections: str | os.PathLike[str] | None = None,
        full_refresh: bool = False,
        dry_run: bool = False,
        version: int | str | None = None,
        lake_version: int | str | LakeVersion | None = None,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> list[Outcome]:
        """Bring projections up to date: staging tables, and what is published for other tools.

        Args:
            names: Which, and before them those that make what they read; all by default.
            projections: The file that declares them; ``projections.yml`` by default.
            full_refresh: Compute and write everything anew.
            dry_run: Only find out what would be done.
            version: Publish this frozen version, by number or label, next to the current rows.
            lake_version: The same of the versions that this lake version, by number or label,
                names of their tables.
            engine: As for :meth:`Table.publish`; staging tables are Spark's.
            spark: The session to use; it means Spark.

        Returns:
            What became of each, in the order in which they ran.

        Raises:
            UsageError: What is declared cannot be, or both ``version`` and ``lake_version`` are
                given.
            NotFoundError: None are declared, or a table that is read is not there, or there is
                no such lake version.
            SingerlakeError: One failed. The others were published all the same, but those that
                read it.
        """
        from singerlake.ops.publish.outcome import PublishOptions
        from singerlake.ops.publish.publish import published
        from singerlake.publish.declaration import declared
        from singerlake.publish.graph import graph

        if version is not None and lake_version is not None:
            raise UsageError("version and lake_version exclude each other: give one")
        if isinstance(lake_version, (int, str)):
            lake_version = self.lake_version(lake_version)
        arranged = graph(self, declared(None if projections is None else Path(projections)))
        wanted = arranged.projections if names is None else arranged.with_makers(names)
        at = None if version is None else str(version)
        options = PublishOptions(full_refresh, dry_run, at, lake_version)
        choice = EngineChoice.of(engine, default=self._engine, spark=spark)
        return published(self, wanted, options, choice)

    def copy(
        self,
        to: str | os.PathLike[str],
        *,
        tables: Sequence[str | TableName] | None = None,
        lake_version: int | str | LakeVersion | None = None,
        sync: bool = False,
        verify: bool = False,
        dry_run: bool = False,
        options: StoreOptions | None = None,
        transfers: int = 8,
        wait: timedelta = timedelta(minutes=2),
    ) -> LakeCopy:
        """Copy the lake, or some of it, to a place that is empty or a copy of it; without Spark.

        A later call copies what is new, and goes on where an earlier one was killed.

        Args:
            to: A folder, ``s3://bucket/prefix``, ``gs://bucket/prefix`` or
                ``az://container/prefix``.
            tables: Which tables, or versions of them: ``["tap.orders", "tap.items.2"]``; all by
                default.
            lake_version: A lake version, by number or label: its tables at the versions that it
                names.
            sync: Also delete there what a vacuum has deleted here since.
            verify: Also read all that is there again.
            dry_run: Only find out what would be done.
            options: How the place is reached; by default as the environment says.
            transfers: How many files to copy at the same time.
            wait: How long to wait, with ``sync``, for readers of the copy.

        Raises:
            UsageError: The place is no lake and not empty, lies in this one, or what is asked for
                does not go together, or is out of range.
            NotFoundError: A table, version or lake version is not there.
            ConflictError: A table there is no copy of this one any more.
            SingerlakeError: Something could not be copied. All else was all the same.
        """
        from singerlake.ops.copy import copies
        from singerlake.ops.copy.outcome import CopyOptions

        how = CopyOptions(
            sync=sync,
            verify=verify,
            dry_run=dry_run,
            transfers=transfers,
            lease_wait_seconds=wait.total_seconds(),
        )
        return copies.copy(
            self,
            os.fspath(to),
            tables=tables,
            lake_version=lake_version,
            how=how,
            options=options,
        )
