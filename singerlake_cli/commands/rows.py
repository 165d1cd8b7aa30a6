"""singerlake rows: one row, as it is, as it was, and how it came to be so."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from singerlake.errors import NotFoundError, UsageError
from singerlake_cli import output, results
from singerlake_cli.shared import Shared, begin_spark, complete_table, spark_options, start_spark
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.spark.history import RowVersion


@click.command("rows")
@click.argument("table", shell_complete=complete_table)
@click.option(
    "--key",
    "keys",
    multiple=True,
    required=True,
    metavar="NAME=VALUE",
    help="The row's key; repeated for a compound key, and without NAME= where there is one.",
)
@click.option("--row-version", type=click.IntRange(min=1), help="As it was at this row version.")
@click.option("--history", is_flag=True, help="All versions of the row, oldest first.")
@spark_options
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    keys: tuple[str, ...],
    row_version: int | None,
    history: bool,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Show one row of a TABLE (a Spark job).

    A row version is the number of the block that holds it, as `query --provenance` shows it.

    \b
    singerlake rows tap-shop.orders --key 17
    singerlake rows tap-shop.orders --key 17 --history
    singerlake rows tap-shop.items --key order=17 --key line=2 --row-version 5
    """
    if history and row_version is not None:
        raise UsageError("say --history or --row-version, not both")
    found, ref = shared.lake().find(table)
    with found.lease() as lease, working("looking through the blocks"):
        snapshot = lease.snapshot
        if ref.version is not None:
            snapshot = snapshot.named(ref.version)[1]
        key = _key(keys, snapshot.schema.key_properties)
        begin_spark(master, conf)
        from singerlake.spark.history import row_history

        versions = row_history(start_spark(master, conf), found, snapshot, key)
    if not history:
        versions = [_as_of(versions, row_version, f"{ref} {' '.join(keys)}")]
    if shared.json:
        output.print_json([_plain(version) for version in versions])
        return
    columns = ["row version>", "transaction>", "time (UTC)", "operation"]
    values = list(versions[0].values)
    rows = [
        [v.row_version, v.transaction, output.clock(v.time), v.operation]
        + [results.text(v.values.get(name)) for name in values]
        for v in versions
    ]
    output.print_table(None, [*columns, *(f"{name}~" for name in values)], rows)
    for version in versions:
        for said in version.misfits.values():
            output.say(f"row version {version.row_version}: {said}; read as null", err=True)


def _key(given: tuple[str, ...], names: list[str]) -> dict[str, str]:
    if len(given) == 1 and len(names) == 1 and not given[0].startswith(f"{names[0]}="):
        return {names[0]: given[0]}
    key = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator:
            raise UsageError(f"--key {text!r} is not NAME=VALUE; the key is {', '.join(names)}")
        key[name] = value
    return key


def _as_of(versions: list[RowVersion], number: int | None, what: str) -> RowVersion:
    """The row at a row version; at the last where none is named."""
    before = [v for v in versions if number is None or v.row_version <= number]
    if not before:
        raise NotFoundError(
            f"{what} was not there at row version {number}: its first is {versions[0].row_version}"
        )
    if before[-1].operation in {"delete", "remove"}:
        raise NotFoundError(
            f"{what} is not there: transaction {before[-1].transaction} took it away; see --history"
        )
    return before[-1]


def _plain(version: RowVersion) -> dict[str, object]:
    return {**asdict(version), "values": results.plain(version.values)}
