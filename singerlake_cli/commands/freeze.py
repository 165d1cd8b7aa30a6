"""singerlake freeze: give a table's state a number for ever."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import structs

from singerlake.errors import UsageError
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.maintenance.freeze import plan
from singerlake.projections.projection import Projection
from singerlake.projections.publishing import PublishOptions
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
@click.option(
    "--publish",
    is_flag=True,
    help="Then publish it, by the projections that publish versions of this table.",
)
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --publish: where they are declared.  [default: projections.yml]",
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
    publish: bool,
    file: Path | None,
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
    singerlake freeze tap-shop.orders --publish
    """
    lake = shared.lake()
    lake_table, ref = lake.find(table)
    if ref.version is not None:
        raise UsageError(f"{ref} is frozen already; to freeze an earlier state use --at")
    plan(lake_table.snapshot(), at=at, label=label)
    if file is not None and not publish:
        raise UsageError("--file is for --publish")
    projections = _publishing(lake, lake_table, file) if publish else []
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
    if not publish:
        shared.output.result(lambda: structs.asdict(version), lambda: _print(ref.table, version))
        return
    from singerlake_cli.publishing import as_json, end, outcomes, say

    done = list(outcomes(lake, projections, PublishOptions(), master, conf))

    def print_both() -> None:
        _print(ref.table, version)
        for outcome in done:
            say(outcome)

    published = [as_json(outcome) for outcome in done]
    shared.output.result(lambda: {**structs.asdict(version), "published": published}, print_both)
    end(shared, done)


def _print(table: TableName, version: FrozenVersion) -> None:
    name = f" ({version.label})" if version.label else ""
    output.say(
        f"{table} version {version.number}{name}: {output.count(version.rows, 'row')}, "
        f"transaction {version.transaction}, "
        f"fingerprint {output.short_proof(version.fingerprint)}"
        + (f"; it breaks {', '.join(version.violations)}" if version.violations else "")
    )


def _publishing(lake: Lake, table: Table, file: Path | None) -> list[Projection]:
    """The projections that publish a table's versions.

    Raises:
        UsageError: There is none.
        NotFoundError: None are declared at all.
    """
    from singerlake.projections.declaration import declared
    from singerlake.projections.versions import versioned_table

    found = [
        one
        for one in declared(file)
        if one.versions and one.target and versioned_table(lake, one).name == table.name
    ]
    if not found:
        raise UsageError(
            f"no projection publishes versions of {table.name}: say versions: true in one"
        )
    return found
