"""Which rows make a version, by its index; for the mode ``rows``.

A version's index says where each row of its state lies; a small table without one is read whole.
A bit for each record of the blocks is enough to keep that, so the memory needed does not follow
the rows' size, and the lines go out in the order of the log, byte for byte. No Java is started.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.errors import DamagedError, DataError, NotFoundError
from singerlake.format import block as format_block
from singerlake.format.log import Block, FrozenVersion
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import BLOCK, DELETED, ORDINAL
from singerlake.rows.blocks import positions
from singerlake.rows.blocks.block_tasks import TASK_BYTES
from singerlake.rows.blocks.decoding import record_lines
from singerlake.rows.state import layer_keys
from singerlake.snapshot import from_blocks, index
from singerlake.snapshot.index import Index
from singerlake.storage.base import KeyMissingError

PIECE_BYTES = 1 << 16
"""Bytes of bits that are counted at a time."""
_POSITION = (BLOCK, ORDINAL)


class StateRows:
    """The rows of a state, by the blocks that hold them.

    Args:
        blocks: The blocks that may hold rows, in order of number.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._numbers = np.array([block.number for block in blocks], dtype=np.int64)
        self._rows = np.array([block.rows for block in blocks], dtype=np.int64)
        self._rewritten = np.array([block.rewritten for block in blocks], dtype=bool)
        sizes = (self._rows + 7) // 8
        self._starts = np.concatenate(([0], np.cumsum(sizes)))
        self._bits = np.zeros(int(self._starts[-1]), dtype=np.uint8)
        # Rows of a block that a vacuum put together are found by the positions that they had.
        self._moved: list[NDArray[np.int64]] = []

    def add(self, numbers: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Note the positions of some rows: each its first block, and its place among the records.

        Raises:
            DamagedError: The blocks have no such rows.
        """
        at = np.searchsorted(self._numbers, numbers)
        if len(at) and (at.max() >= len(self._numbers) or ordinals.min() < 0):
            raise DamagedError("its materialized snapshot names rows that no block has")
        moved = self._rewritten[at]
        self._moved.append(positions.codes(numbers[moved], ordinals[moved]))
        at, numbers, ordinals = at[~moved], numbers[~moved], ordinals[~moved]
        if (self._numbers[at] != numbers).any() or (ordinals >= self._rows[at]).any():
            raise DamagedError("its materialized snapshot names rows that no block has")
        places = self._starts[at] + (ordinals >> 3)
        np.bitwise_or.at(self._bits, places, (1 << (ordinals & 7)).astype(np.uint8))

    def count(self) -> int:
        """How many different rows were noted. Call it once, behind the last :meth:`add`."""
        moved = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *self._moved]))
        self._moved = [moved]
        pieces = range(0, len(self._bits), PIECE_BYTES)
        ones = sum(int(np.unpackbits(self._bits[at : at + PIECE_BYTES]).sum()) for at in pieces)
        return ones + len(moved)

    def holds_any(self, block: Block) -> bool:
        """Whether a block may hold a row of the state, before it is read."""
        if block.rewritten:
            first, last = self._range(block)
            return first < last
        return bool(self._chosen(block).any())

    def lines(self, block: Block, text: bytes, seen: int) -> tuple[bytes, int]:
        """Pick a block's SCHEMA line and the lines of its rows in the state; count these.

        Args:
            block: The block.
            text: Its lines.
            seen: The last block whose rows are not wanted; of one put together by a vacuum, those
                rows are left out that came in it or before.

        Raises:
            DamagedError: It has other rows than the log says.
        """
        chosen = self._chosen_by_text(block, text, seen) if block.rewritten else self._chosen(block)
        rows = int(chosen.sum())
        if rows == block.rows and not block.activations:
            return text, rows
        kept = [line for line, on in zip(record_lines(text, block), chosen, strict=True) if on]
        return b"".join((format_block.lines(text)[0], *kept)), rows

    def _chosen(self, block: Block) -> NDArray[np.bool_]:
        at = int(np.searchsorted(self._numbers, block.number))
        bits = self._bits[self._starts[at] : self._starts[at + 1]]
        return np.unpackbits(bits, bitorder="little")[: block.rows].astype(bool)

    def _chosen_by_text(self, block: Block, text: bytes, seen: int) -> NDArray[np.bool_]:
        codes = positions.of_block(text, block)
        first, last = self._range(block)
        chosen = np.isin(codes, self._moved[0][first:last])
        if int(chosen.sum()) != last - first:
            raise DamagedError(
                f"block {block.number} lacks rows that the table's materialized snapshot names"
            )
        return chosen & (positions.blocks_of(codes) > seen)

    def _range(self, block: Block) -> tuple[int, int]:
        """Where the rows of a block that a vacuum put together stand among those noted."""
        ends = [positions.code(block.first_version, 0), positions.code(block.number + 1, 0)]
        first, last = np.searchsorted(self._moved[0], ends)
        return int(first), int(last)


def rows_of(table: Table, snapshot: TableState, version: FrozenVersion) -> StateRows:
    """Find the rows of a version by its index, or by its blocks where these are small.

    Args:
        table: The table.
        snapshot: The table at the version's transaction.
        version: The version.

    Raises:
        NotFoundError: There is no index that can be used, and the table is large.
        DamagedError: It is not what was written, or has other rows than the version.
    """
    name = f"{table.name}.{version.number}"
    state = snapshot.earliest_equal()
    state_index = index.load(table, state)
    rows = StateRows(snapshot.blocks)
    if state_index is None:
        if sum(block.bytes for block in from_blocks.needed_blocks(state)) > TASK_BYTES:
            raise _no_index(table, version)
        for batch in from_blocks.local_rows(table, state):
            rows.add(*_at(batch))
        if (count := rows.count()) != version.rows:
            raise DamagedError(f"{name} has {version.rows:,} rows, and its blocks have {count:,}")
        return rows
    try:
        for numbers, ordinals in _positions(state_index):
            rows.add(numbers, ordinals)
        count = rows.count()
        if count != version.rows:
            raise DamagedError(
                f"its materialized snapshot has {count:,} rows, and the version {version.rows:,}"
            )
    except KeyMissingError as error:  # somebody deleted the cache meanwhile
        raise _no_index(table, version) from error
    except DataError as error:
        folder = index.folder_of(table, state_index.snapshot)
        raise DamagedError(
            f"{name} cannot be read by its rows: {error}; a materialized snapshot is only a cache: "
            f"delete the folder {folder} and recreate it with a query"
        ) from error
    return rows


def _no_index(table: Table, version: FrozenVersion) -> NotFoundError:
    tap, stream = table.name.tap, table.name.stream
    sql = f"select count(*) from `{tap}`.`{stream}`.{version.number}"  # noqa: S608  # a hint
    return NotFoundError(
        f"the rows of {table.name}.{version.number} are read by its materialized snapshot, and "
        f"there is no usable one: create it with: singerlake query {shlex.quote(sql)}"
    )


def _positions(state_index: Index) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Where the rows of a state lie; of an index that is a layer, with what lies below it."""
    reader, below = state_index.reader(), state_index.below
    if below is None:
        for part in reader.parts:
            yield from map(_at, reader.select(part, _POSITION))
        return
    shape = state_index.shape
    columns = (*shape.key_aliases, *_POSITION)
    layer = [batch for part in reader.parts for batch in reader.select(part, (*columns, DELETED))]
    for batch in layer:
        yield _at(batch.filter(pc.invert(batch[DELETED])))
    changed = layer_keys.changed_keys(layer, shape) if layer and shape.keys else None
    reader = below.reader()
    for part in reader.parts:
        rows = pa.Table.from_batches(reader.select(part, columns))
        if changed is not None:
            rows = rows.filter(layer_keys.unchanged(rows, changed, shape))
        yield _at(rows)


def _at(rows: pa.RecordBatch | pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return rows.column(BLOCK).to_numpy(), rows.column(ORDINAL).to_numpy().astype(np.int64)
