"""Makes the index of a state: from an earlier one where there is one, else from the blocks.

A small change to a large state becomes a layer on it: the newest row of every key that came
since, deletions too. Read together, the rows below whose key is in the layer are left out. So the
index of a head costs what has changed since, not what there is. Layers do not pile up: each lies
on an index that holds a whole state, and holds all that came since that. Once a layer would no
longer be small beside what is below, the next index holds a whole state again. Transactions that
changed no row share the index of the one before.
"""

from __future__ import annotations

import logging
from typing import Any

from singerlake.engine.base import Engine
from singerlake.errors import DamagedError, StoreError
from singerlake.format.names import IndexFolder
from singerlake.format.types import is_exact
from singerlake.lake import Table
from singerlake.reading import index
from singerlake.reading.index import Index
from singerlake.records.rows.row_columns import file_schema
from singerlake.records.state.parquet_parts import WRITTEN, PartWriter
from singerlake.records.state.shape import Shape, shape_of
from singerlake.snapshot import candidates, from_blocks
from singerlake.transactions.snapshot import Snapshot

logger = logging.getLogger(__name__)
LEAST_ROWS = 200_000
"""An index of fewer rows is written anew in the time that laying one over another takes."""
MOST_ROWS = 500_000
"""Rows of a layer whose keys every task can hold at once."""
SHARE = 8
"""A layer may have one row for so many below: reading it twice costs little beside them."""


def ensure(
    engine: Engine[Any],
    table: Table,
    snapshot: Snapshot,
    *,
    fresh: bool = False,
    shown: bool = False,
) -> Index:
    """Return the index of a transaction: the one that is there, or a new one.

    Args:
        engine: Makes it.
        table: The table.
        snapshot: The table at the transaction, read from its log.
        fresh: Start from the blocks alone, past any earlier index.
        shown: Whether rows are only shown, and not found by their keys.

    Raises:
        DamagedError: A block that is needed cannot be read; or a column of the key would have to
            round some of its values, where rows are found by these.
        StoreError: The store refused.
    """
    snapshot = snapshot.earliest_equal()
    found = index.sound(table, snapshot) or build(engine, table, snapshot, fresh=fresh)
    return found if shown else found.with_keys()


def ensure_if_kept(
    engine: Engine[Any], table: Table, snapshot: Snapshot, *, shown: bool = False
) -> Index | None:
    """Return a state's index as :func:`ensure` does; None where none can be kept."""
    # Files read without a log have no commit id that an index could be held to.
    if not snapshot.from_log:
        return None
    try:
        return ensure(engine, table, snapshot, shown=shown)
    except StoreError as error:
        logger.warning("reading without an index, because none can be kept: %s", error)
        return None


def worthwhile(below: int, changed: int) -> bool:
    """Tell whether a layer of some rows over an index of others is better than a new index."""
    return below >= LEAST_ROWS and changed <= min(MOST_ROWS, below // SHARE)


def base(table: Table, snapshot: Snapshot) -> Index | None:
    """Find the index of a whole state that a layer for a state can lie on: the newest."""
    shape = shape_of(snapshot)
    folders = map(IndexFolder.parse, table.store.folders(table.name.indexes))
    numbers = {one.transaction for one in folders if one and one.rules == snapshot.rules}
    for number in sorted((n for n in numbers if 0 < n < snapshot.number), reverse=True):
        if not snapshot.readable(number):
            continue  # its rows may be gone from the blocks, and nobody keeps it
        earlier = snapshot.at(number)
        if earlier.last_block < shape.survival.first_block:
            return None  # an activation has removed all of it since
        if not earlier.reads_like(snapshot):
            continue
        if (found := index.sound(table, earlier)) is not None:
            below = found.below or found
            if not snapshot.readable(below.marker.transaction):
                return None  # what removed a row of it since may be gone from the blocks
            # Rows cannot be laid over others by keys that columns would have to round.
            return None if below.misfits.intersection(shape.keys) else below
    return None


def build(engine: Engine[Any], table: Table, snapshot: Snapshot, *, fresh: bool = False) -> Index:
    """Make the index of a transaction that has none; as :func:`ensure`, for the earliest equal."""
    if not fresh and (below := layered_on(table, snapshot)) is not None:
        try:
            return _layer(engine, snapshot, below)
        except DamagedError:
            if not any(is_exact(type_) for _, type_ in below.shape.key_columns):
                raise
            # Some later key may be one that its column rounds.
    shape = shape_of(snapshot)
    plan = from_blocks.planned(engine, table, snapshot, digests=True, shown=True)
    writer = _writer(table, snapshot, shape)
    if once := candidates.likely(snapshot, plan):
        written = candidates.written(engine, plan, once, writer)
    else:
        written = from_blocks.through(engine, plan, writer, WRITTEN)
    with engine.stages(*(candidates.STAGES if once else from_blocks.stage_words(plan))):
        return index.finish(table, snapshot, shape, engine.collect(written))


def _layer(engine: Engine[Any], snapshot: Snapshot, below: Index) -> Index:
    """Make an index of what came since another."""
    table, shape = below.table, shape_of(snapshot)
    since = snapshot.blocks_after(below.marker.transaction)
    # A block that a vacuum put together may hold older rows too: a layer must not hide a newer
    # one below behind them.
    after = below.snapshot.last_block
    plan = from_blocks.planned(engine, table, snapshot, digests=True, blocks=since, after=after)
    writer = _writer(table, snapshot, shape, layer=True)
    with engine.stages(*from_blocks.stage_words(plan)):
        written = engine.collect(from_blocks.through(engine, plan, writer, WRITTEN))
    return index.finish(table, snapshot, shape, written, below)


def _writer(table: Table, snapshot: Snapshot, shape: Shape, *, layer: bool = False) -> PartWriter:
    schema = file_schema(shape.columns, layer=layer)
    return PartWriter(table.store, index.folder_of(table, snapshot), schema)


def layered_on(table: Table, snapshot: Snapshot) -> Index | None:
    """Find the index that a layer for a state is to lie on; None where a whole one is better."""
    if sum(block.rows for block in snapshot.blocks) < LEAST_ROWS:
        return None  # without a look at the store
    if (below := base(table, snapshot)) is None:
        return None
    since = snapshot.blocks_after(below.marker.transaction)
    if any(block.activations for block in since):
        return None  # it may remove rows of any key
    rows = sum(file.rows for file in below.marker.files)
    return below if worthwhile(rows, sum(block.rows for block in since)) else None
