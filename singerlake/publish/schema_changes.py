"""How the columns of a projection's rows differ from those that were staged, and the way there.

The columns that a projection has are those of its table: one that the SQL gives no more is dropped,
as it would be gone from a table made anew. What people said of the others stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from singerlake.errors import UsageError
from singerlake.format.laid import member_of
from singerlake.format.log import SchemaEntry
from singerlake.format.overlay import ColumnOverlay, Overlay
from singerlake.format.types import columns_of
from singerlake.log.table_state import TableState
from singerlake.overlay import overlay_changes as says
from singerlake.rows.given.values.inference import nullable


@dataclass(frozen=True)
class AnswerChange:
    """One difference between the columns that there are and those that there will be.

    Attributes:
        column: Which; None for the key.
        before: Its type, or the key's columns; None where it is new.
        after: The same then; None where it goes.
    """

    column: str | None
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.column is None:
            return f"the key is {self.after or 'none'} instead of {self.before or 'none'}"
        if self.before is None:
            return f"{self.column!r} is new ({self.after})"
        if self.after is None:
            return f"{self.column!r} is missing ({self.before})"
        return f"{self.column!r} is {self.after} instead of {self.before}"


def answer_changes(present: TableState, wanted: SchemaEntry) -> list[AnswerChange]:
    """Compare a staging table's columns and key with those of a projection's rows.

    Args:
        present: The table.
        wanted: The schema that a new table of these rows would have.
    """
    return [*_changes(present, wanted)]


def _changes(present: TableState, wanted: SchemaEntry) -> Iterator[AnswerChange]:
    old, new = dict(present.columns), dict(columns_of(wanted))
    for name, type_ in new.items():
        if name not in old:
            yield AnswerChange(name, None, str(type_))
        elif str(old[name]) != str(type_):
            yield AnswerChange(name, str(old[name]), str(type_))
    before, after = (", ".join(one.key_properties) or None for one in (present.schema, wanted))
    if before != after:
        yield AnswerChange(None, before, after)
    # Last, for a column of the key cannot be dropped.
    for name, type_ in old.items():
        if name not in new:
            yield AnswerChange(name, str(type_), None)


def evolved(present: TableState, entry: SchemaEntry) -> Overlay:
    """Return the overlay under which a staging table has other columns.

    Args:
        present: The table.
        entry: The schema that it is to have.

    Raises:
        UsageError: The table's columns cannot become these.
    """
    table = present.table
    try:
        for change in answer_changes(present, entry):
            present = present.laid_over(_with(present, change, entry))
    except UsageError as error:
        raise UsageError(
            f"{error}; or drop {table}, and the next refresh recreates it with the projection's "
            f"current columns: singerlake drop {table}"
        ) from error
    return present.overlay


def _with(present: TableState, change: AnswerChange, entry: SchemaEntry) -> Overlay:
    name = change.column
    if name is None:
        return _with_key(present, entry)
    if change.after is None:
        return says.without_column(present, name)
    spec: dict[str, Any] = entry.schema["properties"][name]
    if change.before is not None:
        return says.with_type(present, name, spec)
    if not present.overlay.columns.get(name, ColumnOverlay()).dropped:
        # A column of the key too may be null at first: the rows that are there lack it.
        spec = nullable(spec) if name in entry.key_properties else spec
        return says.with_column(present, name, spec)
    restored = present.laid_over(says.with_restored(present, name))
    return says.with_type(restored, name, spec)


def _with_key(present: TableState, entry: SchemaEntry) -> Overlay:
    """The overlay with another key; columns that are of it no more may be null."""
    if not entry.key_properties:
        raise UsageError(f"{present.table} has a key, and a table cannot lose it")
    overlay = says.with_key(present, entry.key_properties)
    columns = dict(overlay.columns)
    for name in {*present.schema.key_properties} - {*entry.key_properties}:
        spec = entry.schema["properties"].get(name)
        member = member_of(overlay, name)
        if spec is not None and member not in overlay.added:
            columns[member] = replace(columns.get(member, ColumnOverlay()), type=spec)
    return replace(overlay, columns=columns)
