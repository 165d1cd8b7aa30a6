"""A row's key as a person writes it, held against a table's columns before any row is read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from singerlake.errors import UsageError
from singerlake.format import times, values
from singerlake.format.types import INT64, Kind, Type
from singerlake.log.table_state import TableState
from singerlake.rows.blocks.misfits import retype_command

_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?|nan", re.IGNORECASE)
_DAY = re.compile(r"[+-]?\d{4,6}(-\d{1,2}(-\d{1,2}([T ].*)?)?)?")
_TIME_OF_DAY = re.compile(r"[T ][\d:.]*[1-9]")
_TRUTHS = {"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"}


def check_key(snapshot: TableState, key: Mapping[str, str]) -> None:
    """Make sure that a key names the table's key columns, and has a value of each one's type.

    Args:
        snapshot: The table.
        key: By column, as texts.

    Raises:
        UsageError: The table has no key, the names are not its key's, or a value is of no use.
    """
    columns = snapshot.columns
    wanted = dict(columns[index] for index in snapshot.key)
    if not wanted:
        raise UsageError(f"{snapshot.table} has no key properties, so its rows have no history")
    if key.keys() != wanted.keys():
        raise UsageError(
            f"the key of {snapshot.table} is {', '.join(wanted)}: use "
            + " ".join(f"--key {name}=…" for name in wanted)
        )
    for name, type_ in wanted.items():
        text = key[name].strip()
        if not _can_be(text, type_):
            raise UsageError(
                f"the key column {name!r} of {snapshot.table} is {type_}, which {key[name]!r} is "
                f"not: use --key {name}=…"
            )
        if type_.exact and _would_round(text, type_):
            raise UsageError(
                f"the key column {name!r} of {snapshot.table} is {type_}, which would "
                f"round {key[name]!r}; if the table has such a row, give the column a type that "
                f"holds it first: {retype_command(snapshot.table, name, 'TYPE')}"
            )


def _can_be(text: str, type_: Type) -> bool:
    """Whether a text may be read as a type; what is left open, Spark decides."""
    check = _CHECKS.get(type_.kind)
    return check is None or check(text)


def _would_round(text: str, type_: Type) -> bool:
    if type_.kind is Kind.TIMESTAMP:
        return bool(times.finer_digits(text))
    if type_.kind is Kind.DATE:
        return bool(_TIME_OF_DAY.search(text))
    value = float(text)
    return math.isfinite(value) and not values.keeps_digits(text, value)


_CHECKS: dict[Kind, Callable[[str], bool]] = {
    Kind.INTEGER: lambda text: bool(_WHOLE.fullmatch(text)) and _fits(text),
    Kind.NUMBER: lambda text: bool(_NUMBER.fullmatch(text)),
    Kind.DECIMAL: lambda text: bool(_NUMBER.fullmatch(text)) and not text.isalpha(),
    Kind.BOOLEAN: lambda text: text.lower() in _TRUTHS,
    Kind.DATE: lambda text: bool(_DAY.fullmatch(text)),
    Kind.TIMESTAMP: lambda text: bool(_DAY.fullmatch(text)),
}


def _fits(text: str) -> bool:
    # int() refuses what is longer than some thousand digits.
    return len(text.lstrip("+-0")) < 20 and int(text) in INT64  # noqa: PLR2004
