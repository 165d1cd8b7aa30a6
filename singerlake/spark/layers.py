"""An index of what changed: laid over an earlier one, it is the index of a later transaction.

So the index of a head costs what changed since, not what there is. A layer holds the newest row
of every key that came since the index below was made, deletions too; read together, the rows
below whose key is in the layer are left out. Layers do not pile up: each lies on an index that
holds a whole state, and takes up what an earlier layer on it had. Once a layer is no longer
small beside what is below, the next index holds a whole state again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.spark import frames, keys
from singerlake.spark.columns import Columns
from singerlake.spark.frames import GONE, MISFIT, PROVENANCE, Shape
from singerlake.spark.keys import AT

LEAST_ROWS = 200_000
"""An index of fewer rows is written anew in the time that laying one over another takes."""
MOST_ROWS = 500_000
"""Rows of a layer whose keys every executor can hold at once."""
SHARE = 8
"""A layer may have one row for so many below: reading it twice costs little beside them."""
_LATE = 1 << 62


def worthwhile(below: int, changed: int) -> bool:
    """Whether a layer of some rows over an index of others is better than a new index."""
    return below >= LEAST_ROWS and changed <= min(MOST_ROWS, below // SHARE)


def layer(frame: DataFrame, shape: Shape, size: int) -> DataFrame:
    """What a layer holds, of all rows that came since: places, provenance, whether deleted."""
    newest = frames.newest(frame, shape, size)
    # A deletion must hide the row below; without keys it hides nothing.
    kept = newest if shape.keys else newest.where(~F.col(GONE))
    return kept.select(*shape.places, *PROVENANCE, MISFIT, GONE)


def over(below: DataFrame, layer: DataFrame, shape: Shape) -> DataFrame:
    """The state that an index and the layer on it make."""
    names = [f"c{place}" for place in shape.keys]
    if names:
        changed = layer.select(*(F.col(name).alias(f"changed_{name}") for name in names))
        same = F.lit(True)
        for name in names:
            same &= F.col(name).eqNullSafe(F.col(f"changed_{name}"))
        below = below.join(F.broadcast(changed), same, "left_anti")
    return below.unionByName(layer.where(~F.col(GONE)).drop(GONE))


def unchanged(rows: pa.Table, changed: pa.Table, key: Columns, places: list[int]) -> pa.Array:
    """Which rows below a layer it leaves, for readers without a session.

    Args:
        rows: Rows below.
        changed: The layer's keys, of :func:`changed_keys`.
        key: The key columns.
        places: Where they are in the rows.
    """
    numbers = np.arange(rows.num_rows, dtype=np.int64)
    columns = [rows.column(place).combine_chunks() for place in places]
    mine = keys.table(columns, key, numbers)
    last = keys.newest([mine, changed]).column(AT).to_numpy()
    # An index holds each key once, so a row's number is the last of its key or is not.
    left = np.zeros(len(numbers), dtype=bool)
    left[last[last < _LATE]] = True
    return pa.array(left)


def changed_keys(batches: list[pa.RecordBatch], key: Columns, places: list[int]) -> pa.Table:
    """The keys of a layer, later than every row below."""
    tables = [
        keys.table(
            [batch.column(place) for place in places],
            key,
            np.full(batch.num_rows, _LATE, dtype=np.int64),
        )
        for batch in batches
    ]
    return pa.concat_tables(tables)
