"""A tap's Singer catalog: the streams' schemas in effect, for people and programs that ask.

It can be made again from the logs, so it may be behind them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from singerlake.errors import DataError
from singerlake.format import metadata, names
from singerlake.format.log import SchemaEntry
from singerlake.format.metadata import Catalogue, CatalogueEntry
from singerlake.format.names import TableName
from singerlake.log.files import DataFiles
from singerlake.log.shared_file import merge, read_or_new
from singerlake.storage.base import KeyMissingError, Store

_LAID_OVER = "singerlake-altered"
"""Says in a stream's metadata that people said more of its table than which columns are text."""


def update(store: Store, tap: str, entries: Iterable[CatalogueEntry]) -> None:
    """Bring some streams' entries in a tap's catalogue up to date, all at once."""
    new = {entry.tap_stream_id: entry for entry in entries}

    def change(present: Catalogue) -> Catalogue | None:
        old = {entry.tap_stream_id: entry for entry in present.streams}
        if all(old.get(stream) == entry for stream, entry in new.items()):
            return None
        return Catalogue(streams=[entry for _, entry in sorted({**old, **new}.items())])

    key = names.catalogue(tap)
    merge(store, key, lambda: read_or_new(store, key, Catalogue), change)


def remove(store: Store, table: TableName) -> None:
    """Take a stream out of its tap's catalogue."""

    def change(present: Catalogue) -> Catalogue | None:
        left = [entry for entry in present.streams if entry.tap_stream_id != table.stream]
        return None if len(left) == len(present.streams) else Catalogue(streams=left)

    key = names.catalogue(table.tap)
    merge(store, key, lambda: read_or_new(store, key, Catalogue), change)


def names_stream(store: Store, table: TableName) -> bool:
    """Say whether a tap's catalogue has a stream, as it does once something was committed of it."""
    key = names.catalogue(table.tap)
    try:
        present = metadata.decode(store.get(key).data, Catalogue, key)
    except (KeyMissingError, DataError):
        return False
    return any(entry.tap_stream_id == table.stream for entry in present.streams)


def is_uncommitted(store: Store, table: TableName, present: DataFiles) -> bool:
    """Say whether nothing was ever committed of a table that has neither log nor manifest.

    Then all its files lie beside a lock, as those of a first writer do that is at work or died,
    and the tap's catalogue, which has a stream from its first commit on, does not have it.
    """
    return not present.free and not names_stream(store, table)


def is_laid_over(present: Catalogue, stream: str) -> bool:
    """Say whether people said more of a stream's table than which columns are text."""
    return any(
        one.tap_stream_id == stream
        and any(about.get("metadata", {}).get(_LAID_OVER) for about in one.metadata)
        for one in present.streams
    )


def entry_of(table: TableName, schema: SchemaEntry, *, laid_over: bool = False) -> CatalogueEntry:
    """Describe a stream as a Singer catalog does.

    Args:
        schema: Its schema, with what people said laid over it.
        laid_over: Whether that is more than which columns are text.
    """
    breadcrumbs = [
        {
            "breadcrumb": ["properties", name],
            "metadata": {
                "inclusion": "automatic" if name in schema.key_properties else "available"
            },
        }
        for name in schema.schema.get("properties", {})
    ]
    stream: dict[str, Any] = {
        "inclusion": "available",
        "table-key-properties": schema.key_properties,
    }
    if laid_over:
        stream[_LAID_OVER] = True
    return CatalogueEntry(
        tap_stream_id=table.stream,
        stream=table.stream,
        key_properties=schema.key_properties,
        schema=schema.schema,
        metadata=[{"breadcrumb": [], "metadata": stream}, *breadcrumbs],
    )
