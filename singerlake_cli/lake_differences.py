"""What differs between two lake versions: how many rows of each table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from singerlake.errors import NotFoundError
from singerlake.format.lake_log import LakeTable, LakeVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake_cli import output
from singerlake_cli.shared import Shared, begin_spark, start_spark
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.spark.jobs.queries.difference import Counts


@dataclass
class TableDifference:
    """A table of two lake versions.

    Attributes:
        table: Which.
        before: What the first says of it; None where that does not have it.
        after: The same of the second.
        counts: How many rows differ, where the two versions are of different rows.
        gone: Why rows of one of them cannot be read any more, where they would have to be.
    """

    table: TableName
    before: LakeTable | None
    after: LakeTable | None
    counts: Counts | None = None
    gone: str | None = None

    @property
    def must_be_compared(self) -> bool:
        """Whether only a look at the rows tells; the fingerprints tell of those that are equal."""
        one, other = self.before, self.after
        if one is None or other is None or one.version == other.version:
            return False
        return (one.fingerprint, one.record_fingerprint) != (
            other.fingerprint,
            other.record_fingerprint,
        )

    @property
    def rows(self) -> int:
        """How many rows the two states have together."""
        return sum(state.rows for state in (self.before, self.after) if state is not None)

    def numbers(self) -> Sequence[int | None]:
        """Rows added, changed, removed and unchanged; None where that cannot be told."""
        if self.gone is not None:
            return [None] * 4
        if self.counts is not None:
            counts = self.counts
            return counts.added, counts.changed, counts.removed, counts.unchanged
        if self.before is None:
            return (self.after.rows if self.after else 0), 0, 0, 0
        return (0, 0, 0, self.after.rows) if self.after else (0, 0, self.before.rows, 0)


def compare(
    shared: Shared, before: str, after: str, *, misfits: str, master: str | None, conf: Any
) -> None:
    """Print how many rows of each table differ between two lake versions.

    Raises:
        NotFoundError: There is no such lake version. Tables whose rows cannot be read any more
            are told of instead.
    """
    from singerlake.maintenance.verify_lake import what_became  # late: tables need none

    lake = shared.lake()
    first, second = lake.lake_version(before), lake.lake_version(after)
    said = [{one.name: one for one in version.tables} for version in (first, second)]
    tables = [
        TableDifference(name, said[0].get(name), said[1].get(name))
        for name in sorted({*said[0], *said[1]})
    ]
    todo = [one for one in tables if one.must_be_compared]
    for one in todo:  # before Java starts
        states = (state for state in (one.before, one.after) if state is not None)
        gone = (what_became(lake.store, state) for state in states)
        one.gone = next((words for words in gone if words is not None), None)
    if todo := [one for one in todo if one.gone is None]:
        _count(lake, todo, misfits, master, conf)
    shared.output.result(
        lambda: {
            "from": first.number,
            "to": second.number,
            "tables": [_as_json(one) for one in tables],
        },
        lambda: _print(first, second, tables),
    )
    lost = {one.table: NotFoundError(one.gone) for one in tables if one.gone is not None}
    for table, error in lost.items():
        shared.output.error(error, table)
    click.get_current_context().exit(NotFoundError.exit_code if lost else 0)


def _count(
    lake: Lake, todo: list[TableDifference], misfits: str, master: str | None, conf: Any
) -> None:
    begin_spark(master, conf)
    from singerlake.spark.jobs.queries.difference import diff

    with working(f"comparing {output.count(len(todo), 'table')}") as bar:
        spark = start_spark(master, conf)
        for one in bar.each(todo, lambda one: one.rows):
            assert one.before is not None and one.after is not None  # noqa: S101, PT018
            versions = str(one.before.version), str(one.after.version)
            with diff(spark, lake.table(one.table), *versions, misfits=misfits) as found:
                one.counts = found.counts()


def _as_json(one: TableDifference) -> dict[str, Any]:
    added, changed, removed, unchanged = one.numbers()
    return {
        "table": str(one.table),
        "from": None if one.before is None else one.before.version,
        "to": None if one.after is None else one.after.version,
        "added": added,
        "changed": changed,
        "removed": removed,
        "unchanged": unchanged,
        "cells": None if one.counts is None else asdict(one.counts)["cells"],
    }


def _print(first: LakeVersion, second: LakeVersion, tables: list[TableDifference]) -> None:
    rows = [
        (
            one.table,
            None if one.before is None else one.before.version,
            None if one.after is None else one.after.version,
            *(None if number is None else f"{number:,}" for number in one.numbers()),
        )
        for one in tables
    ]
    columns = ("table", "from>", "to>", "added>", "changed>", "removed>", "unchanged>")
    title = f"{first} to {second}"
    note = "from, to: the table's versions · singerlake diff TABLE FROM TO shows the rows"
    output.print_table(title, columns, rows, note, drop=("from", "to", "unchanged"))
