"""A parser of JSON in half the time of ``pyarrow.json``, for lines whose types are proved.

It is arrow-rs's, as arro3-io brings it, which may be left out. It makes 1 of ``1.5`` and of ``"1"``
in a column of whole numbers, and rounds decimals: so it may read proved values alone, and none of
what ``type_prover.provable`` does not name. And of characters in escapes it makes others from
U+20000 on; where it refuses a value with a NUL in it, it ends the process. Both are looked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa

BATCH_ROWS = 1024
"""Rows at a time: their parts stay in the processor's cache."""
_MOST_BYTES = 1 << 30
"""Its offsets have 31 bits, and of more it gives up in a way that Python cannot catch."""
_ESCAPES = (b"\\ud", b"\\uD")
_NUL = b"\\u0000"
"""Its errors quote the value, and a NUL in one ends the process: nothing in Python can catch that.
Values that nobody has proved reach it with others: a ``_sdc_deleted_at`` that is no column."""
_FAR = re.compile(rb"\\u[dD](?:8[4-9a-fA-F]|[9abAB])")
"""Half of a character beyond U+1FFFF: it ORs the two halves where their sum would be right."""


@lru_cache(maxsize=1)
def _parser() -> Callable[..., Any] | None:
    try:
        from arro3.io import read_json
    except ImportError:  # not installed, or no wheel for this Python
        return None
    parse: Callable[..., Any] = read_json
    return parse


def ready() -> bool:
    """Import the parser; tell whether it is here."""
    return _parser() is not None


def read(lines: bytes | memoryview, schema: pa.Schema) -> pa.Table | None:
    """Read lines whose types are proved.

    Args:
        lines: One JSON object each.
        schema: What they are to become.

    Returns:
        None where it is not here, or cannot read them.
    """
    parse = _parser()
    if parse is None or len(lines) > _MOST_BYTES or _has_odd_characters(lines):
        return None
    try:
        return pa.table(parse(lines, schema, batch_size=BATCH_ROWS)).combine_chunks()
    except Exception:  # noqa: BLE001  # its errors have no class of their own
        return None


def _has_odd_characters(lines: bytes | memoryview) -> bool:
    # Without a copy, as a rule: the lines of a block lie behind its SCHEMA line.
    whole = lines.obj if isinstance(lines, memoryview) else lines
    text = whole if isinstance(whole, bytes) else bytes(lines)
    if b"\0" in text:
        return True
    if b"\\" not in text:
        return False
    # From the right: Python then looks for them in a third of the time.
    if text.rfind(_NUL) >= 0:
        return True
    return any(text.rfind(one) >= 0 for one in _ESCAPES) and _FAR.search(text) is not None
