"""Whether rows may have a key: a value in each of its columns, and no two rows the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.quantities import count
from singerlake.safe_text import visible

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
