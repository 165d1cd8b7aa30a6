"""Rows to be written again, by position, as a frame of Spark's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.format.log import Block
from singerlake.records.lines import line_writer
from singerlake.records.lines.line_writer import Described, LineWriter
from singerlake.rows_back.lines_again import Actions, Counted
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.write import routing

LACKING = "lacking"
"""A column: which part of its key a row has a null in."""


@dataclass(frozen=True)
class ActionsFrame(Actions):
    """Rows by position, as a frame.

    Attributes:
        frame: ``block``, ``row`` and ``deleted``; where a key may have a null, also ``LACKING``.
    """

    frame: DataFrame

    @plain_errors()
    def count(self) -> Counted:
        """Count the rows to put back, and those to delete."""
        first = F.lit(None)
        if LACKING in self.frame.columns:
            row = F.struct("block", "row", LACKING)
            first = F.min(F.when(F.col("deleted") & F.col(LACKING).isNotNull(), row))
        counts = (F.count_if(~F.col("deleted")), F.count_if("deleted"), first)
        ((put_back, deleted, keyless),) = self.frame.agg(*counts).collect()
        return Counted(put_back, deleted, None if keyless is None else tuple(keyless))

    @plain_errors()
    def write(self, blocks: Sequence[Block], writer: LineWriter) -> Iterable[Described]:
        """Have them written, as :meth:`Actions.write` says."""
        frame = self.frame.select("block", "row", "deleted")
        routed, known = routing.by_blocks(self.frame.sparkSession, frame, blocks)
        return routed.mapInArrow(replace(writer, blocks=known), line_writer.WRITTEN).collect()


def lacking(keys: Sequence[Column]) -> Column:
    """Which part of its key a row has a null in; null where it has none."""
    parts = (F.when(key.isNull(), F.lit(part)) for part, key in enumerate(keys))
    return F.coalesce(*parts).alias(LACKING)
