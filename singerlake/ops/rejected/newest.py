"""The newest lines of some keys in a table, deletions too: a replayed record may be older.

Whatever the table's size, what comes back are a few values for each line of these keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Raw
from numpy.typing import NDArray

from singerlake.engine.base import Engine
from singerlake.format import messages, times
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.overlaid import block_columns
from singerlake.format.types import identity
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.batches import packing
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.blocks.decoding import BlockSpec, record_lines
from singerlake.rows.blocks.defaults import wanted_defaults
from singerlake.rows.state import keys
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.key_filter import KeyFilter
from singerlake.rows.state.keys import AT
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import from_blocks

_FOUND = "rows binary"


class _Line(msgspec.Struct):
    record: Raw
    time_extracted: str | None = None
    version: int | None = None


_LINE = msgspec.json.Decoder(_Line)


@dataclass(frozen=True)
class NewestLine:
    """The newest line of a key.

    Attributes:
        time: When the tap read it; None if the line does not say.
        digest: SHA-256 of its record, as 64 hexadecimal digits.
        block: The number of its block.
    """

    time: datetime | None
    digest: str
    block: int


def keys_of(head: TableState, lines: Sequence[tuple[SchemaEntry, bytes]]) -> pa.Table:
    """Read the keys of lines that a table may get, as they are compared.

    Args:
        lines: RECORD lines, each with its newline and with the schema that it is to be under.
    """
    columns = identity(shape_of(head).key_columns)  # a key that its column would round is that key
    tables = [keys.none(columns)]
    for entry, some in groupby(lines, key=itemgetter(0)):
        texts = [line for _, line in some]
        own = block_columns(entry, head.overlay, head.rules)
        text = b"".join((messages.schema_line(head.table.stream, entry), *texts))
        spec = BlockSpec(
            where=f"a new block of {head.table}",
            block=Block(head.last_block + 1, "", 0, 0, len(texts), len(text)),
            source=own.columns,
            members=own.members,
            target=columns,
            keys=frozenset(name for name, _ in columns),
            table=head.table,
            defaults=wanted_defaults(head, columns),
            rules=own.rules,
        )
        tables.append(keys.read(text, spec))
    return pa.concat_tables(tables).drop_columns([AT])


def newest_lines(
    engine: Engine[Any],
    table: Table,
    head: TableState,
    wanted: pa.Table,
    blocks: Sequence[Block] | None = None,
) -> dict[int, NewestLine]:
    """Find the newest line of each wanted key that the table has or deletes.

    Args:
        wanted: Keys, as :func:`keys_of` gives them.
        blocks: Those to look through; all that matter by default.

    Returns:
        The lines, by the index of the key. A key whose rows an ACTIVATE_VERSION removed has none.
    """
    survival = shape_of(head).survival
    shape = replace(shape_of(head), survival=Survival())
    needed = from_blocks.needed_blocks(head) if blocks is None else blocks
    plan = from_blocks.planned(engine, table, head, shape=shape, blocks=needed, shown=True)
    step = _LinesOfKeys(plan.key_reader, packing.pack(wanted))
    with engine.stages("searching the blocks"):
        found = engine.collect(engine.map(engine.source(plan.sent), step, _FOUND))
    tables = [packing.unpack(row["rows"]) for row in found]
    if not tables:
        return {}
    rows = pa.concat_tables(tables)
    newest = _newest(wanted, rows.select(wanted.column_names), rows.column(AT).to_numpy())
    survives = survival.mask(rows.column(AT).to_numpy(), packing.one_array(rows.column("version")))
    return {
        key: _line(rows.slice(row, 1).to_pylist()[0])
        for key, row in newest.items()
        if survives[row]
    }


def _newest(wanted: pa.Table, found: pa.Table, codes: NDArray[np.int64]) -> dict[int, int]:
    """Find for each wanted key the row with the greatest position."""
    numbers = keys.numbered(pa.concat_tables([wanted, found.cast(wanted.schema)]))
    last: dict[int, int] = {}
    for row in np.argsort(codes, kind="stable").tolist():
        last[int(numbers[len(wanted) + row])] = row
    own = numbers[: len(wanted)].tolist()
    return {key: last[number] for key, number in enumerate(own) if number in last}


def _line(row: dict[str, Any]) -> NewestLine:
    time = times.parse(row["time"]) if row["time"] else None
    return NewestLine(time, row["digest"], row[AT] >> 31)


@dataclass
class _LinesOfKeys:
    """Reads what is asked of the lines of some keys.

    Attributes:
        reader: Reads the key's columns.
        wanted: The keys, packed.
    """

    reader: BlockReader
    wanted: bytes

    def __call__(self, numbers: Batches) -> Batches:
        """Look through the blocks of the tasks that come in."""
        wanted = KeyFilter([self.wanted])
        for _, blocks in self.reader.given(numbers):
            for read in self.reader.texts(blocks):
                rows = keys.read(read.text, self.reader.spec(read.block, proved=read.proved))
                at = np.flatnonzero(wanted.mask(rows.drop_columns([AT])))
                if not len(at):
                    continue
                lines = record_lines(read.text, read.block)
                found = [_LINE.decode(lines[row]) for row in at.tolist()]
                some = rows.take(pa.array(at))
                for name, values, type_ in (
                    ("time", [one.time_extracted for one in found], pa.string()),
                    ("version", [one.version for one in found], pa.int64()),
                    ("digest", [sha256(one.record).hexdigest() for one in found], pa.string()),
                ):
                    some = some.append_column(name, pa.array(values, type_))
                cell = packing.packed_cell(some.combine_chunks())
                yield pa.RecordBatch.from_arrays([cell], ["rows"])
