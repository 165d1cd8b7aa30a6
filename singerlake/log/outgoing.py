"""The overlay of lines that go out: their columns are those that a query shows.

A block's lines are written under a schema of their own. A column that the source has stopped
sending still goes out with the lines that have it. A column that was added with ``alter
add-column`` and dropped again does not: no query shows it, and the source never sent it.
"""

from __future__ import annotations

import msgspec

from singerlake.format.overlay import ColumnOverlay, Overlay
from singerlake.format.types import columns_of
from singerlake.log import lifetimes
from singerlake.log.table_state import TableState


def outgoing_overlay(snapshot: TableState) -> Overlay:
    """Return a table's overlay, in which added columns that it no longer has are dropped ones."""
    overlay = snapshot.overlay
    begun = lifetimes.first(snapshot.drops)
    once = {
        member
        for number, earlier in snapshot.overlays.items()
        if begun <= number <= snapshot.number
        for member in earlier.added
    }
    once -= overlay.added.keys()
    if not once:
        return overlay
    gone = once - dict(columns_of(snapshot.tap_schema, snapshot.rules)).keys()
    columns = dict(overlay.columns)
    for member in sorted(gone):
        said = columns.get(member, ColumnOverlay())
        columns[member] = msgspec.structs.replace(said, dropped=True)
    return msgspec.structs.replace(overlay, columns=columns)
