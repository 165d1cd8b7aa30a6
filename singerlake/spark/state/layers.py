"""Lays the rows of a layer over those below it, as frames (``snapshot/building.py``)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.records.rows.row_columns import DELETED
from singerlake.records.state.shape import Shape


def over(below: DataFrame, layer: DataFrame, shape: Shape) -> DataFrame:
    """Lay a layer over what is below it, which makes a state."""
    names = shape.key_aliases
    if names:
        changed = layer.select(*(F.col(name).alias(f"changed_{name}") for name in names))
        same = F.lit(True)
        for name in names:
            here, there = F.col(name), F.col(f"changed_{name}")
            same &= here == there if shape.apart else here.eqNullSafe(there)
        below = below.join(F.broadcast(changed), same, "left_anti")
    return below.unionByName(layer.where(~F.col(DELETED)).drop(DELETED))
