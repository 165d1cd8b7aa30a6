"""The STATE that a sync acknowledged, as its log entries keep it.

It is kept as a text, as the tap spelled it: numbers beyond what a double holds come back as they
were, and nothing that a tap may put into a STATE can make a log entry unreadable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STATE = "tap_state"
"""The member of an entry's metadata with the STATE's value, as JSON in a text."""
OMITTED = "tap_state_bytes"
"""The member that says instead how long a STATE was which is too long to be kept."""
NAMES = (STATE, OMITTED)
MAX_BYTES = 64 * 1024
"""Bytes of a STATE that are kept. Each table of a run keeps its own, and readers read them."""


def noted(value: bytes | None) -> dict[str, Any]:
    """Return what the metadata of an entry say of the STATE that goes out after it.

    Args:
        value: The STATE's value; None where none goes out.
    """
    if value is None:
        return {}
    if len(value) > MAX_BYTES:
        return {OMITTED: len(value)}
    try:
        return {STATE: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {}


def read(metadata: Mapping[str, Any]) -> str | None:
    """Return the STATE's value as the tap spelled it; None where none is kept."""
    value = metadata.get(STATE)
    return value if isinstance(value, str) else None
