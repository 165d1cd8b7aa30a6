"""singerlake publish: bring staging tables and published rows up to date."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake.publish.projection import Format, Projection
from singerlake_cli.projection_names import complete_projection
from singerlake_cli.shared import Shared, engine_options

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice

_AD_HOC = {
    "table": ("--table", "TABLE", "Publish this table, or a version of it, without a declaration."),
    "sql": ("--sql", "SELECT", "Publish the result of this SELECT, without a declaration."),
    "where": ("--where", "SQL", "With --table: only these rows."),
    "to": ("--to", "URI", "The destination: a folder, s3://…, gs://… or az://…"),
    "key": ("--key", "COLUMNS", "The columns that identify a row.  [default: the table's]"),
    "order_by": ("--order-by", "COLUMNS", "The sort order: 'ordered_at desc, id'."),
    "partition_by": ("--partition-by", "KEYS", "The partitions: 'country, month(ordered_at)'."),
    "compression": ("--compression", "NAME", "zstd, gzip, none …  [default: the format's]"),
    "file_size": (
        "--file-size",
        "SIZE",
        "The approximate maximum size of a file.  [default: 128MiB]",
    ),
}


def _ad_hoc_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a projection that is declared nowhere; it comes in as ``said``."""

    @functools.wraps(command)
    def packed(*args: Any, **kwargs: Any) -> None:
        said = {name: kwargs.pop(name) for name in [*_AD_HOC, "format"]}
        command(*args, said={k: v for k, v in said.items() if v is not None}, **kwargs)

    formats = click.Choice([str(one) for one in Format])
    add = click.option("--format", type=formats, help="As what, with --to.  [default: parquet]")
    packed = add(packed)
    for name, (option, metavar, text) in reversed(_AD_HOC.items()):
        packed = click.option(option, name, metavar=metavar, help=text)(packed)
    return packed


@click.command("publish")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_projection)
@click.option("--all", "every", is_flag=True, help="All declared projections.")
@click.option(
    "--projections",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file that declares them.  [default: projections.yml]",
)
@click.option("--full-refresh", is_flag=True, help="Recompute and rewrite all rows.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@click.option(
    "--version", metavar="VERSION", help="Publish this frozen version, next to the current rows."
)
@click.option(
    "--lake-version",
    metavar="VERSION",
    help="Publish the tables' versions in this lake version.",
)
@_ad_hoc_options
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    names: tuple[str, ...],
    every: bool,
    file: Path | None,
    full_refresh: bool,
    dry_run: bool,
    version: str | None,
    lake_version: str | None,
    said: dict[str, str],
    choice: EngineChoice,
) -> None:
    """Refresh staging tables and published files.

    Projections are declared in projections.yml. NAMEs refresh these projections and, before them,
    those that they read. Up-to-date projections are skipped. Readers see a refresh completely or
    not at all. If one fails, only those that read it are skipped; run the command again to
    continue.

    Columns and simple SQL of tables of up to 32 MiB of messages need no Spark; other SQL and
    staging tables do. --engine chooses otherwise.

    \b
    singerlake publish --all
    singerlake publish orders --dry-run
    singerlake publish --all --lake-version 2026-q3
    singerlake publish --table tap_shop.orders --to out/orders --order-by ordered_at
    """
    from singerlake.ops.publish.outcome import PublishOptions
    from singerlake_cli.publishing import as_json, chosen, end, outcomes, say

    lake = shared.lake()
    if version is not None and lake_version is not None:
        raise UsageError("--version and --lake-version exclude each other: use one")
    of_lake = None if lake_version is None else lake.lake_version(lake_version)
    options = PublishOptions(full_refresh, dry_run, version, of_lake)
    projections: Sequence[Projection]
    if said:
        if names or every or file is not None:
            raise UsageError("name declared projections, or use --table and --to: not both")
        projections = [_undeclared(lake, said)]
    else:
        projections = chosen(lake, names, every=every, file=file)
    done = []
    for outcome in outcomes(lake, projections, options, choice):
        shared.output.item(partial(as_json, outcome), partial(say, outcome))
        done.append(outcome)
    shared.output.end()
    end(shared, done)


def _undeclared(lake: Lake, said: dict[str, str]) -> Projection:
    if "to" not in said:
        raise UsageError(
            "specify the destination with --to: a folder, s3://bucket/prefix, gs://… or az://…"
        )
    from singerlake.publish.ad_hoc import AdHoc

    return AdHoc(**said).projection(lake)  # type: ignore[arg-type]  # all of them are texts
