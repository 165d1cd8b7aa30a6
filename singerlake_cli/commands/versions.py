"""singerlake versions: the frozen versions of the lake, or of a table, and the end of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from msgspec import structs

from singerlake.errors import UsageError
from singerlake.format.lake_log import LakeVersion
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log import lake_log
from singerlake.log import versions as all_versions
from singerlake.log.table_state import TableState
from singerlake.log.versions import deletion_words, erasure_words
from singerlake_cli import output
from singerlake_cli.lake_versions import show_all, show_one, version_json
from singerlake_cli.shared import Shared, complete_table

if TYPE_CHECKING:
    from singerlake.ops.delete_version import DeletedVersion

DROPPED_FIRST = ("schema", "by", "proof", "frozen (UTC)", "rows")
"""Columns that a narrow terminal leaves out, those that matter least first."""


@click.command("versions")
@click.argument("table", required=False, shell_complete=complete_table)
@click.option("--lake-version", metavar="VERSION", help="List the tables of this lake version.")
@click.option("--delete", metavar="VERSION", help="Delete this version, by number or label.")
@click.option(
    "--reason",
    metavar="TEXT",
    help="Reason for the deletion; shown to anyone who requests this version.",
)
@click.option("--dry-run", is_flag=True, help="Only print what the deletion would do.")
@click.pass_obj
def command(
    shared: Shared,
    table: str | None,
    lake_version: str | None,
    delete: str | None,
    reason: str | None,
    dry_run: bool,
) -> None:
    """List the lake's or a TABLE's frozen versions, or delete one.

    Without a TABLE, it lists lake versions, each of which contains one version of each table.

    A deleted version can no longer be read, compared, copied or published, and its number is never
    used again: later requests for it show when, by whom and why it was deleted. Its label can be
    used again. Published files and copies stay, and a lake version that contains it keeps its other
    tables. Rows that only this version kept become history, which `singerlake vacuum
    --expire-history` deletes after its retention. Until then, you can freeze the snapshot again, as
    a new version: `singerlake freeze TABLE --transaction N`.

    \b
    singerlake versions
    singerlake versions --lake-version 2026-q3
    singerlake versions tap-shop.orders
    singerlake versions tap-shop.orders --delete 3 --reason "rows of a customer who left"
    """
    lake = shared.lake()
    if table is None or lake_version is not None:
        if table is not None:
            raise UsageError("--lake-version lists a lake version's tables: leave the TABLE out")
        _show_lake(shared, lake, lake_version, deleting=bool(delete or reason or dry_run))
        return
    lake_table, ref = lake.find(table)
    if delete is not None:
        if ref.version is not None:
            raise UsageError(f"name the table alone: {ref.table} --delete {delete}")
        if not delete.strip():
            raise UsageError("name the version with --delete, by number or label")
        if reason is None:
            raise UsageError(
                "give the reason with --reason TEXT: it is shown to anyone who requests this "
                "version"
            )
        _delete(shared, lake, lake_table, delete, reason, dry_run=dry_run)
        return
    if reason is not None or dry_run:
        raise UsageError("--reason and --dry-run go with --delete VERSION")
    snapshot = lake_table.snapshot()
    if ref.version is None:
        versions = all_versions.by_number(snapshot.frozen, snapshot.deleted_versions)
    else:
        versions = [snapshot.version(ref.version)]
    shared.output.result(
        lambda: [version_json(version) for version in versions],
        lambda: _print(snapshot, versions),
    )


def _show_lake(shared: Shared, lake: Lake, lake_version: str | None, *, deleting: bool) -> None:
    if deleting:
        raise UsageError(
            "lake versions cannot be deleted: to delete the version of a table, name the TABLE"
        )
    if lake_version is None:
        show_all(shared, lake)
    else:
        show_one(shared, lake, lake_version)


def _delete(
    shared: Shared, lake: Lake, table: Table, name: str, reason: str, *, dry_run: bool
) -> None:
    from singerlake.ops.delete_version import delete_version  # late: a list needs no writer

    done = delete_version(table.store, table.snapshot(), name, reason, dry_run=dry_run)
    # Nobody but who published it can take that back.
    if published := lake.annotations().published_from(table.name):
        where = ", ".join(
            one.to if name == one.to else f"{name} ({one.to})" for name, one in published.items()
        )
        shared.output.note(f"published copies of {table.name} stay as they are: {where}")
    naming = _naming(lake, table, done)
    for one in naming:
        shared.output.note(
            f"{one} contains it, keeps its other tables, and reports that this one was deleted"
        )
    shared.output.result(
        lambda: {
            **asdict(done),
            "version": structs.asdict(done.version),
            "lake_versions": [one.number for one in naming],
        },
        lambda: _print_deleted(table.name, done),
    )


def _naming(lake: Lake, table: Table, done: DeletedVersion) -> list[LakeVersion]:
    """Return the lake versions that name a version, as far as the lake's log can be read."""
    versions, _ = lake_log.look(lake.store)  # verify tells of others; a version can go all the same
    return lake_log.naming(versions, table.name, done.version.number)


def _print_deleted(table: TableName, done: DeletedVersion) -> None:
    version = done.version
    name = f"version {version.number}" + (f" ({version.label})" if version.label else "")
    if done.transaction is None:
        output.say(f"{name} of {table} would be deleted: {output.count(version.rows, 'row')}")
    else:
        output.say(f"{name} of {table} is deleted (transaction {done.transaction})")
    if done.becomes_history:
        becomes = "are history now" if done.transaction is not None else "would be history"
        output.say(
            f"rows of transaction {version.transaction} that only it kept {becomes}: singerlake "
            "vacuum --expire-history deletes it when the deletion is older than its retention"
        )


def _print(head: TableState, versions: Sequence[FrozenVersion]) -> None:
    table = head.table
    if not versions:
        output.say(f"{table} has no versions; to freeze one: singerlake freeze {table}")
        return
    rows = [
        (
            v.number,
            v.label,
            v.transaction,
            f"{v.rows:,}",
            v.schema_hash,
            output.short_proof(v.fingerprint),
            output.clock(v.time),
            v.by,
            v.comment if v.deleted is None else f"deleted: {v.deleted.reason}",
        )
        for v in versions
    ]
    columns = (
        "version>",
        "label",
        "of>",
        "rows>",
        "schema",
        "proof",
        "frozen (UTC)",
        "by",
        "comment~",
    )
    note = "of: its transaction · proof: start of its fingerprint; --output json contains all of it"
    if any(v.only_against_accident for v in versions):
        note += " · without lt1: against accident only"
    if marked := [v for v in versions if v.violations]:
        broken = (f"{v.number} breaks {', '.join(v.violations)}" for v in marked)
        note += f" · {'; '.join(broken)}"
    pointers = all_versions.pointers(head)
    if named := [f"@{name} names {one.number}" for name, (one, _) in pointers.items()]:
        note += f" · {', '.join(named)}"
    if signed := [str(v.number) for v in versions if v.signed]:
        note += f" · signed: {', '.join(signed)}"
    deleted = [deletion_words(table, v) for v in versions if v.deleted is not None]
    erased = [words for v in versions for words in erasure_words(v)]
    output.print_table(str(table), columns, rows, note, *deleted, *erased, drop=DROPPED_FIRST)
