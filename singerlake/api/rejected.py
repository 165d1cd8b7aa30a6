"""Rejected records of a stream, as programs hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from singerlake.engine.choice import EngineChoice
from singerlake.lake import Table
from singerlake.ops.rejected import kept, listing
from singerlake.ops.rejected.kept import KeptLine, ReasonCount
from singerlake.ops.rejected.listing import DiscardOptions, Selection
from singerlake.ops.rejected.replay import Replayed, ReplayOptions, replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Rejected:
    """The rejected records of a stream that are selected, which :meth:`Table.rejected` gives."""

    def __init__(
        self, table: Table, reason: str | None, where: str | None, engine: str | None
    ) -> None:
        self._table = table
        self._selection = Selection(reason, where)
        self._engine = engine

    def __repr__(self) -> str:
        return f"Rejected({self._table.name}, {self._selection})"

    def __iter__(self) -> Iterator[KeptLine]:
        """Read them, in the order in which they came.

        Raises:
            NotFoundError: No record of the stream was rejected.
            UsageError: The dead-letter table has rows of its own.
        """
        choice = EngineChoice.of(None, default=self._engine)
        yield from listing.rejected_lines(self._table, self._selection, choice)

    def counts(self) -> list[ReasonCount]:
        """Count them by reason, the most frequent first. Values in reasons are hidden.

        Raises:
            NotFoundError: No record of the stream was rejected.
            UsageError: The dead-letter table has rows of its own.
        """
        return kept.counted(self)

    def messages(self) -> Iterator[bytes]:
        """Yield them as Singer messages, each with its newline, after the table's SCHEMA.

        Raises:
            NotFoundError: No record of the stream was rejected.
            UsageError: The dead-letter table has rows of its own.
        """
        yield from listing.as_messages(self._table, self)

    def replay(
        self,
        *,
        overwrite: bool = False,
        dry_run: bool = False,
        comment: str | None = None,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Replayed:
        """Make rows of those that the table takes today, as one transaction.

        Args:
            overwrite: Replace rows that are newer than the replayed record.
            dry_run: Only work out what would be done.
            comment: Why; kept with the transaction.
            engine: What looks for newer rows: ``local``, ``spark``, or ``auto`` for this process
                if the table is small. By default the lake's.
            spark: A session; it means Spark.

        Raises:
            NotFoundError: No record of the stream was rejected, or there is no such table.
            UsageError: Records of the table cannot be replayed, or too many are selected.
            ConflictError: Others keep changing the same rows, or a vacuum, an erasure or another
                replay is running; nothing was changed.
        """
        choice = EngineChoice.of(engine, default=self._engine, spark=spark)
        options = ReplayOptions(
            self._selection, overwrite=overwrite, dry_run=dry_run, comment=comment
        )
        return replay(self._table, options, choice)

    def discard(self, *, comment: str | None = None, dry_run: bool = False) -> int:
        """Take them off the list; gives how many. The history of the dead-letter table has them.

        Args:
            comment: Why; kept with the transaction.
            dry_run: Only count them.

        Raises:
            NotFoundError: No record of the stream was rejected.
            UsageError: Neither a reason nor a condition selects them.
            ConflictError: A vacuum, an erasure or a replay is running; nothing was changed.
        """
        choice = EngineChoice.of(None, default=self._engine)
        options = DiscardOptions(self._selection, comment, dry_run)
        return listing.discard(self._table, options, choice).lines
