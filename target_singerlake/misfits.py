"""What a run has taken that a column cannot hold, and what its summary says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from singerlake.format.names import TableName
from singerlake.rows.blocks.misfits import retype_command

Noted: TypeAlias = "dict[tuple[str, str], Misfits]"


@dataclass
class Misfits:
    """What a run has taken that a column cannot hold.

    Attributes:
        type: The column's type.
        values: How many.
        first: The first of them, in words.
        of_key: Whether the column is part of the key, and would only have to round them.
        marks: Whether they fit, and mark a deletion without being a time.
    """

    type: str
    values: int
    first: str
    of_key: bool = False
    marks: bool = False


@dataclass
class Warnings:
    """What the summary of a run says of values that no query can read.

    Attributes:
        noted: By stream and column.
    """

    noted: Noted = field(default_factory=dict)

    def words(self, tap: str, shown: Callable[[str, str], str]) -> Iterator[str]:
        """Yield one sentence a column.

        Args:
            tap: Whose streams these are.
            shown: Says what people call a column of a stream, by its name in records.
        """
        for (stream, member), misfits in sorted(self.noted.items()):
            column = shown(stream, member)
            count = "1 value" if misfits.values == 1 else f"{misfits.values:,} values"
            if misfits.marks:
                yield (
                    f"{stream}: {count} of {column!r} that is not a time, the first in "
                    f"{misfits.first}; such records do not delete a row: send a date-time or null, "
                    "or reject such values with check_values: true"
                )
                continue
            if misfits.of_key:
                yield (
                    f"{stream}: {count} accepted that the key column {column!r} ({misfits.type}) "
                    f"would round, the first in {misfits.first}; queries of the column and changes "
                    "by key fail until it has a type that holds all of them: "
                    f"{retype_command(TableName(tap, stream), column, 'TYPE')}; or reject such "
                    "values with check_values: true"
                )
                continue
            yield (
                f"{stream}: {count} accepted that column {column!r} ({misfits.type}) cannot hold, "
                f"the first in {misfits.first}; a query that reads the column will fail: see "
                "'Values that do not fit' in docs/reference/types.md, or reject such values with "
                "check_values: true"
            )
