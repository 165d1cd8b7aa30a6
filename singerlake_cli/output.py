"""The output of commands: tables for people, JSON for scripts, progress only on a terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TextIO

import click
import msgspec
from click.exceptions import NoArgsIsHelpError

from singerlake import quantities, safe_text
from singerlake.errors import SingerlakeError, UsageError
from singerlake.format import times
from singerlake_cli import live_line

if TYPE_CHECKING:
    from singerlake_cli.tables import Column

_BEGUN = "singerlake.printed"
"""Where a command's context notes that something was printed."""
FALLBACK_WIDTH = 80
count = quantities.count
size = quantities.size
_PROOF_DIGITS = 8
_BARS = "▁▂▃▄▅▆▇█"


class Output(ABC):
    """The place of a command's results, notes and errors: people or scripts, never both."""

    @abstractmethod
    def result(self, document: Callable[[], Any], text: Callable[[], None]) -> None:
        """Print a command's result in one of its two forms; the other is never made.

        Args:
            document: Makes what scripts are given.
            text: Prints what people are given.
        """

    @abstractmethod
    def item(self, document: Callable[[], Any], text: Callable[[], None]) -> None:
        """Print one of many results: at once for people, in the array of `end` for scripts."""

    @abstractmethod
    def summary(self, text: str) -> None:
        """Print for people a last line about many results; scripts can sum up themselves."""

    @abstractmethod
    def end(self) -> None:
        """Print what is left to print after the last `item`."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Print a note on standard error, before or during the result."""

    @abstractmethod
    def warning(self, text: str) -> None:
        """Print on standard error what was done otherwise than one would think."""

    @abstractmethod
    def failure(self, kind: str, message: str) -> None:
        """Print on standard error what went wrong, where no `SingerlakeError` says it.

        Args:
            kind: As `SingerlakeError.kind`, or ``unexpected`` or ``interrupted``.
            message: The event, and the next step.
        """

    @abstractmethod
    def wrong_usage(self, error: click.ClickException) -> None:
        """Print on standard error why a command line makes no sense."""

    @abstractmethod
    def error(self, error: SingerlakeError, about: object = None) -> None:
        """Print on standard error what went wrong.

        Args:
            error: What was raised.
            about: The table it is about, if the command goes on to others.
        """


class ConsoleOutput(Output):
    """Text and tables for people."""

    def result(self, document: Callable[[], Any], text: Callable[[], None]) -> None:
        """Print the text."""
        del document
        text()

    def item(self, document: Callable[[], Any], text: Callable[[], None]) -> None:
        """Print the text at once."""
        self.result(document, text)

    def summary(self, text: str) -> None:
        """Print the line."""
        say(text)

    def end(self) -> None:
        """Do nothing: all is printed."""

    def note(self, text: str) -> None:
        """Print a line on standard error."""
        say(f"note: {text}", err=True)

    def warning(self, text: str) -> None:
        """Print a line on standard error."""
        say(f"warning: {text}", err=True)

    def failure(self, kind: str, message: str) -> None:
        """Print a line on standard error."""
        _say_error(message, "unexpected" if kind == "unexpected" else "error")

    def wrong_usage(self, error: click.ClickException) -> None:
        """Print why, and how the command is called."""
        if isinstance(error, NoArgsIsHelpError):
            error.show()
            return
        _say_error(error.format_message())
        if isinstance(error, click.UsageError) and (ctx := error.ctx) is not None:
            pieces = " ".join([ctx.command_path, *ctx.command.collect_usage_pieces(ctx)])
            say(f"usage: {pieces}; see {ctx.command_path} --help", err=True)

    def error(self, error: SingerlakeError, about: object = None) -> None:
        """Print each line of the message as one, and no end of a line in a name."""
        first, *others = error.lines or (str(error),)
        _say_error(first if about is None else f"{about}: {first}")
        for line in others:
            say(line, err=True)


class JsonOutput(Output):
    """Documents for scripts: one on standard output, and on standard error one a line."""

    def __init__(self) -> None:
        self._items: list[Any] = []

    def result(self, document: Callable[[], Any], text: Callable[[], None]) -> None:
        """Print the document."""
        del text
        print_json(document())

    def item(self, document: Callable[[], Any], text: Callable[[], None]) -> None:
        """Keep the document for the array."""
        del text
        self._items.append(document())

    def summary(self, text: str) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Print the array."""
        print_json(self._items)

    def note(self, text: str) -> None:
        """Print ``{"note": {"message": …}}`` on standard error."""
        _print_line("note", message=text)

    def warning(self, text: str) -> None:
        """Print ``{"warning": {"message": …}}`` on standard error."""
        _print_line("warning", message=text)

    def failure(self, kind: str, message: str) -> None:
        """Print ``{"error": {"kind": …, "message": …}}`` on standard error."""
        _print_line("error", kind=kind, message=message)

    def wrong_usage(self, error: click.ClickException) -> None:
        """Print ``{"error": {"kind": "usage", "message": …}}`` on standard error."""
        if isinstance(error, NoArgsIsHelpError):
            self.failure(UsageError.kind, "there is no command: see singerlake --help")
            return
        usage = error.exit_code == UsageError.exit_code
        self.failure(UsageError.kind if usage else SingerlakeError.kind, error.format_message())

    def error(self, error: SingerlakeError, about: object = None) -> None:
        """Print ``{"error": {"kind": …, "message": …}}``, with the table where there is one."""
        table = {} if about is None else {"table": str(about)}
        _print_line("error", kind=error.kind, message="\n".join(error.lines) or str(error), **table)


OUTPUTS: dict[str, type[Output]] = {"table": ConsoleOutput, "json": JsonOutput}
"""What ``--output`` may be."""


def _echo(text: str, **how: Any) -> None:
    """Print text; a bar that is on the screen gives way to it."""
    with live_line.aside():
        click.echo(text, **how)


def print_json(value: Any) -> None:
    """Print one JSON document."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8")
    _echo(safe_text.visible_json(text) if sys.stdout.isatty() else text)


def _print_line(member: str, **document: str) -> None:
    """Print a message for scripts, on one line of standard error."""
    shown = {name: safe_text.redacted(text) for name, text in document.items()}
    text = json.dumps({member: shown}, ensure_ascii=False)
    # Escaped in a pipe too: half a character of a name would not encode, and logs are looked at.
    _echo(safe_text.visible_json(text), err=True)


def say_text(text: str) -> None:
    """Print a document that ends in a newline; on a terminal, control characters are escaped."""
    _echo(safe_text.visible(text, lines=True) if sys.stdout.isatty() else text, nl=False)


def say(
    text: str,
    *,
    err: bool = False,
    hang: int | None = None,
    mark: str = "",
    colour: str | None = None,
    dim: bool = False,
) -> None:
    """Print a line; names in it can neither steer the terminal nor begin a line of their own.

    Args:
        text: The line. On a terminal it is wrapped at words.
        err: Whether to print it on standard error.
        hang: Spaces before what is wrapped; by default two more than the line begins with.
        mark: A prefix, as bold as a heading.
        dim: Whether the text matters less than what is around it.
    """
    shown = safe_text.for_people(text)
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        indent = len(shown) - len(shown.lstrip(" ")) + 2 if hang is None else hang
        shown = wrapped(mark + shown, terminal_width(stream), indent)[len(mark) :]
    marked = click.style(mark, fg=colour, bold=True) if mark else ""
    # A wrong command line is shown outside of the command's context, which knows of NO_COLOR too.
    coloured = False if os.environ.get("NO_COLOR") else None
    styled = marked + (click.style(shown, dim=True) if dim else shown)
    _echo(styled, err=err, color=coloured)
    if not err:
        _is_first()


def _is_first() -> bool:
    """Tell, and note, whether the command prints its first line or table."""
    if (context := click.get_current_context(silent=True)) is None:
        return False
    first = _BEGUN not in context.meta
    context.meta[_BEGUN] = True
    return first


def _say_error(text: str, word: str = "error") -> None:
    say(text, err=True, mark=f"{word}: ", colour="red", hang=2)


def say_whole(line: str, *, err: bool = False) -> None:
    """Print a line that is there to be copied: never wrapped, and in a pipe just as it is."""
    stream = sys.stderr if err else sys.stdout
    _echo(safe_text.visible(line) if stream.isatty() else line, err=err)


def say_lines(lines: Iterable[str]) -> None:
    """Print several lines."""
    for line in lines:
        say(line)


def print_table(
    title: str | None,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *notes: str,
    drop: Sequence[str] = (),
    colours: Sequence[str] = (),
) -> None:
    """Print a table; where a terminal has no room for it, as :mod:`singerlake_cli.tables` says.

    Args:
        columns: Headings; one that ends in ``>`` holds numbers, set to the right, and one
            that ends in ``~`` text that may be wrapped at words.
        rows: Cells; None is shown as a dash.
        notes: Lines below it; an empty one is none.
        drop: Headings of columns that a narrow terminal may leave out, those that matter least
            first; without the sign at their end.
        colours: Of each row, if a terminal shows colours.
    """
    from singerlake_cli import tables

    room, measured = _measured(columns, rows)
    layout = tables.lay_out(measured, room, drop)
    if room is None:
        text = tables.plain(title, layout)
        if _is_first():
            text = text.lstrip("\n")  # it is for what comes before it
    else:
        _is_first()
        console = tables.console(room)
        with console.capture() as printed:
            for part in tables.rendered(title, layout, console.width, colours):
                console.print(part)
        text = printed.get()
    _echo(text, nl=False)
    if layout.left_out:
        left_out = ", ".join(layout.left_out)
        _note(f"not shown: {left_out} (widen the terminal, or use | less -S)")
    for note in filter(None, notes):
        _note(note)


def has_room(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> bool:
    """Tell whether a table has room, with all its columns side by side, where it is printed."""
    from singerlake_cli import tables

    room, measured = _measured(columns, rows)
    return tables.lay_out(measured, room, ()).widths is not None


def _measured(
    columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> tuple[int | None, list[Column]]:
    """Return the terminal's width, if there is one, and a table's columns."""
    from singerlake_cli.tables import Column

    room = terminal_width(sys.stdout) if sys.stdout.isatty() else None
    return room, [
        Column.of(heading, [row[number] for row in rows]) for number, heading in enumerate(columns)
    ]


def _note(text: str) -> None:
    say(text, dim=True)


def terminal_width(stream: TextIO) -> int:
    """Return the columns of the terminal that a stream writes to."""
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or FALLBACK_WIDTH
    except (OSError, ValueError):  # no terminal, or no file at all
        return FALLBACK_WIDTH


def wrapped(text: str, room: int, hang: int) -> str:
    """Break a line at words; a word of more than a line stays whole, for it may be copied.

    Args:
        room: Columns that a line may take.
        hang: Spaces that each line but the first begins with. With one at least, no name in the
            text can begin a line.
    """
    from rich.cells import cell_len

    lines, used = [""], 0
    for word in re.findall(r"\s*\S+", text):
        width = cell_len(word)
        if used and used + width > room:
            word = word.lstrip()  # noqa: PLW2901
            lines.append(" " * hang)
            width = hang + cell_len(word)
            used = 0
        lines[-1] += word
        used += width
    return "\n".join(lines)


def short_proof(fingerprint: str) -> str:
    """Return the start of a fingerprint, with the word for how it was made."""
    made, _, digits = fingerprint.rpartition(":")
    return f"{made}:{digits[:_PROOF_DIGITS]}" if made else digits[:_PROOF_DIGITS]


def sparkline(values: Sequence[int]) -> str:
    """Draw numbers as a row of bars, the greatest at full height: ``▁▂█``."""
    top = max(values, default=0)
    if top <= 0:
        return ""
    return "".join(_BARS[max(0, value) * (len(_BARS) - 1) // top] for value in values)


def ago(stamp: str) -> str:
    """Write a time for people: ``5 min ago`` if it is recent, else the second, in UTC."""
    instant = times.parse(stamp)
    if instant is None:
        return stamp
    seconds = (datetime.now(tz=timezone.utc) - instant).total_seconds()
    for limit, length, unit in ((90, 1, "s"), (5400, 60, "min"), (172800, 3600, "h")):
        if 0 <= seconds < limit:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{instant:%Y-%m-%d %H:%M:%S}"


def clock(stamp: str) -> str:
    """Write a time for people, to the second, in UTC."""
    instant = times.parse(stamp)
    return f"{instant:%Y-%m-%d %H:%M:%S}" if instant else stamp
