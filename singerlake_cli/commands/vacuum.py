"""singerlake vacuum: compact small files, expire old history, delete unneeded files."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from singerlake.errors import NotFoundError, SingerlakeError, UsageError
from singerlake.format.names import TableName
from singerlake.ops.vacuum.leftovers import plan_leftovers, remove_leftovers
from singerlake.ops.vacuum.plan import (
    COMBINE,
    DELETE,
    DROP_HISTORY,
    Vacuumed,
    VacuumOptions,
    VacuumPlan,
)
from singerlake_cli import output, vacuum_output
from singerlake_cli.lake_versions import tap_named
from singerlake_cli.shared import Shared, complete_table, engine_options
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.lake import Lake

_DURATION = re.compile(r"(\d{1,15}(?:\.\d+)?)\s*(s|m|min|h|d|w)?")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d+)?)\s*([kmgt]?i?b?)", re.IGNORECASE)
_POWERS = "kmgt"
_PARTS = {"compact": COMBINE, "expire": DROP_HISTORY, "delete": DELETE}
"""What ``--only`` may be. The log records two of them by the names of the first release."""


def duration(value: str) -> float:
    """Parse ``7d``, ``36h``, ``90min`` into seconds; a number without a unit is refused, but 0.

    Raises:
        click.BadParameter: It is none of these.
    """
    match = _DURATION.fullmatch(value.strip())
    if match is None or (match[2] is None and float(match[1])):
        raise click.BadParameter(
            f"{value!r} is not a valid duration: use a number and a unit, "
            "for example 7d, 36h or 90min"
        )
    return float(match[1]) * _SECONDS[match[2] or "s"]


def size(value: str) -> int:
    """Parse ``128MiB``, ``1GB``, ``4096`` into bytes.

    Raises:
        click.BadParameter: It is none of these.
    """
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise click.BadParameter(
            f"{value!r} is not a valid size: use a number and a unit, for example 128MiB"
        )
    unit = match[2].lower().removesuffix("b")
    step = 1024 if unit.endswith("i") else 1000
    power = _POWERS.index(unit[0]) + 1 if unit[:1] in tuple(_POWERS) else 0
    return int(float(match[1]) * step**power)


@click.command("vacuum")
@click.argument("tables", nargs=-1, metavar="[TABLE|TAP]...", shell_complete=complete_table)
@click.option("--all", "every", is_flag=True, help="All tables of the lake.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done, what stays, and why.")
@click.option(
    "--retain",
    type=duration,
    metavar="DURATION",
    default="7d",
    show_default=True,
    help="Keep files that were needed or created within this time.",
)
@click.option(
    "--target-file-bytes",
    type=size,
    metavar="SIZE",
    default="128MiB",
    show_default=True,
    help="Compact small files into files of up to this size.",
)
@click.option(
    "--expire-history",
    is_flag=True,
    help="Also delete row versions that a later one has replaced, if no frozen version and no "
    "snapshot within the retention needs them.",
)
@click.option(
    "--only",
    type=click.Choice([*_PARTS]),
    multiple=True,
    help="Run only this step; may be repeated.",
)
@click.option(
    "--full/--lite",
    default=True,
    show_default=True,
    help="Search the store for orphan files, or delete only files that the log lists as replaced.",
)
@click.option(
    "--no-retention-guard",
    is_flag=True,
    help="Allow a retention below 24 h. Only safe if there are no readers.",
)
@click.option(
    "--wait",
    type=duration,
    metavar="DURATION",
    default="2min",
    show_default=True,
    help="How long to wait for readers that may need files that are about to be deleted.",
)
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    tables: tuple[str, ...],
    every: bool,
    dry_run: bool,
    retain: float,
    target_file_bytes: int,
    expire_history: bool,
    only: tuple[str, ...],
    full: bool,
    no_retention_guard: bool,
    wait: float,
    choice: EngineChoice,
) -> None:
    """Compact small files, delete what TABLES no longer need.

    Run it regularly, for example every night. It is safe next to syncs and readers: it never
    deletes what a frozen version, a running reader or a running sync needs, nor files younger than
    --retain. If it is killed, the next run continues. Rows and versions do not change; only
    --expire-history gives up earlier snapshots. Spark starts only to compact more than 256 MiB, or
    to expire the history of a large table.

    \b
    singerlake vacuum --all
    singerlake vacuum tap-shop
    singerlake vacuum tap-shop.orders --dry-run
    singerlake vacuum tap-shop.orders --expire-history --retain 30d
    singerlake --output json vacuum --all
    """
    if every == bool(tables):
        raise UsageError("name the tables to vacuum, or use --all")
    parts = tuple(_PARTS[one] for one in only)
    parts = parts or (COMBINE, *([DROP_HISTORY] if expire_history else []), DELETE)
    if expire_history and DROP_HISTORY not in parts:
        raise UsageError("--only excludes --expire-history: add --only expire")
    options = VacuumOptions(
        retain_seconds=retain,
        target_file_bytes=target_file_bytes,
        parts=parts,
        full=full,
        guard=not no_retention_guard,
        lease_wait_seconds=wait,
    )
    options.check()
    lake = shared.lake()
    named = _named(lake, tables)
    listed = _listed(lake, tables, every=every)
    several = every or len({*named}) > 1 or any("." not in text for text in tables)
    run = _Run(shared, lake, options, dry_run, choice, several=several)
    run.tables(list(dict.fromkeys([*named, *listed])), named)
    run.leftovers()
    run.end()


def _named(lake: Lake, texts: tuple[str, ...]) -> list[TableName]:
    """Return the tables that are named one by one."""
    named = []
    for text in texts:
        if "." not in text:
            continue
        _, ref = lake.find(text)
        if ref.version is not None:
            raise UsageError(f"a vacuum needs a whole table: name {ref.table}")
        named.append(ref.table)
    return named


def _listed(lake: Lake, texts: tuple[str, ...], *, every: bool) -> list[TableName]:
    """Return the tables of the lake, or of the taps that are named."""
    if every:
        return lake.tables()
    taps = [tap_named(lake, text) for text in texts if "." not in text]
    return [table for tap in taps for table in lake.tables(tap)]


class _Run:
    """A run from table to table, past those that fail."""

    def __init__(
        self,
        shared: Shared,
        lake: Lake,
        options: VacuumOptions,
        dry_run: bool,
        choice: EngineChoice,
        *,
        several: bool,
    ) -> None:
        self._output = shared.output
        self._several = several
        self._lake = lake
        self._options = options
        self._dry_run = dry_run
        self._choice = choice
        self._codes = [0]
        self._total = vacuum_output.Total(dry_run)

    def tables(self, chosen: list[TableName], named: list[TableName]) -> None:
        """Vacuum tables, or show their plans.

        Args:
            named: The tables that the command line names, which must exist.
        """
        from singerlake.ops.vacuum.vacuum import vacuum_tables

        for name, done in vacuum_tables(
            self._lake,
            chosen,
            self._options,
            self._choice,
            dry_run=self._dry_run,
            shown=lambda name: working(f"vacuuming {name}"),
        ):
            if isinstance(done, NotFoundError):
                if name in named:
                    raise done
                continue  # a folder in which nothing was committed: no table, as for `ls`
            if isinstance(done, SingerlakeError):
                self._codes.append(done.exit_code)
                self._total.failed.append(str(name))
                self._output.error(done, name)
            elif isinstance(done, VacuumPlan):
                self._show(done)
            else:
                self._say(done)

    def _show(self, plan: VacuumPlan) -> None:
        self._total.add_plan(plan)
        self._output.item(
            lambda: vacuum_output.plan_as_json(plan), lambda: vacuum_output.print_plan(plan)
        )

    def _say(self, done: Vacuumed) -> None:
        self._total.add(done)
        self._output.item(
            lambda: {**asdict(done), "table": str(done.table)},
            lambda: output.say(vacuum_output.summary(done)),
        )

    def leftovers(self) -> None:
        """Vacuum, once, the objects that belong to no table."""
        if not self._options.full or DELETE not in self._options.parts:
            return
        plan = plan_leftovers(self._lake.store, self._options)
        items = plan.items if self._dry_run else remove_leftovers(self._lake.store, plan)
        self._total.add_items(items)
        self._output.item(
            lambda: {
                "staging": [asdict(item) for item in items],
                "kept": [asdict(item) for item in plan.kept],
            },
            lambda: vacuum_output.print_leftovers(items, dry_run=self._dry_run),
        )

    def end(self) -> None:
        """Print the last line, and exit with the highest code."""
        if self._several:
            total = self._total
            self._output.item(total.as_json, lambda: output.say(total.as_text()))
        self._output.end()
        click.get_current_context().exit(max(self._codes))
