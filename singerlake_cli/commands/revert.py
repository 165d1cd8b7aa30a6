"""singerlake revert: turn a table back to an earlier state, as a new transaction."""

from __future__ import annotations

from dataclasses import asdict

import click

from singerlake.errors import UsageError
from singerlake.format.names import TableName
from singerlake.transactions.snapshot import Snapshot
from singerlake_cli import output
from singerlake_cli.shared import Shared, begin_spark, complete_table, spark_options, start_spark
from singerlake_cli.working import working


@click.command("revert")
@click.argument("table", shell_complete=complete_table)
@click.option("--to", "version", metavar="VERSION", help="A frozen version: its number or label.")
@click.option("--to-transaction", type=click.IntRange(min=1), metavar="NUMBER")
@click.option("--to-time", metavar="TIME", help="The last transaction by then, 2026-11-20T12:00Z.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@spark_options
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    version: str | None,
    to_transaction: int | None,
    to_time: str | None,
    dry_run: bool,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Turn a TABLE back to an earlier state (a Spark job).

    Writes the difference as one new transaction, under the schema of that time. History stays,
    so a revert can be reverted, and who reads on from a bookmark gets just the difference.
    A row is put back if its record differs in a byte.

    Rows of a table without a key are all written anew, behind ACTIVATE_VERSION. A target that
    ignores this message (pipelinewise-target-postgres does) then holds them twice.

    \b
    singerlake revert tap-shop.orders --to 1 --dry-run
    singerlake revert tap-shop.orders --to 2026-q3
    singerlake revert tap-shop.orders --to-time 2026-11-20T12:00Z
    """
    found, ref = shared.lake().find(table)
    if ref.version is not None:
        raise UsageError(f"name the table alone, and where to go with --to {ref.version}")
    head = found.snapshot()
    to = _target(head, version, to_transaction, to_time)
    if not head.at(to).schema.key_properties:
        output.say(f"note: {_keyless(ref.table)}", err=True)
    begin_spark(master, conf)
    from singerlake.spark.revert import revert

    with working(f"reverting {ref.table}"):
        done = revert(start_spark(master, conf), found, to, dry_run=dry_run)
    if shared.json:
        output.print_json(asdict(done))
        return
    counts = (
        f"{done.put_back:,} rows put back, {done.deleted:,} deleted, "
        f"{done.unchanged:,} as they were"
    )
    if dry_run:
        output.say(f"{ref.table} to transaction {to}: would be {counts}")
    elif done.transaction is None:
        output.say(f"{ref.table} is at the state of transaction {to} already: nothing to do")
    else:
        output.say(f"{ref.table} to transaction {to}, as transaction {done.transaction}: {counts}")
    if done.whole and done.put_back:
        output.say(
            "all rows written anew, behind ACTIVATE_VERSION: whoever reads on from a bookmark must "
            "heed that message"
        )


def _keyless(table: TableName) -> str:
    return (
        f"{table} has no key, so a revert writes all its rows anew, behind ACTIVATE_VERSION; a "
        "target that ignores this message (pipelinewise-target-postgres does) will hold the rows "
        "twice: empty its table before it reads on"
    )


def _target(head: Snapshot, version: str | None, transaction: int | None, time: str | None) -> int:
    if [version, transaction, time].count(None) != 2:  # noqa: PLR2004
        raise UsageError("say where to go: one of --to, --to-transaction, --to-time")
    if version is not None:
        return head.version(version).transaction
    if time is not None:
        return head.at_time(time).head
    return head.summary(transaction or 0).number
