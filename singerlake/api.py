"""The lake and its tables as programs hold them: all of ``lake.py``, the rows, and the jobs.

Jobs on Spark are above the room of ``lake.py``; so what begins one stands here, above both. Spark
is imported when a job is begun, and not before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from singerlake import extras, publishing
from singerlake.errors import UsageError
from singerlake.format import times
from singerlake.format.log import FrozenVersion
from singerlake.format.metadata import TransactionSummary
from singerlake.format.names import TableName
from singerlake.maintenance.change import ChangeOptions
from singerlake.publishing import session_for
from singerlake.state import Engine, Misfits, State
from singerlake.transactions.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from singerlake.maintenance.vacuum import Vacuumed
    from singerlake.maintenance.verify import Report
    from singerlake.spark.jobs.revert import Reverted
    from singerlake.spark.jobs.table_change import TableChange
    from singerlake.spark.sql.result import QueryResult

__all__ = ["Lake", "Table"]


class Table(publishing.Table):
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
        engine: Engine = "spark",
        misfits: Misfits = "fail",
    ) -> State:
        """Get the table's state at a version, a transaction or a time; by default, as it is now.

        Args:
            version: A frozen version's number or label.
            transaction: A transaction's number.
            time: The state is that of the last transaction by then. A text such as
                ``2026-11-20T12:00Z``, or a datetime; without a zone, it is in UTC.
            engine: What makes the index of the state where it has none: Spark; or ``arrow``, in
                this process, of at most 128 MiB of messages.
            misfits: What becomes of values that do not fit their columns: with ``fail`` it is an
                error to read one, and ``null`` reads it as null.

        Raises:
            NotFoundError: There is no such table, version or transaction, or its state was
                given up.
            UsageError: Several states are named, or a time is none.
        """
        head = self.snapshot()
        frozen, snapshot = _named(head, version, transaction, time)
        return State(self, snapshot, frozen, engine=engine, misfits=misfits)

    def freeze(
        self,
        label: str | None = None,
        *,
        comment: str | None = None,
        transaction: int | None = None,
        allow_violations: bool = False,
        spark: SparkSession | None = None,
    ) -> FrozenVersion:
        """Freeze a state as the next version, on Spark.

        Args:
            label: A name that can stand for the version's number.
            comment: Why; kept with the version.
            transaction: Whose state; the last by default.
            allow_violations: Even if rows break a constraint; the version says so.
            spark: The session; the running one by default, or a new one.

        Raises:
            NotFoundError: There is no such table or transaction.
            UsageError: The label cannot be one or is taken.
            ConflictError: The label was taken meanwhile, or a vacuum came in between.
            DamagedError: A row cannot be read under the table's schema, or breaks a rule of its
                table.
            RuntimeMissingError: Spark or Java is not installed.
        """
        from singerlake.maintenance.freeze import plan

        plan(self.snapshot(), at=transaction, label=label, comment=comment)
        spark = session_for(spark, "freezing a version")
        from singerlake.spark.jobs.freeze import freeze

        return freeze(
            spark,
            self,
            at=transaction,
            label=label,
            comment=comment,
            allow_violations=allow_violations,
        )

    def revert(
        self,
        version: int | str | None = None,
        *,
        transaction: int | None = None,
        time: datetime | str | None = None,
        comment: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        etag: int | None = None,
        dry_run: bool = False,
        allow_violations: bool = False,
        allow_misfits: bool = False,
        spark: SparkSession | None = None,
    ) -> Reverted:
        """Turn the table back to an earlier state, by one new transaction, on Spark.

        Args:
            version: A frozen version's number or label.
            transaction: A transaction's number.
            time: As for :meth:`at`.
            comment: Why; kept with the transaction.
            metadata: What else to keep with it.
            etag: Change nothing unless the table is still at this transaction.
            dry_run: Only work out what would be done.
            allow_violations: Even if the old rows break a constraint of today; the transaction
                says so.
            allow_misfits: Even if old values do not fit the type that their column has now; the
                transaction says so.
            spark: The session; the running one by default, or a new one.

        Raises:
            NotFoundError: There is no such state.
            UsageError: No state is named, or several are; or it lacks a column of the key.
            ViolationsError: The old rows are not what rows have to be by now.
            ConflictError: Somebody changed the table meanwhile; nothing was changed.
            DamagedError: The old state cannot be read any more.
            RuntimeMissingError: Spark or Java is not installed.
        """
        if version is None and transaction is None and time is None:
            raise UsageError("name the state to go back to: a version, transaction= or time=")
        _, snapshot = _named(self.snapshot(), version, transaction, time)
        spark = session_for(spark, "reverting a table")
        from singerlake.maintenance.revert import kept
        from singerlake.spark.jobs.revert import revert
        from singerlake.transactions.writer import WriteOptions

        return revert(
            spark,
            self,
            snapshot.number,
            dry_run=dry_run,
            options=WriteOptions(metadata=kept(metadata or {}, comment)),
            etag=etag,
            allow_violations=allow_violations,
            allow_misfits=allow_misfits,
        )

    def vacuum(
        self,
        *,
        retain: timedelta = timedelta(days=7),
        drop_history: bool = False,
        spark: SparkSession | None = None,
    ) -> Vacuumed:
        """Combine small files and delete what nothing needs; on Spark, where there is work to do.

        Args:
            retain: What was needed, or created, in this time stays; at least a day.
            drop_history: Also drop rows that a later one has replaced, if no version and no
                state within ``retain`` needs them.
            spark: The session; the running one by default, or a new one.

        Raises:
            UsageError: ``retain`` is below a day, or the table has lost its log.
            ConflictError: Another vacuum is at work on it.
            DamagedError: A block that is needed cannot be read.
            RuntimeMissingError: Spark or Java is not installed.
        """
        from singerlake.maintenance import vacuum

        first, last = vacuum.COMBINE, vacuum.DELETE
        parts = (first, vacuum.DROP_HISTORY, last) if drop_history else (first, last)
        options = vacuum.VacuumOptions(retain_seconds=retain.total_seconds(), parts=parts)
        options.check()
        plan = vacuum.plan_vacuum(self.store, self.snapshot(dropped=True), options)
        if plan.empty:
            return vacuum.Vacuumed(self.name, kept=plan.garbage.kept)
        extras.require("pyspark", "a vacuum with something to do")
        from singerlake.spark.jobs.vacuum import vacuum_table

        return vacuum_table(lambda: session_for(spark, "a vacuum"), self, options, plan=plan)

    def verify(
        self, version: int | str | None = None, *, spark: SparkSession | None = None
    ) -> Report:
        """Hold every block, and the fingerprints of every version, against the log, on Spark.

        Args:
            version: Compute the fingerprints of this version only, by number or label.
            spark: The session; the running one by default, or a new one.

        Returns:
            What was looked at, and what is not as it should be: ``problems`` is empty where all is.

        Raises:
            NotFoundError: There is no such version.
            RuntimeMissingError: Spark or Java is not installed.
        """
        spark = session_for(spark, "verifying a table")
        from singerlake.spark.jobs.verify import verify

        return verify(spark, self, None if version is None else str(version))

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
            spark: The session; the running one by default, or a new one.
        """
        from singerlake.spark.jobs.table_change import TableChange

        options = ChangeOptions(
            comment=comment,
            metadata=metadata or {},
            etag=etag,
            overwrite=overwrite,
            new_version=new_version,
            label=label,
            dry_run=dry_run,
        )
        return TableChange(self, options, spark)


class Lake(publishing.Lake):
    """A lake in a store, whose tables can be changed."""

    def table(self, name: str | TableName) -> Table:
        """Get one table; see :meth:`singerlake.lake.Lake.table`."""
        found = super().table(name)
        return found if isinstance(found, Table) else Table(found.store, found.name)

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
            misfits: What becomes of values that do not fit their columns: ``fail``, ``null`` or
                ``text``.
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
        from singerlake.spark.jobs.query import query

        return query(spark, self, sql, provenance=provenance, misfits=misfits)


def _named(
    head: Snapshot,
    version: int | str | None,
    transaction: int | None,
    time: datetime | str | None,
) -> tuple[FrozenVersion | None, Snapshot]:
    """The version, if one is named, and the table at what is named.

    Raises:
        NotFoundError: There is no such version or transaction, or its state was given up.
        UsageError: Several states are named, or a time is none.
    """
    if [version, transaction, time].count(None) < 2:  # noqa: PLR2004
        raise UsageError("name one state: a version, transaction= or time=")
    if version is not None:
        return head.named(str(version))
    if transaction is not None:
        return None, head.at(head.summary(transaction).number)
    if time is None:
        return None, head
    if isinstance(time, datetime):
        zoned = time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)
        time = times.iso(zoned.astimezone(timezone.utc))
    return None, head.at_time(time)
