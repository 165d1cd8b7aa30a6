"""The check of ``singerlake doctor --upgrade``: tables that this release reads otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from singerlake.lake import Table
from singerlake.log import lake_file
from singerlake.quantities import count
from singerlake.rows.blocks.misfits import retype_command
from singerlake_cli import output
from singerlake_cli.shared import Shared
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.ops.verify.upgrade import TableUpgrade


def run(shared: Shared, choice: EngineChoice) -> None:
    """Check all tables of the lake, and print the findings.

    Raises:
        SingerlakeError: A table cannot be read.
    """
    lake = shared.lake()
    tables = [lake.table(name) for name in lake.tables()]
    found = [_looked_at(table, choice) for table in tables if not _is_dropped(table)]
    known = lake_file.read_if_readable(lake.store)
    published = dict(sorted(known.published.items())) if known is not None else {}
    shared.output.result(
        lambda: {
            "tables": [_as_json(one) for one in found],
            "publications_to_rebuild": [
                {"name": name, "to": one.to, "tables": one.tables}
                for name, one in published.items()
            ],
        },
        lambda: _print(found, [*published]),
    )


def _is_dropped(table: Table) -> bool:
    return bool(table.snapshot(dropped=True).dropped_at)


def _looked_at(table: Table, choice: EngineChoice) -> TableUpgrade:
    from singerlake.ops.verify.verify import upgrade

    with working(f"reading the keys of {table.name}"):
        return upgrade(table, choice)


def _as_json(one: TableUpgrade) -> dict[str, Any]:
    return {
        "table": str(one.table),
        "rows": one.rows,
        "appear": one.appear,
        "vanish": one.vanish,
        "types": [
            {"column": name, "before": before, "now": now} for name, before, now in one.types
        ],
        "rounded": [
            {"column": column.column, "type": column.type, "values": column.values}
            for column in one.rounded
        ],
        "versions_by_earlier_rules": one.versions,
        "for_good": [
            {"transaction": each.number, "operation": each.operation, "time": each.time}
            for each in one.for_good
        ],
    }


def _print(found: list[TableUpgrade], published: list[str]) -> None:
    for text, hang in _lines(found, published):
        output.say(text, hang=hang)


def _lines(found: list[TableUpgrade], published: list[str]) -> Iterator[tuple[str, int]]:
    """Return lines, each with the columns by which its next lines are indented."""
    others = [one for one in found if one]
    for one in others:
        yield f"{one.table}: {count(one.rows, 'row')}", 2
        yield from ((f"  {line}", 4) for line in _of_table(one))
    same = len(found) - len(others)
    yield f"{count(same, 'table')} {'reads' if same == 1 else 'read'} as before", 0
    if published:
        what = count(len(published), "publication")
        yield f"the next publish rebuilds {what}: {', '.join(published)}", 2


def _of_table(one: TableUpgrade) -> Iterator[str]:
    if one.appear:
        yield (
            f"{count(one.appear, 'row')} more than release 0.1 showed: a later row had a "
            "key that rounds to the same, a null in its key, or a mark mistaken for a deletion"
        )
    if one.vanish:
        yield f"{count(one.vanish, 'row')} fewer: a later row has the same exact key"
    for name, before, now in one.types:
        yield f"column {name!r} was {before} and is {now}"
    for column in one.rounded:
        way = retype_command(one.table, column.column, "TYPE")
        yield (
            f"the key column {column.column!r} ({column.type}) has {count(column.values, 'value')} "
            f"that it would round, so no change, revert or erasure finds a row by it: {way}"
        )
    if one.versions:
        numbers = ", ".join(map(str, one.versions))
        yield f"version {numbers}: keeps the rows that it was frozen with"
    for each in one.for_good:
        yield (
            f"transaction {each.number} ({each.operation}, {each.time[:10]}): if an earlier "
            "release made it, it treated keys that round to the same value as one key; that "
            "cannot be undone"
        )
