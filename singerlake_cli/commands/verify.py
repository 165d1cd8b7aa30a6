"""singerlake verify: hold tables against their logs, byte by byte."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from singerlake.errors import DamagedError, SingerlakeError, UsageError
from singerlake.maintenance.verify import Report
from singerlake_cli import output
from singerlake_cli.shared import Shared, begin_spark, spark_options, start_spark
from singerlake_cli.working import working


@click.command("verify")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--all", "every", is_flag=True, help="Every table of the lake.")
@click.option(
    "--version", metavar="VERSION", help="Compute only this version again: its number or label."
)
@spark_options
@click.pass_obj
def command(
    shared: Shared,
    tables: tuple[str, ...],
    every: bool,
    version: str | None,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Prove that TABLES are whole and read as they did (a Spark job).

    Reads the log, the manifest, every block with its checksums, and computes each frozen
    version's rows and fingerprint again from the blocks alone. Nothing is changed. What
    differs is listed, and the exit code is 5.

    \b
    singerlake verify tap-shop.orders
    singerlake verify tap-shop.orders --version 2026-q3
    singerlake --output json verify --all
    """
    if every == bool(tables):
        raise UsageError("name the tables to verify, or say --all")
    if version is not None and len(tables) != 1:
        raise UsageError("--version needs the one table that it is a version of")
    lake = shared.lake()
    found = [lake.find(text) for text in tables]
    if version is not None and any(ref.version is not None for _, ref in found):
        raise UsageError(f"{tables[0]} names a version already: leave --version out")
    chosen = [(table, ref.version or version) for table, ref in found]
    if every:
        chosen = [(lake.table(name), None) for name in lake.tables()]
    begin_spark(master, conf)
    from singerlake.spark.verify import verify

    spark = start_spark(master, conf)
    reports = []
    failures: list[SingerlakeError] = []
    for table, named in chosen:
        try:
            with working(f"verifying {table.name}"):
                report = verify(spark, table, named)
        except SingerlakeError as error:
            if not every:
                raise
            failures.append(error)
            output.say_failure(error, table.name)
            continue
        reports.append(report)
        if not shared.json:
            _print(report)
    if shared.json:
        output.print_json([_as_json(report) for report in reports])
    codes = [failure.exit_code for failure in failures]
    codes += [DamagedError.exit_code for report in reports if report.problems]
    click.get_current_context().exit(max(codes, default=0))


def _print(report: Report) -> None:
    looked_at = ", ".join(
        _count(count, word)
        for count, word in (
            (report.transactions, "transaction"),
            (report.blocks, "block"),
            (report.versions, "version"),
        )
    )
    number = len(report.problems) + report.more
    verdict = "all as it should be" if not number else _count(number, "problem")
    output.say(f"{report.table}: {looked_at}: {verdict}")
    for problem in report.problems:
        output.say(f"  {problem}")
    if report.more:
        output.say(f"  and {report.more:,} more")
    for note in report.notes:
        output.say(f"  note: {note}")


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "table": str(report.table),
        "transactions": report.transactions,
        "blocks": report.blocks,
        "files": report.files,
        "bytes": report.bytes,
        "versions": report.versions,
        "problems": [asdict(problem) for problem in report.problems],
        "more_problems": report.more,
        "notes": report.notes,
        "misfits": [asdict(column) for column in report.misfits],
    }
