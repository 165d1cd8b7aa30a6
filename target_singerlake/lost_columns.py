"""Columns that a run had values of, and that the last SCHEMA of their stream has no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from singerlake.format.log import SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.overlay import Overlay
from singerlake.format.types import Columns, columns_of
from singerlake.quantities import count

_NAMED = 5


class LostColumns:
    """Follows one stream's SCHEMAs through a run.

    Attributes:
        used: Set once there is a record under the present one.
    """

    def __init__(self) -> None:
        self._earlier: dict[str, None] = {}
        self._present: dict[str, None] = {}
        self.used = False

    def begin(self, schema: SchemaEntry, columns: Columns | None) -> None:
        """Take up the stream's next SCHEMA."""
        if self.used:
            self._earlier.update(self._present)
            self.used = False
        known = columns_of(schema) if columns is None else columns
        self._present = dict.fromkeys(name for name, _ in known)

    def found(self, overlay: Overlay) -> list[str]:
        """Return columns of earlier SCHEMAs that no query shows.

        Args:
            overlay: What people said of the table: they may have added or dropped a column.
        """
        dropped = {member for member, said in overlay.columns.items() if said.dropped}
        there = {*self._present, *overlay.added, *dropped}
        return [name for name in self._earlier if name not in there]


def words(lost: Mapping[TableName, Sequence[str]]) -> Iterator[str]:
    """Yield one sentence a table."""
    for table, columns in sorted(lost.items()):
        if columns:
            names = [*map(repr, columns[:_NAMED]), *(["…"] if len(columns) > _NAMED else [])]
            yield (
                f"{table}: {count(len(columns), 'column')} ({', '.join(names)}) of an earlier "
                "SCHEMA in this run are missing in the last one, so queries do not show them; the "
                "records are complete: to show them again, have the tap send one SCHEMA with all "
                "columns"
            )
