"""singerlake query: SQL over heads and versions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from singerlake.errors import UsageError
from singerlake_cli import output, results
from singerlake_cli.shared import Shared, begin_spark, spark_options, start_spark
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.spark.answer import Answer


@click.command("query")
@click.argument("sql")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "tsv", "jsonl", "parquet"]),
    default="table",
    show_default=True,
    help="How rows are given; all but table are streamed, whatever their number.",
)
@click.option(
    "--safe-cells",
    is_flag=True,
    help="For spreadsheets: put ' before texts of csv and tsv that they would compute.",
)
@click.option("--to", type=click.Path(path_type=Path), help="A file to write; parquet needs one.")
@click.option(
    "--provenance", is_flag=True, help="Give tables two more columns: _row_id and _row_version."
)
@click.option(
    "--etag",
    "etags",
    multiple=True,
    metavar="[TABLE=]NUMBER",
    help="Fail if a table that is read at its head is at another transaction than this.",
)
@click.option(
    "--misfits",
    type=click.Choice(["fail", "null", "text"]),
    default="fail",
    show_default=True,
    help="What becomes of values that do not fit their column: fail if one is read, read it as "
    "null, or read its whole column as text.",
)
@spark_options
@click.pass_obj
def command(
    shared: Shared,
    sql: str,
    form: str,
    safe_cells: bool,
    to: Path | None,
    provenance: bool,
    etags: tuple[str, ...],
    misfits: str,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Ask the lake in SQL (a Spark job).

    A table is written tap.stream, a version of it tap.stream.2, its state at a transaction
    tap.stream.`@17`; dashes as underscores or in backticks. SELECT only. The answer says which
    transaction of each table was read; give it back as --etag, and pages agree.

    \b
    singerlake query "select * from tap_shop.orders where total > 100"
    singerlake query "select count(*) from tap_shop.orders.1"
    singerlake query "select * from `tap-shop`.orders version as of 'monday'" --format csv
    singerlake query "select * from tap_shop.orders" --format parquet --to orders.parquet
    """
    lake = shared.lake()
    if form == "parquet" and to is None:
        raise UsageError("parquet is not for a terminal: name a file with --to")
    if safe_cells and (form not in ("csv", "tsv") or shared.json):
        raise UsageError("--safe-cells is for spreadsheets: say --format csv or tsv as well")
    wanted = _etags(etags)
    begin_spark(master, conf)
    from singerlake.spark.query import query

    with working("asking"):
        spark = start_spark(master, conf)
        answer = query(spark, lake, sql, provenance=provenance, etags=wanted, misfits=misfits)
        for_people = form == "table" and not shared.json and to is None
        first = results.first_rows(answer) if for_people else None
    for said in _replaced(answer, misfits):
        output.say(f"warning: {said}", err=True)
    with answer:
        if first is not None:
            _print_table(answer, *first)
            return
        _write(answer, form, to, as_json=shared.json, safe_cells=safe_cells)
    if answer.sources and not shared.json:
        output.say("; ".join(_read(answer)), err=True)


def _write(answer: Answer, form: str, to: Path | None, *, as_json: bool, safe_cells: bool) -> None:
    if form == "parquet" and to is not None:
        results.write_parquet(answer, to)
    elif as_json:
        results.write_json(answer, to)
    else:
        results.write(answer, "csv" if form == "table" else form, to, safe_cells=safe_cells)


def _print_table(
    answer: Answer, headings: list[str], rows: list[list[str | None]], more: bool
) -> None:
    cut = f"the first {len(rows):,} rows; --format csv gives all" if more else ""
    output.print_table(None, headings, rows, cut, "; ".join(_read(answer)))


def _etags(given: tuple[str, ...]) -> dict[str, int]:
    """Etags by table; one without a table's name is for every table."""
    found = {}
    for text in given:
        table, _, number = text.rpartition("=")
        if not number.isdecimal() or len(number) > 18:  # noqa: PLR2004  # no log has so many
            raise UsageError(f"--etag {text!r} is not a transaction's number, nor TABLE=NUMBER")
        found[table or "*"] = int(number)
    return found


def _replaced(answer: Answer, misfits: str) -> list[str]:
    from singerlake.spark.rows_asked import replaced_words

    tables = {(s.table, s.transaction): s for s in answer.sources}
    return [said for s in tables.values() for said in replaced_words(s.table, s.misfits, misfits)]


def _read(answer: Answer) -> list[str]:
    return [f"read {source}" for source in answer.sources]
