"""The common parts of the subcommands of ``alter``: their options, and their output."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from msgspec import structs

from singerlake.errors import UsageError
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops.alter.alter import alter
from singerlake.ops.change import plan as changing
from singerlake.ops.change.plan import ChangeOptions
from singerlake.overlay.alter import Altered, AlterOptions, OverlayChange
from singerlake_cli import changes, output
from singerlake_cli.shared import Shared, change_options, engine_options
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice

TABLE = "singerlake.alter.table"
"""Where the group leaves the table's name for its subcommands."""
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Altering:
    """A table that is being altered."""

    shared: Shared
    table: Table
    head: TableState
    options: AlterOptions
    choice: EngineChoice

    def done(self, change: OverlayChange) -> Altered:
        """Alter the table."""
        with working(f"altering {self.table.name}"):
            return alter(self.table, change, self.options, self.choice, head=self.head)

    def show(self, change: OverlayChange) -> None:
        """Alter the table, and report it."""
        done, dry_run = self.done(change), self.options.dry_run
        self.shared.output.result(
            lambda: {
                "table": str(self.table.name),
                "changes": list(done.changes),
                "transaction": done.transaction,
                "rows": done.rows,
                **version_document(done),
                "dry_run": dry_run,
            },
            lambda: self.say(_words(done, dry_run), done),
        )

    def say(self, words: str, done: Altered) -> None:
        """Report the change, and the version that was frozen."""
        output.say(f"{self.table.name}: {words}")
        changes.print_version(done.version)


def version_document(done: Altered) -> dict[str, Any]:
    """Return the version that was frozen, as a part of a document."""
    return {"version": None if done.version is None else structs.asdict(done.version)}


def alters(command: Command) -> Command:
    """Add the options of all commands that alter a table, which comes in as ``altering``."""

    @functools.wraps(command)
    def packed(*args: Any, change: ChangeOptions, choice: EngineChoice, **kwargs: Any) -> Any:
        ctx = click.get_current_context()
        shared = ctx.find_object(Shared)
        if shared is None:  # pragma: no cover  # the main command makes it
            raise RuntimeError
        table, ref = shared.lake().find(ctx.meta[TABLE])
        if ref.version is not None:
            raise UsageError(f"{ref} is a past snapshot: alter the table itself, {ref.table}")
        head = table.snapshot()
        changing.plan(head, change)
        options = AlterOptions(
            comment=change.comment,
            metadata=change.metadata,
            if_transaction=change.if_transaction,
            dry_run=change.dry_run,
            new_version=change.new_version,
            label=change.label,
        )
        altering = Altering(shared, table, head, options, choice)
        return command(*args, altering=altering, **kwargs)

    return cast("Command", change_options(engine_options(packed)))


def _words(done: Altered, dry_run: bool) -> str:
    if not done.changes:
        return "already in effect: " + (
            "nothing was done" if done.transaction is None else "nothing was altered"
        )
    what = "; ".join(done.changes)
    if done.rows is not None:
        would = "would be" if dry_run else "were"
        what += f"; {output.count(done.rows, 'row')} {would} written again"
    if dry_run:
        return f"would be altered: {what}"
    return f"{what}, from transaction {done.transaction} on"
