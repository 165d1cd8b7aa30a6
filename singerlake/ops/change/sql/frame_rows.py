"""A Spark frame's rows, as a change takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql.pandas.types import to_arrow_schema

from singerlake.engine.base import Engine
from singerlake.engine.spark.engine import SparkRows
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.log.table_state import TableState
from singerlake.ops.change.row_set import MANY_TASKS, GivenRows, RowSet
from singerlake.rows.input.arrow.rows import ArrowRows, aliased
from singerlake.rows.input.rows import LINE
from singerlake.rows.state.shape import shape_of


@dataclass
class FrameRows(GivenRows):
    """The rows of a frame, which tasks read, whatever its size."""

    frame: DataFrame
    of_spark = "rows of a Spark frame"

    @plain_errors()
    def row_set(self, engine: Engine[Any], present: TableState, source: str) -> RowSet:
        """Read them; see :meth:`GivenRows.row_set`."""
        del engine  # the frame has its own session
        shape = shape_of(present)
        types = to_arrow_schema(self.frame.schema, timezone="UTC").types
        reader = ArrowRows(shape.columns, self.frame.columns, source)
        reader.check(types)
        named = self.frame.toDF(*aliased(types).names[:-1])
        lined = named.withColumn(LINE, F.monotonically_increasing_id() + 1)
        return RowSet(SparkRows(lined), reader.indexes, (source,), reader, MANY_TASKS)
