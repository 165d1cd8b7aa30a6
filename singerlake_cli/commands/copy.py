"""singerlake copy: a lake, or tables and versions of it, to another store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import click

from singerlake.errors import UsageError
from singerlake.format.log import joined
from singerlake.lake import Lake
from singerlake.log.not_copied import shown
from singerlake.ops.copy.destination import check_place
from singerlake.ops.copy.lake_versions import CopiedLakeVersion
from singerlake.ops.copy.outcome import Copied, CopyOptions
from singerlake.ops.copy.run import CopyRequest, Event, Note, copy_lake
from singerlake.ops.copy.transfers import Meter
from singerlake.storage.base import Store
from singerlake.storage.opening import open_store
from singerlake.storage.options import of_an_end
from singerlake_cli import output
from singerlake_cli.commands.vacuum import duration
from singerlake_cli.shared import Shared, pairs
from singerlake_cli.working import follow, working


def _setting_option(name: str, lake: str, variables: str) -> Callable[[Any], Any]:
    return click.option(
        name,
        multiple=True,
        metavar="NAME=VALUE",
        help=f"A setting of the store of {lake}, such as aws_profile=backup; may be repeated. "
        f"Secrets come from SINGERLAKE_{variables}_AWS_SECRET_ACCESS_KEY and the like.",
    )


@click.command("copy")
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
@click.argument("tables", nargs=-1, metavar="[TABLE[.VERSION]]...")
@click.option(
    "--lake-version",
    metavar="VERSION",
    help="Copy this lake version: each table at the version that it names.",
)
@click.option(
    "--sync", is_flag=True, help="Also delete files in DST that a vacuum has deleted in SRC."
)
@click.option("--verify", is_flag=True, help="Also read the whole DST again, block by block.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@_setting_option("--source-setting", "SRC", "FROM")
@_setting_option("--destination-setting", "DST", "TO")
@click.option(
    "--transfers",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="The number of files to copy in parallel.",
)
@click.option(
    "--wait",
    type=duration,
    metavar="DURATION",
    default="2min",
    show_default=True,
    help="How long --sync waits for readers of DST that need a file.",
)
@click.pass_obj
def command(
    shared: Shared,
    source: str,
    destination: str,
    tables: tuple[str, ...],
    lake_version: str | None,
    sync: bool,
    verify: bool,
    dry_run: bool,
    source_setting: tuple[str, ...],
    destination_setting: tuple[str, ...],
    transfers: int,
    wait: float,
) -> None:
    """Copy the lake SRC, or TABLES or versions of it, to DST.

    Use this to back up, restore or move a lake, or to hand over a version. The copy is a lake
    itself. Files are copied byte for byte, and each block is verified. A later run copies only what
    is new, and resumes an interrupted run. Readers of DST see a table as before or as after, never
    in between. SRC is not changed. A table in DST that another process has written to is not
    overwritten. A lake version is copied with all its tables, and proved in the copy.

    \b
    singerlake copy lake s3://backup/lake
    singerlake copy s3://prod/lake /mnt/backup --sync
    singerlake copy lake s3://paper/data tap-shop.orders.2
    singerlake copy lake s3://paper/data --lake-version 2026-q3
    singerlake copy s3://a/lake s3://b/lake --source-setting aws_profile=prod \\
        --destination-setting aws_profile=backup
    """
    if lake_version is not None and tables:
        raise UsageError("--lake-version selects the tables: leave out the TABLES")
    if lake_version is not None and sync:
        raise UsageError("--sync needs whole tables: leave it out, or copy the whole lake")
    lake = Lake.open(source, of_an_end("FROM", pairs("--source-setting", source_setting)))
    if sync and any(lake.find(text)[1].version is not None for text in tables):
        raise UsageError(
            "--sync needs whole tables: leave it out, or name tables without a version"
        )
    store = open_store(
        destination, of_an_end("TO", pairs("--destination-setting", destination_setting))
    )
    check_place(lake.store, store)
    options = CopyOptions(
        sync=sync, verify=verify, dry_run=dry_run, transfers=transfers, lease_wait_seconds=wait
    )
    _Run(shared, options).run(lake, store, CopyRequest(tables, lake_version))


class _Run:
    """The reports on each table and lake version, including those that failed."""

    def __init__(self, shared: Shared, options: CopyOptions) -> None:
        self._output = shared.output
        self._options = options
        self._codes = [0]
        self._done: list[Copied] = []
        self._missing = 0

    def run(self, lake: Lake, destination: Store, asked: CopyRequest) -> None:
        meter = Meter()
        follow(lambda: (f"{output.size(meter.done)} read", meter.done, meter.expected()))
        events = copy_lake(lake, destination, asked, self._options, meter)
        # Closed at once after Ctrl-C, so that no thread goes on copying.
        with working(f"copying to {destination.uri}"), closing(events):
            for event in events:
                self._tell(event)
        if not asked.tables:
            self._output.summary(self._total())
        self._output.end()
        click.get_current_context().exit(max(self._codes))

    def _tell(self, event: Event) -> None:
        dry_run = self._options.dry_run
        if isinstance(event, Copied):
            self._done.append(event)
            self._output.item(
                lambda: _as_json(event, dry_run=dry_run),
                lambda: output.say(_as_text(event, dry_run=dry_run)),
            )
        elif isinstance(event, CopiedLakeVersion):
            self._show_lake_version(event)
        elif isinstance(event, Note):
            self._output.note(event.text)
        else:
            self._missing += event.missing
            self._codes.append(event.error.exit_code)
            self._output.error(event.error, event.table)

    def _total(self) -> str:
        done, verb = self._done, "would be copied" if self._options.dry_run else "copied"
        files, size = sum(d.files for d in done), sum(d.bytes for d in done)
        text = (
            f"{output.count(len(done), 'table')}: {output.count(files, 'file')}, "
            f"{output.size(size)} {verb}"
        )
        failed = f"{text}; {output.count(self._missing, 'table')} failed"
        return failed if self._missing else text

    def _show_lake_version(self, copied: CopiedLakeVersion) -> None:
        dry_run, version = self._options.dry_run, copied.version
        verb = "would be copied" if dry_run else "copied"
        but = f", without {shown(copied.absent)}" if copied.absent else ""
        if dry_run and not copied.with_tables:
            verb = f"its entry {verb}"
        named = {"not_copied": [str(table) for table in sorted(copied.absent)]}
        self._output.item(
            lambda: {
                "lake_version": version.number,
                "label": version.label,
                "dry_run": dry_run,
                **(named if copied.absent else {}),
            },
            lambda: output.say(f"{version}: {verb}{but}"),
        )


def _as_json(copied: Copied, *, dry_run: bool) -> dict[str, Any]:
    return {
        "table": str(copied.table),
        "versions": [version.number for version in copied.versions],
        "transaction": copied.snapshot.number,
        "transactions": copied.transactions,
        "files": copied.files,
        "bytes": copied.bytes,
        "deleted_files": copied.deleted,
        "kept_files": copied.kept,
        "verified_files": copied.verified,
        "rebuilt_transactions": [*copied.rebuilt.at_destination],
        "rebuilt_at_source": [*copied.rebuilt.at_source],
        "dropped": bool(copied.snapshot.dropped_at),
        "dry_run": dry_run,
    }


def _as_text(copied: Copied, *, dry_run: bool) -> str:
    parts = []
    if copied.transactions or copied.files:
        verb = "would be copied" if dry_run else "copied"
        parts.append(
            f"{output.count(copied.transactions, 'transaction')}, "
            f"{output.count(copied.files, 'file')}, {output.size(copied.bytes)} {verb}"
        )
    if copied.deleted:
        verb = "would be deleted" if dry_run else "deleted"
        parts.append(f"{output.count(copied.deleted, 'file')} {verb}")
    if copied.kept:
        parts.append(f"{output.count(copied.kept, 'file')} kept for readers")
    if copied.verified:
        parts.append(f"{output.count(copied.verified, 'file')} read again, no problems found")
    for numbers, where in (
        (copied.rebuilt.at_destination, "here; the source has the originals"),
        (copied.rebuilt.at_source, "at the source; the originals are here"),
    ):
        if numbers:
            ranges = joined((number, number) for number in numbers)
            listed = ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in ranges)
            word = "transaction" if len(numbers) == 1 else "transactions"
            parts.append(f"{word} {listed}: written by a rebuild {where}")
    did = "; ".join(parts) or "up to date"
    versions = ", ".join(str(version.number) for version in copied.versions)
    name = f"{copied.table}.{versions}" if versions else f"{copied.table}"
    return f"{name} at transaction {copied.snapshot.number}: {did}"
