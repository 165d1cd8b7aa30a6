"""Values that taps write though JSON has none such: NaN, infinities, halves of characters.

Python's ``json`` writes all three: ``NaN``, ``Infinity`` and ``-Infinity`` as bare words, and a
lone surrogate (one half of a character beyond 16 bits) as an escape. No reader of JSON is bound to
take them, so a line that has one does not decode. It is looked at here only then.
"""

from __future__ import annotations

import re

FAIL, NULL, STRING = "fail", "null", "string"
"""What the setting ``non_finite`` may be."""

_SUSPICIOUS = re.compile(rb"NaN|Infinity|\\u[dD][89a-fA-F]")
_TOKEN = re.compile(
    rb'"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)"(?P<name>\s*:)?|(?P<number>-?Infinity|NaN)', re.DOTALL
)
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)


def mended(line: bytes, how: str) -> bytes:
    r"""Make JSON of a line; every byte that is JSON already stays as it is.

    Args:
        line: A line that does not decode.
        how: ``null``: a value that JSON has not, or a string with a lone surrogate in it, becomes
            null. ``string``: it becomes its spelling, ``"NaN"``, or ``\ud800`` as six characters.
            A member's name cannot be null, so there it is the spelling in either case.

    Returns:
        The very same object where there is nothing to mend.
    """
    if not _SUSPICIOUS.search(line):
        return line

    def token(match: re.Match[bytes]) -> bytes:
        if match["number"]:
            return b"null" if how == NULL else b'"%b"' % match["number"]
        text = match["text"]
        if b"\\u" not in text:
            return match[0]
        spelled = _ESCAPE.sub(_spelled, text)
        if spelled == text:
            return match[0]
        if how == NULL and match["name"] is None:
            return b"null"
        return b'"%b"%b' % (spelled, match["name"] or b"")

    changed = _TOKEN.sub(token, line)
    return line if changed == line else changed


def _spelled(escape: re.Match[bytes]) -> bytes:
    return b"\\" + escape[0] if escape["lone"] else escape[0]
