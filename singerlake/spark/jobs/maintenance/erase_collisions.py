"""Finds versions in which an erasure would let other rows come back, before anything is written.

A version keeps the key, and the rules of types, that it was frozen with. Where these make one row
of lines that have different keys today, the newest of them hides the others; without it, another
one would show in a version that never had it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.erasure.obstacles import Obstacle
from singerlake.format.log import FrozenVersion
from singerlake.lake import Table
from singerlake.records.rows.row_columns import BLOCK, DELETED, ORDINAL, VERSION, aliases
from singerlake.records.state.activations import Survival
from singerlake.records.state.shape import Shape, shape_of
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.state import fold, frames
from singerlake.transactions import versions
from singerlake.transactions.snapshot import Snapshot

SHOWN = 10
"""Keys that a message names."""
_GONE, _TOP, _REST = "gone", "top", "rest"


@dataclass(frozen=True)
class Collisions:
    """Looks for rows of old versions that others hide.

    Attributes:
        spark: The session.
        table: The table.
        head: Its head: rows go by its key.
        gone: Positions of the lines that go, as ``block`` and ``row``.
        first: The number of the first block that loses one.
    """

    spark: SparkSession
    table: Table
    head: Snapshot
    gone: DataFrame
    first: int

    def obstacles(self) -> Iterator[Obstacle]:
        """Yield each version that would show other rows, with the keys of these."""
        for version in versions.protecting(self.head, self.head.floor):
            at = self.head.frozen_as(version).earliest_equal()
            if at.last_block < self.first or not at.key or at.key_reading == self.head.key_reading:
                continue
            with plain_errors():
                keys = self._appearing(at).limit(SHOWN + 1).collect()
            if keys:
                yield self._obstacle(version, sorted(f"{row[0]}" for row in keys))

    def _appearing(self, at: Snapshot) -> DataFrame:
        """The present keys of the rows that would come back in a state."""
        wide = shape_of(at)
        columns = wide.key_columns
        shape = Shape(columns, tuple(range(len(columns))), Survival())
        lines = frames.read_blocks(self.spark, self.table, at, at.blocks, shape)
        key = aliases(columns)
        if wide.apart:
            lines = lines.where(~fold.lacks(key))
        here = (F.col(BLOCK) == F.col("block")) & (F.col(ORDINAL) == F.col("row"))
        gone = self.gone.distinct().withColumn(_GONE, F.lit(True))
        marked = lines.join(gone, here, "left")
        line = F.struct(BLOCK, ORDINAL, DELETED, VERSION, _GONE)
        groups = marked.groupBy(*key).agg(
            F.max(line).alias(_TOP),
            F.max(F.when(F.col(_GONE).isNull(), line)).alias(_REST),
        )
        shows = ~F.col(f"{_REST}.{DELETED}")
        left = fold.survives(wide.survival, lambda name: F.col(f"{_REST}.{name}"))
        shows = shows if left is None else shows & left
        back = groups.where(F.col(f"{_TOP}.{_GONE}") & shows).select(f"{_REST}.*")
        return self._keys_at(back.select(F.col(BLOCK).alias("block"), F.col(ORDINAL).alias("row")))

    def _keys_at(self, places: DataFrame) -> DataFrame:
        """The keys, as the head has them, of the lines in some places."""
        columns = shape_of(self.head).key_columns
        shape = Shape(columns, tuple(range(len(columns))), Survival())
        lines = frames.read_blocks(self.spark, self.table, self.head, self.head.blocks, shape)
        here = (F.col(BLOCK) == F.col("block")) & (F.col(ORDINAL) == F.col("row"))
        return lines.join(places, here, "left_semi").select(frames.row_id(shape)).distinct()

    def _obstacle(self, version: FrozenVersion, keys: list[str]) -> Obstacle:
        listed = ", ".join(keys[:SHOWN]) + (", …" if len(keys) > SHOWN else "")
        name = self.table.name
        vacuum = f"singerlake vacuum {name} --drop-history --retain 0s --no-retention-guard"
        if version.deleted is None:
            what = "delete the version first, and the history that it keeps"
            vacuum = f"singerlake versions {name} --delete {version.number} --reason WHY; {vacuum}"
        else:  # until its history is dropped, whoever reads it gets its rows
            what = "drop its history first, for it was deleted"
        return Obstacle(
            f"version {version.number} was frozen when the key told fewer rows apart, and would "
            f"show other rows instead of these: {listed}",
            f"either erase those rows as well, or {what}: {vacuum}",
        )
