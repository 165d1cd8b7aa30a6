"""Lines typed at a terminal: edited, remembered and completed by Python's own readline.

If Python was built without it, lines are read as the terminal gives them.
"""

from __future__ import annotations

import glob
import os
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import ShellComplete

from singerlake import safe_text
from singerlake_cli.output import say
from singerlake_cli.shared import complete_table
from singerlake_cli.shell import entries

try:
    import readline
except ImportError:  # pragma: no cover  # a Python built without it
    readline = None  # type: ignore[assignment]

PROMPT, MORE = "singerlake> ", "        ..> "
REMEMBERED = 1000
"""Lines."""


def reader(root: click.Context, given: list[str]) -> entries.Read:
    """Return the reader of lines from this process's terminal.

    Args:
        root: The context of the program, whose commands are completed.
        given: Arguments that stand before every command.
    """
    if readline is None or not sys.stdout.isatty():
        return _plain
    history = history_file()
    with suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(REMEMBERED)
    readline.set_auto_history(False)
    readline.set_completer_delims(" \t\n")
    readline.set_completer(Completer(root, given))
    editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if editline else "tab: complete")

    def read(more: bool) -> str | None:
        try:
            line = input(MORE if more else PROMPT)
        except EOFError:
            say("")
            return None
        _remember(line, history)
        return line

    return read


def _plain(more: bool) -> str | None:
    click.echo(MORE if more else PROMPT, nl=False, err=True)
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def history_file() -> Path:
    """Return the file that keeps the typed lines, by the XDG base directories."""
    base = os.environ.get("XDG_STATE_HOME", "")
    state = Path(base) if base.startswith("/") else Path("~/.local/state").expanduser()
    return state / "singerlake" / "history"


def _remember(line: str, history: Path) -> None:
    """Keep a line, on disk at once; but none that holds a secret, nor one twice in a row."""
    last = readline.get_history_item(readline.get_current_history_length())
    if not line.strip() or line == last or safe_text.redacted(line) != line:
        return
    readline.add_history(line)
    with suppress(OSError):  # a home that cannot be written ends no shell
        history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(history, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        readline.append_history_file(1, history)


class Completer:
    """The completion of commands, options, tables and files, as readline asks for it.

    Args:
        root: The context of the program.
        given: Arguments that stand before every command.
    """

    def __init__(self, root: click.Context, given: list[str]) -> None:
        self._root = root
        self._given = given
        self._found: list[str] = []

    def __call__(self, text: str, state: int) -> str | None:
        """Return one of the completions of the word that is being typed; None behind the last."""
        if state == 0:
            before = readline.get_line_buffer()[: readline.get_begidx()]
            self._found = self.completions(before, text)
            if len(self._found) == 1 and not self._found[0].endswith("/"):
                self._found[0] += " "  # readline itself puts none behind a whole word
        return self._found[state] if state < len(self._found) else None

    def completions(self, before: str, text: str) -> list[str]:
        """Find the completions of a word.

        Args:
            before: The line before it.
        """
        if entries.is_sql(before):
            names = complete_table(self._root, click.Argument(["table"]), text)
            return [
                f"{tap.replace('-', '_')}.{stream.replace('-', '_')}"
                for tap, _, stream in (name.partition(".") for name in names)
            ]
        try:
            words = shlex.split(before)
        except ValueError:  # within quotes
            return []
        if words[:1] == [entries.PROGRAM]:
            del words[0]
        more = [w for w in (*entries.ENDS, entries.HELP) if not words and w.startswith(text)]
        if words[:1] == [entries.HELP]:
            del words[0]
        program = ShellComplete(self._root.command, {}, entries.PROGRAM, "")
        items = program.get_completions([*self._given, *words], text)
        found = [one for item in items for one in _values(item.type, str(item.value))]
        return sorted({*found, *more})


def _values(kind: str, value: str) -> Iterable[str]:
    """Return the values of one of click's answers: itself, or files."""
    if kind not in ("file", "dir"):
        return [value]
    paths = sorted(glob.glob(f"{glob.escape(os.path.expanduser(value))}*"))  # noqa: PTH111, PTH207
    return [f"{path}/" if Path(path).is_dir() else path for path in paths]
