"""Numbers as they are written, for where the nearest doubles lie on the wrong side of a bound."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Context, Decimal, localcontext
from typing import Any

_DIGITS = 5_000
"""More than Python reads of an integer."""


def read(data: bytes) -> Any:
    """A JSON value with its numbers as decimals.

    Returns:
        None where no number differs from its double, and where Python cannot read it.
    """
    differs = False

    def real(text: str) -> Decimal:
        nonlocal differs
        value, double = Decimal(text), float(text)
        differs = differs or math.isinf(double) or Decimal(repr(double)) != value
        return value

    try:
        found = json.loads(data, parse_float=real)
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return found if differs else None


def schema(spec: dict[str, Any]) -> Any:
    """A schema with its numbers as decimals: of a double its shortest text is meant."""
    return json.loads(json.dumps(spec), parse_float=Decimal)


def is_integer(_checker: Any, value: Any) -> bool:
    """Whether a value is an integer, which 1.0 is from draft 6 on."""
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


@contextmanager
def arithmetic() -> Iterator[None]:
    """A stretch in which decimals are reckoned with to their last digit."""
    with localcontext(Context(prec=_DIGITS)):
        yield
