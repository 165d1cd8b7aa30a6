"""The notice of an erasure: the keys of the rows that go, for readers that are behind."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
from pyspark.sql import DataFrame

from singerlake.errors import UsageError
from singerlake.format import times
from singerlake.format.erased_keys import MOST_BYTES
from singerlake.format.version_notes import Notice
from singerlake.records.lines.arrow_lines import ArrowLines
from singerlake.records.rows.row_columns import aliases
from singerlake.records.state.shape import shape_of
from singerlake.storage.base import Store
from singerlake.transactions import notices
from singerlake.transactions.snapshot import Snapshot

MOST_TOLD = 100_000
"""Rows of which readers are told at once: their keys go through this process."""


def key_lines(head: Snapshot, gone: DataFrame, count: int) -> bytes:
    """Return the keys of rows that go, as a notice has them.

    Args:
        head: The table.
        gone: The lines that go, with the columns of their keys.
        count: How many keys there are.

    Raises:
        UsageError: They are too many.
    """
    columns = shape_of(head).key_columns
    if count > MOST_TOLD:
        raise UsageError(
            f"{count:,} rows of {head.table} are too many to tell readers of at once; nothing was "
            f"changed: erase {MOST_TOLD:,} at a time, or say --silent"
        )
    keys = gone.select(*aliases(columns)).distinct().toArrow()
    named = keys.rename_columns([name for name, _ in columns])
    writer = ArrowLines(head.schema)
    batches: list[pa.RecordBatch] = named.to_batches()
    lines = b"".join(map(writer.lines, batches))
    if len(lines) > MOST_BYTES:
        raise UsageError(
            f"the keys of these rows of {head.table} are too long to tell readers of all at once; "
            "nothing was changed: erase fewer at a time, or say --silent"
        )
    return lines


def write(store: Store, head: Snapshot, lines: bytes, seconds: float) -> Notice:
    """Write the notice.

    Args:
        store: The lake's store.
        head: The table.
        lines: What :func:`key_lines` gave.
        seconds: How long readers are told.

    Raises:
        StoreError: The store refused.
    """
    until = times.iso(times.now() + timedelta(seconds=seconds))
    return notices.write(store, head.table, lines, until)
