"""singerlake data-files: the files of a table, for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from singerlake.errors import NotFoundError
from singerlake.format.names import TableRef
from singerlake.lake import Table
from singerlake.log.state_files import StateFile, state_files
from singerlake.log.table_state import TableState
from singerlake_cli import duckdb_sql, output
from singerlake_cli.shared import Shared, begin_spark, complete_table, spark_options, start_spark
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.snapshot.index import Index

RAW, INDEX = "raw", "index"


@click.command("data-files")
@click.argument("table", metavar="TABLE[.VERSION]", shell_complete=complete_table)
@click.option(
    "--format",
    "form",
    type=click.Choice(["paths", "duckdb"]),
    default="paths",
    show_default=True,
    help="One path per line, or a SELECT for DuckDB.",
)
@click.option(
    "--of",
    "kind",
    type=click.Choice([RAW, INDEX]),
    help="The files with the tap's messages (raw), or the materialized snapshot's Parquet files "
    "(index).  [default: raw for paths, index for duckdb]",
)
@click.option(
    "--build",
    is_flag=True,
    help="Create the materialized snapshot if there is none (a Spark job).",
)
@spark_options
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    form: str,
    kind: str | None,
    build: bool,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Print the files that hold a TABLE or one of its VERSIONS.

    Use this to read a table with zcat, DuckDB or any reader of gzip or Parquet. It lists exactly
    the current files: after a vacuum, replaced files stay for a while, so a glob over *.singer.gz
    counts rows twice. Raw files contain messages, including replaced rows and deletions. The
    materialized snapshot (index) contains the rows as a query returns them; every frozen version
    has one, and so does every snapshot that was queried.

    \b
    singerlake data-files tap-shop.orders | xargs -d '\\n' zcat | grep -c '"RECORD"'
    duckdb -c "$(singerlake data-files tap-shop.orders.1 --format duckdb)"
    singerlake data-files tap-shop.orders --format duckdb --build
    """
    lake_table, ref = shared.lake().find(table)
    snapshot = lake_table.snapshot_at(ref.version)
    kind = kind or (INDEX if form == "duckdb" else RAW)
    if kind == RAW:
        _print_raw(shared, lake_table, snapshot, form)
        return
    index = _index(lake_table, ref, snapshot, (master, conf) if build else None)
    _print_index(shared, index, form)


def _print_raw(shared: Shared, table: Table, snapshot: TableState, form: str) -> None:
    files = state_files(table.store, snapshot)
    paths = [_path(table, file.key) for file in files]
    if more := sum(file.holds_more for file in files):
        shared.output.note(
            f"{output.count(more, 'file')} of these also contain rows of other snapshots; --output "
            "json lists the position of each block of this one, a separate gzip member"
        )
    sql = duckdb_sql.of_messages(paths, max((file.longest_line for file in files), default=0))
    documents = [_raw_as_json(path, file) for path, file in zip(paths, files, strict=True)]
    _print(shared, snapshot, RAW, documents, paths if form == "paths" else [sql], sql)


def _raw_as_json(path: str, file: StateFile) -> dict[str, Any]:
    blocks = [
        {"number": b.number, "offset": b.offset, "length": b.length, "rows": b.rows}
        for b in file.blocks
    ]
    return {"path": path, "bytes": file.bytes, "blocks": blocks}


def _index(
    table: Table,
    ref: TableRef,
    snapshot: TableState,
    build: tuple[str | None, tuple[str, ...]] | None,
) -> Index:
    from singerlake.snapshot import index

    if (existing := index.load(table, snapshot.earliest_equal())) is not None:
        return existing
    if build is None:
        raise NotFoundError(
            f"{ref} has no materialized snapshot of transaction {snapshot.number} yet: add --build "
            "to create it (a Spark job), or name a frozen version, which has one; --of raw prints "
            "the files with its messages"
        )
    begin_spark(*build)
    from singerlake.sql.state.index_build import ensure

    with table.lease(), working(f"materializing {ref}"):
        return ensure(start_spark(*build), table, snapshot, shown=True)


def _print_index(shared: Shared, index: Index, form: str) -> None:
    if index.marker.misfits:
        columns = ", ".join(index.marker.misfits)
        shared.output.note(f"values that do not fit their columns are read as null here: {columns}")
    own = [_path(index.table, part.key) for part in index.parts]
    below = None
    if index.below is not None:
        below = [_path(index.table, part.key) for part in index.below.parts]
    whole, layer = (own, []) if below is None else (below, own)
    if layer and form == "paths":
        shared.output.note(
            "rows in the last of these files replace rows of the same key in the others; --format "
            "duckdb merges them"
        )
    sql = duckdb_sql.of_rows(index.shape.names, index.shape.keys, whole, layer)
    documents = [
        {"path": path, "layer": path in own and below is not None} for path in [*whole, *layer]
    ]
    lines = [*whole, *layer] if form == "paths" else [sql]
    _print(shared, index.snapshot, INDEX, documents, lines, sql)


def _print(
    shared: Shared,
    snapshot: TableState,
    kind: str,
    files: list[dict[str, Any]],
    lines: list[str],
    sql: str,
) -> None:
    document = {
        "table": str(snapshot.table),
        "transaction": snapshot.number,
        "of": kind,
        "files": files,
        "duckdb": sql,
    }

    def text() -> None:
        for line in lines:  # whole, however narrow the terminal: they are to be copied
            output.say_whole(line)

    shared.output.result(lambda: document, text)


def _path(table: Table, key: str) -> str:
    """Return where another tool finds a file."""
    uri = table.store.uri
    return f"{uri}/{key}" if "://" in uri else str(Path(uri).absolute() / key)
