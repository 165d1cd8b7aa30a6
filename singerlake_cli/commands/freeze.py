"""singerlake freeze: give a table's state a number for ever."""

from __future__ import annotations

import click
from msgspec import structs

from singerlake.errors import UsageError
from singerlake.maintenance.freeze import plan
from singerlake_cli import output
from singerlake_cli.shared import Shared, begin_spark, complete_table, spark_options, start_spark
from singerlake_cli.working import working


@click.command("freeze")
@click.argument("table", shell_complete=complete_table)
@click.option("--label", metavar="TEXT", help="A name that can be used instead of the number.")
@click.option("--comment", metavar="TEXT", help="Why; kept with the version.")
@click.option(
    "--at",
    type=click.IntRange(min=1),
    metavar="TRANSACTION",
    help="An earlier transaction.  [default: the last]",
)
@click.option(
    "--allow-violations", is_flag=True, help="Even if rows break a constraint; the version says so."
)
@spark_options
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    label: str | None,
    comment: str | None,
    at: int | None,
    allow_violations: bool,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Freeze a TABLE's state as a new version (on Spark).

    The version is a number that means this state for ever. Its row count and fingerprints of
    its content are kept with it (--output json shows them in full). Nothing ever renumbers,
    moves or deletes a version.

    \b
    singerlake freeze tap-shop.orders
    singerlake freeze tap-shop.orders --label 2026-q3 --comment "as reported"
    singerlake freeze tap-shop.orders --at 17
    """
    lake_table, ref = shared.lake().find(table)
    if ref.version is not None:
        raise UsageError(f"{ref} is frozen already; to freeze an earlier state use --at")
    if at is not None or label is not None:  # else there is nothing that Java must not start for
        plan(lake_table.snapshot(), at=at, label=label)
    begin_spark(master, conf)
    from singerlake.spark.jobs.freeze import freeze

    with working(f"freezing {ref.table}"):
        version = freeze(
            start_spark(master, conf),
            lake_table,
            at=at,
            label=label,
            comment=comment,
            allow_violations=allow_violations,
        )
    name = f" ({version.label})" if version.label else ""
    shared.output.result(
        lambda: structs.asdict(version),
        lambda: output.say(
            f"{ref.table} version {version.number}{name}: {output.count(version.rows, 'row')}, "
            f"transaction {version.transaction}, "
            f"fingerprint {output.short_proof(version.fingerprint)}"
            + (f"; it breaks {', '.join(version.violations)}" if version.violations else "")
        ),
    )
