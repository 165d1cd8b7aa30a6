"""Whether a double keeps every digit of the numbers in a block's keys, told by their digits.

The fast ways to read a block give doubles, of which nobody can tell what they were rounded from. So
where a number is part of a key, its digits are looked at before.
"""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format.sealed import UNREADABLE
from singerlake.format.types import Columns, Kind, Type
from singerlake.format.values import SURE_DIGITS, exact_number
from singerlake.records.blocks.line_types import Activation


def are_certain(lines: bytes | memoryview, columns: Columns) -> bool:
    """Tell whether each number of a key is certain to be the double that it is read as.

    Args:
        lines: RECORD and ACTIVATE_VERSION lines.
        columns: The columns that are wanted, by the names that records have for them.
    """
    names = tuple(name for name, type_ in columns if _has_exact_number(type_))
    if not names or not lines:
        return True
    types = dict(columns)
    decoder = _decoder_of(names)
    if decoder is None or any(types[name].kind is not Kind.NUMBER for name in names):
        return False
    try:
        found = [one for one in decoder.decode_lines(lines) if type(one) is not Activation]
    except (*UNREADABLE, ValueError):
        return False
    return all(
        _are_exact(list(map(attrgetter(f"record.c{number}"), found)))
        for number in range(len(names))
    )


def _has_exact_number(type_: Type) -> bool:
    own = type_.exact and type_.kind is Kind.NUMBER
    return own or any(map(_has_exact_number, type_.parts))


def _are_exact(tokens: list[msgspec.Raw]) -> bool:
    texts = pa.array(list(map(bytes, tokens)), pa.binary())
    short = pc.less_equal(pc.binary_length(texts), SURE_DIGITS)
    sure = pc.and_(short, pc.invert(pc.match_substring_regex(texts, "[eE]")))
    try:
        for token in texts.filter(pc.invert(sure)).to_pylist():
            exact_number(token)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=64)
def _decoder_of(names: tuple[str, ...]) -> msgspec.json.Decoder[Any] | None:
    """Build what decodes lines as far as some members of their records; None for odd names."""
    fields: list[tuple[str, Any, Any]] = [
        (f"c{number}", msgspec.Raw, msgspec.Raw(b"null")) for number in range(len(names))
    ]
    own = {f"c{number}": name for number, name in enumerate(names)}
    try:
        record = msgspec.defstruct("Numbers", fields, rename=own, gc=False)
        line = msgspec.defstruct(
            "Record", [("record", record)], tag="RECORD", tag_field="type", gc=False
        )
        return msgspec.json.Decoder(line | Activation)
    except ValueError:  # a name with a quote or a control character in it
        return None
