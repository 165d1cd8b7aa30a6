"""singerlake freeze: give a table's state a number for ever."""

from __future__ import annotations

import click
from msgspec import structs

from singerlake.errors import UsageError
from singerlake_cli import output
from singerlake_cli.shared import Shared, begin_spark, complete_table, spark_options, start_spark
from singerlake_cli.working import working


@click.command("freeze")
@click.argument("table", shell_complete=complete_table)
@click.option("--label", metavar="TEXT", help="A name that can stand for the number.")
@click.option("--comment", metavar="TEXT", help="Why; kept with the version.")
@click.option(
    "--at",
    type=click.IntRange(min=1),
    metavar="TRANSACTION",
    help="An earlier transaction.  [default: the last]",
)
@spark_options
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    label: str | None,
    comment: str | None,
    at: int | None,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Freeze a new version of a TABLE (a Spark job).

    The version is a number that means this state for ever, with its row count and
    fingerprints of its content (--output json has them whole). Nothing renumbers, moves or
    deletes it.

    \b
    singerlake freeze tap-shop.orders
    singerlake freeze tap-shop.orders --label 2026-q3 --comment "as reported"
    singerlake freeze tap-shop.orders --at 17
    """
    found, ref = shared.lake().find(table)
    if ref.version is not None:
        raise UsageError(f"{ref} is frozen already; to freeze an earlier state use --at")
    found.snapshot().summary(at) if at is not None else None
    begin_spark(master, conf)
    from singerlake.spark.freeze import freeze

    with working(f"freezing {ref.table}"):
        version = freeze(start_spark(master, conf), found, at=at, label=label, comment=comment)
    if shared.json:
        output.print_json(structs.asdict(version))
        return
    name = f" ({version.label})" if version.label else ""
    output.say(
        f"{ref.table} version {version.number}{name}: {version.rows:,} rows, transaction "
        f"{version.transaction}, fingerprint {output.short_proof(version.fingerprint)}"
    )
