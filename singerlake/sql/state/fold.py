"""The newest row of each key, by Spark's own shuffle: where the rows come from an index too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.engine.spark.jvm.session import cores
from singerlake.rows.batches.row_columns import BLOCK, DELETED, ORDINAL, PROVENANCE, VERSION
from singerlake.rows.state.activations import Activation, Survival
from singerlake.rows.state.shape import Shape

SHUFFLE_BYTES = 128 << 20
OWN = "own"
"""What :func:`own_place` gives, where it is a column."""


def fold(frame: DataFrame, shape: Shape, size: int) -> DataFrame:
    """Keep the rows of the state.

    Args:
        frame: Rows with provenance, and whether they are deletions.
        shape: The table's shape.
        size: Bytes about to be shuffled, for the number of parts.
    """
    stays = ~F.col(DELETED)
    if (left := survives(shape.survival)) is not None:
        stays &= left
    return newest(frame, shape, size).where(stays).select(*shape.aliases, *PROVENANCE)


def newest(frame: DataFrame, shape: Shape, size: int) -> DataFrame:
    """Keep the newest row of each key; without keys, all rows.

    Args:
        frame: Rows with provenance.
        shape: The table's shape.
        size: Bytes about to be shuffled, for the number of parts.
    """
    if not shape.keys:
        return frame
    same = [*shape.key_aliases]
    if shape.apart:
        frame, same = frame.withColumn(OWN, own_place(shape.key_aliases)), [*same, OWN]
    window = Window.partitionBy(*same).orderBy(F.desc(BLOCK), F.desc(ORDINAL))
    parts = max(2 * cores(frame.sparkSession), -(-size // SHUFFLE_BYTES))
    if size < SHUFFLE_BYTES // 16:
        parts = 1
    shuffled = frame.repartition(parts, *shape.key_aliases)
    ranked = shuffled.withColumn("rank", F.row_number().over(window))
    return ranked.where(F.col("rank") == 1).drop("rank", OWN)


def own_place(key: Iterable[str], side: str = "") -> Column:
    """Return the place of a row whose key has a null in it, to tell it from all others; else null.

    Args:
        side: The prefix of the names of the row's columns.
    """
    return F.when(lacks(key, side), F.concat_ws(":", f"{side}{BLOCK}", f"{side}{ORDINAL}"))


def lacks(key: Iterable[str], side: str = "") -> Column:
    """Tell whether a row's key has a null in it; the arguments are those of :func:`own_place`."""
    return reduce(or_, (F.col(f"{side}{name}").isNull() for name in key))


def survives(rule: Survival, row: Callable[[str], Column] = F.col) -> Column | None:
    """Return the rule of ``Survival.mask`` for Spark; None if all rows survive.

    Args:
        row: Gives the row's columns of provenance, by their names.
    """
    if rule.last is None:
        return None
    kept = row(VERSION).eqNullSafe(rule.last.version)
    if rule.different is not None:
        kept &= _after(rule.different, row)
    return kept | _after(rule.last, row)


def _after(activation: Activation, row: Callable[[str], Column]) -> Column:
    """Tell whether a row came after an activation."""
    same = (row(BLOCK) == activation.block) & (row(ORDINAL) >= activation.rows)
    return (row(BLOCK) > activation.block) | same
