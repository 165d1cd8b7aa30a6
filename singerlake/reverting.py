"""The tables of a lake, as far as programs make versions of them and take back what was done.

Spark is imported when a job is begun, and not before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from singerlake import publishing
from singerlake.errors import UsageError
from singerlake.format import times
from singerlake.format.log import FrozenVersion
from singerlake.log.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from singerlake.ops.delete_version import DeletedVersion
    from singerlake.ops.rows_back.revert import Reverted
    from singerlake.ops.undo import Undone


class Table(publishing.Table):
    """One stream of one tap, whose states get versions, and whose past can come back."""

    def freeze(
        self,
        label: str | None = None,
        *,
        comment: str | None = None,
        transaction: int | None = None,
        allow_violations: bool = False,
        again: bool = False,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> FrozenVersion:
        """Freeze a state as the next version.

        If the state has a version already, that is returned, unless ``label`` is another.

        Args:
            label: A name that can stand for the version's number.
            comment: Why; kept with the version if it is a new one.
            transaction: Whose state; the last by default.
            allow_violations: Even if rows break a constraint; the version says so.
            again: Make a new version even if the state has one.
            engine: What reads the rows: ``local``, ``spark``, or ``auto`` for this process if the
                state is small and has no constraints. By default the lake's.
            spark: The session to use; it means Spark.

        Raises:
            NotFoundError: There is no such table or transaction.
            UsageError: The label cannot be one or is taken.
            ConflictError: The label was taken meanwhile, or a vacuum came in between.
            DamagedError: A row cannot be read under the table's schema, or breaks its rules.
            RuntimeMissingError: Spark or Java is not installed.
        """
        from singerlake.ops.freeze import FreezeOptions, freeze

        options = FreezeOptions(
            at=transaction,
            label=label,
            comment=comment,
            again=again,
            allow_violations=allow_violations,
        )
        return freeze(self, options, self._choice(engine, spark)).version

    def delete_version(self, version: int | str, *, reason: str) -> DeletedVersion:
        """Delete a frozen version: its number is never used again, its label may be.

        Args:
            version: Its number or label.
            reason: Why; whoever asks for it is told.

        Raises:
            NotFoundError: There is no such version, or it was deleted before.
            UsageError: The reason is empty or too long.
            ConflictError: Somebody deleted it meanwhile.
        """
        from singerlake.ops.delete_version import delete_version

        return delete_version(self.store, self.snapshot(), str(version), reason)

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
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Reverted:
        """Turn the table back to an earlier state, by one new transaction.

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
            engine: As for :meth:`freeze`.
            spark: As for :meth:`freeze`.

        Raises:
            NotFoundError: There is no such state.
            UsageError: No state is named, or several are; or it lacks a column of the key.
            ViolationsError: The old rows are not what rows have to be by now.
            ConflictError: Somebody changed the table meanwhile; nothing was changed.
            DamagedError: The old state cannot be read any more.
            RuntimeMissingError: Spark is needed, and it or Java is not installed.
        """
        if version is None and transaction is None and time is None:
            raise UsageError("name the state to go back to: a version, transaction= or time=")
        head = self.snapshot()
        _, snapshot = named_state(head, version, transaction, time)
        from singerlake.log.writer import WriteOptions
        from singerlake.ops.revert import RevertOptions, revert
        from singerlake.ops.rows_back.revert_plan import kept

        options = RevertOptions(
            snapshot.number,
            dry_run=dry_run,
            writing=WriteOptions(metadata=kept(metadata or {}, comment)),
            etag=etag,
            allow_violations=allow_violations,
            allow_misfits=allow_misfits,
        )
        return revert(self, options, self._choice(engine, spark), head=head)

    def undo(
        self,
        *transactions: int,
        on_conflict: Literal["fail", "keep", "undo"] = "fail",
        comment: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        etag: int | None = None,
        dry_run: bool = False,
        allow_violations: bool = False,
        allow_misfits: bool = False,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Undone:
        """Take back what single transactions did, and leave what came after.

        Args:
            transactions: Their numbers.
            on_conflict: What becomes of rows that were touched again since: ``fail`` undoes
                nothing, ``keep`` leaves them as they are, ``undo`` takes them back, too.
            comment: As for :meth:`revert`, and so are all that follow.
            metadata: What else to keep with the transaction.
            etag: Change nothing unless the table is still at this transaction.
            dry_run: Only work out what would be done; conflicts are no error then.
            allow_violations: Even if rows that come back break a constraint of today.
            allow_misfits: Even if values that come back do not fit the type of their column now.
            engine: As for :meth:`freeze`.
            spark: As for :meth:`freeze`.

        Raises:
            NotFoundError: There is no such transaction, or a state that is needed is gone.
            UsageError: One of them cannot be undone, or none is named.
            ViolationsError: Rows that come back are not what rows have to be by now.
            ConflictError: Rows were touched again, or another process changed the table meanwhile;
                nothing was changed.
            RuntimeMissingError: Spark is needed, and it or Java is not installed.
        """
        from singerlake.log.writer import WriteOptions
        from singerlake.ops.rows_back.undo_plan import OnConflict, kept
        from singerlake.ops.undo import UndoOptions, undo

        options = UndoOptions(
            transactions,
            OnConflict(on_conflict),
            dry_run=dry_run,
            writing=WriteOptions(metadata=kept(metadata or {}, comment)),
            etag=etag,
            allow_violations=allow_violations,
            allow_misfits=allow_misfits,
        )
        return undo(self, options, self._choice(engine, spark))


def named_state(
    head: Snapshot,
    version: int | str | None,
    transaction: int | None,
    time: datetime | str | None,
) -> tuple[FrozenVersion | None, Snapshot]:
    """Return the version, if one is named, and the table at what is named.

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
