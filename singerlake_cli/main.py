"""The `singerlake` command: options that all commands share, and errors to exit codes."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from singerlake import __version__, safe_text
from singerlake.errors import SingerlakeError
from singerlake.storage import in_project
from singerlake_cli import output
from singerlake_cli.shared import Shared

COMMANDS = {
    "demo": "demo",
    "ls": "ls",
    "show": "show",
    "history": "history",
    "freeze": "freeze",
    "versions": "versions",
    "query": "query",
    "rows": "rows",
    "create-table": "create_table",
    "revert": "revert",
    "alter": "alter",
    "vacuum": "vacuum",
    "verify": "verify",
    "rebuild": "rebuild",
    "locks": "locks",
    "unlock": "unlock",
    "doctor": "doctor",
    "completion": "completion",
}
"""Commands in the order of ``--help``, and the module of ``singerlake_cli.commands`` of each."""

EXIT_CODES = """\b
Exit codes:
  0  done
  1  something unexpected, or the surroundings (disk, network, Java) failed
  2  usage: ask differently
  3  not found: no such lake, table, version
  4  conflict, or a lock that was not given up in time: run it again
  5  damaged or unreadable data
"""


class CommandGroup(click.Group):
    """Loads a command's module when it is asked for, and prints errors as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The commands, in the order a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """One command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"singerlake_cli.commands.{COMMANDS[cmd_name]}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and turn its errors into exit codes."""
        try:
            return super().invoke(ctx)
        except SingerlakeError as error:
            output.say_failure(error)
            ctx.exit(error.exit_code)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            # The reader had enough, as `head` has. What is still buffered has nowhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(128 + signal.SIGPIPE)
        except Exception as error:
            if os.environ.get("SINGERLAKE_DEBUG"):
                raise
            output.say_error(f"{type(error).__name__}: {error}", word="unexpected")
            click.echo("run it again with SINGERLAKE_DEBUG=1 for the whole story", err=True)
            ctx.exit(1)


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.option(
    "--lake",
    "uri",
    envvar="SINGERLAKE_LAKE",
    default="./lake",
    show_default=True,
    show_envvar=True,
    metavar="URI",
    help="Where the lake lies: a folder, or s3://bucket/prefix.",
)
@click.option(
    "--output",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Tables for people, or JSON for scripts.",
)
@click.version_option(__version__, prog_name="singerlake")
@click.pass_context
def cli(ctx: click.Context, uri: str, form: str) -> None:
    """A lake of raw Singer messages that behaves like a set of versioned tables.

    \b
    New here?          singerlake demo
    What is in it?     singerlake ls
    Keep this state:   singerlake freeze tap-shop.orders --label 2026-q3
    Ask it:            singerlake query "select * from tap_shop.orders.1 limit 10"
    """
    safe_text.remember_environment()
    if ctx.get_parameter_source("uri") is not ParameterSource.COMMANDLINE:
        uri = in_project(uri)
    ctx.obj = Shared(uri=uri, json=form == "json")


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line."""
    safe_text.guard_logs()
    cli.main(
        args=list(args) if args is not None else None,
        prog_name="singerlake",
        color=False if os.environ.get("NO_COLOR") else None,
    )


if __name__ == "__main__":
    main()
