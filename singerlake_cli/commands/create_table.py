"""singerlake create-table: keep the answer to a query as a table."""

from __future__ import annotations

import click

from singerlake_cli import output
from singerlake_cli.shared import Shared, begin_spark, spark_options, start_spark
from singerlake_cli.working import working


@click.command("create-table")
@click.argument("table")
@click.option("--from-query", "sql", required=True, metavar="SQL", help="One SELECT.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="COLUMN",
    help="A column of the new table's key; may be repeated.  [default: no key]",
)
@spark_options
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    sql: str,
    keys: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Make a new TABLE of the rows of a query (a Spark job).

    The rows are kept as they are now, with the query and the transactions it read in the new
    table's history. A key's columns must be unique and without nulls.

    \b
    singerlake create-table views.big --from-query "select * from tap_shop.orders where total > 9"
    singerlake create-table views.q3 --key id --from-query "select * from tap_shop.orders.3"
    """
    lake = shared.lake()
    begin_spark(master, conf)
    from singerlake.spark.create import create

    with working(f"making {table}"):
        made = create(start_spark(master, conf), lake, table, sql, keys=keys)
    if shared.json:
        output.print_json(
            {
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
            }
        )
        return
    output.say(
        f"{made.table}: {made.rows:,} rows, transaction {made.transaction}, fingerprint "
        f"{output.short_proof(made.fingerprint)}"
    )
    if made.sources:
        output.say("; ".join(f"read {source}" for source in made.sources))
