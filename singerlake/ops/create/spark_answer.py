"""The answer of Spark to a query, as the rows of a new table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.engine.spark.engine import SparkEngine, SparkRows
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.format.log import SchemaEntry
from singerlake.format.types import Columns
from singerlake.ops.create.answer import PART, QueryAnswer
from singerlake.ops.create.query_schema import schema_of
from singerlake.sql.result import QueryResult
from singerlake.sql.state.frames import cast_to


class SparkAnswer(QueryAnswer[SparkRows]):
    """The result of a query on Spark."""

    def __init__(self, engine: SparkEngine, result: QueryResult) -> None:
        self.engine = engine
        self.names = result.columns
        self.sources = result.sources
        origins = result.origins
        self.states = [] if origins is None else [*origins.tables.values()]
        self.lineage = None if origins is None else origins.columns
        self._frame = result.frame

    def schema(self, keys: Sequence[str]) -> SchemaEntry:  # noqa: D102
        return schema_of(self._frame.schema.fields, list(keys))

    def rows(self, columns: Columns) -> SparkRows:  # noqa: D102
        return SparkRows(cast_to(self._frame, columns).withColumn(PART, F.spark_partition_id()))

    def gathered(self, rows: SparkRows, parts: int) -> SparkRows:  # noqa: D102
        # Spark puts together what lies near, not what is neighbours: the query's order, which a
        # table does not promise, is kept only where nothing is put together.
        return SparkRows(rows.frame.coalesce(parts))

    def plain_errors(self) -> AbstractContextManager[None]:  # noqa: D102
        return plain_errors()
