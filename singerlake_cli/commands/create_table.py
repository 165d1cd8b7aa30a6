"""singerlake create-table: keep the answer to a query as a table, or begin an empty one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from singerlake.errors import UsageError
from singerlake.format.column_list import parse_columns, schema_of_columns
from singerlake.format.log import SchemaEntry
from singerlake.format.type_list import declared_type
from singerlake.lake import Lake
from singerlake.ops.change.plan import ChangeOptions, check_words
from singerlake.ops.create.create import Created
from singerlake.ops.create.table import CreateOptions, create, plan
from singerlake_cli import changes, output
from singerlake_cli.new_table_notes import note_dropped, note_new_lake
from singerlake_cli.shared import Shared, creation_options, engine_options
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice


@click.command("create-table")
@click.argument("table")
@click.option("--from-query", "sql", metavar="SQL", help="The query: one SELECT.")
@click.option(
    "--columns",
    "listed",
    metavar="LIST",
    help="The columns of an empty table: name, type, and not null, default or comment.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="COLUMN",
    help="A column of the new table's key; may be repeated.  [default: no key]",
)
@creation_options
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    sql: str | None,
    listed: str | None,
    keys: tuple[str, ...],
    change: ChangeOptions,
    choice: EngineChoice,
) -> None:
    """Create a TABLE from a query's rows, or empty.

    From a query, the table contains the current result; later changes of the sources do not affect
    it. Its history records the query and the transactions that it read. A key must be unique and
    not null. Simple SQL over small tables needs no Spark; --engine chooses otherwise.

    With --columns, the table is empty, and no Java starts. Types are integer, number,
    decimal(12,2), string, boolean, date, timestamp, json, list<string> and struct<a integer, b
    string>. decimal(12,2) allows 12 digits, 2 of them after the point (SQL reads it as
    decimal(38,2), like every decimal). A type can be followed by "not null", "default 0" and
    "comment 'text'".

    \b
    singerlake create-table views.big --from-query "select * from tap_shop.orders where total > 9"
    singerlake create-table views.q3 --key id --from-query "select * from tap_shop.orders.3"
    singerlake create-table shop.orders --key id \\
        --columns "id integer, name string not null, total decimal(12,2) default 0"
    """
    check_words(change)
    if listed is not None and sql is None:
        _create_empty(shared, table, listed, keys, change)
        return
    if sql is None or listed is not None:
        raise UsageError("use either --from-query or --columns")
    lake = shared.lake()
    before = plan(lake, table)
    note_dropped(shared, before)
    with working(f"making {table}"):
        made = create(lake, table, CreateOptions(sql, keys, None, change), choice, planned=before)
    shared.output.result(
        lambda: _as_json(made, dry_run=change.dry_run), lambda: _print(made, dry_run=change.dry_run)
    )


def _create_empty(
    shared: Shared,
    table: str,
    listed: str,
    keys: tuple[str, ...],
    change: ChangeOptions,
) -> None:
    schema = schema_of_columns(parse_columns(listed), list(keys))
    lake = Lake.open(shared.uri, create=True)
    before = plan(lake, table)
    note_dropped(shared, before)
    if not change.dry_run:
        note_new_lake(shared, lake)
    made = create(lake, table, CreateOptions(schema=schema, change=change), planned=before)
    shared.output.result(
        lambda: {
            "table": str(made.table),
            "transaction": made.transaction,
            "rows": 0,
            "columns": [{"name": n, "type": str(type_)} for n, type_ in made.columns],
            "schema": schema.schema,
            "schema_hash": made.schema_hash,
            "key_properties": made.key_properties,
            "dry_run": change.dry_run,
        },
        lambda: _print_empty(made, schema),
    )


def _print_empty(made: Created, schema: SchemaEntry) -> None:
    properties = schema.schema["properties"]
    output.say(
        f"{made.table}: would be created with these columns"
        if made.transaction is None
        else f"{made.table}: no rows yet, transaction {made.transaction}"
    )
    rows = [
        (
            column,
            declared_type(spec, type_),
            "key" if column in schema.key_properties else "",
            "not null" if column in schema.schema.get("required", ()) else "",
            json.dumps(spec["default"], ensure_ascii=False) if "default" in spec else None,
            spec.get("description"),
        )
        for (column, type_), spec in zip(made.columns, properties.values(), strict=True)
    ]
    output.print_table(None, ("column", "type~", "key", "null", "default~", "comment~"), rows)


def _as_json(made: Created, *, dry_run: bool) -> dict[str, Any]:
    return {
        "table": str(made.table),
        "transaction": made.transaction,
        "rows": made.rows,
        "blocks": made.blocks,
        "fingerprint": made.fingerprint,
        "schema_hash": made.schema_hash,
        "key_properties": made.key_properties,
        "sources": [
            {"table": str(s.table), "version": s.version, "transaction": s.transaction}
            for s in made.sources
        ],
        "columns": [{"name": n, "type": str(type_)} for n, type_ in made.columns],
        "version": None if made.version is None else structs.asdict(made.version),
        "dry_run": dry_run,
    }


def _print(made: Created, *, dry_run: bool) -> None:
    rows, proof = output.count(made.rows, "row"), output.short_proof(made.fingerprint)
    if dry_run:
        output.say(f"{made.table}: would be created with {rows}, fingerprint {proof}")
        shown = [
            (name, str(type_), "key" if name in made.key_properties else "")
            for name, type_ in made.columns
        ]
        output.print_table(None, ("column", "type~", "key"), shown)
    else:
        output.say(f"{made.table}: {rows}, transaction {made.transaction}, fingerprint {proof}")
        changes.print_version(made.version)
    if made.sources:
        output.say("; ".join(f"read {source}" for source in made.sources))
