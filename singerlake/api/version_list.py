"""The frozen versions of a table, as a list that shows in a notebook which table's they are."""

from __future__ import annotations

from collections.abc import Iterable

from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName


class VersionList(list[FrozenVersion]):
    """A table's frozen versions, oldest first."""

    def __init__(self, table: TableName, versions: Iterable[FrozenVersion]) -> None:
        super().__init__(versions)
        self.table = table
        """The table's name."""

    def __repr__(self) -> str:
        lines = "".join(f"\n  {version!r}," for version in self)
        return f"Versions of {self.table}: [{lines}]"

    def _repr_html_(self) -> str:
        """Show the versions in a notebook."""
        from singerlake.cards import card

        lines = [
            (str(one.number), one.label, str(one.transaction), one.rows, one.fingerprint, one.time)
            for one in self
        ]
        head = ("version", "label", "transaction", "rows", "fingerprint", "time")
        return card(f"Versions of {self.table}", {}, head, lines)
