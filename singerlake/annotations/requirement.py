"""A requirement as written: ``rows > 0``, ``deleted < 5%``, ``nulls(total) = 0``, ``sql: …``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from singerlake.errors import UsageError
from singerlake.format import times
from singerlake.nearest import nearest

Bound: TypeAlias = Decimal | timedelta | str
CHANGES = ("inserted", "updated", "deleted", "unchanged")
"""Counts of rows beside the version before."""
OF_COLUMN = ("nulls", "distinct", "min", "max", "sum")
SCHEMA = "schema unchanged"
_PERCENT = (*CHANGES, "nulls", "distinct")
_COMPARED = ("rows", *CHANGES, *OF_COLUMN, "freshness")
_MEASURES = (*_COMPARED, "schema", "sql")
_FORM = re.compile(
    r"(?P<measure>[A-Za-z]+)\s*"
    r"(?:\(\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`()]+?))\s*\)\s*)?"
    r"(?P<comparison><=|>=|!=|<>|==|=|<|>)\s*(?P<bound>\S.*?)\s*"
)
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
}
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*)(?:\.\d+)?")
_EXAMPLES = (
    "write it as 'rows > 0', 'deleted < 5%', 'nulls(total) = 0', 'freshness < 24h', "
    "'schema unchanged' or 'sql: select …'"
)


@dataclass(frozen=True)
class Requirement:
    """One requirement of a snapshot.

    Attributes:
        measure: The measured quantity: ``rows``, one of :data:`CHANGES` or :data:`OF_COLUMN`,
            ``freshness``, ``schema`` or ``sql``.
        column: Of which column; None for a measure of whole rows.
        comparison: ``<``, ``<=``, ``>``, ``>=``, ``=`` or ``!=``; empty for ``schema`` and ``sql``.
        bound: The value to compare with: a number, a time span for ``freshness``, or a
            text; the statement for ``sql``.
        percent: Whether the bound is a percentage.
    """

    text: str
    measure: str
    column: str | None = None
    comparison: str = ""
    bound: Bound = ""
    percent: bool = False

    def met_by(self, value: Any) -> bool:
        """Compare a measured value with the bound.

        Args:
            value: A Decimal or int for numbers, or what the column holds: a str, date or datetime.

        Raises:
            UsageError: The bound is not a value of the column's type.
        """
        bound: Any = self.bound
        alike = True
        if isinstance(value, date) and isinstance(bound, str):
            bound = self._instant(value)
        elif isinstance(value, str | timedelta):
            alike = type(bound) is type(value)
        else:
            alike = isinstance(bound, Decimal) and not isinstance(value, date)
            value = Decimal(value) if alike else value
        if not alike:
            raise UsageError(
                f"the requirement {self.text!r} compares {self.measure}({self.column}) with a "
                "value of another type: quote texts and dates, and write numbers without quotes"
            )
        return _COMPARISONS[self.comparison](value, bound)

    def _instant(self, value: date) -> date:
        found = times.parse(str(self.bound))
        if found is None:
            raise UsageError(
                f"the requirement {self.text!r} compares {self.measure}({self.column}) with "
                f"{self.bound!r}: write '2026-11-20' or '2026-11-20T12:00:00Z'"
            )
        return found if isinstance(value, datetime) else found.date()


def parse_all(texts: Iterable[str]) -> tuple[Requirement, ...]:
    """Read requirements; one that is given twice counts once.

    Raises:
        UsageError: One cannot be read.
    """
    return tuple(parse(text) for text in dict.fromkeys(map(str.strip, texts)))


def parse(text: str) -> Requirement:
    """Read a requirement.

    Raises:
        UsageError: It cannot be read; the message names the forms that can.
    """
    if text[:4].lower() == "sql:":
        if not (statement := text[4:].strip()):
            raise UsageError(f"the requirement {text!r} has no statement: write 'sql: select …'")
        return Requirement(text, "sql", bound=statement)
    if " ".join(text.lower().split()) == SCHEMA:
        return Requirement(text, "schema")
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(f"{text[:200]!r} is not a requirement: {_EXAMPLES}")
    measure, column = match["measure"].lower(), match["plain"]
    if match["quoted"] is not None:
        column = match["quoted"].replace("``", "`")
    _check_measure(text, measure, column)
    bound, percent = _bound(text, measure, match["bound"])
    return Requirement(text, measure, column, match["comparison"], bound, percent)


def _check_measure(text: str, measure: str, column: str | None) -> None:
    if measure not in _COMPARED:
        close = nearest(measure, _MEASURES)
        hint = f"did you mean {close[0]}?" if close else _EXAMPLES
        raise UsageError(f"the requirement {text!r} measures {measure!r}, which is unknown: {hint}")
    if (column is not None) is not (measure in OF_COLUMN):
        form = f"{measure}(COLUMN)" if measure in OF_COLUMN else measure
        raise UsageError(f"the requirement {text!r} must measure {form}")


def _bound(text: str, measure: str, written: str) -> tuple[Bound, bool]:
    if measure == "freshness":
        return times.age(written, f"the bound of {text!r}"), False
    percent = written.endswith("%")
    number = written[:-1].rstrip() if percent else written
    if _NUMBER.fullmatch(number):
        if percent and measure not in _PERCENT:
            raise UsageError(
                f"the requirement {text!r} compares {measure} with a percentage: only "
                f"{', '.join(_PERCENT)} can be one"
            )
        return Decimal(number.replace("_", "")), percent
    quoted = len(written) > 1 and written[0] == written[-1] == "'"
    if measure in ("min", "max") and quoted:
        return written[1:-1].replace("''", "'"), False
    raise UsageError(
        f"the requirement {text!r} compares {measure} with {written!r}, which is not a number"
        + (" or a text in single quotes" if measure in ("min", "max") else "")
    )
