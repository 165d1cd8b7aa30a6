"""A table's data files as the store lists them, for when no log says which there are."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator

from singerlake.format import names
from singerlake.format.names import TableName
from singerlake.storage.base import Listed, Store

logger = logging.getLogger(__name__)


def data_files(store: Store, table: TableName, *, include_locked: bool = False) -> Iterator[Listed]:
    """The data files in a table's folder.

    Args:
        store: The lake's store.
        table: The table.
        include_locked: Whether to name those beside a writer's lock as well. A writer makes
            files durable under its lock before it commits them, so they may be of a
            transaction that never was.
    """
    listing = list(store.list(table.folder))
    # Asked for by name: some stores show a new object only later when they list.
    locked = functools.cache(lambda folder: store.exists(table.lock(folder)))
    for item in listing:
        folder, _, name = item.key[len(table.folder) :].partition("/")
        if not names.is_schema_folder(folder) or not names.is_data_file(name) or "/" in name:
            continue
        if not include_locked and locked(folder):
            logger.warning("left out %s: a writer's lock lies beside it", item.key)
            continue
        yield item
