"""What people said of the tables that a run writes to, asked when a stream begins."""

from __future__ import annotations

from contextlib import suppress

from singerlake.errors import NotFoundError, SingerlakeError
from singerlake.format.bound import bound, contradiction
from singerlake.format.log import SchemaEntry
from singerlake.format.metadata import Catalogue
from singerlake.format.names import TableName
from singerlake.format.overlay import Overlay
from singerlake.lake import Lake
from singerlake.log import catalogue as catalogues
from singerlake.log.writer import update_catalogues
from target_singerlake.errors import InvalidSchemaError


class Overlays:
    """The overlays of one tap's tables.

    The tap's catalogue says which tables have one, so that of all others nothing is read. It is
    only derived: should it lag behind, the commit finds another overlay than the rows were checked
    by, and takes nothing.

    Args:
        lake: The lake.
        tap_id: The tap.
    """

    def __init__(self, lake: Lake, tap_id: str) -> None:
        self._lake = lake
        self._tap = tap_id
        self._known: dict[str, Overlay] = {}
        self._catalogue: Catalogue | None = None
        self._asked = False

    def of(self, stream: str) -> Overlay:
        """Return what people said of a stream's table; the same all through a run.

        Raises:
            DamagedError: The table's log cannot be read.
        """
        if stream not in self._known:
            self._known[stream] = self._read(stream) if self._may_have_one(stream) else Overlay()
        return self._known[stream]

    def bound(self, stream: str, entry: SchemaEntry) -> SchemaEntry:
        """Return the schema and the key that a stream's records are held against.

        Raises:
            InvalidSchemaError: The tap's schema and what people said cannot both hold.
        """
        overlay = self.of(stream)
        if wrong := contradiction(entry, overlay):
            table = TableName(self._tap, stream)
            raise InvalidSchemaError(
                f"it contradicts an override of {table} by singerlake alter: {wrong}; correct the "
                "tap, or alter the table"
            )
        return bound(entry, overlay)

    def mend(self, table: TableName) -> None:
        """Bring the catalogue up to date of a table that was altered."""
        with suppress(SingerlakeError):  # what ends the run is told, not this
            update_catalogues(self._lake.store, [self._lake.table(table).snapshot()])

    def _may_have_one(self, stream: str) -> bool:
        taps = self._lake.file.taps if self._lake.file is not None else None
        if taps is not None and self._tap not in taps:
            return False  # there is nothing of this tap yet
        if not self._asked:
            self._asked, self._catalogue = True, self._lake.catalogue(self._tap)
        if self._catalogue is None:
            return taps is not None  # else the lake is most likely new
        return catalogues.is_laid_over(self._catalogue, stream)

    def _read(self, stream: str) -> Overlay:
        try:
            return self._lake.table(TableName(self._tap, stream)).snapshot().overlay
        except NotFoundError:  # a table that is not there yet
            return Overlay()
