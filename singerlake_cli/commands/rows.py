"""singerlake rows: one row, or its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from singerlake.errors import NotFoundError, UsageError
from singerlake_cli import output, results
from singerlake_cli.entries import readable_entries, run_id
from singerlake_cli.shared import Shared, complete_table, engine_options
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.ops.rows import RowVersion


@click.command("rows")
@click.argument("table", shell_complete=complete_table)
@click.option(
    "--key",
    "keys",
    multiple=True,
    required=True,
    metavar="NAME=VALUE",
    help="The row's key. Repeat it for a compound key; leave NAME= out if the key is one column.",
)
@click.option(
    "--row-version",
    type=click.IntRange(min=1),
    help="Show it as of this row version (the number of a block).",
)
@click.option("--history", is_flag=True, help="All versions of the row, oldest first.")
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    keys: tuple[str, ...],
    row_version: int | None,
    history: bool,
    choice: EngineChoice,
) -> None:
    """Show one row of a TABLE, or its history.

    A row version is the number of the block that contains it, as _row_version in `query
    --row-metadata`. It is not the transaction's number, which is shown next to it: a transaction
    can have many blocks.

    \b
    singerlake rows tap-shop.orders --key 17
    singerlake rows tap-shop.orders --key 17 --history
    singerlake rows tap-shop.items --key order=17 --key line=2 --row-version 5
    """
    if history and row_version is not None:
        raise UsageError("use --history or --row-version, not both")
    lake_table, ref = shared.lake().find(table)
    head = lake_table.snapshot()
    snapshot = head if ref.version is None else head.named(ref.version)[1]
    from singerlake.ops.rows import RowsOptions, plan, row_history

    options = RowsOptions(_key(keys, snapshot.schema.key_properties), ref.version)
    plan(snapshot, options)
    with working("searching the blocks"):
        versions = row_history(lake_table, options, choice, head=head)
    if not history:
        versions = [_as_of(versions, row_version, f"{ref} {' '.join(keys)}")]
    entries = readable_entries(lake_table, (version.transaction for version in versions))
    runs = {number: run_id(entry) for number, entry in entries.items()}
    shared.output.result(
        lambda: [_as_json(version, runs) for version in versions],
        lambda: print_versions(versions, runs),
    )
    for version in versions:
        for misfit in version.misfits.values():
            shared.output.warning(f"row version {version.row_version}: {misfit}; read as null")


def print_versions(versions: Sequence[RowVersion], runs: Mapping[int, str | None]) -> None:
    """Print versions of a row, oldest first; without the column of runs if none is known.

    Args:
        versions: At least one.
        runs: The id of the run that made a transaction, by its number.
    """
    any_run = any(runs.values())
    columns = ["row version>", "transaction>", "time (UTC)", "operation"]
    columns += ["run"] if any_run else []
    values = list(versions[0].values)
    rows = [
        [v.row_version, v.transaction, output.clock(v.time), v.operation]
        + ([runs.get(v.transaction)] if any_run else [])
        + [results.glanced_at(v.values.get(name)) for name in values]
        for v in versions
    ]
    note = (
        "row version: the number of the row's block, as in --row-version; not a transaction number"
    )
    output.print_table(None, [*columns, *(f"{name}~" for name in values)], rows, note)


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
    """Return the row at a row version; at the last if none is named."""
    before = [v for v in versions if number is None or v.row_version <= number]
    if not before:
        raise NotFoundError(
            f"{what} did not exist at row version {number}: its first is {versions[0].row_version}"
        )
    if before[-1].operation in {"delete", "remove"}:
        raise NotFoundError(
            f"{what} does not exist: transaction {before[-1].transaction} deleted it; see --history"
        )
    return before[-1]


def _as_json(version: RowVersion, runs: Mapping[int, str | None]) -> dict[str, object]:
    return {
        **asdict(version),
        "run_id": runs.get(version.transaction),
        "values": results.plain(version.values),
    }
