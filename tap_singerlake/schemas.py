"""Lines and schemas as the SDK can take them."""

from __future__ import annotations

from typing import Any

from singer_sdk.singerlib.json import deserialize_json

from singerlake.errors import DamagedError


def read_schema_line(line: bytes, where: str) -> dict[str, Any]:
    """Read the first line of a block.

    Raises:
        DamagedError: It is no SCHEMA message.
    """
    message = read_line(line, where)
    if message.get("type") != "SCHEMA" or not isinstance(message.get("schema"), dict):
        raise DamagedError(f"{where} does not begin with a SCHEMA line")
    return message


def read_line(line: bytes, where: str) -> dict[str, Any]:
    """Read a message as the SDK does: numbers with a point become Decimals, not floats.

    Raises:
        DamagedError: It is no JSON object.
    """
    try:
        message = deserialize_json(line)
    except ValueError as error:
        raise DamagedError(f"{where} holds a line that is not JSON: {error}") from error
    if not isinstance(message, dict):
        raise DamagedError(f"{where} holds a line that is not a Singer message")
    return message


def plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Copy a schema into one that the SDK's catalog and selection can walk.

    They expect every schema in ``properties`` and ``items`` to be an object, where JSON Schema
    also has ``true``, ``false`` and, for ``items``, a list. Only what the SDK looks at changes,
    and blocks that go out as bytes keep their own SCHEMA line anyway.
    """
    copy = dict(schema)
    properties = copy.get("properties")
    if properties is not None or "items" not in copy:
        copy["properties"] = {
            name: _plain_value(value)
            for name, value in (properties if isinstance(properties, dict) else {}).items()
        }
    if "items" in copy:
        if isinstance(copy["items"], dict):
            copy["items"] = _plain_value(copy["items"])
        else:
            del copy["items"]
    return copy


def _plain_value(value: Any) -> dict[str, Any]:
    if value is False:
        return {"not": {}}
    if not isinstance(value, dict):
        return {}
    return plain(value) if "properties" in value or "items" in value else value
