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

from singerlake.engine.base import Engine
from singerlake.format import messages, times
from singerlake.format.log import Block, Operation, SchemaEntry
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


class _Deletion(msgspec.Struct, rename={"at": messages.DELETED}):
    at: Any = None


_LINE = msgspec.json.Decoder(_Line)
_DELETION = msgspec.json.Decoder(_Deletion)


@dataclass(frozen=True)
class NewestLine:
    """The newest line of a key.

    Attributes:
        time: When the tap read it; None if the line does not say.
        digest: SHA-256 of its record, as 64 hexadecimal digits.
    """

    time: datetime | None
    digest: str


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
    *,
    past_reverts: bool = False,
) -> dict[int, NewestLine]:
    """Find the newest line of each wanted key that the table has or deletes.

    Args:
        wanted: Keys, as :func:`keys_of` gives them.
        blocks: Those to look through; all that matter by default.
        past_reverts: Look past deletions by reverts and undos, which say nothing of the source: to
            the newest line that no revert and no replay wrote. It has no digest then, because the
            table does not have it.

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
    newest = _newest(wanted, rows)
    survives = survival.mask(rows.column(AT).to_numpy(), packing.one_array(rows.column("version")))
    lines = {key: _line(rows, row) for key, row in newest.items() if survives[row]}
    if past_reverts:
        operations = _operations(head, rows)
        deletes = rows.column("deletes").to_pylist()
        reverted = {
            key
            for key in lines
            if deletes[newest[key]] and operations[newest[key]] == Operation.REVERT
        }
        of_source = [one not in (Operation.REVERT, Operation.REPLAY) for one in operations]
        own = rows.filter(pa.array(survives & of_source))
        earlier = _newest(wanted, own) if reverted else {}
        for key in reverted:
            del lines[key]
            if key in earlier:
                lines[key] = replace(_line(own, earlier[key]), digest="")
    return lines


def _operations(head: TableState, rows: pa.Table) -> list[str]:
    """Return the operation that wrote each row."""
    blocks = (rows.column(AT).to_numpy() >> 31).tolist()
    found = {one: head.summary(head.transaction_of_block(one)).operation for one in {*blocks}}
    return [found[one] for one in blocks]


def _newest(wanted: pa.Table, rows: pa.Table) -> dict[int, int]:
    """Find for each wanted key the row with the greatest position."""
    found, codes = rows.select(wanted.column_names), rows.column(AT).to_numpy()
    numbers = keys.numbered(pa.concat_tables([wanted, found.cast(wanted.schema)]))
    last: dict[int, int] = {}
    for row in np.argsort(codes, kind="stable").tolist():
        last[int(numbers[len(wanted) + row])] = row
    own = numbers[: len(wanted)].tolist()
    return {key: last[number] for key, number in enumerate(own) if number in last}


def _line(rows: pa.Table, row: int) -> NewestLine:
    time, digest = (rows.column(name)[row].as_py() for name in ("time", "digest"))
    return NewestLine(times.parse(time) if time else None, digest)


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
                    ("deletes", [_deletes(one.record) for one in found], pa.bool_()),
                    ("digest", [sha256(one.record).hexdigest() for one in found], pa.string()),
                ):
                    some = some.append_column(name, pa.array(values, type_))
                cell = packing.packed_cell(some.combine_chunks())
                yield pa.RecordBatch.from_arrays([cell], ["rows"])


def _deletes(record: Raw) -> bool:
    return _DELETION.decode(record).at is not None
