"""``spark.readStream.format("singerlake")``: the changes of a table as a stream of Spark.

Spark asks for offsets and partitions in a process that lives as long as the query, and ends it
without a word. So nothing is held there: each task that reads a partition takes a lease itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812  # as everybody names it
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from singerlake.errors import ConflictError
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.ops.change_feed import NO_LIMITS, ChangeFeed, Limits, Place, column_names
from singerlake.sql.state.frames import spark_type


def schema_of(columns: Columns) -> T.StructType:
    """Return the columns of a table's changes: the table's own, and three that follow."""
    kind, transaction, sequence = column_names(columns)
    own = [T.StructField(name, spark_type(type_)) for name, type_ in columns]
    numbers = [T.StructField(name, T.LongType()) for name in (transaction, sequence)]
    return T.StructType([*own, T.StructField(kind, T.StringType()), *numbers])


def reader(
    table: Table,
    schema: T.StructType,
    since: str | None,
    limits: tuple[int | None, int | None],
    misfits: str,
) -> ChangeReader:
    """Return a reader of a table's changes; ``limits`` are those of transactions and of rows."""
    return ChangeReader(table, schema, since, Limits(*limits), misfits)


@dataclass
class ChangePartition(InputPartition):
    """Rows that one task reads; see ``Part``."""

    value: Any


@dataclass
class ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that gives each transaction of a table once.

    Attributes:
        table: The table.
        schema: The columns that Spark was told of.
        since: The state whose changes come first; None to begin with all rows.
        limits: How much a batch should have, unless Spark asks for everything.
        misfits: The treatment of values that do not fit.
    """

    table: Table
    schema: T.StructType
    since: str | None
    limits: Limits
    misfits: str
    _last: int | None = None

    @cached_property
    def _feed(self) -> ChangeFeed:
        # Late: Spark also makes a reader in the process that only asks it for its function `read`.
        feed = ChangeFeed(self.table, self.misfits)
        if schema_of(feed.columns) != self.schema:
            raise ConflictError(
                f"the columns of {self.table.name} are not those that the query was started with: "
                "start it again, and let it take the columns from the table"
            )
        return feed

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name, as all here
        """Return where a query without a checkpoint begins."""
        return _offset(Place() if self.since is None else self._feed.since(self.since))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return what Spark hands to :meth:`latestOffset` unless it wants everything."""
        if self.limits.rows is not None:
            return ReadMaxRows(self.limits.rows)
        if self.limits.transactions is not None:
            return ReadMaxFiles(self.limits.transactions)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note the last transaction, behind which this run does not go."""
        self._last = self._feed.latest()

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        """Return where the next batch ends; the start if there are no new rows."""
        last = self._feed.latest() if self._last is None else self._last
        limits = NO_LIMITS if isinstance(limit, ReadAllAvailable) else self.limits
        return _offset(self._feed.next_place(Place(**start), last, limits))

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        """Plan a batch."""
        return [ChangePartition(part) for part in self._feed.parts(Place(**start), Place(**end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition."""
        yield from partition.value.rows()


def _offset(place: Place) -> dict[str, Any]:
    return {"transaction": place.transaction, "commit": place.commit}
