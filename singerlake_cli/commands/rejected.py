"""singerlake rejected: records that the target rejected, and replays of them."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from singerlake.errors import NotFoundError, SingerlakeError, UsageError
from singerlake.format.names import REJECTED, TableName
from singerlake.lake import Lake, Table
from singerlake_cli import live_line, output
from singerlake_cli.shared import Shared, complete_table, engine_options, exit_with
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.ops.rejected.kept import KeptLine, ReasonCount
    from singerlake.ops.rejected.listing import Selection
    from singerlake.ops.rejected.replay import Replayed

SAMPLE = 5
"""Records that are shown."""


@click.command("rejected")
@click.argument("table", required=False, shell_complete=complete_table)
@click.option("--replay", is_flag=True, help="Make rows of the records that pass today.")
@click.option("--export", is_flag=True, help="Print the records as Singer messages.")
@click.option("--discard", is_flag=True, help="Take the selected records off the list.")
@click.option(
    "--reason",
    metavar="TEXT",
    help="Only records with this reason: as listed, a part of it, or a pattern with * and ?.",
)
@click.option(
    "--where",
    metavar="SQL",
    help="Only records for which this condition on the dead-letter table is true.",
)
@click.option("--overwrite", is_flag=True, help="With --replay: also replace rows that are newer.")
@click.option("--values", is_flag=True, help="Show values of the records.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@click.option("--comment", metavar="TEXT", help="The reason; kept with the transaction.")
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    table: str | None,
    replay: bool,
    export: bool,
    discard: bool,
    reason: str | None,
    where: str | None,
    overwrite: bool,
    values: bool,
    dry_run: bool,
    comment: str | None,
    choice: EngineChoice,
) -> None:
    """List, replay, export or discard rejected records of a TABLE.

    A target with the setting invalid_records: quarantine puts records that it rejects into the
    dead-letter table STREAM__rejected. Without a TABLE, the command lists all such tables.

    --replay checks each record against the table's present schema, overrides and constraints. The
    records that pass become rows, in one transaction; the others stay, with their new reason. A
    record is replayed once. One that is older than the row of its key stays, unless --overwrite is
    given. --discard does not delete records: the history of the dead-letter table keeps them. To
    remove them everywhere, use `singerlake erase`.

    Tables of up to 32 MiB of messages need no Spark, except for some conditions in --where;
    --engine chooses otherwise.

    \b
    singerlake rejected
    singerlake rejected tap-shop.orders --values
    singerlake rejected tap-shop.orders --replay --dry-run
    singerlake rejected tap-shop.orders --replay --reason '*is not of type "number"*'
    singerlake rejected tap-shop.orders --export > lines.jsonl
    singerlake rejected tap-shop.orders --discard --where "line < 100" --comment "test data"
    """
    actions = {"replay": replay, "export": export, "discard": discard}
    chosen = [name for name, asked in actions.items() if asked]
    _check(table, chosen, reason, where, overwrite, values, dry_run, comment)
    lake = shared.lake()
    if table is None:
        _list_tables(shared, lake)
        return
    from singerlake.ops.rejected.listing import Selection

    selection, found = Selection(reason, where), _table(lake, table)
    if replay:
        _replay(shared, found, selection, overwrite, dry_run, comment, choice)
    elif discard:
        _discard(shared, found, selection, dry_run, comment, choice)
    elif export:
        _export(found, selection, choice)
    else:
        _list(shared, found, selection, values, choice)


def _check(
    table: str | None,
    chosen: list[str],
    reason: str | None,
    where: str | None,
    overwrite: bool,
    values: bool,
    dry_run: bool,
    comment: str | None,
) -> None:
    """Refuse options that do not go together.

    Raises:
        UsageError: Some do not.
    """
    if len(chosen) > 1:
        raise UsageError(f"use one of --{' and --'.join(chosen)}")
    if table is None and (chosen or reason or where or values):
        raise UsageError("name the TABLE: singerlake rejected lists the tables that have records")
    if overwrite and chosen != ["replay"]:
        raise UsageError("--overwrite needs --replay")
    if (dry_run or comment is not None) and chosen not in (["replay"], ["discard"]):
        raise UsageError("--dry-run and --comment need --replay or --discard")
    if values and chosen:
        raise UsageError("--values is for the list of records: leave it out")


def _table(lake: Lake, text: str) -> Table:
    """Find the table whose records are meant, by its name or by that of its dead-letter table."""
    try:
        table, ref = lake.find(text)
    except NotFoundError as error:
        try:
            table, ref = lake.find(text + REJECTED)
        except SingerlakeError:
            raise error from None
    if ref.version is not None:
        raise UsageError(f"{ref} is frozen and never changes: name the table alone")
    name = table.name
    return Table(lake.store, TableName(name.tap, name.stream.removesuffix(REJECTED)))


def _typed(name: TableName) -> str:
    """Name what has rejected records as it can be typed; lines of no stream have no table."""
    return str(name) if name.stream else f"{name.tap}.{REJECTED}"


def _list_tables(shared: Shared, lake: Lake) -> None:
    from singerlake.ops.rejected import kept
    from singerlake.ops.rejected.listing import dead_letter_tables, rejected_lines

    def look(table: Table) -> list[ReasonCount]:
        stream = table.name.stream.removesuffix(REJECTED)
        return kept.counted(rejected_lines(Table(table.store, TableName(table.name.tap, stream))))

    found, failed = list[dict[str, Any]](), list[SingerlakeError]()
    with working("reading rejected records"):
        for name, counts in lake.each(dead_letter_tables(lake), look):
            if isinstance(counts, SingerlakeError):
                failed.append(counts)
            elif counts:
                found.append(_summary(name, counts))
    shared.output.result(lambda: found, lambda: _print_tables(found))
    exit_with(shared, failed)


def _summary(name: TableName, counts: list[ReasonCount]) -> dict[str, Any]:
    return {
        "table": _typed(TableName(name.tap, name.stream.removesuffix(REJECTED))),
        "dead_letter_table": str(name),
        "lines": sum(one.lines for one in counts),
        "reasons": len(counts),
        "first": min(one.first for one in counts),
        "last": max(one.last for one in counts),
    }


def _print_tables(found: list[dict[str, Any]]) -> None:
    if not found:
        output.say("no records are rejected")
        return
    rows = [
        [
            one["table"],
            f"{one['lines']:,}",
            f"{one['reasons']:,}",
            output.clock(one["first"]),
            output.clock(one["last"]),
        ]
        for one in found
    ]
    columns = ["table", "rejected>", "reasons>", "first (UTC)", "last (UTC)"]
    output.print_table(None, columns, rows, drop=("first (UTC)", "reasons"))


def _list(
    shared: Shared, table: Table, selection: Selection, values: bool, choice: EngineChoice
) -> None:
    from singerlake.ops.rejected import kept
    from singerlake.ops.rejected.listing import rejected_lines

    with working("reading rejected records"):
        lines = rejected_lines(table, selection, choice)
    counts, sample = kept.counted(lines), lines[:SAMPLE]

    def document() -> dict[str, Any]:
        return {
            "table": _typed(table.name),
            "lines": len(lines),
            "reasons": [asdict(one) for one in counts],
            "sample": [_shown(one, values=values) for one in sample],
        }

    shared.output.result(document, lambda: _print(table.name, lines, counts, sample, values))


def _shown(line: KeptLine, *, values: bool) -> dict[str, Any]:
    from singerlake.ops.rejected import kept

    return {
        "digest": line.digest,
        "line": line.line,
        "file": line.file,
        "time": line.time,
        "reason": line.reason if values else line.kind,
        "message": line.text.decode("utf-8", "replace") if values else kept.hidden(line.text),
    }


def _print(
    name: TableName,
    lines: list[KeptLine],
    counts: list[ReasonCount],
    sample: list[KeptLine],
    values: bool,
) -> None:
    if not lines:
        output.say(f"{_typed(name)} has no rejected records, or none that are selected")
        return
    _print_counts(f"{_typed(name)}: {output.count(len(lines), 'rejected record')}", counts)
    rows = []
    for one in sample:
        shown = _shown(one, values=values)
        rows.append([one.line, output.clock(one.time), shown["message"]])
    title = f"the first {len(rows):,}" if len(lines) > len(rows) else "records"
    note = "" if values else "values are hidden: --values shows them"
    output.print_table(title, ["line>", "rejected (UTC)", "record~"], rows, note)


def _print_counts(title: str, counts: list[ReasonCount]) -> None:
    rows = [
        [f"{one.lines:,}", one.reason, output.clock(one.first), output.clock(one.last)]
        for one in counts
    ]
    columns = ["records>", "reason~", "first (UTC)", "last (UTC)"]
    output.print_table(title, columns, rows, drop=("first (UTC)", "last (UTC)"))


def _replay(
    shared: Shared,
    table: Table,
    selection: Selection,
    overwrite: bool,
    dry_run: bool,
    comment: str | None,
    choice: EngineChoice,
) -> None:
    from singerlake.ops.rejected.replay import ReplayOptions, replay

    options = ReplayOptions(selection, overwrite=overwrite, dry_run=dry_run, comment=comment)
    with working(f"replaying rejected records of {_typed(table.name)}"):
        done = replay(table, options, choice)
    shared.output.result(
        lambda: {"table": _typed(table.name), **asdict(done), "dry_run": dry_run},
        lambda: _print_replayed(table.name, done, dry_run=dry_run),
    )


def _print_replayed(name: TableName, done: Replayed, *, dry_run: bool) -> None:
    records = output.count(done.replayed, "record")
    stay = f"{output.count(done.kept, 'record')} {'stays' if done.kept == 1 else 'stay'} rejected"
    if dry_run:
        output.say(f"{_typed(name)}: {records} would be replayed; {stay}")
    elif done.transaction is None:
        output.say(f"{_typed(name)}: no record was replayed; {stay}")
    else:
        output.say(f"{_typed(name)}, transaction {done.transaction}: {records} replayed; {stay}")
    if done.present:
        verb = "would be" if dry_run else "was" if done.present == 1 else "were"
        output.say(
            f"{output.count(done.present, 'record')} {verb} taken off the list, because the table "
            "has the same row"
        )
    if done.reasons:
        _print_counts("rejected still", done.reasons)


def _discard(
    shared: Shared,
    table: Table,
    selection: Selection,
    dry_run: bool,
    comment: str | None,
    choice: EngineChoice,
) -> None:
    from singerlake.ops.rejected.listing import DiscardOptions, discard

    done = discard(table, DiscardOptions(selection, comment, dry_run), choice)
    verb = "would be discarded" if dry_run else "discarded"
    shared.output.result(
        lambda: {"table": _typed(table.name), **asdict(done), "dry_run": dry_run},
        lambda: output.say(f"{_typed(table.name)}: {output.count(done.lines, 'record')} {verb}"),
    )


def _export(table: Table, selection: Selection, choice: EngineChoice) -> None:
    from singerlake.ops.rejected.listing import as_messages, rejected_lines

    lines = rejected_lines(table, selection, choice)
    with live_line.aside():
        for message in as_messages(table, lines):
            sys.stdout.buffer.write(message)
        sys.stdout.buffer.flush()
