"""From a projection to the place where it is published."""

from __future__ import annotations

from singerlake import extras
from singerlake.errors import UsageError
from singerlake.publish.destinations.base import Destination
from singerlake.publish.destinations.plain import PlainDestination
from singerlake.publish.projection import Format, Projection
from singerlake.storage.opening import open_store


def open_destination(projection: Projection) -> Destination:
    """Open the place where a projection is published; nothing is read or written yet.

    Raises:
        UsageError: It is published nowhere, or its target cannot be one.
        RuntimeMissingError: The extra of its format is not installed.
    """
    target = projection.target
    if target is None:
        raise UsageError(f"{projection.name} is only staged: it has no `to`")
    target.check_set()
    store = open_store(target.uri, target.options)
    if target.format is Format.ICEBERG:
        extras.require("pyiceberg", "Publishing an Iceberg table")
        from singerlake.publish.destinations.iceberg.destination import IcebergDestination

        return IcebergDestination(projection, target, store)
    if target.format is Format.DELTA:
        extras.require("deltalake", "Publishing a Delta table")
        from singerlake.publish.destinations.delta.destination import DeltaDestination

        return DeltaDestination(projection, target, store)
    return PlainDestination(projection, target, store)
