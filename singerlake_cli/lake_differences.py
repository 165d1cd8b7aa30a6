"""The differences of two lake versions: the number of rows of each table that differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from singerlake.errors import NotFoundError
from singerlake_cli import output
from singerlake_cli.shared import Shared
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.ops.diff.diff_lake import LakeDifference, TableDifference


def compare(
    shared: Shared, before: str, after: str, *, on_type_mismatch: str, choice: EngineChoice
) -> None:
    """Print how many rows of each table differ between two lake versions.

    Raises:
        NotFoundError: There is no such lake version. Tables whose rows cannot be read any more
            are told of instead.
    """
    from singerlake.ops.diff.diff_lake import diff_lake, plan  # late: tables need none

    lake = shared.lake()
    found = plan(lake, before, after)
    if found.todo:
        with working(f"comparing {output.count(len(found.todo), 'table')}") as bar:

            def each(todo: Sequence[TableDifference]) -> Iterable[TableDifference]:
                return bar.each(todo, lambda one: one.rows)

            diff_lake(lake, found, choice, on_type_mismatch=on_type_mismatch, each=each)
    shared.output.result(
        lambda: {
            "from": found.before.number,
            "to": found.after.number,
            "tables": [_as_json(one) for one in found.tables],
        },
        lambda: _print(found),
    )
    lost = {one.table: NotFoundError(one.gone) for one in found.tables if one.gone is not None}
    for table, error in lost.items():
        shared.output.error(error, table)
    click.get_current_context().exit(NotFoundError.exit_code if lost else 0)


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


def _print(found: LakeDifference) -> None:
    rows = [
        (
            one.table,
            None if one.before is None else one.before.version,
            None if one.after is None else one.after.version,
            *(None if number is None else f"{number:,}" for number in one.numbers()),
        )
        for one in found.tables
    ]
    columns = ("table", "from>", "to>", "added>", "changed>", "removed>", "unchanged>")
    title = f"{found.before} to {found.after}"
    note = "from, to: the table's versions · singerlake diff TABLE FROM TO shows the rows"
    output.print_table(title, columns, rows, note, drop=("from", "to", "unchanged"))
