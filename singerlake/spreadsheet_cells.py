"""Texts that a spreadsheet would evaluate, made inert by an apostrophe, and the way back.

A text that begins with apostrophes and then a formula gets another one, so that taking one off
gives every text back.
"""

from __future__ import annotations

import re

FORMULA = "=+\\-@\t\r\n＝＋－＠"
"""What begins a formula in one spreadsheet or another, also in the width of Chinese letters; as in
a pattern's brackets."""
INERT = f"^'+[{FORMULA}]"
"""The pattern of a text that :func:`inert` may have made."""
_EVALUATED = re.compile(f"'*[{FORMULA}]")


def inert(text: str) -> str:
    """Return a text that no spreadsheet evaluates."""
    return f"'{text}" if _EVALUATED.match(text) else text


def is_inert(text: str) -> bool:
    """Tell whether :func:`inert` may have made a text."""
    return text[:1] == "'" and _EVALUATED.match(text) is not None


def evaluated(text: str) -> str:
    """Return the text of which :func:`inert` made another."""
    return text[1:] if is_inert(text) else text
