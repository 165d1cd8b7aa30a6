"""A filter of the rows that a change may mean, by their keys alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.rows.batches import packing


def columns_of(packed: Sequence[bytes]) -> list[pa.Array]:
    """Return the columns of the keys that tasks have seen; none where they saw no key.

    Args:
        packed: The keys, as they are compared.
    """
    tables = [table for data in packed if (table := packing.unpack(data)).num_columns]
    whole = pa.concat_tables(tables) if tables else pa.table({})
    return [packing.one_array(column) for column in whole.columns]


class KeyFilter:
    """Tells which rows of a state may be asked for: by each column of the key on its own.

    Args:
        packed: The keys that tasks have seen, as they are compared.
    """

    def __init__(self, packed: Sequence[bytes]) -> None:
        self._values = [_sorted(column.drop_null()) for column in columns_of(packed)]
        self._numbers = [
            values.to_numpy() if pa.types.is_integer(values.type) else None
            for values in self._values
        ]

    def mask(self, compared: pa.Table) -> NDArray[np.bool_]:
        """Tell it of some rows by their keys."""
        kept = np.zeros(len(compared), dtype=bool)
        if not len(compared) or not self._values or not all(map(len, self._values)):
            return kept
        kept[:] = True
        for column, values, numbers in zip(
            compared.columns, self._values, self._numbers, strict=True
        ):
            cells = packing.one_array(column)
            if numbers is not None and cells.null_count == 0:
                own = cells.to_numpy()
                # Rows lie in the order in which they came, often that of their keys.
                at = np.searchsorted(numbers, own)
                at[at == len(numbers)] = 0
                kept &= numbers[at] == own
            else:
                kept &= pc.is_in(cells, values).to_numpy(zero_copy_only=False)
        return kept

    def none_within(self, column: int, least: object, most: object) -> bool:
        """Tell whether no value of a column of whole numbers lies between two others."""
        if not self._values:
            return True
        numbers = self._numbers[column]
        if numbers is None or not isinstance(least, int) or not isinstance(most, int):
            return False
        start = int(np.searchsorted(numbers, least))
        return start == len(numbers) or int(numbers[start]) > most


def _sorted(values: pa.Array) -> pa.Array:
    return pc.unique(values.take(pc.array_sort_indices(values)))
