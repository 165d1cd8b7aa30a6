"""From a block's bytes to typed rows, on the executors. Needs no Spark.

The fast way (``fast_decoding.py``) reads whole columns; where it is not sure of its answer, the
exact way (``exact_decoding.py``) reads value by value.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format import set_hash
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.format.set_hash import DIGEST_BYTES
from singerlake.format.types import EXACT_KEYS, RULES, Columns, Kind, Type, exact, rounds
from singerlake.rows.batches.row_columns import MISFITS, TYPES, row_schema
from singerlake.rows.blocks import exact_decoding, fast_decoding, positions
from singerlake.rows.blocks.casts import cast_columns
from singerlake.rows.blocks.defaults import ColumnDefault
from singerlake.rows.blocks.exact_decoding import DecodedRows

_MOST_PICKED = 0.8
"""Of more of a block's rows than this, reading all is cheaper than cutting lines out."""


class _MessageType(msgspec.Struct):
    type: str


_TYPE = msgspec.json.Decoder(_MessageType)


@dataclass(frozen=True)
class BlockSpec:
    """What is needed to read a block besides its bytes.

    Attributes:
        where: What to call the block in an error.
        block: Its entry in the log.
        source: All columns of the table that its records have.
        target: The columns wanted, of the table's schema.
        keys: Names of those by which rows are told apart.
        digests: Whether each record's digest is wanted too.
        table: Whose block it is; named in an error about a key that does not fit.
        members: What its records call those columns that people call otherwise.
        defaults: What rows have in columns that people added, by name.
        proved: Whether its values are certain to have the types of ``source``, but for text.
        rules: The number of the rules by which it is read.
        lenient: Whether a key that its column would only have to round is null and a misfit, as
            other values are: for those who only show it, and tell rows apart by ``types.identity``.
    """

    where: str
    block: Block
    source: Columns
    target: Columns
    keys: frozenset[str] = frozenset()
    digests: bool = False
    table: TableName | None = None
    members: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, ColumnDefault] = field(default_factory=dict)
    proved: bool = False
    rules: int = RULES
    lenient: bool = False

    def in_records(self, columns: Columns) -> Columns:
        """Return columns by the names that the records have for them."""
        if not self.members:
            return columns
        return tuple((self.members.get(name, name), type_) for name, type_ in columns)


def read(text: bytes, spec: BlockSpec) -> pa.RecordBatch:
    """Read an inflated block.

    Returns:
        The wanted columns in order, then those of ``row_columns.PROVENANCE`` (digests are null
        where none are wanted) and ``DELETED``. A value that fits not its column or not the
        table's is null, and the misfits tell by the column's index what is wrong with it.

    Raises:
        DamagedError: A key does not fit, a line is no Singer message, or there are more or
            fewer rows than the log says.
    """
    source = _wanted(spec)
    lines = format_block.after_schema(text)
    ends, wanted = format_block.line_ends(text) - 1, spec.in_records(source)
    rows = fast_decoding.read(lines, wanted, ends, proved=spec.proved, rules=spec.rules)
    if rows is None:
        rows = _read_exactly(bytes(lines), source, spec)
    if len(rows) != spec.block.rows:
        raise DamagedError(
            f"{spec.where} has {len(rows)} rows instead of {spec.block.rows} in the log"
        )
    hashes = _digests(lines, spec, len(rows))
    return _batch(rows, hashes, source, spec, positions.of_block(text, spec.block))


def read_some(text: bytes, spec: BlockSpec, picked: NDArray[np.int64]) -> pa.RecordBatch:
    """Read some rows of an inflated block.

    Args:
        text: The block.
        spec: As for :func:`read`.
        picked: Which of its rows, from 0, rising.

    Returns:
        What :func:`read` gives, of these rows.

    Raises:
        DamagedError: As :func:`read`.
    """
    if len(picked) == spec.block.rows:
        return read(text, spec)
    source = _wanted(spec)
    target = dict(spec.target)
    # An error names a line by its number, which only the whole block shows.
    if len(picked) < _MOST_PICKED * spec.block.rows and all(target[n] == t for n, t in source):
        lines = record_lines(text, spec.block)
        picked_lines = b"".join([lines[row] for row in picked.tolist()])
        wanted = spec.in_records(source)
        rows = fast_decoding.read(
            picked_lines, wanted, len(picked), proved=spec.proved, rules=spec.rules
        )
        if rows is not None and len(rows) == len(picked):
            hashes = _digests(picked_lines, spec, len(rows))
            codes = positions.of_block(text, spec.block)[picked]
            return _batch(rows, hashes, source, spec, codes)
    return read(text, spec).take(pa.array(picked))


def message_type(line: bytes) -> str:
    """Return the type of a block's line: RECORD or ACTIVATE_VERSION."""
    return _TYPE.decode(line).type


def record_lines(text: bytes, block: Block) -> list[bytes]:
    """Cut out a block's RECORD lines, with their newlines.

    Raises:
        DamagedError: There are more or fewer than the log says.
    """
    lines = io.BytesIO(text).readlines()[1:]  # split() takes three times as long
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # no line ends there, and the count below says so
    if block.activations:
        lines = [line for line in lines if message_type(line) == "RECORD"]
    if len(lines) != block.rows:
        raise DamagedError(
            f"block {block.number} has {len(lines)} rows instead of {block.rows} in the log"
        )
    return lines


def _digests(lines: bytes | memoryview, spec: BlockSpec, count: int) -> pa.Array:
    if spec.digests:
        return of_lines(lines, spec.where, count)
    return pa.nulls(count, pa.binary())


def _read_exactly(lines: bytes, source: Columns, spec: BlockSpec) -> DecodedRows:
    """Read value by value; what does not fit is noted under the names that people see."""
    members = spec.members
    keys = frozenset(members.get(name, name) for name in spec.keys)
    return exact_decoding.read(
        lines,
        spec.in_records(source),
        spec.where,
        keys,
        spec.table,
        lenient=spec.lenient,
        rules=spec.rules,
        shown={member: name for name, member in members.items()},
    )


def _wanted(spec: BlockSpec) -> Columns:
    """The block's own columns, those that are wanted, by the types that their values are read by.

    Where the schema has changed, a key goes from type to type as the tap wrote it: a double on the
    way would make one key of two.
    """
    wanted = dict(spec.target)
    columns: list[tuple[str, Type]] = []
    for name, own in spec.source:
        if name not in wanted:
            continue
        type_ = own
        if spec.rules >= EXACT_KEYS and own.own is None:
            type_ = exact(own, is_key=name in spec.keys)
            if name in spec.keys and rounds(own) and type_ != wanted[name]:
                type_ = Type(Kind.TEXT, own=type_)
        columns.append((name, type_))
    return tuple(columns)


def _batch(
    rows: DecodedRows,
    hashes: pa.Array,
    source: Columns,
    spec: BlockSpec,
    codes: NDArray[np.int64],
) -> pa.RecordBatch:
    arrays = [
        *_columns(rows, source, spec, codes),
        pa.array(positions.blocks_of(codes)),
        pa.array(positions.ordinals_of(codes)),
        rows.versions,
        hashes,
        _misfits(rows, spec.target),
        rows.deleted,
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=row_schema(spec.target))


def _columns(
    rows: DecodedRows, source: Columns, spec: BlockSpec, codes: NDArray[np.int64]
) -> list[pa.Array]:
    arrays = cast_columns(
        rows, source, spec.target, spec.where, spec.keys, spec.table, lenient=spec.lenient
    )
    if not spec.defaults:
        return arrays
    own = {name for name, _ in source}
    blocks = positions.blocks_of(codes)
    for index, (name, _) in enumerate(spec.target):
        if (default := spec.defaults.get(name)) is not None:
            arrays[index] = default.filled(arrays[index] if name in own else None, blocks)
            for row in np.flatnonzero(blocks < default.first_block).tolist():
                rows.misfits.get(row, {}).pop(name, None)  # of another column of this name
    return arrays


def _misfits(rows: DecodedRows, target: Columns) -> pa.Array:
    if not rows.misfits:
        return pa.nulls(len(rows), TYPES[MISFITS])
    indexes = {name: index for index, (name, _) in enumerate(target)}
    by_row: list[list[tuple[int, str]] | None] = [None] * len(rows)
    for row, errors in rows.misfits.items():
        by_row[row] = sorted((indexes[name], text) for name, text in errors.items())
    return pa.array(by_row, TYPES[MISFITS])


# What stands for each record: a digest of its bytes exactly as the tap wrote them.
#
# Typed columns cannot tell ``12345678901234.123456`` from ``….123457``, which are one double, nor
# see a member that the schema does not declare. So a revert compares rows by these digests, and a
# version's second fingerprint is made of them. Of a line only the value of ``record`` counts: times
# and versions around it may change when a line is sent or written again.


class _Record(msgspec.Struct, tag="RECORD", tag_field="type", gc=False):
    record: msgspec.Raw


class _Activation(msgspec.Struct, tag="ACTIVATE_VERSION", tag_field="type", gc=False):
    pass


_LINES = msgspec.json.Decoder(_Record | _Activation)


def of_lines(lines: bytes | memoryview, where: str, count: int) -> pa.Array:
    """Compute the digest of each record.

    Args:
        lines: RECORD and ACTIVATE_VERSION lines.
        where: What to call their block in an error.
        count: How many records are in them.

    Raises:
        DamagedError: A line is of another kind, or there are more or fewer records.
    """
    try:
        messages = _LINES.decode_lines(lines)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedError(f"{where} holds a line that is not a Singer message: {error}") from error
    records = [message.record for message in messages if type(message) is _Record]
    if len(records) != count:
        raise DamagedError(f"{where} has {len(records)} rows where {count} were expected")
    return column(set_hash.joined_digests(records))


def column(digests: bytes) -> pa.Array:
    """Make a column of digests that stand one behind the other."""
    count = len(digests) // DIGEST_BYTES
    ends = np.arange(0, (count + 1) * DIGEST_BYTES, DIGEST_BYTES, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(digests)]
    )
