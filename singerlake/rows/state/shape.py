"""The shape of a table at a transaction: its columns, its key, and what activations leave."""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.format.types import EXACT_KEYS, Columns
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import alias, aliases
from singerlake.rows.state import activations
from singerlake.rows.state.activations import Survival


@dataclass(frozen=True)
class Shape:
    """The shape of a table at a transaction.

    Attributes:
        keys: Indexes of the key columns; empty for a keyless table.
        apart: Whether a row with a null in its key is a row of its own; by rules before 3, all
            such rows with the same other values are one.
    """

    columns: Columns
    keys: tuple[int, ...]
    survival: Survival
    apart: bool = True

    @property
    def names(self) -> list[str]:
        """The columns' own names."""
        return [name for name, _ in self.columns]

    @property
    def aliases(self) -> list[str]:
        """The internal names of the columns."""
        return aliases(self.columns)

    @property
    def key_columns(self) -> Columns:
        """The columns of the key."""
        return tuple(self.columns[index] for index in self.keys)

    @property
    def key_names(self) -> list[str]:
        """The key columns' own names."""
        return [name for name, _ in self.key_columns]

    @property
    def key_aliases(self) -> list[str]:
        """The internal names of the key columns."""
        return [alias(index) for index in self.keys]


def shape_of(snapshot: TableState) -> Shape:
    """Find a table's shape from its log alone.

    Raises:
        DamagedError: The schema in effect is not in the log, or lacks a key column.
    """
    survival = activations.survival(snapshot.blocks)
    apart = snapshot.rules >= EXACT_KEYS
    return Shape(snapshot.columns, snapshot.key, survival, apart=apart)
