"""Whether there is anything to publish: found from metadata alone, so that Java need not start."""

from __future__ import annotations

from singerlake.lake import Lake
from singerlake.projections import refreshes
from singerlake.projections.destinations.opening import open_destination
from singerlake.projections.positions import due
from singerlake.projections.projection import Projection
from singerlake.projections.versions import not_published, versioned_table
from singerlake.transactions import log


def is_up_to_date(lake: Lake, projection: Projection) -> bool:
    """Tell whether a projection's staging table and its destination show what the lake has.

    Raises:
        SingerlakeError: It cannot be told: something else lies at the destination, or a table that
            is read is gone.
    """
    if projection.stage is not None and not _is_staged(lake, projection):
        return False
    if projection.target is None:
        return True
    there = open_destination(projection).published()
    if there is None or due(lake, there.position, projection) is not None:
        return False
    if projection.versions:
        head = versioned_table(lake, projection).snapshot()
        if not_published(head, there):
            return False
    return projection.name in lake.annotations().published


def _is_staged(lake: Lake, projection: Projection) -> bool:
    assert projection.stage is not None  # noqa: S101  # the caller has looked
    head = log.read_snapshot(lake.store, projection.stage)
    if head is None or head.dropped_at:
        return False
    last = refreshes.last_refresh(lake.store, head)
    if last is None or last.touched is not None:
        return False
    return due(lake, last.position, projection, rows_only=True) is None
