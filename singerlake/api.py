"""The lake and its tables as programs hold them: all of ``lake.py``, the rows, and the jobs.

Jobs on Spark are above the room of ``lake.py``; so what begins one stands here, above both. Spark
is imported when a job is begun, and not before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from singerlake import erasing, publishing
from singerlake.engine.choice import EngineChoice
from singerlake.errors import UsageError
from singerlake.format.metadata import TransactionSummary
from singerlake.format.names import TableName
from singerlake.log import lake_log
from singerlake.ops.copy import copies
from singerlake.publishing import session_for
from singerlake.reverting import named_state
from singerlake.state import Misfits, State

if TYPE_CHECKING:
    from io import BufferedReader

    from pyspark.sql import SparkSession

    from singerlake.format.lake_log import LakeVersion
    from singerlake.ops.change.table_change import TableChange
    from singerlake.ops.diff.diff import Diff
    from singerlake.ops.vacuum.plan import Vacuumed
    from singerlake.ops.verify.problems import Report
    from singerlake.sql.result import QueryResult

__all__ = ["Lake", "Table"]


class Table(erasing.Table):
    """One stream of one tap."""

    def history(self) -> list[TransactionSummary]:
        """List the table's transactions, oldest first.

        Raises:
            NotFoundError: There is no such table.
            DamagedError: The log has a gap or cannot be read.
        """
        return list(self.snapshot().own_transactions)

    def at(
        self,
        version: int | str | None = None,
        *,
        transaction: int | None = None,
        time: datetime | str | None = None,
        engine: str | None = None,
        misfits: Misfits = "fail",
    ) -> State:
        """Get the table's state at a version, a transaction or a time; by default, as it is now.

        Args:
            version: A frozen version's number or label.
            transaction: A transaction's number.
            time: The state is that of the last transaction by then. A text such as
                ``2026-11-20T12:00Z``, or a datetime; without a zone, it is in UTC.
            engine: What makes the index of the state if it has none: ``local``, ``spark``, or
                ``auto`` for this process if the state is small. By default the lake's.
            misfits: What becomes of values that do not fit their columns: with ``fail`` it is an
                error to read one, and ``null`` reads it as null.

        Raises:
            NotFoundError: There is no such table, version or transaction, or its state was
                given up.
            UsageError: Several states are named, or a time is none.
        """
        head = self.snapshot()
        frozen, snapshot = named_state(head, version, transaction, time)
        return State(self, snapshot, frozen, engine=engine or self._engine, misfits=misfits)

    def open_file(self, file: Any) -> BufferedReader:
        """Open a file that a row names, for reading; it may be sought in.

        ::

            for row in products.at("monday").to_arrow().to_pylist():
                with products.open_file(row["photo"]) as photo:
                    thumbnail(photo)

        Args:
            file: What the row says of it: a dict, its JSON text, or the file's path alone.

        Returns:
            A stream of bytes. Read from beginning to end, they are checked against their hash.

        Raises:
            UsageError: It names no file of a lake.
            DamagedError: The file is gone. While it is read: it is damaged.
            StoreError: The store refused.
        """
        from singerlake.files import stored

        if (found := stored.of_value(file)) is None:
            raise UsageError("this names no file of the lake: give what a row has, with its path")
        return stored.opened(self.store, self.name, found)

    def diff(
        self,
        before: int | str,
        after: int | str | None = None,
        *,
        misfits: Literal["fail", "null", "text"] = "fail",
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Diff[Any]:
        """Find what differs between two states of the table.

        Both are read with the columns, the types and the key of the second. A row that nobody
        wrote in between is unchanged, even if the schema changed. Without a key, rows are told
        apart by where they lie and by their records: none is ever changed, only removed and added.

        ::

            with lake["tap-shop.orders"].diff("monday") as found:
                print(found.counts())
                changes = found.flat_rows().to_arrow()

        Args:
            before: A version's number or label, or ``"@17"`` for the state at transaction 17.
            after: The same; the head by default.
            misfits: What becomes of values that do not fit their columns, in rows that differ:
                with ``fail`` it is an error to read one, ``null`` reads it as null, and ``text``
                makes text of its column.
            engine: As for :meth:`freeze`.
            spark: As for :meth:`freeze`.

        Returns:
            How the schemas differ (``compared.schema``), ``counts()``, and rows. While it is held,
            no vacuum deletes what it reads.

        Raises:
            NotFoundError: There is no such version or transaction, or its state was given up.
            UsageError: The table has lost its log, or the first state lacks a column of the
                second's key.
            DamagedError: A block that is needed cannot be read, or a key does not fit.
            RuntimeMissingError: Spark is needed, and it or Java is not installed.
        """
        from singerlake.ops.diff.table import DiffOptions, diff

        second = None if after is None else str(after)
        return diff(self, DiffOptions(str(before), second, misfits), self._choice(engine, spark))

    def vacuum(
        self,
        *,
        retain: timedelta = timedelta(days=7),
        drop_history: bool = False,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Vacuumed:
        """Combine small files and delete what nothing needs.

        Args:
            retain: What was needed, or created, in this time stays; at least a day.
            drop_history: Also drop rows that a later one has replaced, if no version and no
                state within ``retain`` needs them.
            engine: What copies files, and drops history: ``local``, ``spark``, or ``auto`` for
                this process up to 256 MiB of files and the size that :meth:`freeze` has for
                rows. By default the lake's.
            spark: As for :meth:`freeze`.

        Raises:
            UsageError: ``retain`` is below a day, or the table has lost its log.
            ConflictError: Another vacuum is at work on it.
            DamagedError: A block that is needed cannot be read.
            RuntimeMissingError: Spark or Java is not installed.
        """
        from singerlake.ops.vacuum import plan as vacuum
        from singerlake.ops.vacuum.vacuum import vacuum as run

        parts = tuple(p for p in vacuum.PARTS if drop_history or p != vacuum.DROP_HISTORY)
        options = vacuum.VacuumOptions(retain_seconds=retain.total_seconds(), parts=parts)
        options.check()
        return run(self, options, self._choice(engine, spark))

    def verify(
        self,
        version: int | str | None = None,
        *,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Report:
        """Hold every block, and the fingerprints of every version, against the log.

        Args:
            version: Compute the fingerprints of this version only, by number or label.
            engine: As for :meth:`freeze`.
            spark: As for :meth:`freeze`.

        Returns:
            What was looked at, and what is not as it should be: ``problems`` is empty where all is.

        Raises:
            NotFoundError: There is no such version.
            RuntimeMissingError: Spark or Java is not installed.
        """
        from singerlake.ops.verify.verify import verify

        return verify(self, version, self._choice(engine, spark))

    def change(
        self,
        *,
        comment: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        etag: int | None = None,
        overwrite: bool = False,
        new_version: bool = False,
        label: str | None = None,
        dry_run: bool = False,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> TableChange:
        """Begin a change, to be used as a context; at its end all of it is one transaction.

        ::

            with lake.table("tap-shop.orders").change(comment="paid by card") as change:
                change.upsert([{"id": 17, "status": "paid"}])
                change.delete([18, 19])
            print(change.result)

        Where the block ends with an error, nothing is changed.

        Args:
            comment: Why; kept with the transaction.
            metadata: What else to keep with it.
            etag: The transaction that the table must still be at.
            overwrite: Change rows whatever version of them was read.
            new_version: Freeze what the change leaves, in the same transaction.
            label: That version's label.
            dry_run: Only work out what would be done.
            engine: What reads and writes rows: ``local``, ``spark``, or ``auto`` for this process
                if the table and the rows are small. By default the lake's.
            spark: A session; it means Spark.
        """
        from singerlake.ops.change.plan import ChangeOptions
        from singerlake.ops.change.table_change import TableChange

        options = ChangeOptions(
            comment=comment,
            metadata=metadata or {},
            etag=etag,
            overwrite=overwrite,
            new_version=new_version,
            label=label,
            dry_run=dry_run,
        )
        return TableChange(self, options, self._choice(engine, spark))


class LakeState:
    """The tables of a lake as one lake version means them, which :meth:`Lake.at` gives."""

    def __init__(self, lake: Lake, version: LakeVersion) -> None:
        self._lake = lake
        self.tables = [table.name for table in version.tables]
        self.version = version
        """The lake version: its number, label, fingerprint and what it says of its tables."""

    def __repr__(self) -> str:
        return f"LakeState({self.version})"

    def __len__(self) -> int:
        return len(self.tables)

    def __iter__(self) -> Iterator[TableName]:
        return iter(self.tables)

    def __contains__(self, name: object) -> bool:
        return any(name in (table, str(table)) for table in self.tables)

    def __getitem__(self, name: str | TableName) -> State:
        """Get the state of one table: ``lake.at("2026-q3")["tap-shop.orders"]``.

        Raises:
            NotFoundError: The lake version has no such table, or it cannot be read any more.
        """
        # By its name here, for its folder may be gone by now.
        table = self._lake.table(next((t for t in self.tables if str(t) == str(name)), name))
        return table.at(lake_log.version_of(self.version, table.name))

    def query(self, sql: str, **options: Any) -> QueryResult:
        """Query the tables as they were: see :meth:`Lake.query`, which has the same options."""
        return self._lake.query(sql, lake_version=self.version, **options)


class Lake(publishing.Lake, copies.Lake):
    """A lake in a store, whose tables can be changed."""

    def use_engine(self, name: str) -> None:
        """Set what operations run on if they name no engine; see :func:`singerlake.open`.

        Raises:
            UsageError: There is no such engine.
        """
        self._engine = EngineChoice.of(name).name

    def at(self, version: int | str) -> LakeState:
        """Get the tables as a lake version means them, by its number or label.

        Raises:
            NotFoundError: There is no such lake version.
            DamagedError: The lake's log cannot be read.
        """
        return LakeState(self, self.lake_version(version))

    def freeze(
        self,
        label: str | None = None,
        *,
        tables: Sequence[str | TableName] | None = None,
        comment: str | None = None,
        allow_violations: bool = False,
        again: bool = False,
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
            engine: As for :meth:`Table.freeze`.
            spark: As for :meth:`Table.freeze`.

        Raises:
            SingerlakeError: A table could not be frozen; see :meth:`Table.freeze`. There is no
                lake version then; the next run uses the versions of the others again.
            UsageError: The label cannot be one or is taken, or the list of tables is empty.
            ConflictError: Some table moved at every moment.
        """
        from singerlake.ops.freeze_lake import LakeFreezeOptions, freeze_lake, plan

        if tables is not None and not tables:
            raise UsageError("the list of tables is empty: leave it out to freeze all of them")
        named = [self.table(name).name for name in tables or ()]
        options = LakeFreezeOptions(label, comment, again, allow_violations, named)
        choice = EngineChoice.of(engine, default=self._engine, spark=spark)
        wanted = plan(self, self.tables if tables is None else lambda: named, options)
        done = freeze_lake(self, wanted, options, choice)
        if done.version is None:
            raise next(iter(done.failed.values()))
        return done.version

    def table(self, name: str | TableName) -> Table:
        """Get one table; see :meth:`singerlake.lake.Lake.table`."""
        found = super().table(name)
        table = found if isinstance(found, Table) else Table(found.store, found.name)
        table._engine = self._engine
        return table

    def __getitem__(self, name: str | TableName) -> Table:
        """Get one table: ``lake["tap-shop.orders"]``."""
        return self.table(name)

    __iter__ = None
    """Without it, Python would take the lake for a list of tables by number."""

    def query(
        self,
        sql: str,
        *,
        provenance: bool = False,
        misfits: str = "fail",
        lake_version: LakeVersion | None = None,
        spark: SparkSession | None = None,
    ) -> QueryResult:
        """Query the lake in SQL, on Spark.

        Tables are written ``tap.stream`` or ``tap.stream.2``, a dash as an underscore or the part
        in backticks.

        ::

            with lake.query("select status, count(*) from tap_shop.orders group by all") as result:
                table = result.to_arrow()

        Args:
            sql: One SELECT.
            provenance: Give every table three more columns: ``_row_id``, ``_row_version``, the
                number of the row's block, and ``_transaction``, which brought the block.
            misfits: What becomes of values that do not fit: ``fail``, ``null`` or ``text``.
            lake_version: Read tables that are named without a version at that of this one.
            spark: The session; the running one by default, or a new one.

        Returns:
            The result, not yet computed. While it is held, no vacuum deletes what it reads.

        Raises:
            InvalidQueryError: It is no SELECT, does not parse, or names no column of the tables.
            NotFoundError: It names a table or a version that is not there.
            DamagedError: A table's data cannot be read.
            RuntimeMissingError: Spark or Java is not installed.
        """
        spark = session_for(spark, "a query")
        from singerlake.sql.queries.query import query

        return query(
            spark,
            self,
            sql,
            provenance=provenance,
            misfits=misfits,
            lake_version=lake_version,
        )
