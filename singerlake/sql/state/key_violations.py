"""Whether rows may have a key: a value in each of its columns, and no two rows the same.

And whether a table folded by it has the rows that it has now, or others come back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.errors import DataError
from singerlake.lake import Table
from singerlake.log.snapshot import Snapshot
from singerlake.quantities import count
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL
from singerlake.safe_text import visible
from singerlake.sql.state import from_blocks

logger = logging.getLogger(__name__)
FIRST = 10
"""Rows that are shown; the others are counted."""
_LONGEST = 100


@dataclass(frozen=True)
class KeyViolations:
    """The rows of a state that cannot have a key.

    Attributes:
        names: The key's columns.
        without: Rows that lack a value in one of them.
        alike: Rows that have their key in common with another.
        first: The keys of the first of these, as texts, with how many rows have each.
    """

    names: Sequence[str]
    without: int
    alike: int
    first: Sequence[tuple[Sequence[str], int]]

    def __bool__(self) -> bool:
        return bool(self.without or self.alike)

    def lines(self) -> Iterator[str]:
        """Say what is wrong, line by line."""
        listed = ", ".join(self.names)
        if self.without:
            lacks = "lacks" if self.without == 1 else "lack"
            yield f"  {count(self.without, 'row')} {lacks} a value that fits {listed}"
        if self.alike:
            yield f"  {count(self.alike, 'row')} have the same {listed} as another:"
        for values, rows in self.first:
            pairs = zip(self.names, values, strict=True)
            yield f"    {', '.join(f'{n} {visible(v)}' for n, v in pairs)}: {count(rows, 'row')}"


def key_violations(frame: DataFrame, columns: Sequence[str], names: Sequence[str]) -> KeyViolations:
    """Find the rows of a state that cannot have a key.

    Args:
        frame: The rows; a value that does not fit its column is null.
        columns: What the key's columns are called in it.
        names: What people call them.
    """
    lacking = reduce(or_, (F.col(column).isNull() for column in columns))
    keys = [F.when(lacking, None).otherwise(F.col(c)).alias(c) for c in columns]
    grouped = frame.select(*keys, lacking.alias("lacking")).groupBy(*columns, "lacking").count()
    bad = grouped.where(F.col("lacking") | (F.col("count") > 1))
    total = F.sum("count")
    sums = {
        row["lacking"]: row["total"]
        for row in bad.groupBy("lacking").agg(total.alias("total")).collect()
    }
    texts = [F.col(column).cast("string").substr(1, _LONGEST).alias(column) for column in columns]
    alike = bad.where(~F.col("lacking")).orderBy(F.desc("count"), *columns)
    # Ten keys come to the driver, and two sums.
    first = alike.select(*texts, "count").limit(FIRST).collect() if sums.get(False) else []
    return KeyViolations(
        names,
        sums.get(True, 0),
        sums.get(False, 0),
        [([str(row[column]) for column in columns], row["count"]) for row in first],
    )


def folds_alike(spark: SparkSession, table: Table, after: Snapshot, now: DataFrame) -> bool:
    """Tell whether the fold under another key leaves the rows that there are.

    Args:
        spark: The session.
        table: The table.
        after: The table with the key.
        now: Its rows, with provenance.
    """
    present = now.select(BLOCK, ORDINAL)
    try:
        with plain_errors():
            folded = from_blocks.state_rows(spark, table, after).select(BLOCK, ORDINAL)
            if folded.count() != present.count():
                return False
            return folded.join(present, [BLOCK, ORDINAL], "left_anti").isEmpty()
    except DataError as error:
        # A row that is in the state no more has a value that no key can have.
        logger.info("the rows of %s are written again: %s", table.name, error)
        return False
