"""The steps that find keys that rows of files have twice, and where.

Keys are shared out by their hash, whole columns at a time, as those of a state are
(``newest_rows.py``), so that all rows of a key meet in one part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format.types import Columns
from singerlake.rows.batches.row_columns import alias, aliases
from singerlake.rows.batches.steps import Batches, Step
from singerlake.rows.input.rows import LINE, PROBLEMS, SOURCE
from singerlake.rows.state import keys, newest_rows
from singerlake.rows.state.keys import AT

FIRST, LAST = "first", "last"
_LINES = 1 << 40
"""More than a file has lines."""


def place(code: int) -> tuple[int, int]:
    """Return the source's index and the line that :data:`FIRST` or :data:`LAST` stands for."""
    return divmod(code, _LINES)


@dataclass
class KeyParts:
    """Reads the keys of rows and where they stand, and splits them: ``newest_rows.SPLIT_KEYS``.

    Attributes:
        reader: Gives batches of ``input.rows.given_schema`` with the key's columns.
    """

    reader: Step
    columns: Columns
    indexes: Sequence[int]
    parts: int

    def __call__(self, numbers: Batches) -> Batches:
        """Read what the numbers of tasks name; a null key is a problem of its own, and left out."""
        key = tuple(self.columns[index] for index in self.indexes)
        for batch in self.reader(numbers):
            whole = pc.is_null(batch.column(PROBLEMS))
            for index in self.indexes:
                whole = pc.and_(whole, pc.is_valid(batch.column(alias(index))))
            rows = batch.filter(whole)
            sources = rows.column(SOURCE).to_numpy().astype(np.int64)
            codes = sources * _LINES + rows.column(LINE).to_numpy()
            arrays = [rows.column(alias(index)) for index in self.indexes]
            yield newest_rows.split(keys.table(arrays, key, codes), self.parts)


@dataclass
class RepeatedKeys:
    """Finds the keys of a part that are there twice, with the places of the first and the last."""

    count: int

    def __call__(self, parts: Batches) -> Batches:
        """Find them in the keys of one part, all that there are."""
        tables = newest_rows.tables(parts)
        if not tables:
            return
        names = aliases(self.count)
        grouped = pa.concat_tables(tables).group_by(names, use_threads=False)
        found = grouped.aggregate([(AT, "min"), (AT, "max")])
        twice = found.filter(pc.less(found.column(f"{AT}_min"), found.column(f"{AT}_max")))
        renamed = twice.select([*names, f"{AT}_min", f"{AT}_max"])
        yield from renamed.rename_columns([*names, FIRST, LAST]).to_batches()
