"""The seven characters that name a schema's folder."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from singerlake.errors import InvalidNameError

try:
    from farmhash import fingerprint64
except ImportError:  # it has no wheel for this Python
    from singerlake.format.farmhash64 import fingerprint64

_USABLE = re.compile(rb"[A-Za-z0-9][A-Za-z0-9_-]{6}")


def canonical(schema: dict[str, Any], key_properties: list[str]) -> bytes:
    """Return the text that is hashed: sorted keys, no spaces, UTF-8.

    Args:
        schema: The JSON Schema of a SCHEMA message.
        key_properties: Its key properties; none is an empty list.

    Raises:
        InvalidNameError: The schema holds text that is not Unicode (a lone surrogate),
            or NaN or Infinity, which JSON does not have.
    """
    try:
        return json.dumps(
            {"key_properties": key_properties, "schema": schema},
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
            allow_nan=False,
        ).encode("utf-8")
    except (ValueError, UnicodeEncodeError) as error:
        raise InvalidNameError(f"a schema cannot be written as JSON: {error}") from error


def schema_hash(schema: dict[str, Any], key_properties: list[str]) -> str:
    """Name a schema.

    FarmHash ``fingerprint64`` of the canonical text, as eight big-endian bytes in Base85
    (the alphabet of RFC 1924), cut to seven characters. That alphabet has characters that
    shells, globs, URLs and Windows treat as special, so while one turns up outside
    ``A-Z a-z 0-9 - _``, or the name would begin with ``-`` or ``_``, the text is hashed
    again with one more NUL byte behind it.

    Returns:
        Seven characters, safe in a path on every store.
    """
    text = canonical(schema, key_properties)
    while True:
        number: int = fingerprint64(text)
        name = base64.b85encode(number.to_bytes(8, "big"))[:7]
        if _USABLE.fullmatch(name):
            return name.decode("ascii")
        text += b"\x00"
