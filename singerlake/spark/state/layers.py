"""An index of what changed: laid over an earlier one, it is the index of a later transaction.

So the index of a head costs what has changed since, not what there is. A layer holds the newest
row of every key that came since the index below was made, deletions too; read together, the
rows below whose key is in the layer are left out. Layers do not pile up: each lies on an index
that holds a whole state, and takes up what an earlier layer on it had. Once a layer is no longer
small beside what is below, the next index holds a whole state again.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.records.rows.row_columns import DELETED, PROVENANCE
from singerlake.records.state.shape import Shape
from singerlake.spark.state import fold

LEAST_ROWS = 200_000
"""An index of fewer rows is written anew in the time that laying one over another takes."""
MOST_ROWS = 500_000
"""Rows of a layer whose keys every executor can hold at once."""
SHARE = 8
"""A layer may have one row for so many below: reading it twice costs little beside them."""


def worthwhile(below: int, changed: int) -> bool:
    """Tell whether a layer of some rows over an index of others is better than a new index."""
    return below >= LEAST_ROWS and changed <= min(MOST_ROWS, below // SHARE)


def layer(frame: DataFrame, shape: Shape, size: int) -> DataFrame:
    """Keep what a layer holds, of all rows that came since: with provenance, deletions too."""
    newest = fold.newest(frame, shape, size)
    # A deletion must hide the row below; without keys it hides nothing.
    kept = newest if shape.keys else newest.where(~F.col(DELETED))
    return kept.select(*shape.aliases, *PROVENANCE, DELETED)


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
