"""The rows below a layer that stay, for readers of an index without a Spark session."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from singerlake.rows.state import keys
from singerlake.rows.state.keys import AT
from singerlake.rows.state.shape import Shape

_LATE = 1 << 62


def unchanged(rows: pa.Table, changed: pa.Table, shape: Shape) -> pa.Array:
    """Tell which rows below a layer it leaves.

    Args:
        changed: The layer's keys, of :func:`changed_keys`.
        shape: The table's shape.
    """
    numbers = np.arange(rows.num_rows, dtype=np.int64)
    columns = [rows.column(name).combine_chunks() for name in shape.key_aliases]
    mine = keys.table(columns, shape.key_columns, numbers)
    last = keys.newest([mine, changed], apart=shape.apart).column(AT).to_numpy()
    # An index holds each key once, so a row's number is the last of its key or is not.
    left = np.zeros(len(numbers), dtype=bool)
    left[last[last < _LATE]] = True
    return pa.array(left)


def changed_keys(batches: list[pa.RecordBatch], shape: Shape) -> pa.Table:
    """Collect the keys of a layer, later than every row below."""
    tables = [
        keys.table(
            [batch.column(name) for name in shape.key_aliases],
            shape.key_columns,
            np.full(batch.num_rows, _LATE, dtype=np.int64),
        )
        for batch in batches
    ]
    return pa.concat_tables(tables)
