"""The difference of two states of a table as one page: HTML for people, Markdown for comments.

The page contains its style sheet and asks for nothing from anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from singerlake.site.render import Renderer


@dataclass(frozen=True)
class Cell:
    """A cell that differs, as text; None for null, or for a row that is not there."""

    column: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Row:
    """A row that differs.

    Attributes:
        change: ``added``, ``changed`` or ``removed``.
        key: The values of its key, or where its record lies.
        cells: Of a changed row the cells that differ, otherwise those that are not null.
    """

    change: str
    key: Sequence[str | None]
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Difference:
    """The content of the page.

    Attributes:
        before: The first state, in words.
        after: The second.
        notes: Notes, such as the way in which rows were matched.
        schema: Changes of the schema: what, the column, before and after.
        counts: Numbers of rows, by what became of them.
        columns: Numbers of changed cells, by column.
        keys: The names of the key's columns.
        rows: The first of the rows that differ.
        more: The number of rows that differ and are not listed.
    """

    table: str
    before: str
    after: str
    notes: Sequence[str]
    schema: Sequence[tuple[str, str | None, str | None, str | None]]
    counts: Mapping[str, int]
    columns: Mapping[str, int]
    keys: Sequence[str]
    rows: Sequence[Row]
    more: int


def page(difference: Difference, form: str) -> bytes:
    """Render the page.

    Args:
        form: ``html`` or ``markdown``.
    """
    return Renderer(form, difference.table).alone("difference", found=difference)
