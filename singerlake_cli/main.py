"""The `singerlake` command: options that all commands share, and errors to exit codes."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NoReturn

import click
from click.core import ParameterSource

from singerlake import __version__, safe_text
from singerlake.errors import SingerlakeError, StoreError
from singerlake.nearest import nearest
from singerlake.storage.opening import in_project
from singerlake_cli import interrupts, live_line
from singerlake_cli.output import OUTPUTS, Output, say
from singerlake_cli.shared import Shared, lake_option, output_option, take_shared_options

COMMANDS = {
    "demo": "demo",
    "ls": "ls",
    "show": "show",
    "history": "history",
    "freeze": "freeze",
    "versions": "versions",
    "point": "point",
    "sign": "sign",
    "cite": "cite",
    "query": "query",
    "rows": "rows",
    "rejected": "rejected",
    "diff": "diff",
    "data-files": "data_files",
    "files": "files",
    "create-table": "create_table",
    "upload": "upload",
    "update": "update",
    "delete": "delete",
    "revert": "revert",
    "undo": "undo",
    "bookmark": "bookmark",
    "alter": "alter",
    "drop": "drop",
    "undrop": "undrop",
    "projections": "projections",
    "publish": "publish",
    "unpublish": "unpublish",
    "annotate": "annotate",
    "docs": "docs",
    "copy": "copy",
    "vacuum": "vacuum",
    "verify": "verify",
    "erase": "erase",
    "rebuild": "rebuild",
    "locks": "locks",
    "unlock": "unlock",
    "metrics": "metrics",
    "doctor": "doctor",
    "shell": "shell",
    "completion": "completion",
}
"""Commands in the order of ``--help``, and the module of ``singerlake_cli.commands`` of each."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_OURS = ("singerlake", "singerlake_cli")

EXIT_CODES = """\b
Exit codes:
  0  done
  1  unexpected, or disk, network or Java failed
  2  usage: an invalid command, option or argument
  3  not found: no such lake, table, version
  4  conflict, or a lock that was not released: run it again
  5  damaged or unreadable data, or rows with problems
  130  interrupted, as by Ctrl-C
"""


NOT_SHARED = {"demo", "completion"}
"""Commands that have no use for ``--lake`` and ``--output``."""
OF_TWO_LAKES = {"copy"}
"""Commands that are told which lakes by arguments, and so take no ``--lake``."""
WRITES_MORE = {
    "annotate",
    "bookmark",
    "copy",
    "demo",
    "docs",
    "doctor",
    "publish",
    "rebuild",
    "unlock",
    "unpublish",
    "vacuum",
}
"""Commands that change something before, or without, the log entry of a commit."""
READS = {
    "cite",
    "diff",
    "data-files",
    "history",
    "locks",
    "ls",
    "metrics",
    "projections",
    "query",
    "rows",
    "show",
    "verify",
}
"""Commands that change nothing, whatever they are told."""
_GIVEN = "singerlake.arguments"
"""What a context keeps the arguments under, as they were given."""


def asked_output(args: Sequence[str]) -> Output:
    """Make the output that a command line asks for, even if it cannot be parsed."""
    forms = [after for before, after in pairwise(args) if before == "--output"]
    forms += [arg.partition("=")[2] for arg in args if arg.startswith("--output=")]
    return OUTPUTS["json" if "json" in forms else "table"]()


class ShownError(click.ClickException):
    """A wrong command line, printed as other errors are."""

    def __init__(self, error: click.ClickException, output: Output) -> None:
        super().__init__(error.message)
        self.exit_code: int = error.exit_code  # type: ignore[misc]  # click sets it so, too
        self._error = error
        self._output = output

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it on standard error."""
        del file
        self._output.wrong_usage(self._error)


class CommandGroup(click.Group):
    """A group that loads a command's module on demand, and prints errors as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the commands, in the order a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"singerlake_cli.commands.{COMMANDS[cmd_name]}")
        command: click.Command = module.command
        if cmd_name not in NOT_SHARED:
            take_shared_options(command, lake=cmd_name not in OF_TWO_LAKES)
        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse the arguments before the command."""
        given = list(args)
        try:
            ctx = super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            raise ShownError(error, asked_output(given)) from error
        ctx.meta[_GIVEN] = given
        return ctx

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with."""
        name = args[0]
        if name not in COMMANDS and name[:1].isalnum() and not ctx.resilient_parsing:
            near = nearest(name, COMMANDS)
            hint = f"Did you mean {' or '.join(near)}?" if near else "See singerlake --help."
            raise click.UsageError(f"No such command {name!r}. {hint}", ctx)
        if name in WRITES_MORE:
            interrupts.note_writes()
        if name in READS:
            interrupts.note_reads()
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and turn its errors into exit codes."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _interrupted(ctx)
        except SingerlakeError as error:
            if interrupts.came():
                _interrupted(ctx)
            _output(ctx).error(error)
            ctx.exit(error.exit_code)
        except click.ClickException as error:
            raise ShownError(error, asked_output(ctx.meta[_GIVEN])) from error
        except (click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            # The reader had enough, as `head` has. What is still buffered has nowhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(128 + signal.SIGPIPE)
        except Exception as error:
            if interrupts.came():
                _interrupted(ctx)
            if os.environ.get("SINGERLAKE_DEBUG"):
                raise
            _unexpected(ctx, error)


def _unexpected(ctx: click.Context, error: Exception) -> NoReturn:
    if isinstance(error, OSError) and error.errno in _FULL:
        told = StoreError(
            f"cannot write: {error.strerror}: free some space for the output and for temporary "
            "files (TMPDIR), and run it again"
        )
        _output(ctx).error(told)
        ctx.exit(told.exit_code)
    _output(ctx).failure("unexpected", _told(error))
    _output(ctx).note("set SINGERLAKE_DEBUG=1 to see where it happened")
    ctx.exit(1)


def _told(error: Exception) -> str:
    """Describe an unexpected error; without a text, by the innermost place of ours in it."""
    kind = type(error).__name__
    if text := str(error).strip():
        return f"{kind}: {text}"
    home = Path(__file__).parents[1]
    for place in reversed(traceback.extract_tb(error.__traceback__)):
        with suppress(ValueError):  # of another library
            file = Path(place.filename).relative_to(home)
            if file.parts[0] in _OURS:
                return f"{kind} at {file.as_posix()}:{place.lineno}"
    return kind


def _output(ctx: click.Context) -> Output:
    """Return the output for errors, also for those before a command is known."""
    return ctx.obj.output if ctx.obj is not None else asked_output(ctx.meta[_GIVEN])


def _interrupted(ctx: click.Context) -> NoReturn:
    if interrupts.first_told():
        if sys.stderr.isatty() and interrupts.is_echoed():
            say("", err=True)  # the terminal has shown ^C on this line
        _output(ctx).failure("interrupted", interrupts.message())
    ctx.exit(interrupts.EXIT_CODE)


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
    params=[
        lake_option(
            "uri",
            envvar="SINGERLAKE_LAKE",
            default="./lake",
            show_default=True,
            show_envvar=True,
            help="The lake: a folder, s3://bucket/prefix, gs://… or az://…",
        ),
        output_option(
            "form",
            default="table",
            show_default=True,
            help="Tables to read, or JSON for programs.",
        ),
    ],
)
@click.version_option(__version__, prog_name="singerlake")
@click.pass_context
def cli(ctx: click.Context, uri: str, form: str) -> None:
    """A lake of raw Singer messages that behaves like a set of versioned tables.

    \b
    See it work:       singerlake demo
    List its tables:   singerlake ls
    Freeze a version:  singerlake freeze tap-shop.orders --label 2026-q3
    Query it:          singerlake query "select * from tap_shop.orders.1 limit 10"
    """
    safe_text.remember_environment()
    if ctx.get_parameter_source("uri") is not ParameterSource.COMMANDLINE:
        uri = in_project(uri)
    ctx.obj = Shared(uri=uri, output=OUTPUTS[form]())


def _check_streams() -> None:
    """Refuse to start without standard streams: the next opened file would take their place.

    Output of Java or a library would then end up in a file of the lake.
    """
    if sys.stderr is None:  # python's word for one that is closed
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # stays open
    if sys.stdout is None:
        sys.stdout = sys.stderr
        say("error: standard output is closed: send it somewhere, if only to /dev/null", err=True)
        sys.exit(1)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line."""
    _check_streams()
    safe_text.guard_logs()
    logging.lastResort = live_line.LogHandler()
    interrupts.install()
    try:
        cli.main(
            args=list(args) if args is not None else None,
            prog_name="singerlake",
            color=False if os.environ.get("NO_COLOR") else None,
        )
    finally:
        interrupts.end_at_once()


if __name__ == "__main__":
    main()
