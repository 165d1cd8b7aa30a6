"""Leaves out records whose keys are blocked in the lake: what is read of them is their keys."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from singerlake.format import block as format_block
from singerlake.format import times
from singerlake.format.erased_keys import KeyHashes
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.overlaid import block_columns, laid, table_columns
from singerlake.format.overlay import Overlay
from singerlake.format.types import identity, key_positions
from singerlake.log import blocked, erasures
from singerlake.log.staging import StagedTable
from singerlake.log.table_state import TableState
from singerlake.rows.blocks.decoding import BlockSpec, message_type
from singerlake.rows.state import keys
from singerlake.rows.state.blocked_keys import BlockedRows
from singerlake.storage.base import Store

Member = tuple[str, Block, bytes]


class _Timed(msgspec.Struct):
    time_extracted: str | None = None


_TIMED = msgspec.json.Decoder(_Timed)


def leave_out(store: Store, table: TableState, staged: StagedTable) -> int:
    """Take the records with blocked keys out of what was staged.

    Args:
        staged: What is to be committed; changed only where there are such.

    Returns:
        How many there were.

    Raises:
        ConflictError: Others are blocked by now, or the table is to get another key.
        DamagedError: It is not known any more which keys are blocked.
    """
    readers = _readers(store, table, staged)
    masks = [
        readers[name].mask(block, format_block.decode(data, block.bytes, "a new block"))
        for name, block, data in staged.members()
    ]
    count = sum(int(mask.sum()) for mask in masks)
    if count:
        staged.replace(_left(staged, masks))
    return count


def _readers(store: Store, table: TableState, staged: StagedTable) -> dict[str, _Keys]:
    hashes = blocked.read(store, table)
    overlay = Overlay() if table.dropped_at else table.overlay
    readers = {}
    for name, entry in staged.schemas.items():
        erasures.check_key(table, entry, overlay)
        readers[name] = _Keys(table, entry, overlay, hashes)
    return readers


class _Keys:
    """Reads the keys of blocks under one schema."""

    def __init__(
        self, table: TableState, entry: SchemaEntry, overlay: Overlay, hashes: KeyHashes
    ) -> None:
        columns = table_columns(entry, overlay)
        positions = key_positions(laid(entry, overlay), columns, table.table)
        target = tuple(columns[index] for index in positions)
        own = block_columns(entry, overlay)
        empty = Block(0, "", 0, 0, 0, 0)
        columns = identity(target)  # a key that its column would round is that key all the same
        self._spec = BlockSpec(
            where=f"a new block of {table.table}",
            block=empty,
            source=own.columns,
            members=own.members,
            target=columns,
            keys=frozenset(name for name, _ in columns),
            table=table.table,
        )
        self._rows = BlockedRows.of(hashes, columns, erasures.key_members(entry, overlay))

    def mask(self, block: Block, text: bytes) -> NDArray[np.bool_]:
        """Tell which records of a block have a blocked key."""
        found = keys.read(text, replace(self._spec, block=block))
        return self._rows.mask(found.columns[:-1])


def _left(staged: StagedTable, masks: list[NDArray[np.bool_]]) -> Iterator[Member]:
    for mask, (name, block, data) in zip(masks, staged.members(), strict=True):
        if not mask.any():
            yield name, block, data
        elif (left := _without(block, data, mask)) is not None:
            yield name, *left


def _without(block: Block, data: bytes, mask: NDArray[np.bool_]) -> tuple[Block, bytes] | None:
    """Make a block of the lines that stay; None where no line does."""
    schema, rest = format_block.lines(format_block.decode(data, block.bytes, "a new block"))
    lines, records = [schema], list[bytes]()
    activations = list[tuple[int, int]]()
    goes = iter(mask.tolist())
    versions = iter([version for _, version in block.activations])
    for line in io.BytesIO(rest).readlines():
        if block.activations and message_type(line) != "RECORD":
            activations.append((len(records), next(versions)))
        elif next(goes):
            continue
        else:
            records.append(line)
        lines.append(line)
    if len(lines) == 1:
        return None
    text = b"".join(lines)
    written = format_block.header(data, "a new block").written
    changed = msgspec.structs.replace(
        block,
        rows=len(records),
        bytes=len(text),
        first=_time(records[0], block.first) if records else "",
        last=_time(records[-1], block.last) if records else "",
        activations=activations,
        files=None,
    )
    return changed, format_block.encode(text, len(records), written)


def _time(line: bytes, otherwise: str) -> str:
    text = _TIMED.decode(line).time_extracted
    instant = times.parse(text) if text is not None else None
    return otherwise if instant is None else times.iso(instant)
