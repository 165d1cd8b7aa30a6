"""How deeply JSON in a lake may be nested.

Where a decoder gives up depends on Python: on its recursion limit up to 3.11, on the size of the C
stack from 3.14 on. A record that one Python accepts must be readable by all, so writers have a
limit of their own.
"""

from __future__ import annotations

from itertools import accumulate

MAX_LEVELS = 800
"""Levels of objects and arrays in a message. Every Python reads these, with 200 calls around it."""

_SHORT = 2 * MAX_LEVELS
"""Bytes of a line, with its end, that cannot be too deep as a record: a level has two brackets."""
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_ALIKE = bytes.maketrans(b"{}", b"[]")
_ROUNDS = 3
_STEPS = {ord("["): 1, ord("]"): -1}


def too_deep(text: bytes, outside: int = 0) -> bool:
    """Tell whether a JSON text has more levels than a message may have.

    Args:
        text: Valid JSON.
        outside: The levels of the message around it: 1 around a record, 2 around its values.
    """
    most = MAX_LEVELS - outside
    if text.count(b"[") + text.count(b"{") <= most:
        return False
    if b"\\" in text:
        text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    # Without escapes, every second piece between quotes is a string.
    brackets = b"".join(text.split(b'"')[::2]).translate(_ALIKE, _NO_BRACKET)
    for _ in range(_ROUNDS):  # each takes the innermost level away; of a wide row nothing stays
        brackets = brackets.replace(b"[]", b"")
        most -= 1
        if len(brackets) <= 2 * most:
            return False
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > most


def has_deep_record(data: bytes) -> bool:
    """Tell whether one of many lines has more levels than a record may have."""
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + _SHORT)
        if end < 0:
            end = data.find(b"\n", start)
            line = data[start : end if end >= 0 else len(data)]
            if too_deep(line, 1):
                return True
            end = start + len(line)
        start = end + 1
    return False
