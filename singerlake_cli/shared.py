"""The settings of all commands, and the options that several share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import click

from singerlake.errors import SingerlakeError, UsageError
from singerlake.lake import Lake
from singerlake.nearest import bare
from singerlake.safe_text import visible
from singerlake_cli import interrupts
from singerlake_cli.output import OUTPUTS, ConsoleOutput, JsonOutput, Output, say
from singerlake_cli.working import follow

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Shared:
    """The settings of all commands.

    Attributes:
        output: The output for results, notes and errors.
    """

    uri: str
    output: Output = field(default_factory=ConsoleOutput)

    @property
    def json(self) -> bool:
        """Whether the output is for scripts."""
        return isinstance(self.output, JsonOutput)

    def lake(self) -> Lake:
        """Open the lake.

        Raises:
            NotFoundError: There is none.
        """
        return Lake.open(self.uri)


def confirm(question: str) -> None:
    """Ask whether to go on, if ``--yes`` was not given.

    Raises:
        UsageError: Standard input ended without an answer.
        click.Abort: The answer is no, or Ctrl-C.
    """
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise
        say("", err=True)  # the question is not at the end of a line
        raise UsageError("no answer on standard input: add --yes in scripts") from None


_SHARED = ("--lake", "--output")
_LAKE = "singerlake.lake"
"""What a context keeps a lake under that was named behind the command."""


def lake_option(name: str, **more: Any) -> click.Option:
    """Make ``--lake``, which may stand before the command and behind it."""
    return click.Option(["--lake", name], metavar="URI", **more)


def output_option(name: str, **more: Any) -> click.Option:
    """Make ``--output``, which may stand before the command and behind it."""
    return click.Option(["--output", name], type=click.Choice(list(OUTPUTS)), **more)


class SubcommandGroup(click.Group):
    """A command with subcommands, which takes shared options before them wherever they stand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse options behind the group's own arguments, too, where click expects a subcommand."""
        own = sum(isinstance(one, click.Argument) for one in self.params)
        shared: list[str] = []
        others: list[str] = []
        rest = list(args)
        while rest and (own or rest[0].startswith(_SHARED)):
            word = rest.pop(0)
            if word in _SHARED and rest:
                shared += [word, rest.pop(0)]
            elif word.startswith(tuple(f"{name}=" for name in _SHARED)):
                shared.append(word)
            else:
                others.append(word)
                own -= not word.startswith("-")
        return super().parse_args(ctx, [*shared, *others, *rest])


def take_shared_options(command: click.Command, *, lake: bool = True) -> None:
    """Let a command, and each command within it, take ``--lake`` and ``--output`` as well.

    Args:
        lake: Whether to take ``--lake``.
    """
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            take_shared_options(inner, lake=lake)
    if not any("--output" in option.opts for option in command.params):
        # By names that no command gives a parameter of its own.
        own: dict[str, Any] = {"expose_value": False}
        if lake:
            command.params.append(
                lake_option(
                    "_lake", help="The lake; also before the command.", callback=_take_lake, **own
                )
            )
        command.params.append(
            output_option(
                "_output",
                help="The output format; also before the command.",
                callback=_take_output,
                **own,
            )
        )


def _take_lake(ctx: click.Context, _: click.Parameter, uri: str | None) -> None:
    if uri is not None:
        ctx.meta[_LAKE] = uri
        _change(ctx, uri=uri)


def _take_output(ctx: click.Context, _: click.Parameter, form: str | None) -> None:
    if form is not None:
        _change(ctx, output=OUTPUTS[form]())


def _change(ctx: click.Context, **changes: Any) -> None:
    """Override a setting for this command, and for the group that prints its errors."""
    if ctx.obj is None:  # a shell asks for completions: nothing runs
        return
    changed = replace(ctx.obj, **changes)
    at: click.Context | None = ctx
    while at is not None:
        at.obj = changed
        at = at.parent


def lake_named(ctx: click.Context) -> str:
    """Return the lake that a command line names so far, for completion."""
    uri: str = ctx.meta.get(_LAKE) or ctx.find_root().params["uri"]
    return uri


def complete_table(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[str]:
    """Return the lake's tables that begin with the typed text, for completion."""
    try:
        tables = Lake.open(lake_named(ctx)).tables()
    except SingerlakeError:
        return []  # a shell has no place for errors
    # A name that cannot be typed, nor shown as it is, is of no use here.
    names = [text for name in tables if visible(text := str(name)) == text]
    if begun := [name for name in names if name.startswith(incomplete)]:
        return begun
    # A shell goes on with what was typed, so underscores in the place of dashes stay.
    typed = len(incomplete)
    return [
        incomplete + name[typed:]
        for name in names
        if bare(name[:typed]) == bare(incomplete)
        and name[:typed].count(".") == incomplete.count(".")
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


def engine_options(command: Command) -> Command:
    """Add ``--engine``, ``--master`` and ``--conf``; they come in as ``choice``.

    That is an :class:`~singerlake.engine.choice.EngineChoice`.
    """

    @functools.wraps(command)
    def packed(
        *args: Any, engine: str | None, master: str | None, conf: tuple[str, ...], **kwargs: Any
    ) -> Any:
        from singerlake.engine.choice import (  # late: few commands need it
            LOCAL,
            SPARK,
            EngineChoice,
        )

        if (master or conf) and engine == LOCAL:
            raise UsageError("--master and --conf need Spark: leave them out, or --engine local")
        name = SPARK if master or conf else engine
        choice = EngineChoice.of(name, start=SparkStart(master, conf))
        return command(*args, choice=choice, **kwargs)

    engine = click.option(
        "--engine",
        type=click.Choice(["auto", "local", "spark"]),
        help="What reads the rows: this process (local), Spark, or by size.  [default: auto]",
    )
    return cast("Command", engine(spark_options(packed)))


@dataclass(frozen=True)
class SparkStart:
    """The start of Spark by ``--master`` and ``--conf``, or the session that runs."""

    master: str | None
    conf: tuple[str, ...]

    def begin(self) -> None:
        """Start Java, and do not wait for it; see :func:`begin_spark`."""
        begin_spark(self.master, self.conf)

    def __call__(self) -> Any:
        """Start Spark; what a job needs of it is imported while Java starts."""
        self.begin()
        import singerlake.engine.spark.engine  # noqa: F401

        return start_spark(self.master, self.conf)


def begin_spark(master: str | None, conf: tuple[str, ...]) -> None:
    """Start Java for :func:`start_spark`, so that it starts while a job's module is imported.

    Raises:
        UsageError: A setting is not KEY=VALUE, or in a shell Spark runs with others.
        RuntimeMissingError: Spark is not installed.
    """
    need_spark()
    from singerlake.engine.spark.jvm import launch

    settings = _settings(conf)
    if interrupts.in_shell() and (master or settings) and launch.is_other(master, settings):
        raise UsageError(
            "Spark is already running in this shell, with the settings of the first command that "
            "needed it: leave out --master and --conf, or run this command first in a new shell"
        )
    interrupts.note_java()
    launch.ahead(master, settings)


def need_spark() -> None:
    """Make sure, before a job is imported, that its requirements are installed.

    Raises:
        RuntimeMissingError: It is not; the message says the line that installs it.
    """
    from singerlake import extras

    extras.require("pyspark", "this command")


def start_spark(master: str | None, conf: tuple[str, ...]) -> Any:
    """Start Spark, or find the session that runs.

    Raises:
        UsageError: A setting is not KEY=VALUE.
        RuntimeMissingError: There is no Java.
    """
    settings = _settings(conf)
    from singerlake.engine.spark.jvm.progress import Tally
    from singerlake.engine.spark.jvm.session import session

    interrupts.note_java()
    follow(lambda: ("starting Spark", 0, 0))
    with interrupts.kept():
        spark = session(master, settings)
    follow(Tally(spark))
    return spark


def _settings(conf: tuple[str, ...]) -> dict[str, str]:
    return pairs("--conf", conf)


def pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` of an option that may be repeated.

    Raises:
        UsageError: One is of another form.
    """
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise UsageError(f"{option} {text!r} is not KEY=VALUE")
        found[key] = value
    return found


def change_options(command: Command) -> Command:
    """Add the options of all commands that change a table; they come in as ``change``.

    That is a :class:`~singerlake.ops.change.plan.ChangeOptions`.
    """
    return _packed(command, [*_CHANGE_OPTIONS, *_VERSION_OPTIONS])


def creation_options(command: Command) -> Command:
    """Add those of :func:`change_options` that have a meaning for a table that is new."""
    return _packed(command, [*_SAID_OPTIONS, *_VERSION_OPTIONS])


def exit_with(shared: Shared, failed: Sequence[SingerlakeError]) -> None:
    """Report the tables that could not be listed, and exit with the code for it."""
    for failure in failed:
        shared.output.error(failure)
    if failed:
        click.get_current_context().exit(max(failure.exit_code for failure in failed))


def _packed(command: Command, options: Sequence[Callable[[Any], Any]]) -> Command:
    @functools.wraps(command)
    def packed(
        *args: Any,
        metadata: tuple[str, ...],
        comment: str | None,
        new_version: bool,
        label: str | None,
        dry_run: bool,
        if_transaction: int | None = None,
        **kwargs: Any,
    ) -> Any:
        from singerlake.ops.change.plan import ChangeOptions  # late: a few commands need it

        change = ChangeOptions(
            comment=comment,
            metadata=pairs("--metadata", metadata),
            if_transaction=if_transaction,
            new_version=new_version,
            label=label,
            dry_run=dry_run,
        )
        return command(*args, change=change, **kwargs)

    for option in reversed(options):
        packed = option(packed)
    return cast("Command", packed)


def alter_options(command: Command) -> Command:
    """Add those of :func:`change_options` that have a meaning if no row changes, as ``options``.

    That is a :class:`~singerlake.overlay.alter.AlterOptions`.
    """

    @functools.wraps(command)
    def packed(
        *args: Any,
        metadata: tuple[str, ...],
        comment: str | None,
        if_transaction: int | None,
        dry_run: bool,
        **kwargs: Any,
    ) -> Any:
        from singerlake.overlay.alter import AlterOptions  # late: a few commands need it

        more = pairs("--metadata", metadata)
        options = AlterOptions(
            comment=comment, metadata=more, if_transaction=if_transaction, dry_run=dry_run
        )
        return command(*args, options=options, **kwargs)

    for option in reversed(_CHANGE_OPTIONS):
        packed = option(packed)
    return cast("Command", packed)


_SAID_OPTIONS = (
    click.option("--dry-run", is_flag=True, help="Only print what would be done."),
    click.option("--comment", metavar="TEXT", help="The reason; kept with the transaction."),
    click.option(
        "--metadata",
        multiple=True,
        metavar="KEY=VALUE",
        help="Other metadata to keep with the transaction; may be repeated.",
    ),
)
_CHANGE_OPTIONS = (
    *_SAID_OPTIONS,
    click.option(
        "--if-transaction",
        type=click.IntRange(min=1),
        metavar="TRANSACTION",
        help="Change nothing unless the table is still at this transaction.",
    ),
)
_VERSION_OPTIONS = (
    click.option("--new-version", is_flag=True, help="Also freeze the result as a version."),
    click.option("--label", metavar="TEXT", help="A label for that version."),
)
