"""What all commands are told, and the options that several share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from singerlake.errors import SingerlakeError, UsageError
from singerlake.lake import Lake
from singerlake.safe_text import visible
from singerlake_cli.working import follow

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Shared:
    """What all commands are told.

    Attributes:
        uri: Where the lake lies.
        json: Whether to print JSON instead of tables.
    """

    uri: str
    json: bool

    def lake(self) -> Lake:
        """Open the lake.

        Raises:
            NotFoundError: There is none.
        """
        return Lake.open(self.uri)


def complete_table(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[str]:
    """The lake's tables that begin with what was typed, for a shell that asks."""
    try:
        tables = Lake.open(ctx.find_root().params["uri"]).tables()
    except SingerlakeError:
        return []  # a shell has no place for errors
    # What cannot be typed, nor shown as it is, is of no use here.
    return [
        text
        for name in tables
        if (text := str(name)).startswith(incomplete) and visible(text) == text
    ]


def spark_options(command: Command) -> Command:
    """Add ``--master`` and ``--conf`` to a command that runs on Spark."""
    master = click.option(
        "--master", metavar="URL", help="Spark's master.  [default: all cores of this machine]"
    )
    conf = click.option(
        "--conf", multiple=True, metavar="KEY=VALUE", help="A Spark setting; may be repeated."
    )
    return master(conf(command))


def begin_spark(master: str | None, conf: tuple[str, ...]) -> None:
    """Start Java for :func:`start_spark`, so that it starts while a job's module is imported.

    Raises:
        UsageError: A setting is not KEY=VALUE.
    """
    from singerlake.spark import launch

    launch.ahead(master, _settings(conf))


def start_spark(master: str | None, conf: tuple[str, ...]) -> Any:
    """Start Spark, or find the session that runs.

    Raises:
        UsageError: A setting is not KEY=VALUE.
        RuntimeMissingError: There is no Java.
    """
    settings = _settings(conf)
    from singerlake.spark.session import running_tasks, session

    spark = session(master, settings)
    follow(lambda: running_tasks(spark))
    return spark


def _settings(conf: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for text in conf:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise UsageError(f"--conf {text!r} is not KEY=VALUE")
        settings[key] = value
    return settings
