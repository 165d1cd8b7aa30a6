"""singerlake metrics: ages, sizes, versions and locks, for Prometheus."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from singerlake import __version__
from singerlake.errors import (
    DamagedError,
    DroppedError,
    NotFoundError,
    SingerlakeError,
    UsageError,
)
from singerlake.format import refused_lines, times
from singerlake.format.metadata import LakeFile, last_sync
from singerlake.format.names import REJECTED, TableName
from singerlake.lake import Lake, Table
from singerlake.log import rejections
from singerlake.log.locks.holders import locks
from singerlake.log.table_state import TableState
from singerlake.new_file import NewFile
from singerlake_cli import output
from singerlake_cli.prometheus import PREFIX, Metric, text
from singerlake_cli.shared import Shared, exit_with

if TYPE_CHECKING:
    from singerlake.ops.vacuum.sizes import Sizes

HELP = {
    "info": "The release of Singerlake.",
    "table_up": "Whether the table can be read (1) or is damaged (0).",
    "table_records": "Records written, including rows that were replaced or deleted since.",
    "table_bytes": "Compressed bytes of these records.",
    "table_rejected_lines": "Lines of the stream that the target rejected and quarantined.",
    "table_replayed_records": "Rejected records that singerlake rejected --replay made rows of.",
    "table_transaction": "The table's last transaction.",
    "table_last_commit_timestamp_seconds": "Time of the table's last transaction.",
    "table_last_sync_timestamp_seconds": "Time of the last sync that brought records.",
    "table_freshness_seconds": "Maximum age of the last sync, as annotated.",
    "table_versions": "Frozen versions.",
    "table_last_version": "Number of the last frozen version.",
    "table_last_version_timestamp_seconds": "Time at which it was frozen.",
    "table_last_version_rows": "Number of its rows.",
    "table_store_bytes": "Storage size of the table.",
    "table_index_bytes": "Storage size of its materialized snapshots.",
    "table_files": "Data files.",
    "table_small_files": "Small files that a vacuum would compact.",
    "table_free_now_bytes": "Bytes that a vacuum would delete now.",
    "table_free_later_bytes": "Bytes that a vacuum would delete after the retention.",
    "tap_last_run_timestamp_seconds": "Time at which the last run of the tap's job ended.",
    "tap_last_run_succeeded": "Whether this run succeeded (1) or failed (0).",
    "locks": "Locks and leases that are held.",
    "lock_refreshed_timestamp_seconds": "Time of the oldest last refresh of a lock or lease.",
}
_SIZES = (
    "store_bytes",
    "index_bytes",
    "files",
    "small_files",
    "free_now_bytes",
    "free_later_bytes",
)


@click.command("metrics")
@click.option(
    "--out",
    "path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Replace this file, for the textfile collector of a node exporter.",
)
@click.option(
    "--sizes",
    "measured",
    is_flag=True,
    help="Also storage sizes of tables (one listing per table).",
)
@click.pass_obj
def command(shared: Shared, path: Path | None, measured: bool) -> None:
    """Print the lake's metrics in Prometheus text format.

    Use this to alert on stale tables, rejected records and stuck locks. It reads only metadata.
    Times are timestamps, so it does not matter when the file was written: a table's age is time() -
    singerlake_table_last_sync_timestamp_seconds. An unreadable table has singerlake_table_up 0, and
    its exit code is that of the command once all metrics are written.

    \b
    singerlake metrics
    singerlake metrics --out /var/lib/node_exporter/singerlake.prom
    singerlake --output json metrics --sizes
    """
    file = None if path is None else NewFile(path, force=True)
    lake = shared.lake()
    found = {name: Metric(name, text) for name, text in HELP.items()}
    found["info"].add(1, version=__version__)
    failed = _tables(lake, found, measured=measured)
    _taps(lake.annotations(), found)
    _locks(lake, found)
    metrics = list(found.values())
    if file is None:
        shared.output.result(lambda: _as_json(metrics), lambda: output.say_text(text(metrics)))
    else:
        with file.writing() as beside:
            beside.write_text(text(metrics), encoding="utf-8")
    exit_with(shared, failed)


def _tables(lake: Lake, found: dict[str, Metric], *, measured: bool) -> list[SingerlakeError]:
    failed: list[SingerlakeError] = []
    file = lake.annotations()
    names = set(lake.tables())
    rows: dict[TableName, int] = {}
    refused: set[TableName] = set()
    nothing = set()

    def look(table: Table) -> tuple[TableState, Sizes | None]:
        snapshot = table.snapshot()
        return snapshot, _taken(lake, snapshot) if measured else None

    for name, seen in lake.each(sorted(names), look):
        if isinstance(seen, SingerlakeError):
            if isinstance(seen, NotFoundError) and not isinstance(seen, DroppedError):
                nothing.add(name)
            elif not isinstance(seen, DroppedError):
                failed.append(seen)
                found["table_up"].add(0, tap=name.tap, stream=name.stream)
            continue
        snapshot, taken = seen
        if taken is not None:
            _measure(name, taken, found)
        rows[name] = _table(snapshot, found)
        if name.stream.endswith(REJECTED) and refused_lines.are_in(snapshot.tap_schema):
            refused.add(name)
            rows[name] = rejections.rejected(snapshot)
        else:
            replayed = rejections.replayed(snapshot)
            found["table_replayed_records"].add(replayed, tap=name.tap, stream=name.stream)
        _freshness(file, name, found)
    _rejected(rows, refused, found["table_rejected_lines"])
    for lost in lake.inventory(names - nothing).lost:
        failed.append(DamagedError(str(lost)))
        if lost.table is not None:
            found["table_up"].add(0, tap=lost.tap, stream=lost.table.stream)
    return failed


def _rejected(rows: Mapping[TableName, int], refused: Container[TableName], metric: Metric) -> None:
    """Count refused lines of each stream; ``refused`` are the tables that have some."""
    for name, own in rows.items():
        if name not in refused:  # 0 too: a rule asks how it grows
            lines = TableName(name.tap, name.stream + REJECTED)
            count = rows[lines] if lines in refused else 0
            metric.add(count, tap=name.tap, stream=name.stream)
        elif name.stream == REJECTED:
            metric.add(own, tap=name.tap, stream="")
        else:  # a stream map may store the stream under another name, or nowhere
            stream = name.stream.removesuffix(REJECTED)
            if TableName(name.tap, stream) not in rows:
                metric.add(own, tap=name.tap, stream=stream)


def _table(snapshot: TableState, found: dict[str, Metric]) -> int:
    """Add the metrics of a table by its log; return its records."""
    own = snapshot.own_transactions
    version = snapshot.frozen[-1] if snapshot.frozen else None
    rows = sum(block.rows for block in snapshot.blocks)
    values = {
        "up": 1,
        "records": rows,
        "bytes": sum(block.length for block in snapshot.blocks),
        "transaction": snapshot.number,
        "last_commit_timestamp_seconds": _seconds(own[-1].time if own else None),
        "last_sync_timestamp_seconds": _seconds(last_sync(own)),
        "versions": len(snapshot.frozen),
        "last_version": version.number if version else None,
        "last_version_timestamp_seconds": _seconds(version.time if version else None),
        "last_version_rows": version.rows if version else None,
    }
    table = snapshot.table
    for name, value in values.items():
        found[f"table_{name}"].add(value, tap=table.tap, stream=table.stream)
    return rows


def _taken(lake: Lake, snapshot: TableState) -> Sizes:
    from singerlake.ops.vacuum.sizes import sizes  # late: with the plans of a vacuum

    return sizes(lake.store, snapshot)


def _measure(table: TableName, taken: Sizes, found: dict[str, Metric]) -> None:
    for name in _SIZES:
        value = getattr(taken, name)
        found[f"table_{name}"].add(value, tap=table.tap, stream=table.stream)


def _freshness(file: LakeFile, name: TableName, found: dict[str, Metric]) -> None:
    said = file.table(name).freshness or file.tap(name.tap).freshness or file.freshness
    if said:
        try:
            seconds = times.age(said, "freshness").total_seconds()
        except UsageError:  # written by hand, or by a newer release
            return
        found["table_freshness_seconds"].add(seconds, tap=name.tap, stream=name.stream)


def _taps(file: LakeFile, found: dict[str, Metric]) -> None:
    for tap, said in sorted(file.taps.items()):
        run = said.last_run
        if run is not None:
            found["tap_last_run_timestamp_seconds"].add(_seconds(run.time), tap=tap)
            found["tap_last_run_succeeded"].add(int(run.outcome == "succeeded"), tap=tap)


def _locks(lake: Lake, found: dict[str, Metric]) -> None:
    held: dict[tuple[str, str, str], list[str]] = {}
    for lock in locks(lake.store):
        table = lock.target.table
        of = (table.tap, table.stream) if table is not None else ("", "")
        held.setdefault((*of, lock.target.kind), []).append(lock.refreshed)
    for (tap, stream, kind), refreshed in sorted(held.items()):
        labels = {"tap": tap, "stream": stream, "lock": kind}
        found["locks"].add(len(refreshed), **labels)
        found["lock_refreshed_timestamp_seconds"].add(_seconds(min(refreshed)), **labels)


def _seconds(stamp: str | None) -> float | None:
    instant = times.parse(stamp) if stamp else None
    return None if instant is None else instant.timestamp()


def _as_json(metrics: list[Metric]) -> list[dict[str, Any]]:
    return [
        {"metric": PREFIX + metric.name, "labels": labels, "value": value}
        for metric in metrics
        for labels, value in metric.samples
    ]
