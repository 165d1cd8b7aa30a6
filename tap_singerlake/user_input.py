"""The state and the catalog that a user gives, in the shapes that are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from singer_sdk.singerlib import Catalog

from singerlake.errors import UsageError
from tap_singerlake.schemas import plain

_TEXTS = {"type": ["array", "null"], "items": {"type": "string"}}
_METADATA = {
    "type": ["array", "null"],
    "items": {
        "type": "object",
        "required": ["breadcrumb", "metadata"],
        "properties": {
            "breadcrumb": {"type": "array", "items": {"type": "string"}},
            "metadata": {
                "type": "object",
                "properties": {
                    "table-key-properties": _TEXTS,
                    "selected": {"type": ["boolean", "null"]},
                },
            },
        },
    },
}
_CATALOG = {
    "type": "object",
    "required": ["streams"],
    "properties": {
        "streams": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tap_stream_id"],
                "properties": {
                    "tap_stream_id": {"type": "string"},
                    "schema": {"type": ["object", "null"]},
                    "key_properties": _TEXTS,
                    "metadata": _METADATA,
                },
            },
        }
    },
}


def state_of(content: Any) -> dict[str, Any]:
    """Unwrap a state: from a STATE message, or from what Meltano wraps it in.

    Raises:
        UsageError: This is no state.
    """
    state = content
    while isinstance(state, dict) and "bookmarks" not in state:
        if state.get("type") == "STATE":
            state = state.get("value")
        elif "singer_state" in state:
            state = state["singer_state"]
        elif isinstance(state.get("completed"), dict):  # as Meltano's backends store it
            state = state["completed"]
        else:
            break
    bookmarks = state.get("bookmarks", {}) if isinstance(state, dict) else None
    if not isinstance(bookmarks, dict) or not all(map(_is_bookmark, bookmarks.values())):
        raise UsageError(
            'this is not the state of a tap: it must look like {"bookmarks": {"stream": {…}}}'
        )
    return state  # type: ignore[no-any-return]


def _is_bookmark(value: Any) -> bool:
    """Tell whether the SDK can take a bookmark; whether it is one of this tap's is seen later."""
    if not isinstance(value, dict):
        return False
    parts = value.get("partitions", [])
    within = [value, *parts] if isinstance(parts, list) else [None]
    return all(
        isinstance(part, dict) and isinstance(part.get("progress_markers", {}), dict)
        for part in within
    )


def catalog_of(content: Any) -> Catalog:
    """Build a catalog with schemas that the SDK can take: see :func:`plain`.

    Raises:
        UsageError: This is no catalog.
    """
    import jsonschema

    error = next(jsonschema.Draft202012Validator(_CATALOG).iter_errors(content), None)
    if error is not None:
        path = ".".join(str(part) for part in error.absolute_path)
        raise UsageError(
            f"this is not the catalog of a tap{f', at {path}' if path else ''}: "
            f"{error.message[:200]}; `tap-singerlake --discover` writes one"
        )
    try:
        return Catalog.from_dict({"streams": [_entry(stream) for stream in content["streams"]]})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"the catalog cannot be used: {error}") from error


def _entry(stream: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **stream,
        "schema": plain(stream.get("schema") or {}),
        "metadata": stream.get("metadata") or [],
    }
