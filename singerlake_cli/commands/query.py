"""singerlake query: SQL over heads and versions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from singerlake import small_files
from singerlake.errors import SingerlakeError, StoreError, UsageError
from singerlake.format import sql_tokens
from singerlake.new_file import NewFile
from singerlake_cli import output, results
from singerlake_cli.shared import Shared, engine_options
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.sql.local.query import LocalQueryResult
    from singerlake.sql.result import QueryResult

    Answer = LocalQueryResult | QueryResult


@click.command("query")
@click.argument("sql", nargs=-1)
@click.option(
    "-f",
    "--file",
    "source",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
    help="A file of statements, separated by ; (instead of SQL); - is standard input.",
)
@results.row_options
@click.option(
    "--row-metadata",
    is_flag=True,
    help="Add the columns _row_id, _row_version (the number of the row's block, which is not a "
    "transaction) and _transaction to tables.",
)
@click.option(
    "--lake-version",
    metavar="VERSION",
    help="Read tables that are named without a version at that of this lake version.",
)
@click.option(
    "--if-transaction",
    multiple=True,
    metavar="[TABLE=]TRANSACTION",
    help="Fail unless a table is still at this transaction; for tables read without a version. "
    "May be repeated.",
)
@click.option(
    "--on-type-mismatch",
    type=click.Choice(["fail", "null", "text"]),
    default="fail",
    show_default=True,
    help="What to do with values that do not fit their column: fail if one is read, read it as "
    "null, or read its whole column as text.",
)
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    sql: tuple[str, ...],
    source: Path | None,
    form: str | None,
    safe_cells: bool,
    to: Path | None,
    force: bool,
    row_metadata: bool,
    lake_version: str | None,
    if_transaction: tuple[str, ...],
    on_type_mismatch: str,
    choice: EngineChoice,
) -> None:
    """Query the lake in SQL.

    Simple statements on tables that are small or materialized are answered in this process, all
    others on Spark.

    Write a table as tap.stream, a version of it as tap.stream.2, and its snapshot at a transaction
    as tap.stream.`@17`. Write dashes as underscores, or put the name in backticks. Only SELECT is
    allowed. The answer names the transaction of each table that it read. Pass it to the next query
    as --if-transaction, and both read the same snapshot.

    Several statements, as several arguments, with a ; between them or in a file, are answered one
    after another, up to the first that fails; Spark starts once for all of them. With --output
    json their answers are an array, as is the one of a file of one statement.

    \b
    singerlake query "select * from tap_shop.orders where total > 100"
    singerlake query "select count(*) from tap_shop.orders.1"
    singerlake query "select * from `tap-shop`.orders version as of 'monday'" --format csv
    singerlake query "select * from tap_shop.orders" --out orders.parquet
    singerlake query --file report.sql
    singerlake query --file report.sql --lake-version 2026-q3
    """
    lake = shared.lake()
    asked = _asked(sql, source)
    file = None if to is None else NewFile(to, force=force)
    if force and file is None:
        raise UsageError("--force requires --out")
    form = results.form_of(form, to, as_json=shared.json)
    if safe_cells and form not in ("csv", "tsv"):
        raise UsageError("--safe-cells is for spreadsheets: add --format csv or tsv")
    if len(asked) > 1 and (file is not None or form not in ("table", "json")):
        raise UsageError(
            f"{'--out' if file is not None else f'--format {form}'} takes one statement, and these "
            f"are {len(asked)}: query each by itself, or all with --output json"
        )
    wanted = _transactions(if_transaction)
    if wanted and lake_version is not None:
        raise UsageError(
            "--if-transaction is for tables at their head: leave it out with --lake-version"
        )
    at = None if lake_version is None else lake.lake_version(lake_version)
    from singerlake.sql.answers import answer as answered

    in_array = form == "json" and file is None and (source is not None or len(asked) > 1)
    for number, (place, statement) in enumerate(asked):
        with _told_where(place):
            with working(f"asking {number + 1} of {len(asked)}" if len(asked) > 1 else "asking"):
                answer = answered(
                    lake,
                    statement,
                    choice,
                    row_metadata=row_metadata,
                    if_transaction=wanted,
                    on_type_mismatch=on_type_mismatch,
                    lake_version=at,
                )
                for_people = form == "table" and file is None
                first = results.first_rows(answer) if for_people else None
            for warning in _replaced(answer, on_type_mismatch):
                shared.output.warning(warning)
            if in_array:
                output.say("," if number else "[")
            with answer:
                if first is not None:
                    _print_table(answer, *first)
                else:
                    _write(shared, answer, form, file, safe_cells=safe_cells)
    if in_array:
        output.say("]")


def _asked(sql: tuple[str, ...], source: Path | None) -> list[tuple[str, str]]:
    """Return the statements, each with the name that people see.

    That is empty where there is but one, as an argument.
    """
    if bool(sql) == (source is not None):
        both = "SQL and --file are two ways to ask: take one"
        raise click.UsageError(both if sql else "Missing argument 'SQL', or --file.")
    if source is None:
        found = [one for text in sql for one in sql_tokens.statements(text)]
        places = [f"statement {number} of {len(found)}" for number in range(1, len(found) + 1)]
        if len(found) == 1:
            places = [""]
    else:
        found = sql_tokens.statements(_read_text(source))
        places = [f"{source}, line {one.line}" for one in found]
    if not found:
        raise UsageError("there is no statement, only comments")
    return [(place, one.text) for place, one in zip(places, found, strict=True)]


def _read_text(source: Path) -> str:
    try:
        if str(source) == "-":
            content = small_files.read_open(sys.stdin.buffer, "standard input", "statements")
        else:
            content = small_files.read(source, "statements")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise StoreError(f"cannot read {source}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not UTF-8 text, at byte {error.start}") from error


@contextmanager
def _told_where(place: str) -> Iterator[None]:
    """Add to an error which statement it is about."""
    try:
        yield
    except SingerlakeError as error:
        first, *others = error.lines or (str(error),)
        if place:
            error.lines = (f"{place}: {first}", *others)
        raise


def _write(
    shared: Shared, answer: Answer, form: str, file: NewFile | None, *, safe_cells: bool
) -> None:
    if file is None:
        results.write(answer, form, None, safe_cells=safe_cells)
    else:
        with file.writing() as path:
            count = results.write(answer, form, path, safe_cells=safe_cells)
        text = f"wrote {output.count(count, 'row')} to {file.path}"
        if shared.json:
            shared.output.note(text)
        else:
            output.say(text, err=True)
    if answer.sources and not shared.json:
        output.say("; ".join(_read(answer)), err=True)


def _print_table(
    answer: Answer, headings: list[str], rows: list[list[str | None]], more: bool
) -> None:
    cut = f"the first {len(rows):,} rows; --format csv gives all" if more else ""
    output.print_table(None, headings, rows, cut, "; ".join(_read(answer)))


def _transactions(given: tuple[str, ...]) -> dict[str, int]:
    """Parse transactions by table; one without a table's name is for every table."""
    found = {}
    for text in given:
        table, _, number = text.rpartition("=")
        if not number.isdecimal() or len(number) > 18:  # noqa: PLR2004  # no log has so many
            raise UsageError(
                f"--if-transaction {text!r} is not a transaction's number, nor TABLE=TRANSACTION"
            )
        found[table or "*"] = int(number)
    return found


def _replaced(answer: Answer, misfits: str) -> list[str]:
    from singerlake.rows.blocks.misfits import replaced_words

    tables = {(s.table, s.transaction): s for s in answer.sources}
    return [line for s in tables.values() for line in replaced_words(s.table, s.misfits, misfits)]


def _read(answer: Answer) -> list[str]:
    return [f"read {source}" for source in answer.sources]
