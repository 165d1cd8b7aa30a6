"""Frozen versions that a projection publishes: whose they are, and which are not there yet."""

from __future__ import annotations

from singerlake.errors import UsageError
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.format.sql_tables import find, reference
from singerlake.format.sql_tokens import quote
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.publish.projection import Projection
from singerlake.publish.published import Published


def versioned_table(lake: Lake, projection: Projection) -> Table:
    """Return the table whose versions are the projection's: its staging table, or its one source.

    Raises:
        UsageError: It has no such table.
    """
    if projection.stage is not None:
        return lake.table(projection.stage)
    named = [reference(source) for source in projection.sources]
    if len(named) == 1 and named[0].version is None and named[0].timestamp is None:
        table, version = find(named[0].parts, lake.tables())
        if version is None:
            return lake.table(table)
    raise UsageError(
        f"{projection.name} has no versions, because its rows are not those of one table as it is: "
        "give it a staging table (stage), whose versions are then published"
    )


def not_published(head: TableState, base: Published | None) -> list[FrozenVersion]:
    """Return the frozen versions that a destination does not have, in the order of their states."""
    there = {} if base is None else base.versions
    missing = [version for version in head.frozen if version.number not in there]
    return sorted(missing, key=lambda version: (version.transaction, version.number))


def rows_query(projection: Projection) -> str:
    """Return the query whose rows are published: the staging table's, where there is one."""
    stage: TableName | None = projection.stage
    if stage is None:
        return projection.sql
    return f"select * from {quote(stage.tap)}.{quote(stage.stream)}"  # noqa: S608  # both quoted
