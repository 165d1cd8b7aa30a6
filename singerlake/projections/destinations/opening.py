"""From a projection to the place where it is published."""

from __future__ import annotations

from singerlake.errors import UsageError
from singerlake.projections.destinations.base import Destination
from singerlake.projections.destinations.plain import PlainDestination
from singerlake.projections.projection import Projection
from singerlake.storage.opening import open_store


def open_destination(projection: Projection) -> Destination:
    """Open the place where a projection is published; nothing is read or written yet.

    Raises:
        UsageError: It is published nowhere, or its target cannot be one.
    """
    target = projection.target
    if target is None:
        raise UsageError(f"{projection.name} is only staged: it says no place in `to`")
    target.check_set()
    return PlainDestination(projection, target, open_store(target.uri, target.options))
