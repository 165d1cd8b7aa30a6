"""singerlake query: SQL over heads and versions."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import click

from singerlake_cli import output, results
from singerlake_cli.shared import Shared, spark_options, start_spark

if TYPE_CHECKING:
    from singerlake.spark.answer import Answer


@click.command("query")
@click.argument("sql")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "tsv", "jsonl"]),
    default="table",
    show_default=True,
    help="How rows are printed; all but table are streamed, whatever their number.",
)
@click.option("--to", type=click.File("w", encoding="utf-8"), help="A file to write to.")
@spark_options
@click.pass_obj
def command(
    shared: Shared,
    sql: str,
    form: str,
    to: IO[str] | None,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Ask the lake in SQL (a Spark job).

    A table is written tap.stream, a version of it tap.stream.2; dashes as underscores or in
    backticks. SELECT only. The answer says which transaction of each table was read.

    \b
    singerlake query "select * from tap_shop.orders where total > 100"
    singerlake query "select count(*) from tap_shop.orders.1"
    singerlake query "select * from `tap-shop`.orders version as of 'monday'" --format csv
    """
    lake = shared.lake()
    from singerlake.spark.query import query

    with output.working("asking"):
        answer = query(start_spark(master, conf), lake, sql)
        if form == "table" and not shared.json and to is None:
            columns, rows, more = results.first_rows(answer)
    if shared.json:
        results.write_json(answer, to)
    elif form == "table" and to is None:
        note = "; ".join(_read(answer))
        if more:
            note = f"the first {len(rows):,} rows; --format csv gives all\n{note}"
        output.print_table(None, columns, rows, note)
    else:
        results.write(answer, "csv" if form == "table" else form, to)
        click.echo("; ".join(_read(answer)), err=True)


def _read(answer: Answer) -> list[str]:
    return [f"read {source}" for source in answer.sources]
