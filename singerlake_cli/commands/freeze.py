"""singerlake freeze: give the state of a table, or of many at once, a number for ever."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import structs

from singerlake.errors import UsageError
from singerlake.lake import Lake, Table
from singerlake.publish.projection import Projection
from singerlake_cli import output
from singerlake_cli.lake_versions import (
    choose,
    freeze_many,
    frozen_words,
    note_comment,
    pointer_words,
)
from singerlake_cli.shared import Shared, complete_table, engine_options
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.ops.freeze import Frozen


@click.command("freeze")
@click.argument("tables", nargs=-1, metavar="[TABLE|TAP]...", shell_complete=complete_table)
@click.option("--all", "every", is_flag=True, help="All tables of the lake, as a lake version.")
@click.option("--label", metavar="TEXT", help="A name that can be used instead of the number.")
@click.option("--comment", metavar="TEXT", help="Why; kept with the version.")
@click.option(
    "--transaction",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Freeze the snapshot at this transaction.  [default: the last]",
)
@click.option(
    "--allow-violations", is_flag=True, help="Even if rows break a constraint; the version says so."
)
@click.option(
    "--again",
    is_flag=True,
    help="Make a new version even if the state has one, or a lake version even if one names the "
    "same versions.",
)
@click.option(
    "--as",
    "pointer",
    metavar="NAME",
    help="Move the pointer @NAME to the version: see singerlake point.",
)
@click.option(
    "--require",
    "require",
    multiple=True,
    metavar="CONDITION",
    help="Freeze only if the snapshot meets this: 'rows > 0', 'deleted < 5%', 'nulls(total) = 0', "
    "'schema unchanged', 'sql: select …'. Repeatable.",
)
@click.option(
    "--publish",
    is_flag=True,
    help="Then publish it, by the projections that publish versions of this table.",
)
@click.option(
    "--projections",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --publish: where they are declared.  [default: projections.yml]",
)
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    tables: tuple[str, ...],
    every: bool,
    label: str | None,
    comment: str | None,
    transaction: int | None,
    allow_violations: bool,
    again: bool,
    pointer: str | None,
    require: tuple[str, ...],
    publish: bool,
    file: Path | None,
    choice: EngineChoice,
) -> None:
    """Freeze a TABLE, or many tables as one.

    A version is a number that means a table's state for ever. Its row count and fingerprints of
    its content are kept with it (--output json shows them in full). No sync renumbers or moves a
    version. Tables of up to 32 MiB of messages, without constraints of their own, are frozen in
    this process, others by Spark; --engine decides otherwise.

    A state that has a version already gets no other: that version is shown. A --label that it
    does not have makes a new version, and so does --again. The same holds for lake versions.

    Several TABLES, a TAP or --all make a lake version: a number that means one version of each
    table, of the states that all of them had at one moment. Tables whose state has a version
    already keep it, the others get a new one; --label and the fingerprint are the lake version's.
    If a table cannot be frozen there is no lake version, and the next run goes on from there.

    With --require, all conditions are checked before anything is frozen. If one is not met, the
    command lists each of these with what it found, freezes nothing and ends with code 4. The
    version keeps the conditions that it met. Conditions measure: rows; inserted, updated, deleted
    and unchanged beside the version before, in rows or percent (a first version meets them);
    nulls(COLUMN) and distinct(COLUMN), in rows or percent; min(COLUMN), max(COLUMN), sum(COLUMN);
    freshness, the time since the newest record was committed; schema unchanged; and sql: a
    SELECT that must return no row. Statements need Spark.

    \b
    singerlake freeze tap-shop.orders
    singerlake freeze tap-shop.orders --label 2026-q3 --comment "as reported"
    singerlake freeze tap-shop.orders --transaction 17
    singerlake freeze tap-shop.orders --publish
    singerlake freeze tap-shop.orders --require "rows > 0" --require "deleted < 5%" --as current
    singerlake freeze --all --label 2026-q3
    singerlake freeze tap-shop tap-crm.people --label 2026-q3
    """
    from singerlake.ops.freeze import FreezeOptions, freeze
    from singerlake.ops.freeze_lake import LakeFreezeOptions

    if every == bool(tables):
        raise UsageError("either name the tables or taps to freeze, or say --all")
    if file is not None and not publish:
        raise UsageError("--projections goes with --publish")
    lake = shared.lake()
    many = every or len(tables) > 1 or "." not in tables[0]
    chosen = choose(lake, tables, every=every) if many else None
    if chosen is not None and not chosen.alone:
        _check_many(transaction, pointer, publish=publish)
        wanted = LakeFreezeOptions(label, comment, again, allow_violations, chosen.named, require)
        freeze_many(shared, lake, chosen, wanted, choice)
        return
    lake_table, ref = lake.find(tables[0])
    if ref.version is not None:
        raise UsageError(
            f"{ref} is frozen already; to freeze an earlier snapshot use --transaction"
        )
    projections = _publishing(lake, lake_table, file) if publish else []
    options = FreezeOptions(transaction, label, comment, again, allow_violations, pointer, require)
    with working(f"freezing {lake_table.name}"):
        frozen = freeze(lake_table, options, choice)
    if not frozen.new:
        note_comment(shared, frozen.version.comment, comment)
    document = {**structs.asdict(frozen.version), "new": frozen.new}
    if not publish:
        shared.output.result(lambda: document, lambda: _say(lake_table, frozen))
        return
    from singerlake.ops.publish.outcome import PublishOptions
    from singerlake_cli.publishing import as_json, end, outcomes, say

    done = list(outcomes(lake, projections, PublishOptions(), choice))

    def print_both() -> None:
        _say(lake_table, frozen)
        for outcome in done:
            say(outcome)

    published = [as_json(outcome) for outcome in done]
    shared.output.result(lambda: {**document, "published": published}, print_both)
    end(shared, done)


def _say(table: Table, frozen: Frozen) -> None:
    output.say(frozen_words(table.name, frozen.version, new=frozen.new))
    if frozen.pointer is not None:
        output.say(pointer_words(table.name, frozen.pointer))


def _check_many(transaction: int | None, pointer: str | None, *, publish: bool) -> None:
    if pointer is not None:
        raise UsageError("--as is for one table: use --label to name a lake version")
    if transaction is not None:
        raise UsageError(
            "--transaction is for one table: many are frozen as they are at one moment"
        )
    if publish:
        raise UsageError(
            "--publish is for one table: publish what a lake version names with: singerlake publish"
        )


def _publishing(lake: Lake, table: Table, file: Path | None) -> list[Projection]:
    """The projections that publish a table's versions.

    Raises:
        UsageError: There is none.
        NotFoundError: None are declared at all.
    """
    from singerlake.publish.declaration import declared
    from singerlake.publish.versions import versioned_table

    found = [
        one
        for one in declared(file)
        if one.versions and one.target and versioned_table(lake, one).name == table.name
    ]
    if not found:
        raise UsageError(
            f"no projection publishes versions of {table.name}: say versions: true in one"
        )
    return found
