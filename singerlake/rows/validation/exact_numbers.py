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


def read(data: bytes, *, in_any_case: bool = False) -> Any:
    """Read a JSON value with its fractions as decimals.

    Args:
        in_any_case: Also where no fraction differs from its double, and no integer is past a
            double's range, so that other validators say the same.

    Returns:
        None where it makes no difference, or Python cannot read it.
    """
    differs = in_any_case

    def real(text: str) -> Decimal:
        nonlocal differs
        value, double = Decimal(text), float(text)
        differs = differs or math.isinf(double) or Decimal(repr(double)) != value
        return value

    def integer(text: str) -> int:
        nonlocal differs
        value = int(text)
        differs = differs or math.isinf(float(text))
        return value

    try:
        value = json.loads(data, parse_float=real, parse_int=integer)
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return value if differs else None


def schema(spec: dict[str, Any]) -> Any:
    """Turn a schema's numbers into decimals: of a double its shortest text is meant."""
    return json.loads(json.dumps(spec), parse_float=Decimal)


def is_integer(_checker: Any, value: Any) -> bool:
    """Tell whether a value is an integer, which 1.0 is from draft 6 on."""
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


@contextmanager
def arithmetic() -> Iterator[None]:
    """Compute with decimals to their last digit meanwhile."""
    with localcontext(Context(prec=_DIGITS)):
        yield
