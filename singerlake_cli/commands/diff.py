"""singerlake diff: what differs between two states of a table."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from singerlake.errors import UsageError
from singerlake.log.schema_difference import Comparison, plan
from singerlake.new_file import NewFile
from singerlake.rows.blocks.misfits import replaced_words
from singerlake_cli import differences, output, results
from singerlake_cli.shared import Shared, complete_table, engine_options
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.ops.diff.diff import Diff


@click.command("diff")
@click.argument("table", required=False, shell_complete=complete_table)
@click.argument("before", metavar="[FROM]", required=False)
@click.argument("after", metavar="[TO]", required=False)
@click.option(
    "--lake-versions",
    nargs=2,
    metavar="FROM TO",
    help="Count the differences between two lake versions, by table.",
)
@click.option("--stat", is_flag=True, help="Only count rows, and changed cells by column.")
@results.row_and_page_options
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="The maximum number of rows to print.",
)
@click.option(
    "--on-type-mismatch",
    type=click.Choice(["fail", "null", "text"]),
    default="fail",
    show_default=True,
    help="What to do with values that do not fit their column, in rows that differ: fail, read "
    "them as null, or read their whole column as text.",
)
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    table: str | None,
    before: str | None,
    after: str | None,
    lake_versions: tuple[str, str] | None,
    stat: bool,
    form: str | None,
    safe_cells: bool,
    to: Path | None,
    force: bool,
    limit: int | None,
    on_type_mismatch: str,
    choice: EngineChoice,
) -> None:
    """Show the differences between two snapshots of a TABLE.

    FROM and TO are versions, by number or label, or transactions, such as @17. TO defaults to the
    head. The output shows changes of the schema, and then rows added, changed and removed, with
    each cell before and after.

    Both snapshots are read with the columns, types and key of TO. A row that was not written in
    between is unchanged, even if the schema has changed. Without a key, rows are matched by their
    record: a row that was sent again with another value is removed and added.

    csv and tsv have the columns change, key.…, changed, and before.… and after.… of each column;
    jsonl and parquet have key, before and after as objects.

    html and markdown are pages to read: counts, changes of the schema, and the cells of the first
    200 rows, or of --limit. The HTML page contains its style and loads nothing; the Markdown is
    for a comment on a pull request.

    With --lake-versions, which needs no TABLE, it counts differing rows of all tables in two lake
    versions. Tables with equal fingerprints are not read.

    Tables of up to 32 MiB of messages need no Spark; --engine chooses otherwise.

    \b
    singerlake diff tap-shop.orders monday --stat
    singerlake diff tap-shop.orders 1 2 --out changes.csv
    singerlake diff tap-shop.orders 1 2 --out changes.html
    singerlake diff tap-shop.orders @17 @18 --format jsonl | jq 'select(.change == "removed").key'
    singerlake diff --lake-versions 2026-q2 2026-q3
    """
    if lake_versions is not None:
        rows = (form, to, limit) != (None, None, None) or safe_cells or force
        if table is not None or rows:
            raise UsageError(
                "--lake-versions counts rows of all tables: it takes no TABLE, and "
                "no options about rows"
            )
        from singerlake_cli.lake_differences import compare

        compare(shared, *lake_versions, on_type_mismatch=on_type_mismatch, choice=choice)
        return
    if table is None or before is None:
        raise click.UsageError(f"Missing argument '{'TABLE' if table is None else 'FROM'}'.")
    lake_table, ref = shared.lake().find(table)
    if ref.version is not None:
        raise UsageError(
            f"name the table alone, and then what to compare: {ref.table} {ref.version} …"
        )
    if stat and (form is not None or to is not None or limit is not None):
        raise UsageError("--stat prints no rows: leave out --format, --out and --limit")
    file, form = _file_and_form(shared, form, to, force=force, safe_cells=safe_cells)
    compared = plan(lake_table.snapshot(), before, after)
    if compared.same_state and form == "table" and file is None:
        _print_same(shared, compared)
        return
    from singerlake.ops.diff.table import DiffOptions, diff

    options = DiffOptions(before, after, on_type_mismatch)
    with working(f"comparing {ref.table}"):
        found = diff(lake_table, options, choice, wanted=compared)
    with found:
        _warn(shared, found, on_type_mismatch)
        if stat:
            _print_stat(shared, found)
        elif form == "table" and file is None:
            _print_table(found, limit)
        else:
            _write(shared, found, form, file, limit, safe_cells=safe_cells)


def _file_and_form(
    shared: Shared, form: str | None, to: Path | None, *, force: bool, safe_cells: bool
) -> tuple[NewFile | None, str]:
    """Return the file that gets the rows, if there is one, and its format."""
    if force and to is None:
        raise UsageError("--force requires --out")
    file = None if to is None else NewFile(to, force=force)
    form = results.form_of(form, to, as_json=shared.json, pages=True)
    if safe_cells and form not in ("csv", "tsv"):
        raise UsageError("--safe-cells is for spreadsheets: add --format csv or tsv")
    return file, form


def _comparing(found: Diff[Any]) -> AbstractContextManager[object]:
    return working(f"comparing {found.compared.after.snapshot.table}")


def _print_same(shared: Shared, compared: Comparison) -> None:
    compared.warn_of_rules()
    output.say(differences.title(compared))
    for note in compared.notes() if compared.schema else ():
        shared.output.note(note)
    differences.print_schema(compared)
    output.say("no row differs: none was written in between")


def _warn(shared: Shared, found: Diff[Any], misfits: str) -> None:
    table = found.compared.after.snapshot.table
    for warning in replaced_words(table, found.misfits, misfits):
        shared.output.warning(warning)
    for note in found.compared.notes():
        shared.output.note(note)


def _print_stat(shared: Shared, found: Diff[Any]) -> None:
    with _comparing(found):
        counts = found.counts()

    def text() -> None:
        output.say(differences.title(found.compared))
        differences.print_schema(found.compared)
        output.say(differences.summary(counts))
        differences.print_cells(counts)

    shared.output.result(lambda: differences.document(found.compared, counts, found.misfits), text)


def _print_table(found: Diff[Any], limit: int | None) -> None:
    most = min(limit or results.FIRST_ROWS, results.FIRST_ROWS)
    found.keep()  # rows are counted, and then fetched
    with _comparing(found):
        counts = found.counts()
        answer = found.flat_rows(most)
        rows = answer.glimpse(most)
    output.say(differences.title(found.compared))
    differences.print_schema(found.compared)
    all_of_them = counts.added + counts.changed + counts.removed
    cut = f"the first {len(rows):,} rows that differ; --format csv gives all"
    if rows:
        differences.print_rows(answer.columns, rows, cut if len(rows) < all_of_them else "")
    output.say(differences.summary(counts))


def _write(
    shared: Shared,
    found: Diff[Any],
    form: str,
    file: NewFile | None,
    limit: int | None,
    *,
    safe_cells: bool,
) -> None:
    if form not in ("json", *results.PAGES):  # these have it inside
        for change in found.compared.schema:
            shared.output.note(f"the schema: {change}")
    if file is None:
        _write_rows(found, form, None, limit, safe_cells=safe_cells)
        if not shared.json:
            output.say(f"compared {differences.title(found.compared)}", err=True)
        return
    with file.writing() as path:
        count = _write_rows(found, form, path, limit, safe_cells=safe_cells)
    text = f"wrote {output.count(count, 'row')} to {file.path}"
    if shared.json:
        shared.output.note(text)
    else:
        output.say(text, err=True)
        output.say(f"compared {differences.title(found.compared)}", err=True)


def _write_rows(
    found: Diff[Any], form: str, to: Path | None, limit: int | None, *, safe_cells: bool
) -> int:
    if form in results.PAGES:
        return _write_page(found, form, to, limit)
    if form == "json":
        found.keep()
        with _comparing(found):
            members = differences.document(found.compared, found.counts(), found.misfits)
        return results.write_document(members, found.rows(limit), to)
    answer = found.rows(limit) if form in ("jsonl", "parquet") else found.flat_rows(limit)
    return results.write(answer, form, to, safe_cells=safe_cells)


def _write_page(found: Diff[Any], form: str, to: Path | None, limit: int | None) -> int:
    from singerlake_cli.difference_pages import page

    with _comparing(found):
        text, rows = page(found, form, limit)
    results.write_text(text, to)
    return rows
