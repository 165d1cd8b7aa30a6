"""From a projection to the place where it is published."""

from __future__ import annotations

from singerlake import extras
from singerlake.errors import UsageError
from singerlake.projections.destinations.base import Destination
from singerlake.projections.destinations.plain import PlainDestination
from singerlake.projections.projection import Format, Projection, Target
from singerlake.storage.opening import open_store
from singerlake.storage.options import StoreOptions

_NOT_PASSED_ON = (
    "sse",
    "sse_kms_key_id",
    "sse_customer_key",
    "acl",
    "requester_pays",
    "addressing_style",
    "ca_bundle",
    "proxy",
)


def open_destination(projection: Projection) -> Destination:
    """Open the place where a projection is published; nothing is read or written yet.

    Raises:
        UsageError: It is published nowhere, or its target cannot be one.
        RuntimeMissingError: The extra of its format is not installed.
    """
    target = projection.target
    if target is None:
        raise UsageError(f"{projection.name} is only staged: it says no place in `to`")
    target.check_set()
    store = open_store(target.uri, target.options)
    if target.format in (Format.ICEBERG, Format.DELTA):
        _check_passed_on(target)
    if target.format is Format.ICEBERG:
        extras.require("pyiceberg", "Publishing an Iceberg table")
        from singerlake.projections.destinations.iceberg.destination import IcebergDestination

        return IcebergDestination(projection, target, store)
    if target.format is Format.DELTA:
        extras.require("deltalake", "Publishing a Delta table")
        from singerlake.projections.destinations.delta.destination import DeltaDestination

        return DeltaDestination(projection, target, store)
    return PlainDestination(projection, target, store)


def _check_passed_on(target: Target) -> None:
    """Make sure that nothing is said of the store which a format's own library is not told.

    Raises:
        UsageError: Something is: its commits would lie there without that.
    """
    options = target.options
    usual = StoreOptions()
    said = [name for name in _NOT_PASSED_ON if getattr(options, name) != getattr(usual, name)]
    if said and target.uri.startswith("s3://"):
        raise UsageError(
            f"the library that writes {target.format} tables is not told of {', '.join(said)}: "
            "leave that out, or publish in another format"
        )
