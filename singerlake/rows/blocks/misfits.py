"""Values that their columns cannot hold: what becomes of them, and what messages say.

Plain data, without Arrow: commands that only read metadata import it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from singerlake.errors import UsageError
from singerlake.format.names import TableName, written

STRING_SCHEMA = '{"type": "string"}'
THEN = "rows that are stored are then read as strings, too"
"""What becomes of a key of several types once the tap declares a string."""
FAIL, NULL, AS_TEXT = "fail", "null", "text"
"""What may become of a misfit where it is read: an error, null, or text of the whole column."""
CHOICES = (FAIL, NULL, AS_TEXT)
FIRST = 10
"""Misfits of a column that are kept to be shown; the others are counted."""
_IN_A_LINE = 3
"""So many of them are shown where a column has one line."""


@dataclass(frozen=True, order=True)
class Misfit:
    """A value that its column cannot hold.

    Attributes:
        block: The block that its row came in.
        ordinal: The row's ordinal there.
        error: What is wrong with it; the value is shortened.
        key: The row's key, as texts; empty in a table without.
    """

    block: int
    ordinal: int
    error: str
    key: dict[str, str] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        key = ", ".join(f"{name} {value}" for name, value in self.key.items())
        return f"{self.error} ({key})" if key else self.error


@dataclass(frozen=True)
class ColumnMisfits:
    """The values of a state that one column cannot hold.

    Attributes:
        column: The column's name.
        type: Its type.
        values: How many.
        first: The first of them.
    """

    column: str
    type: str
    values: int
    first: list[Misfit]

    def __str__(self) -> str:
        shown = self.first[:_IN_A_LINE]
        more = f"; and {self.values - len(shown):,} more" * (self.values > len(shown))
        return f"{self._counted()} {'; '.join(map(str, shown))}{more}"

    def lines(self) -> Iterator[str]:
        """Say what is wrong, line by line."""
        yield f"  {self._counted()}"
        for misfit in self.first:
            yield f"    {misfit}"
        if self.values > len(self.first):
            yield f"    and {self.values - len(self.first):,} more"

    def _counted(self) -> str:
        count = "1 value that does" if self.values == 1 else f"{self.values:,} values that do"
        return f"column {self.column!r} ({self.type}) has {count} not fit:"


def ways_out(table: TableName, columns: Sequence[str], *, keyed: bool) -> str:
    """Say in a sentence what can be done about misfits for good.

    Args:
        table: The table.
        columns: Those with misfits.
        keyed: Whether the table has a key, by which a row that comes again replaces the old.
    """
    again = "sync these rows again with values that fit, or under a schema that allows them; or "
    none = "the table has no key, so no later row replaces these: "
    others = ", ".join(map(repr, columns[1:]))
    return (
        f"{again if keyed else none}convert the column to text: {retype_command(table, columns[0])}"
        + (f", and likewise of {others}" if others else "")
    )


def reader_ways_out(table: TableName, column: str, *, keyed: bool) -> str:
    """Say the same to somebody who reads a column, and may also read past them."""
    for_good = ways_out(table, [column], keyed=keyed)
    return (
        "other columns can be read, and so can this one if values that do not fit are read as null "
        "(--on-type-mismatch null of singerlake query and diff, "
        f'on_type_mismatch="null" in Python); for good: {for_good}'
    )


def key_ways_out(table: TableName | None, column: str, *, rounds: bool = False) -> str:
    """Say what can be done about a key that does not fit, so that nobody can read the table.

    Args:
        table: The table, if it is known.
        column: The column.
        rounds: Whether the value only has more digits than the column keeps.
    """
    if rounds:
        way = "and the column is part of the key; give it a type that holds every key"
        return way if table is None else f"{way}: {retype_command(table, column, 'TYPE')}"
    way = "convert the column to text"
    if table is not None:
        way += f": {retype_command(table, column)}"
    return f"and the column is part of the key, so no query can read the table; {way}"


def key_of_two_types(table: TableName | None, column: str, *, numbers: bool) -> str:
    """Say what can be done about a key that was written as one type and is read as another.

    To sync again alone does not help: the older rows stay, and are read as the type of today.

    Args:
        table: The table, if it is known.
        column: The column.
        numbers: Whether its values were written as numbers.
    """
    part = "and the column is part of the key, so no query can read the table"
    as_text = f"declare it as {STRING_SCHEMA} in the tap's schema and sync: {THEN}"
    if not numbers:
        return f"{part}; {as_text}"
    decimal = "'decimal(38,0)', or a decimal with the places that its values have"
    command = "" if table is None else f": {retype_command(table, column, 'TYPE')}"
    return f"{part}; if all its values are numbers, make it {decimal}{command}; if not, {as_text}"


def retype_command(table: TableName, column: str, type_: str = "text") -> str:
    """Spell the command that gives a column another type, as a shell takes it."""
    words = ["singerlake", "alter", written(table, None), "retype", column, type_]
    if column.startswith("-"):
        words.insert(4, "--")
    return shlex.join(words)


def check_choice(on_type_mismatch: str) -> None:
    """Refuse a name that is none of the choices.

    Raises:
        UsageError: It is none of ``fail``, ``null`` and ``text``.
    """
    if on_type_mismatch not in CHOICES:
        raise UsageError(f"on_type_mismatch={on_type_mismatch!r} is none of {', '.join(CHOICES)}")


def replaced_words(table: TableName, counts: Mapping[str, int], misfits: str) -> Iterator[str]:
    """Report the values that were replaced, a message a column."""
    for column, count in counts.items():
        values = "1 value that does" if count == 1 else f"{count:,} values that do"
        ending = "read as null" if misfits == NULL else "so all of it is read as text"
        yield f"{table}: column {column!r} has {values} not fit it, {ending}"
