"""The options that put a constraint on all rows, and the constraint that they mean."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import click

from singerlake.errors import UsageError
from singerlake.format.overlay import Constraint

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--not-null", metavar="COLUMN", help="Every row has a value."),
    click.option(
        "--unique",
        multiple=True,
        metavar="COLUMN",
        help="No value twice; repeat for a combination of columns.",
    ),
    click.option(
        "--enum", nargs=2, metavar="COLUMN VALUES", help="One of these values, as a JSON array."
    ),
    click.option("--range", "bounds", nargs=3, metavar="COLUMN MIN MAX", help='"" for no limit.'),
    click.option("--length", nargs=3, metavar="COLUMN MIN MAX", help="Characters."),
    click.option(
        "--pattern",
        nargs=2,
        metavar="COLUMN REGEX",
        help="A regular expression, as in JSON Schema.",
    ),
    click.option("--check", metavar="SQL", help="A condition on each row, as in a query."),
)


def constraint_options(command: Command) -> Command:
    """Add the options; they come in by their names, for :func:`constraint_of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def constraint_of(kinds: Mapping[str, Any]) -> Constraint:
    """Return the constraint that one of the options asks for.

    Raises:
        UsageError: None is given, or several, or one that says nothing.
    """
    given = [(kind, value) for kind, value in kinds.items() if value]
    if len(given) != 1:
        raise UsageError(
            "use one of --not-null, --unique, --enum, --range, --length, --pattern, --check"
        )
    return _constraint(*given[0])


def _constraint(kind: str, value: Any) -> Constraint:
    if kind == "not_null":
        return Constraint("not-null", [value])
    if kind == "check":
        return Constraint("check", [], sql=value)
    if kind == "unique":
        return Constraint("unique", list(value))
    if kind == "pattern":
        return Constraint("pattern", [value[0]], pattern=value[1])
    if kind == "enum":
        values = _json(value[1])
        if not isinstance(values, list) or not values:
            raise UsageError(
                f'{value[1]!r} is not a JSON array of values: write \'["new", "sent"]\''
            )
        return Constraint("enum", [value[0]], values=values)
    least, most = (None if text == "" else _number(text) for text in value[1:])
    word: Any = "range" if kind == "bounds" else "length"
    return Constraint(word, [value[0]], minimum=least, maximum=most)


def _number(text: str) -> int | float:
    value = _json(text)
    if isinstance(value, Decimal):
        raise UsageError(f"{text} has more digits than a double, which the ends of a range are")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f'{text!r} is not a number; "" means no limit')
    return value


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_float=_exact)
    except ValueError as error:
        raise UsageError(f"{text!r} is not valid JSON") from error


def _exact(text: str) -> float | Decimal:
    """Parse a number with all its digits."""
    value = float(text)
    return value if Decimal(repr(value)) == Decimal(text) else Decimal(text)
