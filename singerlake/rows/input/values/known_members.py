"""Objects whose members the column all has: another would be lost without a word."""

from __future__ import annotations

from typing import Any

import msgspec

from singerlake.format.types import Kind, Type
from singerlake.format.values import Converter, MisfitError, converter

NESTED = (Kind.STRUCT, Kind.LIST)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


def checked(raw: bytes, type_: Type) -> bytes:
    """Return the JSON text of a value in whose objects there is no member that the column lacks.

    Raises:
        MisfitError: There is one.
    """
    if type_.kind is Kind.STRUCT and raw[:1] == b"{":
        members, fields = _OBJECT.decode(raw), dict(type_.fields)
        for name, member in members.items():
            if name not in fields:
                raise MisfitError(f"it has no member {name!r}")
            checked(bytes(member), fields[name])
    elif type_.kind is Kind.LIST and raw[:1] == b"[" and type_.item is not None:
        for member in _ARRAY.decode(raw):
            checked(bytes(member), type_.item)
    return raw


def strict_converter(type_: Type) -> Converter:
    """Return a column's converter that takes only values of which nothing would be lost."""
    read_value = converter(type_)
    if type_.kind not in NESTED:
        return read_value

    def read_whole(raw: bytes) -> Any:
        try:
            checked(raw, type_)
        except MisfitError as error:
            raise MisfitError(f"{type_}: {error}") from None
        return read_value(raw)

    return read_whole
