"""singerlake docs: a site of the lake, made from its metadata."""

from __future__ import annotations

import os
import webbrowser
from datetime import datetime, timezone
from pathlib import Path

import click

from singerlake.errors import UsageError
from singerlake.site import build as site
from singerlake.site.destination import open_destination
from singerlake_cli import output
from singerlake_cli.shared import Shared
from singerlake_cli.working import working


@click.command("docs")
@click.option(
    "--out",
    "to",
    metavar="PLACE",
    default="site",
    show_default=True,
    help="A folder, s3://bucket/prefix, gs://… or az://…",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "markdown"]),
    default="html",
    show_default=True,
    help="Pages for a browser, or for a Sphinx or MkDocs project.",
)
@click.option("--title", metavar="TEXT", help="The site's title.  [default: the lake's name]")
@click.option(
    "--samples",
    type=click.IntRange(0, 10),
    default=0,
    show_default=True,
    metavar="N",
    help="Show N values of each column, from the newest records; not of classified columns.",
)
@click.option("--rebuild", is_flag=True, help="Rewrite all pages, even unchanged ones.")
@click.option("--open", "opened", is_flag=True, help="Open it in a browser.")
@click.pass_obj
def command(
    shared: Shared,
    /,
    to: str,
    form: str,
    title: str | None,
    samples: int,
    rebuild: bool,
    opened: bool,
) -> None:
    """Write a static site about the lake: taps, tables, versions.

    It shows columns, schema history, transactions and lineage. It reads only metadata, and shows
    values only with --samples. The site works from a disk, a web server and S3. A later run writes
    only pages that have changed.

    \b
    singerlake docs
    singerlake docs --out public --open
    singerlake docs --out s3://bucket/docs
    singerlake docs --format markdown --out docs/lake
    """
    if opened and (form != "html" or "://" in to):
        raise UsageError("--open needs an HTML site in a folder on this machine")
    if not to:
        raise UsageError("--out is empty: name a folder, s3://bucket/prefix, gs://… or az://…")
    lake = shared.lake()
    options = site.Options(now=_now(), form=form, title=title, samples=samples, anew=rebuild)
    with open_destination(to) as destination, working(f"writing {to}"):
        built = site.build(lake, destination, options)
    for table, error in built.failed:
        shared.output.error(error, table)
    shared.output.result(
        lambda: {
            "to": to,
            "tables": built.tables,
            "written": built.written,
            "kept": built.kept,
            "removed": built.removed,
            "failed": [str(table) for table, _ in built.failed],
        },
        lambda: _say(to, built),
    )
    if opened:
        webbrowser.open((Path(to).expanduser().absolute() / "index.html").as_uri())
    if built.failed:
        click.get_current_context().exit(max(error.exit_code for _, error in built.failed))


def _say(to: str, built: site.Built) -> None:
    done = f"{output.count(built.written, 'file')} written"
    if not built.written and not built.removed:
        done = "nothing has changed"
    kept = f", {built.kept:,} unchanged" if built.kept and built.written else ""
    removed = f", {built.removed:,} removed" if built.removed else ""
    output.say(f"{to}: {output.count(built.tables, 'table')}, {done}{kept}{removed}")


def _now() -> datetime:
    """Return the time by which tables are stale; SOURCE_DATE_EPOCH makes a build repeatable."""
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        try:
            return datetime.fromtimestamp(int(epoch), tz=timezone.utc)
        except (ValueError, OverflowError, OSError):
            raise UsageError(f"SOURCE_DATE_EPOCH is {epoch!r}: it is seconds since 1970") from None
    return datetime.now(tz=timezone.utc)
