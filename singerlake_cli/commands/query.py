"""singerlake query: SQL over heads and versions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from singerlake.errors import UsageError
from singerlake_cli import output, results
from singerlake_cli.new_file import NewFile
from singerlake_cli.shared import Shared, begin_spark, spark_options, start_spark
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.spark.sql.result import QueryResult


@click.command("query")
@click.argument("sql")
@results.row_options
@click.option(
    "--provenance",
    is_flag=True,
    help="Add the columns _row_id, _row_version (the number of the row's block, which is not a "
    "transaction) and _transaction to tables.",
)
@click.option(
    "--etag",
    "etags",
    multiple=True,
    metavar="[TABLE=]NUMBER",
    help="Fail if a table is no longer at this transaction; for tables read without a version.",
)
@click.option(
    "--misfits",
    type=click.Choice(["fail", "null", "text"]),
    default="fail",
    show_default=True,
    help="What to do with values that do not fit their column: fail if one is read, read it as "
    "null, or read its whole column as text.",
)
@spark_options
@click.pass_obj
def command(
    shared: Shared,
    sql: str,
    form: str | None,
    safe_cells: bool,
    to: Path | None,
    force: bool,
    provenance: bool,
    etags: tuple[str, ...],
    misfits: str,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Query the lake in SQL (on Spark).

    Write a table as tap.stream, a version of it as tap.stream.2, and its state at a transaction
    as tap.stream.`@17`. Write dashes as underscores, or put the name in backticks. SELECT only.
    The answer names the transaction of each table that it read; pass it as --etag to the next
    query, and both see the same state.

    \b
    singerlake query "select * from tap_shop.orders where total > 100"
    singerlake query "select count(*) from tap_shop.orders.1"
    singerlake query "select * from `tap-shop`.orders version as of 'monday'" --format csv
    singerlake query "select * from tap_shop.orders" --to orders.parquet
    """
    lake = shared.lake()
    file = None if to is None else NewFile(to, force=force)
    if force and file is None:
        raise UsageError("--force replaces the file behind --to: name one")
    form = results.form_of(form, to, as_json=shared.json)
    if safe_cells and form not in ("csv", "tsv"):
        raise UsageError("--safe-cells is for spreadsheets: add --format csv or tsv")
    wanted = _etags(etags)
    begin_spark(master, conf)
    from singerlake.spark.jobs.query import query

    with working("asking"):
        spark = start_spark(master, conf)
        answer = query(spark, lake, sql, provenance=provenance, etags=wanted, misfits=misfits)
        for_people = form == "table" and to is None
        first = results.first_rows(answer) if for_people else None
    for warning in _replaced(answer, misfits):
        shared.output.warning(warning)
    with answer:
        if first is not None:
            _print_table(answer, *first)
            return
        _write(shared, answer, form, file, safe_cells=safe_cells)
    if answer.sources and not shared.json:
        output.say("; ".join(_read(answer)), err=True)


def _write(
    shared: Shared, answer: QueryResult, form: str, file: NewFile | None, *, safe_cells: bool
) -> None:
    if file is None:
        results.write(answer, form, None, safe_cells=safe_cells)
        return
    with file.writing() as path:
        count = results.write(answer, form, path, safe_cells=safe_cells)
    text = f"wrote {output.count(count, 'row')} to {file.path}"
    if shared.json:
        shared.output.note(text)
    else:
        output.say(text, err=True)


def _print_table(
    answer: QueryResult, headings: list[str], rows: list[list[str | None]], more: bool
) -> None:
    cut = f"the first {len(rows):,} rows; --format csv gives all" if more else ""
    output.print_table(None, headings, rows, cut, "; ".join(_read(answer)))


def _etags(given: tuple[str, ...]) -> dict[str, int]:
    """Etags by table; one without a table's name is for every table."""
    etags = {}
    for text in given:
        table, _, number = text.rpartition("=")
        if not number.isdecimal() or len(number) > 18:  # noqa: PLR2004  # no log has so many
            raise UsageError(f"--etag {text!r} is not a transaction's number, nor TABLE=NUMBER")
        etags[table or "*"] = int(number)
    return etags


def _replaced(answer: QueryResult, misfits: str) -> list[str]:
    from singerlake.spark.state.requested_rows import replaced_words

    tables = {(s.table, s.transaction): s for s in answer.sources}
    return [line for s in tables.values() for line in replaced_words(s.table, s.misfits, misfits)]


def _read(answer: QueryResult) -> list[str]:
    return [f"read {source}" for source in answer.sources]
