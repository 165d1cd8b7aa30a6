"""What people say of a lake's tables, in the catalog that discovery puts out."""

from __future__ import annotations

from typing import Any

import msgspec

from singerlake.format.annotations import ColumnEntry, TableEntry, TapEntry

PREFIX = "singerlake."
"""Before the names in a catalog's metadata, which are all tools' together."""


def add_annotations(entry: dict[str, Any], entries: tuple[TapEntry, TableEntry]) -> None:
    """Put the annotations of a table and its columns into its catalog entry's metadata.

    Args:
        entry: A stream of a catalog; changed. Its schema stays as it is, for it is the tap's.
        entries: Its tap's and its own; what only the tap's says, holds.
    """
    tap, table = entries
    by_path = {tuple(one["breadcrumb"]): one["metadata"] for one in entry["metadata"]}
    if () in by_path:
        by_path[()].update(_members(table))
        owner = table.owner or tap.owner
        if owner:
            by_path[()][f"{PREFIX}owner"] = owner
        if tap.last_run is not None:
            by_path[()][f"{PREFIX}last-run"] = msgspec.to_builtins(tap.last_run)
    for name, column in table.columns.items():
        if (column_metadata := by_path.get(("properties", name))) is not None:
            column_metadata.update(_members(column))


def _members(entry: TableEntry | ColumnEntry) -> dict[str, Any]:
    members = msgspec.to_builtins(entry)
    members.pop("columns", None)
    return {PREFIX + name.replace("_", "-"): value for name, value in members.items()}
