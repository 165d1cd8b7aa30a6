"""singerlake freeze: give the state of a table, or of many at once, a number for ever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from singerlake.errors import UsageError
from singerlake.lake import Lake, Table
from singerlake.log.requested_state import Naming
from singerlake.publish.projection import Projection
from singerlake_cli import output
from singerlake_cli.lake_versions import (
    choose,
    freeze_many,
    frozen_words,
    note_comment,
    pointer_words,
    signed_words,
    version_json,
)
from singerlake_cli.shared import Shared, complete_table, engine_options
from singerlake_cli.signing import signer_of
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.ops.freeze import Frozen


@click.command("freeze")
@click.argument("tables", nargs=-1, metavar="[TABLE|TAP]...", shell_complete=complete_table)
@click.option("--all", "every", is_flag=True, help="All tables of the lake, as a lake version.")
@click.option("--label", metavar="TEXT", help="A name that can be used instead of the number.")
@click.option("--comment", metavar="TEXT", help="The reason; kept with the version.")
@click.option(
    "--transaction",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Freeze the snapshot at this transaction.  [default: the last]",
)
@click.option(
    "--time",
    metavar="TIME",
    help="Freeze the snapshot that was the newest at this time, such as 2026-11-20T12:00Z.",
)
@click.option(
    "--allow-violations",
    is_flag=True,
    help="Freeze even if rows violate a constraint; the version records it.",
)
@click.option(
    "--again",
    is_flag=True,
    help="Create a new version even if the snapshot has one, or a lake version even if one "
    "contains the same versions.",
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
    "--sign",
    "key",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="KEY",
    help="Sign the version, or each version of a lake version, with this key of OpenSSH: see "
    "singerlake sign.",
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
    help="With --publish: the file that declares them.  [default: projections.yml]",
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
    time: str | None,
    allow_violations: bool,
    again: bool,
    pointer: str | None,
    require: tuple[str, ...],
    key: Path | None,
    publish: bool,
    file: Path | None,
    choice: EngineChoice,
) -> None:
    """Freeze a TABLE as a version, or several as a lake version.

    A version is a permanent number for a snapshot: later syncs do not change its rows. It records
    the row count and fingerprints of the content (--output json shows them in full). Freezing
    copies nothing. If the snapshot already has a version, that version is returned, unless you add
    --again or another --label. The same holds for lake versions.

    Several TABLES, a TAP or --all create a lake version: one number for versions of all tables,
    with their contents at the same moment. Tables whose snapshot already has a version keep it;
    --label belongs to the lake version. If a table cannot be frozen, no lake version is created,
    and the next run reuses the finished versions. With --sign, the versions of all tables are
    signed, also those that existed, before the lake version is created. A key that cannot sign is
    an error before anything is frozen.

    Tables of up to 32 MiB of messages need no Spark, except for complex constraints; --engine
    chooses otherwise.

    With --require, all conditions are checked before anything is frozen. If one is not met, nothing
    is frozen, each such condition is listed with the value found, and the exit code is 4. The
    version records the conditions that it met. Conditions measure rows; inserted, updated, deleted
    and unchanged since the previous version, in rows or percent (a first version meets them);
    nulls(COLUMN) and distinct(COLUMN), in rows or percent; min(COLUMN), max(COLUMN), sum(COLUMN);
    freshness, the time since the newest record was committed; schema unchanged; and sql: a SELECT
    that must return no row. Requirements that `annotate --require` keeps for the table, its tap or
    the lake are checked too.

    \b
    singerlake freeze tap-shop.orders
    singerlake freeze tap-shop.orders --label 2026-q3 --comment "as reported"
    singerlake freeze tap-shop.orders --transaction 17
    singerlake freeze tap-shop.orders --time 2026-11-20T12:00Z
    singerlake freeze tap-shop.orders --publish
    singerlake freeze tap-shop.orders --require "rows > 0" --require "deleted < 5%" --as current
    singerlake freeze tap-shop.orders --sign ~/.ssh/id_ed25519
    singerlake freeze --all --label 2026-q3
    singerlake freeze --all --sign ~/.ssh/id_ed25519
    singerlake freeze tap-shop tap-crm.people --label 2026-q3
    """
    from singerlake.ops.freeze import FreezeOptions, freeze
    from singerlake.ops.freeze_lake import LakeFreezeOptions

    signer = signer_of(key)
    if every == bool(tables):
        raise UsageError("either name the tables or taps to freeze, or use --all")
    if file is not None and not publish:
        raise UsageError("--projections requires --publish")
    lake, named = shared.lake(), _namings(transaction, time)
    many = every or len(tables) > 1 or "." not in tables[0]
    chosen = choose(lake, tables, every=every) if many else None
    if chosen is not None and not chosen.alone:
        _check_many(named, pointer, publish=publish)
        wanted = LakeFreezeOptions(
            label, comment, again, allow_violations, chosen.named, require, signer
        )
        freeze_many(shared, lake, chosen, wanted, choice)
        return
    lake_table, ref = lake.find(tables[0])
    if ref.version is not None:
        raise UsageError(
            f"{ref} is frozen already; to freeze an earlier snapshot use --transaction or --time"
        )
    projections = _publishing(lake, lake_table, file) if publish else []
    options = FreezeOptions(
        named=named,
        label=label,
        comment=comment,
        again=again,
        allow_violations=allow_violations,
        pointer=pointer,
        require=require,
        signer=signer,
    )
    with working(f"freezing {lake_table.name}"):
        frozen = freeze(lake_table, options, choice)
    if not frozen.new:
        note_comment(shared, frozen.version.comment, comment)
    if not publish:
        document = {**version_json(frozen.version), "new": frozen.new}
        shared.output.result(lambda: document, lambda: _say(lake_table, frozen))
        return
    _publish(shared, lake, lake_table, frozen, projections, choice)


def _publish(
    shared: Shared,
    lake: Lake,
    table: Table,
    frozen: Frozen,
    projections: list[Projection],
    choice: EngineChoice,
) -> None:
    """Publish a version, and print both results."""
    from singerlake.ops.publish.outcome import PublishOptions
    from singerlake_cli.publishing import as_json, end, outcomes, say

    done = list(outcomes(lake, projections, PublishOptions(), choice))

    def print_both() -> None:
        _say(table, frozen)
        for outcome in done:
            say(outcome)

    published = [as_json(outcome) for outcome in done]
    document = {**version_json(frozen.version), "new": frozen.new, "published": published}
    shared.output.result(lambda: document, print_both)
    end(shared, done)


def _say(table: Table, frozen: Frozen) -> None:
    output.say(frozen_words(table.name, frozen.version, new=frozen.new))
    if frozen.signed is not None:
        output.say(signed_words(table.name, frozen.signed))
    if frozen.pointer is not None:
        output.say(pointer_words(table.name, frozen.pointer))


def _namings(transaction: int | None, time: str | None) -> tuple[Naming, ...]:
    return (
        Naming("--transaction", "transaction", transaction),
        Naming("--time", "time", time),
    )


def _check_many(named: Sequence[Naming], pointer: str | None, *, publish: bool) -> None:
    if pointer is not None:
        raise UsageError("--as is for one table: use --label to name a lake version")
    for one in named:
        if one.value is not None:
            raise UsageError(
                f"{one.option} needs a single table: several tables are frozen together as they "
                "are now"
            )
    if publish:
        raise UsageError(
            "--publish needs a single table: publish the tables of a lake version with: "
            "singerlake publish"
        )


def _publishing(lake: Lake, table: Table, file: Path | None) -> list[Projection]:
    """Return the projections that publish a table's versions.

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
            f"no projection publishes versions of {table.name}: set versions: true in one"
        )
    return found
