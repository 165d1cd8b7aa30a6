"""singerlake erase: erase rows of a table for good, or search all of a lake for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from singerlake.errors import DamagedError, DataError, UsageError
from singerlake.lake import Lake
from singerlake.ops.erase.plan import EraseOptions
from singerlake_cli import erased_keys, erasing, output
from singerlake_cli.commands.vacuum import duration
from singerlake_cli.shared import Shared, complete_table, engine_options
from singerlake_cli.signing import signer_of
from singerlake_cli.working import follow, working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.format.names import TableName
    from singerlake.ops.erase.check import Report
    from singerlake.ops.erase.sought import Sought

DROPPED_FIRST = ("matches", "first seen")
"""Columns that a narrow terminal leaves out, those that matter least first."""
SHOWN = 50
"""Objects that a table for people lists; programs get all."""


@click.command("erase")
@click.argument("table", required=False, shell_complete=complete_table)
@click.option(
    "--search", "searching", is_flag=True, help="Erase nothing: list where rows or texts remain."
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="ID",
    help="The _row_id of a row: its key; a JSON array of texts if the key has several columns. "
    "May be repeated.",
)
@click.option("--text", "texts", multiple=True, metavar="TEXT", help="Any text. May be repeated.")
@click.option(
    "--texts-from",
    "file",
    metavar="FILE",
    help="A file of texts, one per line, to keep them out of process lists; - is standard input.",
)
@click.option("--where", metavar="SQL", help="Rows for which this condition was true at any time.")
@click.option(
    "--from",
    "ids_from",
    metavar="FILE",
    help="A file of ids, one per line, to keep them out of process lists; - is standard input.",
)
@click.option(
    "--reason",
    metavar="TEXT",
    help="The reason. The log and affected versions show it, so do not name the person.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be erased.")
@click.option(
    "--wait",
    type=duration,
    metavar="DURATION",
    default="10min",
    show_default=True,
    help="How long to wait for readers that may need files that are about to be deleted.",
)
@click.option(
    "--allow-text-mentions",
    is_flag=True,
    help="Erase even if text in log entries, such as comments or a tap's bookmark, names a row.",
)
@click.option(
    "--notify-downstream",
    type=duration,
    metavar="DURATION",
    help="For this time, have taps that resume from an older bookmark emit deletions of the rows. "
    "The lake keeps the keys that long.",
)
@click.option(
    "--block",
    is_flag=True,
    help="Also drop future rows with these keys, in syncs, uploads and changes. Keyed hashes of "
    "the keys are stored.",
)
@click.option(
    "--purge-object-versions",
    is_flag=True,
    help="Also delete all earlier versions of the tables' objects that the bucket keeps (S3).",
)
@click.option("--unblock", is_flag=True, help="Erase nothing: accept rows with blocked keys again.")
@click.option("--all", "every", is_flag=True, help="With --unblock: all blocked keys.")
@click.option(
    "--revoke-notices",
    is_flag=True,
    help="Erase nothing: delete the notices of --notify-downstream, and the keys in them, now.",
)
@click.option(
    "--no-notify",
    is_flag=True,
    help="Leave out the note that downstream targets are not notified.",
)
@click.option(
    "--sign",
    "key_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="KEY",
    help="Sign what is left of the affected versions with this OpenSSH key: see singerlake sign.",
)
@click.option(
    "--certificate",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="After the erasure, search the whole lake, and write FILE.json and FILE.html, which "
    "contain no value of the rows. With --sign, also write FILE.json.sig.",
)
@click.option(
    "--table",
    "others",
    multiple=True,
    metavar="TABLE",
    help="Also erase rows of this table, by the same ids or condition, or by 'TABLE where SQL'. "
    "May be repeated.",
)
@click.option(
    "--projections",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file that declares published copies.  [default: projections.yml]",
)
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    table: str | None,
    searching: bool,
    keys: tuple[str, ...],
    texts: tuple[str, ...],
    file: str | None,
    where: str | None,
    ids_from: str | None,
    reason: str | None,
    dry_run: bool,
    wait: float,
    allow_text_mentions: bool,
    notify_downstream: float | None,
    block: bool,
    purge_object_versions: bool,
    unblock: bool,
    every: bool,
    revoke_notices: bool,
    no_notify: bool,
    key_file: Path | None,
    certificate: Path | None,
    others: tuple[str, ...],
    projections: Path | None,
    choice: EngineChoice,
) -> None:
    """Erase rows from all snapshots and versions of TABLEs (GDPR).

    A deleted row stays in earlier snapshots and versions. An erasure removes it from all of them,
    and cannot be undone. Versions keep their numbers and show the erasure. Before it commits, the
    command proves that each version loses exactly these rows. It then waits for readers, deletes
    the old files without a retention, and rebuilds published copies with their frozen versions.

    If derived tables, rejected records or text contain the rows, the command lists them and changes
    nothing until you add the tables with --table or handle them. Backups, copies of the lake, and
    databases that were loaded from it do not change.

    --search changes nothing. It reads every object of the lake, including orphan files, earlier
    versions of objects on S3, and published copies that it can reach. It searches for a key in the
    rows of its table, and for a text in all values and all other bytes. The exit code is 0 if
    everything was read and nothing was found, otherwise 5. The output does not repeat the search
    terms.

    Tables of up to 32 MiB of messages need no Spark, except for complex conditions and to rebuild
    published copies that SQL computes. --engine overrides this.

    \b
    singerlake erase tap-shop.customers --key 4711 --reason "request 12" --dry-run
    singerlake erase tap-shop.customers --from ids.txt --reason "request 12"
    singerlake erase tap-shop.customers --key 4711 --reason "request 12" \\
        --table "tap-shop.orders where customer_id = 4711" --table staging.customers
    singerlake erase --search tap-shop.customers --key 4711
    singerlake erase --search --text ada@example.com --text "Ada Lovelace"
    singerlake --output json erase --search --texts-from person.txt
    """
    context = click.get_current_context()
    if unblock:
        _check_alone(context, "unblock", ("table", "keys", "ids_from", "every"))
        erased_keys.unblock(shared, table, keys, ids_from, every=every)
        return
    if revoke_notices:
        _check_alone(context, "revoke_notices", ("table",))
        erased_keys.revoke_notices(shared, table)
        return
    if every:
        raise UsageError("--all requires --unblock")
    if searching:
        _check_alone(context, "searching", ("table", "keys", "texts", "file", *_ANYWAY))
        context.exit(_check(shared, table, keys, (*texts, *_texts_of(file)), projections))
    if texts or file is not None:
        raise UsageError("--text and --texts-from require --search: rows are erased by --key")
    if table is None:
        raise UsageError("name the TABLE whose rows are to be erased")
    if reason is None:
        raise UsageError("give the reason with --reason TEXT: the log keeps it")
    if no_notify and notify_downstream:
        raise UsageError("--notify-downstream and --no-notify exclude each other: use one")
    options = EraseOptions(
        reason,
        dry_run,
        notify_downstream or 0.0,
        block,
        purge_object_versions,
        signer_of(key_file),
        lease_wait_seconds=wait,
    )
    words = not allow_text_mentions
    asked = erasing.Asked(
        keys, where, ids_from, options, words, no_notify, others, projections, certificate
    )
    context.exit(erasing.erase(shared, table, asked, choice))


_ANYWAY = ("projections", "wait", "engine", "master", "conf")
_ALONE = {
    "searching": "--search looks for --key, --text and --texts-from: leave the others out",
    "revoke_notices": "--revoke-notices goes with the TABLE alone: leave the others out",
    "unblock": "--unblock goes with --key, --from and --all: leave the others out",
}


def _check_alone(context: click.Context, mode: str, fitting: Sequence[str]) -> None:
    """Refuse options that have no meaning for this request."""
    said = {name for name in context.params if _is_said(context, name)}
    if said - {mode, *fitting}:
        raise UsageError(_ALONE[mode])


def _is_said(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _texts_of(file: str | None) -> Sequence[str]:
    return () if file is None else erasing.lines_of(file, "text")


def _check(
    shared: Shared,
    table: str | None,
    keys: Sequence[str],
    texts: Sequence[str],
    projections: Path | None,
) -> int:
    """Search all of the lake for what is given; return the exit code."""
    if not keys and not texts:
        raise UsageError("specify what to search for with --key, --text or --texts-from")
    if keys and table is None:
        raise UsageError("--key needs the TABLE whose key it is")
    lake = shared.lake()
    name, sought = _sought(lake, table, keys, texts)
    report = _checked(lake, sought, name, projections)
    if name is not None and keys:
        report.notes += erased_keys.blocked_notes(lake.table(name), [*dict.fromkeys(keys)])
    shared.output.result(lambda: _as_json(report), lambda: _print(report, len(sought)))
    for text in report.notes:
        shared.output.note(text)
    return 0 if report.is_clean else DamagedError.exit_code


def _sought(
    lake: Lake, table: str | None, keys: Sequence[str], texts: Sequence[str]
) -> tuple[TableName | None, list[Sought]]:
    """Return the texts to search for, under names that do not repeat them."""
    from singerlake.ops.erase.sought import Key, KeyNames, Text

    sought: list[Sought] = [
        Text(f"text {number}", text) for number, text in enumerate(dict.fromkeys(texts), 1)
    ]
    if table is None:
        return None, sought
    found, ref = lake.find(table)
    if ref.version is not None:
        raise UsageError(
            f"{ref} is a version: the search reads the whole lake, so name the table alone"
        )
    if keys:
        names = KeyNames.of(found.snapshot(dropped=True))
        sought += [
            Key(f"key {number}", key, names) for number, key in enumerate(dict.fromkeys(keys), 1)
        ]
    return found.name, sought


def _checked(
    lake: Lake, sought: Sequence[Sought], name: TableName | None, projections: Path | None
) -> Report:
    from singerlake.ops.erase.check import Report, check
    from singerlake.ops.erase.published_places import published_places

    seen = Report()

    def note(report: Report) -> None:
        seen.objects, seen.bytes = report.objects, report.bytes

    follow(lambda: (f"{seen.objects:,} objects, {seen.bytes / 1e6:,.0f} MB", 0, 0))
    try:
        places = published_places(lake, projections)
    except DataError as error:  # of the lake's own file, which is looked through all the same
        seen.notes.append(f"cannot determine what is published outside the lake: {error}")
        places = []
    with working("reading the whole lake"):
        report = check(lake, sought, name, note, places)
    report.notes += seen.notes
    return report


def _print(report: Report, sought: int) -> None:
    rows = [
        (
            one.sought,
            one.key + (f" (version {one.version})" if one.version else ""),
            one.words,
            one.count,
            one.first,
        )
        for one in report.found[:SHOWN]
    ]
    if rows:
        columns = ("search term", "object~", "kind~", "matches>", "first seen~")
        output.print_table(None, columns, rows, drop=DROPPED_FIRST)
    if len(report.found) > SHOWN:
        output.say(f"and {len(report.found) - SHOWN:,} more: --output json lists all")
    for unread in report.not_read:
        output.say(f"not read: {unread.key or 'the store'}: {unread.why}")
    for table, count in sorted(report.alike.items()):
        output.say(
            f"{table} has rows with the same values in columns of the same names, in "
            f"{output.count(count, 'object')}: check whether they belong to the same person"
        )
    for words, count in sorted(report.packed.items()):
        output.say(f"{words}: of {output.count(count, 'file')} only the bytes were searched")
    objects = f"{output.count(report.objects, 'object')} ({output.size(report.bytes)})"
    things = output.count(sought, "search term")
    if report.found:
        where = output.count(len({(one.key, one.version) for one in report.found}), "object")
        output.say(f"searched {objects} for {things}: found in {where}")
    else:
        left = ", but not all could be read" if report.not_read else ""
        output.say(f"searched {objects} for {things}: not found{left}")


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "found": [
            {**asdict(one), "table": str(one.table) if one.table else None} for one in report.found
        ],
        "not_read": [asdict(one) for one in report.not_read],
        "packed": dict(report.packed),
        "alike": {str(table): count for table, count in sorted(report.alike.items())},
        "notes": report.notes,
        "objects": report.objects,
        "bytes": report.bytes,
    }
