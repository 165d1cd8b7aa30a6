"""Facts about the way to a bucket or container: credentials, endpoint, time."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from email.utils import parsedate_to_datetime

from singerlake.safe_text import redacted
from singerlake.storage.object_store import connection, locations
from singerlake.storage.options import StoreOptions, from_environment

_PATIENCE = 10
"""Seconds to wait for the time."""
MACHINE = "the machine's own identity, or none"
"""Where credentials come from that no variable and no file names."""


def look(uri: str, options: StoreOptions | None = None) -> tuple[str, str, float | None]:
    """Find out how a bucket or container would be reached, and ask it for the time.

    Args:
        uri: ``gs://bucket/prefix`` or ``az://container/prefix``.

    Returns:
        Where credentials come from; the address that requests go to; and the seconds by which this
        machine's clock is ahead of the service's, to about one second, or None where it did not
        answer, or did not say the time.

    Raises:
        UsageError: The URI or the options cannot be used.
        RuntimeMissingError: obstore is not installed.
    """
    options = from_environment() if options is None else options
    uri, options = locations.named_by_container(uri, options)
    vendor, container, _ = locations.split(uri)
    connection.connect(vendor, container, options)
    endpoint = connection.endpoint(vendor, options)
    source = connection.source(vendor, options) or MACHINE
    return source, redacted(endpoint), clock_ahead(f"{endpoint}/{container}")


def clock_ahead(address: str) -> float | None:
    """Return the seconds by which this machine's clock is ahead of a service's, to about one.

    By the date of whatever answer comes, be it a refusal; None where it does not tell the time.
    """
    before = time.time()
    try:
        with urllib.request.urlopen(address, timeout=_PATIENCE) as answer:  # noqa: S310  # checked
            date = answer.headers.get("Date")
    except urllib.error.HTTPError as refusal:
        with refusal:
            date = refusal.headers.get("Date")
    except (OSError, http.client.HTTPException):
        return None
    middle = (before + time.time()) / 2
    try:
        return middle - parsedate_to_datetime(date).timestamp() if date else None
    except (TypeError, ValueError):
        return None
