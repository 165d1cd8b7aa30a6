"""The entries of a shell: the lines that make one, and the arguments that it means.

Words are taken apart as a POSIX shell does it, quotes and all, so that a command means the same
here and there; but nothing is expanded, and there are no pipes. Comments are those of a shell
(``#``) and of SQL.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from singerlake.errors import UsageError
from singerlake.format import sql_tokens

PROGRAM = "singerlake"
ENDS = ("exit", "quit")
HELP = "help"
SQL_BEGINS = ("select", "with", "values", "from")
"""Words that SQL begins with; no command has such a name."""
_SQL = re.compile(rf"\s*(?:\(|(?:{'|'.join(SQL_BEGINS)})(?!\S))", re.IGNORECASE)
_LINE_COMMENT = re.compile(r"--(?:\s|$)")
_OPERATOR = re.compile(r"[0-9]?[<>]|[|;&]+$|&>")
_OPEN_QUOTE, _OPEN_COMMENT = "No closing quotation", "No closing comment"
MAX_EXIT_CODE = 255
Read = Callable[[bool], "str | None"]
"""Reads a line, without its end: the first of an entry, or one more. None where there is none."""


@dataclass(frozen=True)
class Entry:
    """A command, or SQL.

    Attributes:
        text: As typed, in as many lines as it took.
        line: The number of its first line; the first of all is 1.
    """

    text: str
    line: int

    def arguments(self) -> list[str]:
        """Return the arguments of ``singerlake`` in a command line that does the same.

        Returns:
            Nothing for an entry that is blank, or a comment.

        Raises:
            UsageError: A quote is never closed, or an operator of other shells is in it.
        """
        if is_sql(self.text):
            return ["query", self.text]
        try:
            words = _words(self.text)
        except ValueError as error:
            raise UsageError(_unfinished(str(error))) from error
        if words:
            _refuse_operators(self.text)
        if words[:1] == [PROGRAM]:
            del words[0]
        if words[:1] == [HELP]:
            return [*words[1:], "--help"]
        return words


class Entries:
    """A reader of entries, one after another.

    Args:
        read: Reads a line.
        script: Whether a quote that a command leaves open ends with its line: at a terminal one
            sees what is asked for, but in a script it would swallow all commands after it.
    """

    def __init__(self, read: Read, *, script: bool = False) -> None:
        self._read = read
        self._script = script
        self._lines = 0

    def next(self) -> Entry | None:
        """Read lines until they are an entry; None at the end of them."""
        if (text := self._line(False)) is None:
            return None
        first = self._lines
        while not is_whole(text):
            if self._script and not is_sql(text) and _what_is_open(text) == _OPEN_QUOTE:
                break
            if (more := self._line(True)) is None:
                break
            if is_sql(text) and not more.strip():
                break
            # A backslash at a line's end joins it with the next, as in any shell.
            text = text[:-1] + more if _goes_on(text) else f"{text}\n{more}"
        return Entry(text, first)

    def _line(self, more: bool) -> str | None:
        self._lines += 1
        text = self._read(more)
        # Editors on Windows begin a file with the mark of its encoding.
        return text.removeprefix("\ufeff") if text and self._lines == 1 else text


def is_sql(text: str) -> bool:
    """Tell whether an entry is SQL rather than a command, by how it begins."""
    return _SQL.match(_behind_comments(text) or "") is not None


def is_whole(text: str) -> bool:
    """Tell whether no more lines belong to an entry: SQL ends with a semicolon."""
    if is_sql(text):
        return sql_tokens.tokens(text)[-1].text == ";"
    return not _what_is_open(text)


def exit_code(words: Sequence[str]) -> int | None:
    """Return the exit code that one of :data:`ENDS` gives; None if it gives none.

    Args:
        words: It, and what stands behind it.

    Raises:
        UsageError: That is no exit code.
    """
    if len(words) == 1:
        return None
    code = words[1]
    if len(words) > 2 or not code.isdecimal() or int(code) > MAX_EXIT_CODE:  # noqa: PLR2004
        raise UsageError(f"{words[0]} takes one exit code, from 0 to {MAX_EXIT_CODE}")
    return int(code)


def _goes_on(text: str) -> bool:
    """Tell whether the text ends with a backslash that has no meaning of its own, quoted or not."""
    return not is_sql(text) and _what_is_open(text) == "No escaped character"


def _what_is_open(text: str) -> str:
    """Return the reason in `shlex`'s words that a command is incomplete; empty if it is not."""
    try:
        _words(text)
    except ValueError as error:
        return str(error)
    return ""


def _words(text: str) -> list[str]:
    if (command := _behind_comments(text)) is None:
        raise ValueError(_OPEN_COMMENT)
    return [] if command.startswith("#") else shlex.split(command)


def _behind_comments(text: str) -> str | None:
    """Return the SQL after an entry's first comments; None if one is not closed."""
    while True:
        text = text.lstrip()
        if _LINE_COMMENT.match(text):
            text = text.partition("\n")[2]
        elif text.startswith("/*"):
            _, closed, text = text[2:].partition("*/")
            if not closed:
                return None
        else:
            return text


def _unfinished(what: str) -> str:
    if what == _OPEN_COMMENT:
        return "a comment is never closed: end it with */"
    if what == _OPEN_QUOTE:
        return (
            "a quote is never closed: close it, in a script on its line; a statement of several "
            "lines stands by itself, up to a ;"
        )
    return "the last line is incomplete: nothing follows its backslash"


def _refuse_operators(text: str) -> None:
    """Refuse operators outside of quotes by which other shells redirect or pipe."""
    with suppress(ValueError):  # quotes within words are taken apart otherwise with quotes kept
        for word in shlex.split(_behind_comments(text) or "", posix=False):
            if _OPERATOR.match(word):
                raise UsageError(
                    f"this shell does not support {word}: it neither redirects nor pipes. Run the "
                    f"command outside of it, or put {word} in quotes if it is meant as a word"
                )
