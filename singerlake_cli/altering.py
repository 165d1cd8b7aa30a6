"""What the subcommands of ``alter`` have in common: their options, and how they end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from msgspec import structs

from singerlake.errors import UsageError
from singerlake.lake import Table
from singerlake.log.snapshot import Snapshot
from singerlake.ops.change import plan as changing
from singerlake.ops.change.plan import ChangeOptions
from singerlake.overlay.alter import (
    Altered,
    AlterOptions,
    AlterPlan,
    OverlayChange,
    alter,
    looks_at_rows,
)
from singerlake_cli import changes, output
from singerlake_cli.shared import (
    Shared,
    SparkStart,
    begin_spark,
    change_options,
    spark_options,
    start_spark,
)
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.format.log import FrozenVersion

TABLE = "singerlake.alter.table"
"""Where the group leaves the table's name for its subcommands."""
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Altering:
    """A table that is being altered.

    Attributes:
        shared: What all commands share.
        table: The table.
        head: As it is.
        options: How it is altered.
        cluster: Spark's master and settings.
        version: The version of it that was frozen with it.
    """

    shared: Shared
    table: Table
    head: Snapshot
    options: ChangeOptions
    cluster: tuple[str | None, tuple[str, ...]]
    version: FrozenVersion | None = None

    def spark(self) -> Any:
        """Start Spark, or find the session that runs."""
        return start_spark(*self.cluster)

    def done(self, change: OverlayChange, *, allow_misfits: bool = False) -> Altered:
        """Alter the table: on Spark, where only its rows can tell, or a version is asked for.

        Args:
            change: What is to be said.
            allow_misfits: Give a column its type even if values of it do not fit.
        """
        wanted = AlterPlan(self.head, change(self.head))
        if self.options.new_version:
            if allow_misfits:
                raise UsageError(
                    "a version has no values that do not fit: --allow-misfits and --new-version do "
                    "not go together"
                )
            return self._with_version(change, wanted)
        options = AlterOptions(
            self.options.comment,
            self.options.metadata,
            self.options.etag,
            self.options.dry_run,
            self.options.writing,
        )
        if not looks_at_rows(wanted, allow_misfits=allow_misfits):
            return alter(self.table.store, self.head, change, options)
        begin_spark(*self.cluster)
        from singerlake.ops import alter as job

        with working(f"altering {self.table.name}"):
            return job.alter(self.spark(), self.table, change, options, allow_misfits=allow_misfits)

    def show(self, change: OverlayChange) -> None:
        """Alter the table, and say so."""
        done, dry_run = self.done(change), self.options.dry_run
        self.shared.output.result(
            lambda: {
                "table": str(self.table.name),
                "changes": list(done.changes),
                "transaction": done.transaction,
                "rows": done.rows,
                **self.version_document(),
                "dry_run": dry_run,
            },
            lambda: self.say(_words(done, dry_run)),
        )

    def say(self, words: str) -> None:
        """Say what was done, and which version was frozen."""
        output.say(f"{self.table.name}: {words}")
        changes.print_version(self.version)

    def version_document(self) -> dict[str, Any]:
        """Return the version that was frozen, as a part of a document."""
        return {"version": None if self.version is None else structs.asdict(self.version)}

    def _with_version(self, change: OverlayChange, wanted: AlterPlan) -> Altered:
        """What is said and the version are one transaction, as of any change."""
        if self.options.dry_run and not looks_at_rows(wanted):
            return Altered(wanted.words)
        from singerlake.engine.choice import SPARK, EngineChoice
        from singerlake.ops.change.change import change as change_rows

        asked = SPARK if any(self.cluster) else None
        choice = EngineChoice.of(asked, start=SparkStart(*self.cluster))
        with working(f"altering {self.table.name}"):
            options = replace(self.options, said=change)
            made = change_rows(self.table, [], options, choice)
        self.version = made.version
        rows = made.version.rows if made.whole and made.version is not None else None
        return Altered(wanted.words, made.transaction, rows)


def alters(command: Command) -> Command:
    """Add the options of all commands that alter a table, which comes in as ``altering``."""

    @functools.wraps(command)
    def packed(
        *args: Any, change: ChangeOptions, master: str | None, conf: tuple[str, ...], **kwargs: Any
    ) -> Any:
        ctx = click.get_current_context()
        shared = ctx.find_object(Shared)
        if shared is None:  # pragma: no cover  # the main command makes it
            raise RuntimeError
        table, ref = shared.lake().find(ctx.meta[TABLE])
        if ref.version is not None:
            raise UsageError(f"{ref} is a past state: alter the table itself, {ref.table}")
        head = table.snapshot()
        changing.plan(head, change)
        altering = Altering(shared, table, head, change, (master, conf))
        return command(*args, altering=altering, **kwargs)

    return cast("Command", change_options(spark_options(packed)))


def _words(done: Altered, dry_run: bool) -> str:
    if not done.changes:
        return "it is so already: " + (
            "nothing was done" if done.transaction is None else "nothing was altered"
        )
    what = "; ".join(done.changes)
    if done.rows is not None:
        would = "would be" if dry_run else "were"
        what += f"; {output.count(done.rows, 'row')} {would} written again"
    if dry_run:
        return f"would be altered: {what}"
    return f"{what}, from transaction {done.transaction} on"
