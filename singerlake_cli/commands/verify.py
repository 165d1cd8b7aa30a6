"""singerlake verify: compare tables with their logs, byte by byte."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from singerlake.errors import DamagedError, NotFoundError, SingerlakeError, UsageError
from singerlake.format.lake_log import LakeVersion
from singerlake.lake import Lake, Table
from singerlake.log.inventory import Inventory, differing
from singerlake.ops.verify.lake import LakeReport, check_lake_log
from singerlake.ops.verify.plan import damaged_lake_file, gone
from singerlake.ops.verify.problems import Problem, Report
from singerlake_cli import lake_versions, output
from singerlake_cli.shared import Shared, complete_table, engine_options
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.ops.verify.signatures import Signers

_Placed: TypeAlias = "tuple[int, Report | SingerlakeError]"
"""What came of a table, with its place among those that were asked for."""


@click.command("verify")
@click.argument("tables", nargs=-1, metavar="[TABLE]...", shell_complete=complete_table)
@click.option("--all", "every", is_flag=True, help="All tables of the lake.")
@click.option("--version", metavar="VERSION", help="Check only this version (number or label).")
@click.option(
    "--lake-version", metavar="VERSION", help="Check this lake version, with all its tables."
)
@click.option(
    "--signed-by",
    "signers_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Each version must also have a signature by one of these signers (ssh-keygen's ALLOWED "
    "SIGNERS).",
)
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    tables: tuple[str, ...],
    every: bool,
    version: str | None,
    lake_version: str | None,
    signers_file: Path | None,
    choice: EngineChoice,
) -> None:
    """Prove that TABLES are intact and unchanged.

    Reads the log, the manifest, and every block with its checksums, and recomputes the rows and
    fingerprints of each frozen version from the blocks alone. It changes nothing. If anything
    differs, it is listed, and the exit code is 5. --all also checks the lake's lists of taps and
    tables, and all lake versions. --lake-version checks its fingerprint and the versions of all its
    tables; tables that were dropped since, or whose version was deleted, are reported and are no
    damage.

    With --signed-by, every version that is checked must have a valid signature of what it contains
    now, by a signer in FILE: see `singerlake sign`. A table without versions fails. This detects
    also a log that was forged as a whole, with right hashes. It needs ssh-keygen.

    Tables of up to 32 MiB of messages (each version counted again) need no Spark; --engine chooses
    otherwise. In a pipe and as JSON, tables are in order of their names, or as you name them.

    \b
    singerlake verify tap-shop.orders
    singerlake verify tap-shop.orders --version 2026-q3
    singerlake verify tap-shop.orders --version 2026-q3 --signed-by allowed_signers
    singerlake verify --lake-version 2026-q3
    singerlake --output json verify --all
    """
    if [every, bool(tables), lake_version is not None].count(True) != 1:
        raise UsageError("either name the tables to verify, or give a --lake-version, or use --all")
    if version is not None and len(tables) != 1:
        raise UsageError("--version needs exactly one table")
    signers = _signers(signers_file)
    lake = shared.lake()
    if lake_version is not None:
        named_one = lake.lake_version(lake_version, whole=False)
        _verify_lake_version(shared, lake, named_one, choice, signers)
        return
    named = [lake.find(text) for text in tables]
    if version is not None and any(ref.version is not None for _, ref in named):
        raise UsageError(f"{tables[0]} names a version already: leave --version out")
    chosen = [(table, ref.version or version) for table, ref in named]
    chosen = list({(table.name, one): (table, one) for table, one in chosen}.values())
    inventory = Inventory()
    if every:
        inventory = lake.inventory(names := lake.tables())
        lost = [lost.table for lost in inventory.lost if lost.table is not None]
        chosen = [(lake.table(name), None) for name in sorted([*names, *lost])]
    reports, codes = _verified(shared, chosen, choice, signers, every=every) if chosen else ([], [])
    if every:
        taps = {report.table.tap for report in reports}
        notes = [*inventory.notes(taps), *_unlisted(lake, inventory, reports)]
        found = check_lake_log(lake.store)
        notes += found.notes
        lost_taps = [gone(lost) for lost in inventory.lost if lost.table is None]
        lost_taps += found.problems
        lost_taps += [damaged_lake_file(text) for text in inventory.problems]
        codes += [DamagedError.exit_code for _ in lost_taps]
        _add_lake(shared, lost_taps, notes)
    shared.output.end()
    if not chosen and not codes and not shared.json:
        output.say(f"the lake at {lake.store.uri} has no tables: there is nothing to verify")
    click.get_current_context().exit(max(codes, default=0))


def _signers(file: Path | None) -> Signers | None:
    if file is None:
        return None
    from singerlake.ops.sign.openssh import AllowedSigners

    return AllowedSigners.of(file)


def _verify_lake_version(
    shared: Shared,
    lake: Lake,
    version: LakeVersion,
    choice: EngineChoice,
    signers: Signers | None,
) -> None:
    """Verify a lake version: its own log, and each table's version that can still be read."""
    found = check_lake_log(lake.store, version.number)
    shared.output.item(
        lambda: {
            "lake_version": lake_versions.as_json(version),
            "problems": [asdict(problem) for problem in found.problems],
            "notes": found.notes,
        },
        lambda: _print_lake_version(version, found),
    )
    chosen = [(lake.table(one.name), str(one.version)) for one in version.tables]
    readable: list[tuple[Table, str | None]] = [
        (table, name) for table, name in chosen if table.name not in found.unreadable
    ]
    codes = _verified(shared, readable, choice, signers, every=True)[1] if readable else []
    shared.output.end()
    codes += [DamagedError.exit_code] if found.problems else []
    click.get_current_context().exit(max(codes, default=0))


def _print_lake_version(version: LakeVersion, found: LakeReport) -> None:
    number, gone = len(found.problems), len(found.unreadable)
    verdict = "as in the tables' logs" if not number else output.count(number, "problem")
    tables = output.count(len(version.tables), "table")
    if gone:
        tables = f"{len(version.tables) - gone} of {tables}"
        verdict += f"; {gone} cannot be read"
    output.say(f"{version}: {tables}: {verdict}")
    for problem in found.problems:
        output.say(f"  {problem}")
    for note in found.notes:
        output.say(f"  note: {note}")


def _verified(
    shared: Shared,
    chosen: list[tuple[Table, str | None]],
    choice: EngineChoice,
    signers: Signers | None,
    *,
    every: bool,
) -> tuple[list[Report], list[int]]:
    """Verify tables, each with a version or None for all; return the exit codes of failures.

    ``every`` goes on past a table that cannot even be looked at.
    """
    for table, version in chosen:
        _check_version(table, version)
    reports = []
    codes = []
    from singerlake.ops.verify.verify import verify_tables

    came = verify_tables(chosen, choice, lambda name: working(f"verifying {name}"), signers)
    # A script finds them in the same order, whatever size tables have by now; people see what ends.
    for place, report in came if sys.stdout.isatty() and not shared.json else _in_order(came):
        if isinstance(report, SingerlakeError):
            if not every:
                raise report
            if isinstance(report, NotFoundError) and chosen[place][1] is None:
                continue  # a folder in which nothing was ever committed, or not yet, as for `ls`
            codes.append(report.exit_code)
            shared.output.error(report, chosen[place][0].name)
            continue
        reports.append(report)
        shared.output.item(partial(_as_json, report), partial(_print, report))
    return reports, codes + [DamagedError.exit_code for report in reports if report.problems]


def _in_order(came: Iterator[_Placed]) -> Iterator[_Placed]:
    """Yield in the order of their places what arrives in another order.

    Raises:
        SingerlakeError: The error that ends it, after all that came before.
    """
    waiting: dict[int, Report | SingerlakeError] = {}
    due = 0
    try:
        for place, report in came:
            waiting[place] = report
            while due in waiting:
                yield due, waiting.pop(due)
                due += 1
    except SingerlakeError:
        yield from sorted(waiting.items())
        raise


def _check_version(table: Table, version: str | None) -> None:
    """Refuse a version that does not exist, before Java starts."""
    if version is None:
        return
    with suppress(DamagedError):  # which is what verify is to tell of
        table.snapshot().version(version)


def _unlisted(lake: Lake, inventory: Inventory, reports: list[Report]) -> Iterator[str]:
    """Describe tables that their tap's catalogue does not list as their logs have them."""
    for report in reports:
        if report.dropped or not report.transactions:
            continue
        listed = inventory.catalogued.get(report.table)
        if listed is not None:
            if report.listing is not None and listed != report.listing:
                found = differing(lake.store, report.table, report.listing)
                yield from [found] if found else []
        else:
            yield f"no catalog lists {report.table}: singerlake rebuild {report.table} adds it"


def _add_lake(shared: Shared, lost_taps: list[Problem], notes: list[str]) -> None:
    """Print findings about the lake's own lists, as a report without a table."""

    def text() -> None:
        if lost_taps:
            output.say(
                f"the lake's own lists and versions: {output.count(len(lost_taps), 'problem')}"
            )
        for problem in lost_taps:
            output.say(f"  {problem}")
        for note in notes:
            output.say(f"note: {note}")

    if lost_taps or notes:
        problems = [asdict(problem) for problem in lost_taps]
        shared.output.item(lambda: {"table": None, "problems": problems, "notes": notes}, text)


def _print(report: Report) -> None:
    looked_at = ", ".join(
        output.count(count, word)
        for count, word in (
            (report.transactions, "transaction"),
            (report.blocks, "block"),
            *([(report.stored, "stored file")] if report.stored else []),
            (report.versions, "version"),
        )
    )
    number = len(report.problems) + report.more
    verdict = "no problems found" if not number else output.count(number, "problem")
    output.say(f"{report.table}: {looked_at}: {verdict}")
    for problem in report.problems:
        output.say(f"  {problem}")
    if report.more:
        output.say(f"  and {report.more:,} more")
    for one in report.signatures:
        output.say(f"  {one}")
    for note in report.notes:
        output.say(f"  note: {note}")


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "table": str(report.table),
        "transactions": report.transactions,
        "blocks": report.blocks,
        "files": report.files,
        "stored": report.stored,
        "bytes": report.bytes,
        "versions": report.versions,
        "problems": [asdict(problem) for problem in report.problems],
        "more_problems": report.more,
        "notes": report.notes,
        "signatures": [asdict(one) for one in report.signatures],
        "misfits": [asdict(column) for column in report.misfits],
        "dropped": report.dropped,
    }
