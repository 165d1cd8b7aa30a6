"""What commands print: tables for people, JSON for scripts, progress only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click
import msgspec

from singerlake import safe_text
from singerlake.errors import SingerlakeError
from singerlake.format import times
from singerlake.safe_text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_STEP = 1000
PIPE_WIDTH = 240
_PROOF_DIGITS = 8
_FOLDED = 12
_BETWEEN = 2
"""Columns that a folded text needs at least, and that stand between two cells."""
_BARS = "▁▂▃▄▅▆▇█"


def print_json(value: Any) -> None:
    """Print one JSON document."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8")
    click.echo(safe_text.visible_json(text) if sys.stdout.isatty() else text)


def say(text: str, *, err: bool = False) -> None:
    """Print a line; names in it can neither steer the terminal nor begin a line of their own."""
    click.echo(safe_text.for_people(text), err=err)


def say_error(text: str, *, word: str = "error") -> None:
    """Print a line about what went wrong."""
    click.secho(f"{word}: ", fg="red", bold=True, nl=False, err=True)
    say(text, err=True)


def say_failure(error: SingerlakeError, about: object = None) -> None:
    """Print what went wrong: each line of the message as one, and no end of a line in a name.

    Args:
        error: What was raised.
        about: What it is about, where many are asked for at once.
    """
    first, *others = error.lines or (str(error),)
    say_error(first if about is None else f"{about}: {first}")
    for line in others:
        say(line, err=True)


def print_table(
    title: str | None, columns: Sequence[str], rows: Sequence[Sequence[object]], *notes: str
) -> None:
    """Print a table.

    Args:
        title: Above it.
        columns: Headings; one that ends in ``>`` holds numbers, set to the right, and one
            that ends in ``~`` text that may be folded where the terminal is narrow.
        rows: Cells; None is shown as a dash.
        notes: Lines below it; an empty one is none.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    console = _console()
    # Text, never markup: a column may be named [/], and a label hold a colour.
    heading = None if title is None else Text(visible(title))
    if rows and sys.stdout.isatty() and _width(columns, rows) > console.width:
        table = _records(columns, rows, console.width // 2)
        table.title, table.title_justify, table.title_style = heading, "left", "bold"
    else:
        table = Table(title=heading, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
        for column in columns:
            _add_column(table, column)
        for row in rows:
            table.add_row(*(_cell(cell) for cell in row))
    console.print(table)
    for note in filter(None, notes):
        console.print(Text(safe_text.for_people(note), "dim"))


def _width(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
    """How wide a table is at least in which no number is cut and folded texts can be read."""
    from rich.cells import cell_len

    width = 0
    for place, heading in enumerate(columns):
        cells = max(_cell(row[place]).cell_len for row in rows)
        if heading.endswith("~"):
            cells = min(_FOLDED, cells)
        width += max(cells, min(_FOLDED, cell_len(visible(_plain(heading))))) + _BETWEEN
    return width + _BETWEEN


def _records(columns: Sequence[str], rows: Sequence[Sequence[object]], widest: int) -> Table:
    """A table that a narrow terminal has no room for: a line for each cell."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold", max_width=widest, style="dim")
    table.add_column(overflow="fold")
    for row in rows:
        for heading, cell in zip(columns, row, strict=True):
            table.add_row(Text(visible(_plain(heading))), _cell(cell))
        table.add_row("", "")
    return table


def _plain(heading: str) -> str:
    return heading[:-1] if heading.endswith((">", "~")) else heading


def _cell(value: object) -> Text:
    from rich.text import Text

    return Text("–", "dim") if value is None else Text(visible(str(value)))


def _console() -> Console:
    """A console as wide as the terminal; where there is none, wide enough to cut nothing."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(highlight=False, width=width)


def _add_column(table: Table, heading: str) -> None:
    from rich.text import Text

    right = heading.endswith(">")
    folds = heading.endswith("~")
    table.add_column(
        Text(visible(_plain(heading))),
        justify="right" if right else "left",
        overflow="fold" if folds else "ellipsis",
        no_wrap=not folds,
    )


def short_proof(fingerprint: str) -> str:
    """How a fingerprint begins, with the word that says how it was made."""
    made, _, digits = fingerprint.rpartition(":")
    return f"{made}:{digits[:_PROOF_DIGITS]}" if made else digits[:_PROOF_DIGITS]


def count(number: int, word: str) -> str:
    """A number of things: ``1 file``, ``2,000 files``."""
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def size(count: int) -> str:
    """Bytes for people: ``51.1 MB``."""
    value = float(count)
    for unit in _UNITS:
        if value < _STEP or unit == _UNITS[-1]:
            break
        value /= _STEP
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def sparkline(values: Sequence[int]) -> str:
    """Numbers as a row of bars, the greatest at full height: ``▁▂█``."""
    top = max(values, default=0)
    if top <= 0:
        return ""
    return "".join(_BARS[max(0, value) * (len(_BARS) - 1) // top] for value in values)


def ago(stamp: str) -> str:
    """A time for people: ``5 min ago`` for what is recent, else the day."""
    instant = times.parse(stamp)
    if instant is None:
        return stamp
    seconds = (datetime.now(tz=timezone.utc) - instant).total_seconds()
    for limit, length, unit in ((90, 1, "s"), (5400, 60, "min"), (172800, 3600, "h")):
        if 0 <= seconds < limit:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{instant:%Y-%m-%d %H:%M}"


def clock(stamp: str) -> str:
    """A time for people, to the second, in UTC."""
    instant = times.parse(stamp)
    return f"{instant:%Y-%m-%d %H:%M:%S}" if instant else stamp
