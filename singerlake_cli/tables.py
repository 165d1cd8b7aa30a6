"""Tables for people, laid out for the terminal that they are printed on.

No name and no number is ever cut, and no word is broken. If a table has no room, its texts are
wrapped at words. Next, the columns that matter least are left out, and named below the table. If
even the others have no room, each row becomes a block of lines that leaves nothing out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from singerlake.safe_text import visible

NOTHING = "–"
"""What stands for None."""
_EDGES = 1
_GAP = 2
"""Columns of the terminal that a table takes beside its cells: at its ends, and for each column."""
_BETWEEN = " " * _GAP
_NARROWEST = 16
"""A text is not wrapped to less, if it has more."""
_LONGEST_WORD = 40
"""A longer word of a text, for example an address, may be broken."""


@dataclass(frozen=True)
class Column:
    """A column of a table, measured.

    Attributes:
        number: Whether cells are set to the right.
        widest: The width at which nothing is wrapped.
        least: The width below which it cannot go.
    """

    heading: str
    cells: Sequence[str]
    number: bool
    widest: int
    least: int

    @classmethod
    def of(cls, heading: str, values: Sequence[object]) -> Column:
        """Measure a column; a heading ends as `output.print_table` says."""
        number, wraps = heading.endswith(">"), heading.endswith("~")
        shown = visible(heading[:-1] if number or wraps else heading)
        cells = [NOTHING if value is None else visible(str(value)) for value in values]
        widest = max(map(_width, (shown, *cells)))
        least = widest
        if wraps:
            words = (word for text in (shown, *cells) for word in text.split())
            word = max(map(_width, words), default=0)
            least = max(min(word, _LONGEST_WORD), min(widest, _NARROWEST))
        return cls(shown, cells, number, widest, least)


@dataclass(frozen=True)
class Layout:
    """The way in which a table is printed.

    Attributes:
        widths: Of their cells; None where each row is a block of lines.
        left_out: Headings of those that are not shown.
    """

    columns: Sequence[Column]
    widths: Sequence[int] | None
    left_out: Sequence[str] = ()


def lay_out(columns: Sequence[Column], room: int | None, drop: Sequence[str]) -> Layout:
    """Find the layout that shows the most.

    Args:
        room: The terminal's width; None if there is no limit.
        drop: Headings of columns that may be left out, those that matter least first.
    """
    if room is None:
        return Layout(columns, [column.widest for column in columns])
    left_out: list[str] = []
    empty = {column.heading: set(column.cells) == {NOTHING} for column in columns}
    there = [heading for heading in drop if heading in empty]
    # The sort is stable: what says nothing goes first, and all else in the order asked for.
    for heading in (None, *sorted(there, key=lambda heading: not empty[heading])):
        left_out += [] if heading is None else [heading]
        shown = [column for column in columns if column.heading not in left_out]
        if (widths := _widths(shown, room)) is not None:
            return Layout(shown, widths, left_out)
    return Layout(columns, None)


def _widths(columns: Sequence[Column], room: int) -> list[int] | None:
    """Find widths at which columns fit side by side; None if they do not."""
    widths = [column.least for column in columns]
    spare = room - _EDGES - _GAP * len(columns) - sum(widths)
    if spare < 0:
        return None
    # The texts share the rest equally; one that needs less leaves it to the others.
    wanted = [column.widest - column.least for column in columns]
    wanting = sorted((number for number, more in enumerate(wanted) if more), key=wanted.__getitem__)
    for done, number in enumerate(wanting):
        more = min(wanted[number], spare // (len(wanting) - done))
        widths[number] += more
        spare -= more
    return widths


def rendered(
    title: str | None, layout: Layout, room: int, colours: Sequence[str] = ()
) -> Iterator[RenderableType]:
    """Yield the lines of a table: rows side by side, or a block of lines each.

    Args:
        room: The terminal's width.
        colours: Of each row; empty if they have none.
    """
    # Text, never markup: a column may be named [/], and a label hold a colour.
    if title is not None:
        yield Text(visible(title), "bold")
    if layout.widths is None:
        yield from _blocks(layout.columns, room, colours)
        return
    # A gap of two, and one before the first column: a value cannot begin a line.
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column, width in zip(layout.columns, layout.widths, strict=True):
        table.add_column(
            Text(column.heading),
            justify="right" if column.number else "left",
            overflow="fold",
            width=width,
            no_wrap=width == column.widest,
        )
    for number, row in enumerate(zip(*(column.cells for column in layout.columns), strict=True)):
        table.add_row(*map(_cell, row), style=colours[number] if colours else None)
    yield table


def plain(title: str | None, layout: Layout) -> str:
    """Return a table as :func:`rendered` gives it, for lines that are kept: nothing is wrapped.

    Rows of a thousand columns are printed in a twentieth of the time.
    """
    columns = layout.columns
    lengths = [column.widest for column in columns]

    def line(cells: Iterable[str]) -> str:
        padded = (
            " " * (length - _width(cell)) + cell
            if column.number
            else cell + " " * (length - _width(cell))
            for column, cell, length in zip(columns, cells, lengths, strict=True)
        )
        return f" {_BETWEEN.join(padded)}".rstrip()

    rule = " " + "─" * (sum(lengths) + _GAP * len(lengths) - 1)
    rows = zip(*(column.cells for column in columns), strict=True)
    head = [] if title is None else [visible(title)]
    lines = [*head, "", line(column.heading for column in columns), rule, *map(line, rows), "", ""]
    return "\n".join(lines)


def _width(text: str) -> int:
    """Count the columns of a terminal that a text takes."""
    return len(text) if text.isascii() else cell_len(text)


def _blocks(
    columns: Sequence[Column], room: int, colours: Sequence[str]
) -> Iterator[RenderableType]:
    count = max((len(column.cells) for column in columns), default=0)
    names = max(cell_len(column.heading) for column in columns)
    for number in range(count):
        head = f"── {number + 1:,} of {count:,} "
        yield Text(head.ljust(room, "─"), "dim", no_wrap=True, overflow="crop")
        colour = colours[number] if colours else None
        block = Table(box=None, show_header=False, padding=(0, 1), style=colour or "")
        block.add_column(overflow="fold", width=min(names, room // 2), style="dim")
        block.add_column(overflow="fold")
        for column in columns:
            block.add_row(Text(column.heading), _cell(column.cells[number]))
        yield block


def _cell(text: str) -> Text:
    return Text(text, "dim" if text == NOTHING else "")


def console(room: int | None) -> Console:
    """Return a console of the terminal's width; without a terminal, one that cuts nothing."""
    return Console(highlight=False, width=room, emoji=False, markup=False)
