"""singerlake delete: delete rows by their keys, or those that a condition selects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from singerlake.errors import UsageError
from singerlake.lake import Lake, Table
from singerlake.ops.change.plan import ChangeOptions, Mode, plan
from singerlake_cli import changes
from singerlake_cli.file_options import FileOptions, file_options
from singerlake_cli.shared import Shared, change_options, complete_table, engine_options
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.ops.change.job import Changed


@click.command("delete")
@click.argument("table", shell_complete=complete_table)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="ID",
    help="The _row_id of a row: its key; a JSON array of texts if the key has several columns; "
    "block:ordinal in a table without a key. May be repeated.",
)
@click.option("--where", metavar="SQL", help="Which rows.")
@click.option(
    "--from",
    "file",
    metavar="FILE",
    help="A file that names the rows, by their keys or by _row_id: CSV, TSV, JSON lines or "
    "Parquet; - is standard input.",
)
@file_options
@change_options
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    keys: tuple[str, ...],
    where: str | None,
    file: str | None,
    reading: FileOptions,
    change: ChangeOptions,
    choice: EngineChoice,
) -> None:
    """Delete rows of a TABLE.

    Writes each row's record again with _sdc_deleted_at, so that targets that resume from a bookmark
    delete it too. Earlier transactions and frozen versions keep the row until a vacuum expires
    history; to remove it everywhere, use `singerlake erase`. Keys that are not in the table are
    ignored.

    Of a file, only the key columns (or _row_id) and _row_version are used. Rows that have changed
    since they were read are not deleted (exit code 4).

    Tables of up to 32 MiB of messages need no Spark, except for complex conditions; --engine
    chooses otherwise.

    \b
    singerlake delete tap-shop.orders --key 17 --key 18
    singerlake delete tap-shop.items --key '["17","2"]' --dry-run
    singerlake delete tap-shop.orders --where "status = 'test'" --comment "test orders"
    singerlake delete tap-shop.orders --from gone.csv
    """
    _check_said(keys, where, file)
    if file is None and reading != FileOptions():
        raise UsageError("options for reading a file need --from: leave them out")
    lake = shared.lake()
    lake_table, ref = lake.find(table)
    if ref.version is not None:
        raise UsageError(f"{ref} is frozen and never changes: name the table alone")
    plan(lake_table.snapshot(), change)
    if file is not None:
        done = _by_file(shared, lake_table, file, reading, reading.of(change), choice)
    else:
        done = _by_ids_or_sql(lake, lake_table, keys, where, change, choice)
    shared.output.result(
        lambda: changes.as_json(ref.table, done, dry_run=change.dry_run),
        lambda: changes.print_done(ref.table, done, dry_run=change.dry_run),
    )


def _check_said(keys: tuple[str, ...], where: str | None, file: str | None) -> None:
    """Make sure that the command selects rows in one way only.

    Raises:
        UsageError: Nothing does, or several things do.
    """
    options = {"--key": bool(keys), "--where": where is not None, "--from": file is not None}
    said = [option for option, given in options.items() if given]
    if not said:
        raise UsageError("select rows with --key, --where or --from")
    if len(said) > 1:
        *others, last = said
        raise UsageError(
            f"{', '.join(others)} and {last} each select rows: use one of them; to combine keys "
            'with a condition, write both into --where, as in --where "id in (1, 2) and '
            "status = 'test'\""
        )


def _by_ids_or_sql(
    lake: Lake,
    table: Table,
    keys: tuple[str, ...],
    where: str | None,
    change: ChangeOptions,
    choice: EngineChoice,
) -> Changed:
    from singerlake.ops.change.change import ChangeStep
    from singerlake.ops.change.change import change as change_rows
    from singerlake.ops.change.row_set import RowIds
    from singerlake.ops.change.selected_rows import change_selected

    with working(f"deleting from {table.name}"):
        if keys:
            step = ChangeStep(Mode.DELETE, RowIds(keys), "--key")
            return change_rows(table, [step], change, choice)
        return change_selected(lake, table, Mode.DELETE, where, options=change, choice=choice)


def _by_file(
    shared: Shared,
    table: Table,
    file: str,
    reading: FileOptions,
    change: ChangeOptions,
    choice: EngineChoice,
) -> Changed:
    with reading.opened([file], shared.output) as files:
        dialect = reading.dialect_for(files, table, shared.output)
        from singerlake.ops.upload.upload import UploadOptions, upload

        options = UploadOptions(Mode.DELETE, change=change, dialect=dialect)
        with working(f"deleting from {table.name}"):
            return upload(shared.lake(), table, files, options, choice).changed
