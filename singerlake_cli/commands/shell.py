"""singerlake shell: many commands in one process, on one Spark session."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import click

from singerlake import __version__
from singerlake.errors import UsageError
from singerlake_cli import interrupts
from singerlake_cli.output import say
from singerlake_cli.shared import Shared
from singerlake_cli.shell.entries import ENDS, PROGRAM, Entries, Entry, Read, exit_code


@click.command("shell")
@click.option(
    "--keep-going",
    is_flag=True,
    help="For commands from a file or a pipe: continue after a failed command.",
)
@click.pass_context
def command(ctx: click.Context, keep_going: bool) -> None:
    """Run many commands on one Spark session.

    Type commands as after `singerlake`. Spark starts with the first command that needs it; later
    ones then take tenths of a second. A line that begins with SELECT, WITH, VALUES, FROM or a
    parenthesis is SQL, up to a ; or an empty line. --lake and --output apply to every command. Tab
    completes, the arrow keys browse the history, Ctrl-C ends a command, and Ctrl-D the shell.

    Without a terminal, commands are read from standard input. The first failure ends the shell,
    with its exit code. With --keep-going, all commands run, and the exit code is that of the first
    failure.

    \b
    singerlake --lake s3://company-lake/lake shell
    singerlake shell < nightly.txt
    """
    if interrupts.in_shell():
        raise UsageError("this is a shell already: type the command")
    shell = _Shell(ctx)
    if sys.stdin.isatty():
        ctx.exit(shell.talk())
    ctx.exit(shell.run_script(keep_going=keep_going))


class _Shell:
    """The loop that runs entries as the program runs its arguments.

    Args:
        ctx: The context of the command, with what stood before it.
    """

    def __init__(self, ctx: click.Context) -> None:
        shared: Shared = ctx.obj
        self._shared = shared
        self._root = ctx.find_root()
        self._exit_code: int | None = None
        self._given = ["--lake", shared.uri, "--output", "json" if shared.json else "table"]

    def talk(self) -> int:
        """Run what is typed at the terminal until there is no more; return the exit code."""
        from singerlake_cli.shell import editing

        say(f"singerlake {__version__} on {self._shared.uri}: commands, or SQL up to a ;")
        say("help lists the commands; exit, or Ctrl-D, ends this shell")
        entries = Entries(editing.reader(self._root, self._given))
        with interrupts.in_a_shell(goes_on=True):
            while True:
                interrupts.next_command()
                try:
                    if (entry := entries.next()) is None or self._run(entry) is None:
                        return self._exit_code or 0
                except KeyboardInterrupt:
                    say("", err=True)  # the terminal has shown ^C on this line

    def run_script(self, *, keep_going: bool) -> int:
        """Run what is on standard input; return the code it exits with, or the first failure's."""
        failed = 0
        entries = Entries(_lines(sys.stdin.buffer), script=True)
        with interrupts.in_a_shell(goes_on=False), _no_input():
            while (entry := entries.next()) is not None:
                interrupts.next_command()
                code = self._run(entry)
                if code is None:
                    return failed if self._exit_code is None else self._exit_code
                if code == interrupts.EXIT_CODE:
                    return failed or code
                failed = failed or code
                if code and keep_going:
                    self._shared.output.note(f"line {entry.line} failed, with exit code {code}")
                elif code:
                    more = "the following commands are not run (--keep-going runs them)"
                    self._shared.output.note(f"the shell ends at line {entry.line}: {more}")
                    return failed
        return failed

    def _run(self, entry: Entry) -> int | None:
        """Run one entry; return its exit code, or None if it ends the shell."""
        try:
            arguments = entry.arguments()
            if arguments and arguments[0] in ENDS:
                self._exit_code = exit_code(arguments)
                return None
        except UsageError as error:
            self._shared.output.error(error)
            return error.exit_code
        if not arguments:
            return 0
        program = self._root.command
        self._mend()  # it may have ended while nothing was run
        try:
            program.main([*self._given, *arguments], PROGRAM, color=self._root.color)
        except SystemExit as end:
            return int(end.code or 0)
        finally:
            sys.stdout.flush()
            self._mend()
        return 0

    def _mend(self) -> None:
        """Let the next command start Java, if it has ended."""
        # Only if a job has imported it.
        session = sys.modules.get("singerlake.engine.spark.jvm.session")
        if session is not None and session.forget_ended() and not interrupts.came():
            self._shared.output.note(
                "Java has ended: the next command that needs it starts it again"
            )


def _lines(source: BinaryIO) -> Read:
    """Read a script line by line, so that its writer may wait for each answer."""

    def read(more: bool) -> str | None:
        del more
        line = source.readline()
        try:
            return line.decode("utf-8").rstrip("\r\n") if line else None
        except UnicodeDecodeError as error:
            raise UsageError("standard input is not UTF-8 text") from error

    return read


@contextmanager
def _no_input() -> Iterator[None]:
    """Give commands an empty input: what follows in the script is not for them."""
    script = sys.stdin
    sys.stdin = _Nothing()
    try:
        yield
    finally:
        sys.stdin = script


class _Nothing(io.StringIO):
    """The standard input of a command in a script: a question gets no answer."""

    @property
    def buffer(self) -> _Held:
        """The input that is read for ``-``."""
        return _Held()


class _Held(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        del size
        raise UsageError(
            "this shell reads its commands from standard input, so no command can read - there: "
            "give it a file"
        )
