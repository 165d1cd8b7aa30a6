"""JSON documents as they are written: with each value of a member that occurs twice."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

_MOST_FAILED = 1000
"""Braces of one line that may begin no object: what has more is no JSON."""
_BETWEEN = " \t\r\n,[\ufeff\ufffd"
"""What may stand before an object: white space, the marks of an encoding, another of a list."""
_BEGINS = re.compile(r"\{\s*(?:\\*\"|\\*$)")
"""An object that was cut off: its first name begins, or nothing does. Packed bytes have braces."""


REFUSED, REFUSED_BASE64 = "message", "message_base64"
"""Columns of rejected lines, in the tables that keep them."""
OF_REJECTED = (REFUSED_BASE64, REFUSED, "digest", "reason")
"""Columns by which a row that keeps a rejected line is recognised, the rarest first."""


class Members(dict[str, Any]):
    """The members of an object; as a mapping, the last of equal ones, as most parsers have it.

    Args:
        pairs: Names and values, in the order of the object.
    """

    def __init__(self, pairs: Iterable[tuple[str, Any]]) -> None:
        self.pairs = [*pairs]
        super().__init__(self.pairs)


_DECODER = json.JSONDecoder(parse_float=Decimal, object_pairs_hook=Members)


def read(text: str) -> Any:
    """Parse a document; its objects are :class:`Members`.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.
    """
    return _DECODER.decode(text)


def embedded(text: str) -> tuple[Sequence[Members], str]:
    """Find the objects of a line: one, several, or amid other words as in a program's log.

    Returns:
        They, and what looks like one more that was cut off; empty where nothing does. Behind other
        words only a RECORD does: much text that is no JSON has braces.
    """
    found: list[Members] = []
    cut_off = ""
    of_record = max(text.rfind('"record"'), text.rfind('"record\\'))
    end = failed = 0
    at = text.find("{")
    while at >= 0 and failed < _MOST_FAILED:
        try:
            document, after = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            failed, after = failed + 1, at + 1
            if not cut_off and _BEGINS.match(text, at):
                alone = not text[end:at].strip(_BETWEEN)
                cut_off = text[at:] if alone or at < of_record else ""
        else:
            found.append(document)
            end = after
        at = text.find("{", after)
    return found, cut_off


def keeps_rejected(columns: Container[str]) -> bool:
    """Tell whether rows with these columns keep rejected lines."""
    return all(name in columns for name in OF_REJECTED)


def all_of(row: Mapping[str, Any], name: str) -> Sequence[Any]:
    """Return each value that a member of this name has."""
    if isinstance(row, Members):
        return [value for key, value in row.pairs if key == name]
    return (row[name],) if name in row else ()


def has(value: Any, sought: Any) -> bool:
    """Tell whether a value equals another one, whichever of equal members counts."""
    if isinstance(value, Members) and isinstance(sought, dict):
        return {*value} == {*sought} and all(
            any(has(one, sought[name]) for one in all_of(value, name)) for name in value
        )
    if isinstance(value, list) and isinstance(sought, list):
        return len(value) == len(sought) and all(map(has, value, sought))
    return bool(value == sought)
