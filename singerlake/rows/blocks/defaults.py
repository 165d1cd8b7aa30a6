"""Defaults of rows in a column that a person added, if their block does not declare it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.format.types import Columns, Type
from singerlake.format.values import converter
from singerlake.log.table_state import TableState
from singerlake.rows.columns.arrow_types import arrow_type


@dataclass(frozen=True)
class ColumnDefault:
    """The defaults of one column.

    Attributes:
        values: Pairs of a block's number and the value from that block on, as JSON has it.
        first_block: The first that may hold values of the column.
    """

    type: Type
    values: Sequence[tuple[int, Any]]
    first_block: int

    def filled(self, values: pa.Array | None, blocks: NDArray[np.int64]) -> pa.Array:
        """Return a column with its defaults.

        Args:
            values: What the records have; None where their schema does not declare the column.
            blocks: The block that each row came in.
        """
        first = np.array([block for block, _ in self.values], dtype=np.int64)
        if values is not None and not (blocks < self.first_block).any():
            return values
        which = np.searchsorted(first, blocks, "right") - 1
        defaults = self._defaults().take(pa.array(which))
        if values is None:
            return defaults
        return pc.if_else(pa.array(blocks < self.first_block), defaults, values)

    def _defaults(self) -> pa.Array:
        read_value = converter(self.type, loose=True)
        cells = [
            None if value is None else read_value(msgspec.json.encode(value))
            for _, value in self.values
        ]
        return pa.array(cells, arrow_type(self.type))


def wanted_defaults(snapshot: TableState, wanted: Columns) -> dict[str, ColumnDefault]:
    """Return the defaults of those columns that people added, by the names that people see."""
    overlay, types = snapshot.overlay, dict(wanted)
    found: dict[str, ColumnDefault] = {}
    for member, added in overlay.added.items():
        said = overlay.columns.get(member)
        name = (said.name if said is not None else None) or member
        if name in types:
            found[name] = ColumnDefault(types[name], added.defaults, added.first_block)
    return found
