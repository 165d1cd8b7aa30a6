"""From a block's bytes to typed rows, on the executors. Needs no Spark.

The fast way hands the lines to ``pyarrow.json`` under an explicit schema and turns dates,
times and such by whole columns: a million rows a second and core. It steps aside for the
exact way (``exact.py``) wherever it raises or could give another answer: a name twice in an
object, ``1.0`` in an integer column, integers past 64 bits, columns kept as JSON text, times
without seconds or with more than nine digits, mixed offsets, lines of unknown type.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from numpy.typing import NDArray

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format import rewritten
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.spark import digests, exact
from singerlake.spark.casts import cast_columns
from singerlake.spark.columns import TEXT, Columns, Kind, Type, arrow_type
from singerlake.spark.exact import DELETED, Gathered

BLOCK, ORDINAL, VERSION, DIGEST = "_block", "_ordinal", "_singer_version", "_digest"
GONE, MISFIT = "_deleted", "_misfit"
_SAID = pa.map_(pa.int32(), pa.string())
PROVENANCE = (
    pa.field(BLOCK, pa.int64()),
    pa.field(ORDINAL, pa.int32()),
    pa.field(VERSION, pa.int64()),
    pa.field(DIGEST, pa.binary()),
    pa.field(MISFIT, _SAID),
    pa.field(GONE, pa.bool_()),
)
_EXPONENT = re.compile(rb"\d[eE]-\d")
_MAX_JSON = (1 << 31) - 2
"""pyarrow.json counts a chunk's bytes in 32 bits."""
_FIRST_DAY, _LAST_DAY = -719162, 2932896
_FIRST_MICRO, _LAST_MICRO = _FIRST_DAY * 86_400_000_000, (_LAST_DAY + 1) * 86_400_000_000 - 1
"""The years 1 to 9999: what the exact way and Spark can hold."""
_MOST_PICKED = 0.8
"""Of more of a block's rows than this, reading all is cheaper than cutting lines out."""


class _Kind(msgspec.Struct):
    type: str


_KIND = msgspec.json.Decoder(_Kind)


class _StepAsideError(Exception):
    """The fast way is not sure of its answer."""


@dataclass(frozen=True)
class BlockRows:
    """What is needed to read a block besides its bytes.

    Attributes:
        where: What to call the block in an error.
        block: What the log says of it.
        source: All columns of the schema it was written under.
        target: The columns wanted, of the table's schema.
        keys: Names of those by which rows are told apart.
        digests: Whether each record's digest is wanted too.
        table: Whose block it is; named in what is said of a key that does not fit.
    """

    where: str
    block: Block
    source: Columns
    target: Columns
    keys: frozenset[str] = frozenset()
    digests: bool = False
    table: TableName | None = None


def read(text: bytes, about: BlockRows) -> pa.RecordBatch:
    """Read an inflated block.

    Returns:
        The wanted columns in order, then ``_block``, ``_ordinal``, ``_singer_version``,
        ``_digest`` (null where none are wanted), ``_misfit`` and ``_deleted``. A value that
        fits not its column or not the table's is null, and ``_misfit`` says by the column's
        place what is wrong with it. Columns are found by place, not by name, for names may
        collide.

    Raises:
        DamagedError: A key does not fit, a line is no Singer message, or there are more or
            fewer rows than the log says.
    """
    lines = format_block.after_schema(text)
    source = _wanted(about)
    gathered = read_fast(lines, source, format_block.line_ends(text) - 1)
    if gathered is None:
        gathered = exact.read(bytes(lines), source, about.where, about.keys, about.table)
    count = len(gathered.versions)
    if count != about.block.rows:
        raise DamagedError(f"{about.where} has {count} rows where the log says {about.block.rows}")
    return _batch(gathered, source, about, _positions(text, about.block), lines)


def read_some(text: bytes, about: BlockRows, places: NDArray[np.int64]) -> pa.RecordBatch:
    """Read some rows of an inflated block.

    Args:
        text: The block.
        about: As for :func:`read`.
        places: Which of its rows, from 0, rising.

    Returns:
        What :func:`read` gives, of these rows.

    Raises:
        DamagedError: As :func:`read`.
    """
    if len(places) == about.block.rows:
        return read(text, about)
    source = _wanted(about)
    target = dict(about.target)
    # A line that must be explained is called by its place, which only the whole block shows.
    if len(places) < _MOST_PICKED * about.block.rows and all(target[n] == t for n, t in source):
        lines = record_lines(text, about.block)
        picked = b"".join([lines[place] for place in places.tolist()])
        gathered = read_fast(picked, source, len(places))
        if gathered is not None and len(gathered.versions) == len(places):
            found = (column.take(pa.array(places)) for column in _positions(text, about.block))
            return _batch(gathered, source, about, found, picked)
    return read(text, about).take(pa.array(places))


def kind_of(line: bytes) -> str:
    """The type of a block's line: RECORD or ACTIVATE_VERSION."""
    return _KIND.decode(line).type


def record_lines(text: bytes, block: Block) -> list[bytes]:
    """A block's RECORD lines, with their newlines.

    Raises:
        DamagedError: There are more or fewer than the log says.
    """
    lines = io.BytesIO(text).readlines()[1:]  # split() takes three times as long
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # no line ends there, and the count below says so
    if block.activations:
        lines = [line for line in lines if kind_of(line) == "RECORD"]
    if len(lines) != block.rows:
        raise DamagedError(f"block {block.number} has {len(lines)} rows, the log says {block.rows}")
    return lines


def _wanted(about: BlockRows) -> Columns:
    """The block's own columns, those that are wanted."""
    wanted = {name for name, _ in about.target}
    return tuple(column for column in about.source if column[0] in wanted)


def _batch(
    gathered: Gathered,
    source: Columns,
    about: BlockRows,
    positions: Iterable[pa.Array],
    lines: bytes | memoryview,
) -> pa.RecordBatch:
    arrays = cast_columns(gathered, source, about.target, about.where, about.keys)
    fields = [pa.field(name, arrow_type(type_)) for name, type_ in about.target]
    count = len(gathered.versions)
    arrays += [
        *positions,
        gathered.versions,
        digests.of_lines(lines, about.where, count)
        if about.digests
        else pa.nulls(count, pa.binary()),
        _misfits(gathered, about.target),
        gathered.deleted,
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*fields, *PROVENANCE]))


def _misfits(gathered: Gathered, target: Columns) -> pa.Array:
    count = len(gathered.versions)
    if not gathered.misfits:
        return pa.nulls(count, _SAID)
    places = {name: place for place, (name, _) in enumerate(target)}
    said: list[list[tuple[int, str]] | None] = [None] * count
    for row, found in gathered.misfits.items():
        said[row] = sorted((places[name], text) for name, text in found.items())
    return pa.array(said, _SAID)


def _positions(text: bytes, block: Block) -> tuple[pa.Array, pa.Array]:
    """The block that each row came in, and its place there."""
    if not block.rewritten:
        numbers = pa.repeat(pa.scalar(block.number, pa.int64()), block.rows)
        return numbers, pa.array(np.arange(block.rows, dtype=np.int32))
    found = np.array(rewritten.positions(text, block), dtype=np.int64).reshape(-1, 2)
    return pa.array(found[:, 0]), pa.array(found[:, 1].astype(np.int32))


def read_fast(lines: bytes | memoryview, columns: Columns, count: int) -> Gathered | None:
    """Read a block's lines by whole columns, or say that this cannot be done safely.

    Args:
        lines: RECORD and ACTIVATE_VERSION lines.
        columns: The columns of the block's own schema that are wanted.
        count: How many lines end in it.

    Returns:
        None where only the exact way will do.
    """
    if not lines or len(lines) > _MAX_JSON:
        return None
    if any(_has(type_, Kind.TEXT) for _, type_ in columns):
        return None
    # pyarrow.json reads 2.2e-311 as a decimal 0.00, which the value is not.
    if any(_has(type_, Kind.DECIMAL) for _, type_ in columns) and _EXPONENT.search(lines):
        return None
    try:
        return _by_columns(lines, columns, count)
    except (_StepAsideError, pa.ArrowException, OverflowError):
        return None


def _by_columns(lines: bytes | memoryview, columns: Columns, count: int) -> Gathered:
    fields = [pa.field(name, _wire(type_)) for name, type_ in columns]
    mark = next((place for place, (name, _) in enumerate(columns) if name == DELETED), None)
    if mark is None:
        fields.append(pa.field(DELETED, pa.string()))
    envelope = pa.schema(
        [("type", pa.string()), ("record", pa.struct(fields)), ("version", pa.int64())]
    )
    table = pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pj.ParseOptions(explicit_schema=envelope, unexpected_field_behavior="ignore"),
    )
    if table.num_rows != count or lines[-1:] != b"\n":
        raise _StepAsideError  # several values on a line, or an empty one
    table = table.combine_chunks()
    table.validate(full=True)  # pyarrow.json lets bytes through that are not UTF-8
    is_record = pc.fill_null(pc.equal(table["type"], "RECORD"), False)
    records = pc.sum(is_record).as_py() or 0
    activations = pc.sum(pc.equal(table["type"], "ACTIVATE_VERSION")).as_py() or 0
    if records + activations != table.num_rows:
        raise _StepAsideError
    if activations:
        table = table.filter(is_record).combine_chunks()
    record = _single(table["record"], envelope.field("record").type)
    if record.null_count:
        raise _StepAsideError
    members = record.flatten()
    arrays = [_typed(member, type_) for member, (_, type_) in zip(members, columns, strict=False)]
    marks = members[len(columns) if mark is None else mark]
    return Gathered(arrays, _single(table["version"], pa.int64()), pc.is_valid(marks))


def _single(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.num_chunks == 0:
        return pa.array([], type_)
    raise _StepAsideError


def _has(type_: Type, kind: Kind) -> bool:
    inner = [field for _, field in type_.fields] + ([type_.item] if type_.item else [])
    return type_.kind is kind or any(_has(one, kind) for one in inner)


def _wire(type_: Type) -> pa.DataType:
    """What pyarrow.json reads, before the columns are turned."""
    if type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        return pa.string()
    if type_.kind is Kind.STRUCT:
        return pa.struct([pa.field(name, _wire(inner)) for name, inner in type_.fields])
    if type_.kind is Kind.LIST:
        return pa.list_(pa.field("element", _wire(type_.item or TEXT)))
    return arrow_type(type_)


def _typed(array: pa.Array, type_: Type) -> pa.Array:
    kind = type_.kind
    if kind is Kind.NUMBER:
        if not pc.all(pc.is_finite(array)).as_py() and array.null_count < len(array):
            raise _StepAsideError  # pyarrow.json takes NaN and Infinity, which JSON lacks
        return array
    if kind is Kind.DATE:
        days = pc.cast(array, pa.date32())
        return _within(days, pc.cast(days, pa.int32()), _FIRST_DAY, _LAST_DAY)
    if kind is Kind.TIMESTAMP:
        return _instants(array)
    if kind is Kind.STRUCT:
        members = [
            _typed(member, inner)
            for member, (_, inner) in zip(array.flatten(), type_.fields, strict=True)
        ]
        fields = list(arrow_type(type_))
        return pa.StructArray.from_arrays(members, fields=fields, mask=pc.is_null(array))
    if kind is Kind.LIST:
        return _lists(array, type_)
    return array


def _lists(array: pa.ListArray, type_: Type) -> pa.Array:
    values = _typed(array.flatten(), type_.item or TEXT)
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    ends = pc.cumulative_sum(lengths).to_pylist()
    offsets = pa.array([0, *ends], pa.int32())
    return pa.ListArray.from_arrays(offsets, values, type=arrow_type(type_), mask=pc.is_null(array))


def _instants(array: pa.Array) -> pa.Array:
    """ISO timestamps to instants; no offset means UTC."""
    if array.null_count == len(array):
        return pa.nulls(len(array), pa.timestamp("us", "UTC"))
    # pyarrow takes an hour alone, which the format's own reader does not; and nothing that
    # has its colon elsewhere than here.
    if not pc.all(pc.equal(pc.utf8_slice_codeunits(array, 13, 14), ":")).as_py():
        raise _StepAsideError
    # Digits past the microsecond are dropped.
    short = pc.replace_substring_regex(array, r"([.]\d{6})\d{1,30}", r"\1")
    try:
        instants = pc.cast(short, pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        naive = pc.cast(short, pa.timestamp("us"))
        instants = pc.cast(naive.view(pa.int64()), pa.timestamp("us")).cast(
            pa.timestamp("us", "UTC")
        )
    return _within(instants, instants.view(pa.int64()), _FIRST_MICRO, _LAST_MICRO)


def _within(array: pa.Array, numbers: pa.Array, least: int, most: int) -> pa.Array:
    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and not least <= found["min"] <= found["max"] <= most:
        raise _StepAsideError
    return array
