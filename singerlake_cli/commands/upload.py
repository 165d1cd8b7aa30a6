"""singerlake upload: the rows of files, into a table that is there or into a new one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from singerlake.errors import InvalidNameError, NotFoundError, UsageError
from singerlake.format.names import TableName
from singerlake.format.type_list import declared_type, parse_names, parse_types
from singerlake.format.types import type_of
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.ops.change.plan import ChangeOptions, Mode, check_words, plan
from singerlake.ops.create import create as plans
from singerlake_cli import changes, folder_upload, output
from singerlake_cli.file_options import FileOptions, file_options
from singerlake_cli.new_table_notes import note_dropped, note_new_lake
from singerlake_cli.shared import Shared, change_options, complete_table, engine_options
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.ops.upload.new_table import NewTable
    from singerlake.ops.upload.upload import Uploaded


@click.command("upload")
@click.argument("table", shell_complete=complete_table)
@click.argument("files", nargs=-1, required=True, metavar="FILE…|-|FOLDER")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    help="How the rows are written.  [default: upsert; for a folder, replace]",
)
@click.option("--key", "keys", metavar="A,B,…", help="A new table's key.  [default: no key]")
@click.option(
    "--types",
    metavar="COLUMN:TYPE,…",
    help="Types of a new table's columns, instead of those found in the files: integer, number, "
    "decimal(12,2), string, boolean, date, timestamp or json.",
)
@file_options
@change_options
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    files: tuple[str, ...],
    mode: str | None,
    keys: str | None,
    types: str | None,
    reading: FileOptions,
    change: ChangeOptions,
    choice: EngineChoice,
) -> None:
    """Upload FILES of rows, or a FOLDER, into a TABLE.

    Reads CSV, TSV, JSON lines and Parquet, also compressed (.gz, .zst), and standard input (-). An
    upload is one transaction or nothing: if a row has a problem, its line is listed, and nothing
    changes. Unchanged rows are not written.

    Rows are matched by key: existing rows are updated, and new ones inserted (--mode upsert).
    insert refuses existing keys, update unknown ones; replace also deletes rows that the files
    lack; delete deletes the rows with the files' keys. A true value in a column _delete deletes its
    row. In a table without a key, rows are matched by _row_id of query --row-metadata, and inserted
    without one. In CSV, an empty cell is null, and "" an empty text.

    Columns that a file lacks do not change. If a file has the columns of query --row-metadata, and
    a row has changed since it was read, nothing is changed (exit code 4), unless you add
    --overwrite.

    A FOLDER, or a pattern in quotes for files below one, becomes a table with one row per file,
    keyed by its path, with the content stored in the lake. Another upload writes only the
    differences; see docs/guides/attach-files.md.

    If the TABLE does not exist, it is created, and so is the lake. Column types are inferred from
    all rows, and shown first: check them with --dry-run, and correct them with --types.

    Up to 32 MiB of messages and files need no Spark; --engine chooses otherwise.

    \b
    singerlake upload tap-shop.orders corrections.csv --comment "as the shop called"
    singerlake upload views.prices prices.csv.gz --key sku --types "price:decimal(12,2)"
    zcat events.jsonl.gz | singerlake upload views.events - --format jsonl
    singerlake upload archive.photos photos/
    """
    change = reading.of(change)
    lake = Lake.open(shared.uri, create=True)
    folder = folder_upload.folder_of(lake, files)
    if folder is not None:
        target = _target(lake, table, Mode.UPSERT)
        folder_upload.check(target, mode, {"key": keys, "types": types}, reading)
        into, show = _ready(shared, lake, target, change), partial(_show, shared)
        folder_upload.upload(shared, lake, into, folder, mode, change, choice, show)
        return
    target = _target(lake, table, Mode(mode or Mode.UPSERT))
    key_names = parse_names(keys) if keys is not None else []
    said = parse_types(types) if types is not None else {}
    with reading.opened(files, shared.output) as opened:
        if isinstance(target, Table):
            _check_there(target, key_names, types, change)
            dialect = reading.dialect_for(opened, target, shared.output)
        else:
            _ready(shared, lake, target, change)
            dialect = reading.dialect_for(opened, None, shared.output)
        from singerlake.ops.upload.upload import UploadOptions, upload

        options = UploadOptions(Mode(mode or Mode.UPSERT), key_names, said, change, dialect)
        name = target.name if isinstance(target, Table) else target.table
        with working(f"uploading into {name}"):
            into = target if isinstance(target, Table) else name
            done = upload(lake, into, opened, options, choice, partial(_show, shared))
        described = [file.described() for file in opened] if shared.json else []
    shared.output.result(
        lambda: _as_json(done, described, dry_run=change.dry_run),
        lambda: changes.print_done(done.table, done.changed, dry_run=change.dry_run),
    )


def _target(lake: Lake, text: str, mode: Mode) -> Table | TableState:
    """Return the table, or the state that a new one continues.

    Raises:
        NotFoundError: There is none, and the mode needs its rows.
        UsageError: It is a past state, or the name cannot be a new table's.
    """
    try:
        table, ref = lake.find(text)
        table.snapshot()  # where a table was not made after all, its folder may be left
    except InvalidNameError:
        raise
    except NotFoundError:
        if mode in (Mode.UPDATE, Mode.DELETE, Mode.REPLACE):
            raise
        return plans.check_new(lake.store, plans.new_name(text))
    if ref.version is not None:
        raise UsageError(f"{ref} is a past snapshot: upload into the table itself, {ref.table}")
    return table


def _check_there(
    table: Table, keys: Sequence[str], types: str | None, change: ChangeOptions
) -> None:
    """Refuse options that are only for a new table, and what the table's log forbids."""
    head = table.snapshot()
    if keys and list(keys) != head.schema.key_properties:
        has = ", ".join(head.schema.key_properties) or "none"
        raise UsageError(
            f"--key needs a new table, and {table.name} is there (its key: {has}): leave it out"
        )
    if types is not None:
        raise UsageError(
            f"--types needs a new table, and {table.name} exists: its schema determines the types"
        )
    plan(head, change)


def _ready(
    shared: Shared, lake: Lake, target: Table | TableState, change: ChangeOptions
) -> Table | TableName:
    """Check the options for a table, and print notes before one is made."""
    if isinstance(target, Table):
        plan(target.snapshot(), change)
        return target
    _check_new(change)
    note_dropped(shared, target)
    if not change.dry_run:
        note_new_lake(shared, lake)
    return target.table


def _check_new(change: ChangeOptions) -> None:
    if change.if_transaction is not None:
        raise UsageError(
            "--if-transaction needs an existing table, and this one is new: leave it out"
        )
    check_words(change)


def _show(shared: Shared, new: NewTable) -> None:
    if shared.json:
        return  # the document has it
    properties = new.entry.schema["properties"]
    columns: dict[str, list[str | None]] = {
        "column": [name for name, _ in new.columns],
        "type~": [declared_type(properties[name], type_) for name, type_ in new.columns],
        "key": ["key" if name in new.entry.key_properties else "" for name, _ in new.columns],
        "nulls>": [_nulls(new, name) for name, _ in new.columns],
        "note": ["as --types specifies" if name in new.said else "" for name, _ in new.columns],
    }
    told = {heading: cells for heading, cells in columns.items() if any(cells)}
    output.print_table(
        f"{new.table}, a new table",
        list(told),
        list(zip(*told.values(), strict=True)),
        drop=["note", "nulls"],
    )
    for column, why in _texts(new).items():
        shared.output.note(f"{column} is a string: {why}")


def _texts(new: NewTable) -> dict[str, str]:
    """Return why columns of numbers are strings, unless they were declared so."""
    return {name: why for name, why in new.inferred.texts.items() if name not in new.said}


def _nulls(new: NewTable, name: str) -> str | None:
    nulls = new.nulls(name)
    return None if nulls is None else f"{nulls:,}"


def _as_json(done: Uploaded, files: Sequence[dict[str, Any]], *, dry_run: bool) -> dict[str, Any]:
    document = {
        **changes.as_json(done.table, done.changed, dry_run=dry_run),
        "mode": str(done.mode),
        "created": done.made is not None and not dry_run,
        "files": files,
    }
    if done.made is not None:
        properties = done.made.entry.schema["properties"]
        document["key_properties"] = done.made.entry.key_properties
        document["columns"] = [
            {"name": name, "type": str(type_of(spec)), "schema": spec}
            | ({"note": why} if (why := _texts(done.made).get(name)) else {})
            for name, spec in properties.items()
        ]
    return document
