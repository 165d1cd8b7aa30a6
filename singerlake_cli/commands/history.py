"""singerlake history: the transactions of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from msgspec import structs, to_builtins

from singerlake.format.log import Entry
from singerlake.format.metadata import TransactionSummary
from singerlake.lake import Table
from singerlake.log import versions as all_versions
from singerlake.log.state_files import last_readable
from singerlake.log.table_state import TableState
from singerlake_cli import output
from singerlake_cli.entries import all_entries, comment, made_by, readable_entries, run_id
from singerlake_cli.shared import Shared, complete_table

OPERATIONS = (
    "sync",
    "freeze",
    "delete-version",
    "point",
    "sign",
    "revert",
    "alter",
    "change",
    "replay",
    "create",
    "adopt",
    "drop",
    "undrop",
    "vacuum-start",
    "combine",
    "drop-history",
    "vacuum",
    "erase-start",
    "erase",
    "block-keys",
)
"""What ``--operation`` may be: each by the name that it has in the log."""
DROPPED_FIRST = ("blocks", "schema", "size", "run", "by", "version", "records")
"""Columns that a narrow terminal leaves out, those that matter least first."""


@click.command("history")
@click.argument("table", shell_complete=complete_table)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="NUMBER", default=20, show_default=True
)
@click.option(
    "--operation",
    "operations",
    type=click.Choice(OPERATIONS),
    multiple=True,
    help="Only transactions of this operation; may be repeated.",
)
@click.pass_obj
def command(shared: Shared, table: str, limit: int, operations: tuple[str, ...]) -> None:
    """List a TABLE's transactions, newest first.

    "records" counts the records that a transaction wrote, including deletions. "by" is who made it,
    "run" the id of its run, and "note" its change of columns or its comment. A vacuum makes
    transactions of up to four operations: vacuum-start, combine, drop-history and vacuum.

    \b
    singerlake history tap-shop.orders --limit 5
    singerlake history tap-shop.orders --operation sync --operation revert
    singerlake --output json history tap-shop.orders
    """
    lake_table, ref = shared.lake().find(table)
    if ref.version is None:
        snapshot = lake_table.snapshot(dropped=True)
    else:
        snapshot = lake_table.snapshot_at(ref.version)
    matching = [t for t in snapshot.transactions if not operations or t.operation in operations]
    newest = matching[::-1][:limit]
    readable = last_readable(lake_table.store, snapshot)
    older = len(matching) - len(newest)
    notes = [f"{older:,} older: --limit"] if older else []
    if not newest:
        notes = [f"no transaction of {snapshot.number:,} is of operation {' or '.join(operations)}"]
    notes += _notes(str(ref.table), snapshot, readable)
    shared.output.result(
        lambda: _as_json(lake_table, snapshot, [t.number for t in newest], readable),
        lambda: _print(
            str(ref),
            newest,
            snapshot,
            readable_entries(lake_table, (t.number for t in newest)),
            notes,
        ),
    )


def _print(
    title: str,
    newest: Sequence[TransactionSummary],
    snapshot: TableState,
    entries: Mapping[int, Entry],
    notes: Sequence[str],
) -> None:
    """Print transactions for people, without columns of which nothing is known."""
    there = (v for v in all_versions.known(snapshot) if v.deleted is None)
    versions = {v.transaction: v for v in there}
    noted = {
        "run": {t.number: run_id(entries.get(t.number)) for t in newest},
        "by": {t.number: made_by(entries.get(t.number)) for t in newest},
        "note~": {t.number: _note(snapshot, entries.get(t.number)) for t in newest},
    }
    noted = {name: said for name, said in noted.items() if any(said.values())}
    rows = []
    for t in newest:
        version = versions.get(t.number)
        frozen = f"{version.number} {version.label or ''}".rstrip() if version else None
        cells = [
            t.number,
            output.clock(t.time),
            t.operation,
            f"{t.rows:,}" if t.rows else None,
            t.blocks or None,
            output.size(t.bytes) if t.bytes else None,
            t.schema_hash,
            frozen,
        ]
        rows.append([*cells, *(said[t.number] for said in noted.values())])
    columns = ["no.>", "time (UTC)", "operation", "records>", "blocks>", "size>", "schema"]
    columns += ["version", *noted]
    output.print_table(title, columns, rows, *notes, drop=DROPPED_FIRST)


def _note(snapshot: TableState, entry: Entry | None) -> str | None:
    """Describe what a transaction did besides changing rows, and why it was made."""
    if entry is None:
        return None
    done: list[str] = []
    if to := entry.metadata.get("reverted_to"):
        done.append(f"back to transaction {to}")
    if isinstance(undone := entry.metadata.get("undone"), list) and undone:
        done.append(f"without transaction{'s'[: len(undone) > 1]} {', '.join(map(str, undone))}")
    if (gone := entry.deletion) is not None:
        done.append(f"deleted version {gone.version}: {gone.reason}")
    if (move := entry.pointer) is not None:
        to = f"points to version {move.version}" if move.version else "is removed"
        done.append(f"@{move.name} {to}")
    if entry.signature is not None:
        done.append(f"signs version {entry.signature.version}")
    done += [*_refreshed(entry.metadata), *_replayed(entry.metadata)]
    if entry.overlay is not None:
        from singerlake.format.overlay_words import differences  # late: few transactions alter

        before, after = (snapshot.overlay_at(entry.number - n) for n in (1, 0))
        done += differences(before, after)
    return ": ".join(filter(None, ("; ".join(done), comment(entry)))) or None


def _replayed(said: Mapping[str, Any]) -> Iterator[str]:
    """Describe a replay of rejected records, and what became of them in their own table."""
    if isinstance(origin := said.get("rejected"), Mapping):
        yield f"records of {origin.get('table')} replayed"
    if isinstance(target := said.get("replayed"), Mapping):
        yield f"after a replay into {target.get('table')}"
    if said.get("discarded") is True:
        yield "rejected records discarded"


def _refreshed(said: Mapping[str, Any]) -> Iterator[str]:
    """Describe the sources of a staging table's refresh."""
    name, sources = said.get("projection"), said.get("sources")
    if not isinstance(name, str) or not isinstance(sources, list):
        return
    read = [
        f"{one.get('table')}.{version}" if version else f"{one.get('table')} @{number}"
        for one in sources
        if isinstance(one, dict)
        for version, number in [(one.get("version"), one.get("transaction"))]
    ]
    yield f"{name} of {', '.join(read) or 'nothing'}"


def _notes(table: str, snapshot: TableState, readable: int) -> list[str]:
    """Describe states that cannot be read."""
    notes = []
    if readable < snapshot.number:
        notes.append(
            f"from transaction {readable + 1} on, snapshots cannot be read: files are missing; "
            f"singerlake verify {table} lists them"
        )
    if snapshot.dropped_at:
        way_out = "restores it" if snapshot.restorable is not None else "is too late"
        notes.append(f"it is dropped: singerlake undrop {table} {way_out}")
    elif snapshot.first > 1:
        notes.append(
            f"this table began with transaction {snapshot.first}: snapshots of the earlier, "
            "dropped table cannot be read"
        )
    if snapshot.floor > snapshot.first:
        notes.append(
            f"history before transaction {snapshot.floor} has expired: of earlier snapshots, only "
            "frozen versions can be read"
        )
    return notes


def _as_json(
    table: Table, snapshot: TableState, numbers: Sequence[int], readable: int
) -> list[dict[str, Any]]:
    entries = all_entries(table, numbers)
    return [
        {
            **_in_full(snapshot.summary(number), entries.get(number)),
            "readable": number <= readable and snapshot.readable(number),
        }
        for number in numbers
    ]


def _in_full(summary: TransactionSummary, entry: Entry | None) -> dict[str, Any]:
    """Return a transaction as the log has it, or as the manifest does if the entry is lost."""
    known: dict[str, Any] = structs.asdict(summary)
    known |= {"run_id": run_id(entry), "by": made_by(entry), "comment": comment(entry)}
    if entry is not None:
        known |= {"metadata": entry.metadata, "metrics": entry.metrics}
        if entry.overlay is not None:
            known["overlay"] = to_builtins(entry.overlay)
        if entry.deletion is not None:
            known["deletion"] = structs.asdict(entry.deletion)
        if entry.pointer is not None:
            known["pointer"] = structs.asdict(entry.pointer)
        if entry.signature is not None:
            known["signature"] = structs.asdict(entry.signature)
        if entry.version is not None:
            known["version"] = structs.asdict(entry.version)
    return known
