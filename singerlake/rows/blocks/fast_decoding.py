"""The fast way to read records: whole columns by ``pyarrow.json``, or not at all.

It reads a million rows a second and core; where the values are known to have their columns' types,
a more lenient parser reads twice as many (``lenient_json.py``). It steps aside for the exact way
(``exact_decoding.py``) wherever it raises or could give another answer: a name twice in an
object, ``1.0`` in an integer column, integers past 64 bits, columns kept as JSON text, times
without seconds or with more than nine digits, mixed offsets, lines of unknown type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from singerlake.format import times
from singerlake.format.sealed import UNREADABLE
from singerlake.format.types import DIGITS, RULES, TEXT, TIMED_DELETIONS, Columns, Kind, Type
from singerlake.format.values import SURE_DIGITS, exact_number
from singerlake.rows.blocks import lenient_json, type_prover
from singerlake.rows.blocks.exact_decoding import DELETED_AT, DecodedRows
from singerlake.rows.blocks.line_types import Activation
from singerlake.rows.columns.arrow_types import DAYS, MICROS, arrow_type

_RISKY = (
    r"(?:^|[^\w.+-])[+-]?(?:[0-9.]+[eE][+-]?[0-9]+(?:[^\w.]|$)|[0-9]{%d,}(?:\W|$))"
    r"|\\u003"  # a digit, escaped
)
"""Numbers with an exponent, or with so many digits before the point. pyarrow.json reads 2.2e-311 as
a decimal 0.00, which it is not; and it shifts a large number's digits past 128 bits, and takes what
is left of them for the value."""
_MAX_JSON = (1 << 31) - 2
"""pyarrow.json counts a chunk's bytes in 32 bits."""

_Parser: TypeAlias = Callable[["bytes | memoryview", pa.Schema], pa.Table]


class _StepAsideError(Exception):
    """The fast way is not sure of its answer."""


def read(
    lines: bytes | memoryview,
    columns: Columns,
    count: int,
    *,
    proved: bool = False,
    rules: int = RULES,
) -> DecodedRows | None:
    """Read a block's lines by whole columns, or say that this cannot be done safely.

    Args:
        lines: RECORD and ACTIVATE_VERSION lines.
        columns: The columns of the block's own schema that are wanted.
        count: How many lines end in it.
        proved: Whether their values are certain to have these columns' types.
        rules: The number of the rules by which they are read.

    Returns:
        None where only the exact way will do.
    """
    if not lines or len(lines) > _MAX_JSON:
        return None
    if any(_has(type_, Kind.TEXT) for _, type_ in columns):
        return None
    if not are_certain(lines, columns):
        return None
    if proved and all(type_prover.provable(type_) for _, type_ in columns):
        rows = _tried(lines, columns, count, _read_proved, rules)
        if rows is not None:
            return rows
    scale = max((_largest_scale(type_) for _, type_ in columns), default=-1)
    if scale >= 0 and _is_risky(lines, DIGITS - scale):
        return None
    return _tried(lines, columns, count, _read_strictly, rules)


def _tried(
    lines: bytes | memoryview, columns: Columns, count: int, parse: _Parser, rules: int = RULES
) -> DecodedRows | None:
    try:
        return _by_columns(lines, columns, count, parse, rules)
    except (_StepAsideError, pa.ArrowException, OverflowError):
        return None


def _by_columns(
    lines: bytes | memoryview, columns: Columns, count: int, parse: _Parser, rules: int = RULES
) -> DecodedRows:
    fields = pa.struct(_fields(columns))
    envelope = pa.schema([("type", pa.string()), ("record", fields), ("version", pa.int64())])
    table = parse(lines, envelope)
    if table.num_rows != count or lines[-1:] != b"\n":
        raise _StepAsideError  # several values on a line, or an empty one
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
    return _rows(record.flatten(), columns, _single(table["version"], pa.int64()), rules)


def _fields(columns: Columns) -> list[pa.Field]:
    """The members of a record that are read: those wanted, and what says that it is deleted."""
    fields = [pa.field(name, _wire(type_)) for name, type_ in columns]
    if not any(name == DELETED_AT for name, _ in columns):
        fields.append(pa.field(DELETED_AT, pa.string()))
    return fields


def _rows(members: list[pa.Array], columns: Columns, versions: pa.Array, rules: int) -> DecodedRows:
    arrays = [_typed(member, type_) for member, (_, type_) in zip(members, columns, strict=False)]
    names = [name for name, _ in columns]
    marks = members[names.index(DELETED_AT) if DELETED_AT in names else len(columns)]
    return DecodedRows(arrays, versions, _deletions(marks, rules))


def _deletions(marks: pa.Array, rules: int) -> pa.Array:
    """Tell which records are deletions, as ``values.is_deletion`` does."""
    given = pc.is_valid(marks)
    if rules < TIMED_DELETIONS or marks.null_count == len(marks):
        return given
    if not pa.types.is_string(marks.type):
        return pa.repeat(pa.scalar(False), len(marks))
    texts = marks.dictionary_encode()
    timed = [times.parse(text) is not None for text in texts.dictionary.to_pylist()]
    return pc.fill_null(pa.array(timed, pa.bool_()).take(texts.indices), False)


def _read_strictly(lines: bytes | memoryview, schema: pa.Schema) -> pa.Table:
    table = pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    ).combine_chunks()
    table.validate(full=True)  # it lets bytes through that are not UTF-8
    return table


def _read_proved(lines: bytes | memoryview, schema: pa.Schema) -> pa.Table:
    table = lenient_json.read(lines, schema)
    if table is None:
        raise _StepAsideError
    return table


def _single(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.num_chunks == 0:
        return pa.array([], type_)
    raise _StepAsideError


def _has(type_: Type, kind: Kind) -> bool:
    return type_.kind is kind or any(_has(one, kind) for one in type_.parts)


def _largest_scale(type_: Type) -> int:
    """The most digits after the point of a decimal in a column; -1 where there is none."""
    own = type_.scale if type_.kind is Kind.DECIMAL else -1
    return max([own, *map(_largest_scale, type_.parts)])


def _is_risky(lines: bytes | memoryview, digits: int) -> bool:
    # Arrow's expressions are four times as fast as Python's.
    ends = pa.py_buffer(np.array([0, len(lines)], np.int32))
    text = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(lines)])
    risky: bool = pc.match_substring_regex(text, _RISKY % (digits + 1))[0].as_py()
    return risky


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
        return _within(days, pc.cast(days, pa.int32()), *DAYS)
    if kind is Kind.TIMESTAMP:
        return _instants(array, exact=type_.exact)
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
    ends = pc.cumulative_sum(lengths).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate(([0], ends)), pa.int32())
    return pa.ListArray.from_arrays(offsets, values, type=arrow_type(type_), mask=pc.is_null(array))


def _instants(array: pa.Array, *, exact: bool) -> pa.Array:
    """ISO timestamps to instants; no offset means UTC."""
    if array.null_count == len(array):
        return pa.nulls(len(array), pa.timestamp("us", "UTC"))
    # pyarrow takes an hour alone, which the format's own reader does not; and nothing that
    # has its colon elsewhere than here.
    if not pc.all(pc.equal(pc.utf8_slice_codeunits(array, 13, 14), ":")).as_py():
        raise _StepAsideError
    try:
        instants = _cast_instants(array)
    except pa.ArrowInvalid:
        # Digits past the microsecond, which pyarrow refuses, are dropped; but none of a key.
        if exact and pc.any(pc.match_substring_regex(array, r"[.]\d{6}\d*[1-9]")).as_py():
            raise _StepAsideError from None
        short = pc.replace_substring_regex(array, r"([.]\d{6})\d{1,30}", r"\1")
        instants = _cast_instants(short)
    return _within(instants, instants.view(pa.int64()), *MICROS)


def _cast_instants(array: pa.Array) -> pa.Array:
    try:
        return pc.cast(array, pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        naive = pc.cast(array, pa.timestamp("us"))
        return pc.cast(naive.view(pa.int64()), pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))


def _within(array: pa.Array, numbers: pa.Array, least: int, most: int) -> pa.Array:
    extremes = pc.min_max(numbers).as_py()
    if extremes["min"] is not None and not least <= extremes["min"] <= extremes["max"] <= most:
        raise _StepAsideError
    return array


# Whether a double keeps every digit of the numbers in a block's keys, told by their digits.
#
# The fast ways to read a block give doubles, of which nobody can tell what they were rounded from.
# So where a number is part of a key, its digits are looked at before.


def are_certain(lines: bytes | memoryview, columns: Columns) -> bool:
    """Tell whether each number of a key is certain to be the double that it is read as.

    Args:
        lines: RECORD and ACTIVATE_VERSION lines.
        columns: The columns that are wanted, by the names that records have for them.
    """
    names = tuple(name for name, type_ in columns if _has_exact_number(type_))
    if not names or not lines:
        return True
    types = dict(columns)
    decoder = _decoder_of(names)
    if decoder is None or any(types[name].kind is not Kind.NUMBER for name in names):
        return False
    try:
        found = [one for one in decoder.decode_lines(lines) if type(one) is not Activation]
    except (*UNREADABLE, ValueError):
        return False
    return all(
        _are_exact(list(map(attrgetter(f"record.c{number}"), found)))
        for number in range(len(names))
    )


def _has_exact_number(type_: Type) -> bool:
    own = type_.exact and type_.kind is Kind.NUMBER
    return own or any(map(_has_exact_number, type_.parts))


def _are_exact(tokens: list[msgspec.Raw]) -> bool:
    texts = pa.array(list(map(bytes, tokens)), pa.binary())
    short = pc.less_equal(pc.binary_length(texts), SURE_DIGITS)
    sure = pc.and_(short, pc.invert(pc.match_substring_regex(texts, "[eE]")))
    try:
        for token in texts.filter(pc.invert(sure)).to_pylist():
            exact_number(token)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=64)
def _decoder_of(names: tuple[str, ...]) -> msgspec.json.Decoder[Any] | None:
    """Build what decodes lines as far as some members of their records; None for odd names."""
    fields: list[tuple[str, Any, Any]] = [
        (f"c{number}", msgspec.Raw, msgspec.Raw(b"null")) for number in range(len(names))
    ]
    own = {f"c{number}": name for number, name in enumerate(names)}
    try:
        record = msgspec.defstruct("Numbers", fields, rename=own, gc=False)
        line = msgspec.defstruct(
            "Record", [("record", record)], tag="RECORD", tag_field="type", gc=False
        )
        return msgspec.json.Decoder(line | Activation)
    except ValueError:  # a name with a quote or a control character in it
        return None
