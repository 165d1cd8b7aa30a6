r"""One canonical text for a value, whatever engine read it. The content fingerprint hashes it.

A row is a JSON object in UTF-8 without spaces:

- its members in the order of their names' code points; a null column is left out, and so is
  a null field of a struct; a null in a list is written ``null``;
- strings escape ``"`` and ``\`` with a backslash, U+0008, U+0009, U+000A, U+000C and U+000D
  as ``\b \t \n \f \r``, other characters below U+0020 as ``\u00xx`` in lower case, and
  nothing else;
- whole numbers are their digits; doubles have the shortest digits that read back as the same
  double, decimals the digits they have; both in plain notation without exponent, without
  zeros at the end behind the point, without a bare point, and zero is ``0`` with no sign;
- dates are ``"2020-08-19"``, timestamps ``"2020-08-19T13:01:56.245769Z"``, always six digits;
- a column that is kept as JSON text is a string that holds this text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format import times
from singerlake.format.types import TEXT, Columns, Kind, Type
from singerlake.rows.columns import text_bytes

_ESCAPED = json.JSONEncoder(ensure_ascii=False).encode


def value_text(value: Any, type_: Type) -> str:
    """Write one value that is not null, as Arrow hands it to Python, in canonical text."""
    return _WRITERS[type_.kind](value, type_)


Around: TypeAlias = tuple[str, str]
"""What is put before and behind each text."""
_BARE: Around = ("", "")


def row_texts(batch: pa.RecordBatch, columns: Columns, around: Around = _BARE) -> pa.Array:
    """Write each row in canonical text.

    Args:
        batch: Whose columns are those of ``columns``, in the same order.
        around: What to put before and behind each.
    """
    return _object_texts(batch.columns, columns, batch.num_rows, around)


def _object_texts(
    arrays: list[pa.Array], columns: Columns, count: int, around: Around = _BARE
) -> pa.Array:
    order = sorted(range(len(columns)), key=lambda i: columns[i][0])
    members = [(columns[i][0], texts(arrays[i], columns[i][1])) for i in order]
    return object_texts(members, count, around)


class Quoted(NamedTuple):
    """Strings that are escaped, and still lack their quotes: to put these into labels is cheaper.

    Attributes:
        inner: The strings; none is null.
    """

    inner: pa.Array


def object_texts(
    members: Sequence[tuple[str, pa.Array | Quoted]], count: int, around: Around = _BARE
) -> pa.Array:
    """Write objects of members whose values are written already.

    Args:
        members: The names, in the order in which they are to stand, and for each the values'
            texts, null in an object that has it not.
        around: What to put before and behind each.
    """
    before, after = around
    if not members:
        return pa.array([f"{before}{{}}{after}"] * count, pa.large_string())
    first = members[0][1]
    if not isinstance(first, Quoted) and first.null_count:  # no object's first member is known
        every = joined(
            *(_optional(f",{string_text(name)}:", in_quotes(values)) for name, values in members)
        )
        return joined(f"{before}{{", pc.utf8_slice_codeunits(every, 1), f"}}{after}")
    pieces: list[str | pa.Array] = [f"{before}{{"]
    for number, (name, values) in enumerate(members):
        label = f"{',' * (number > 0)}{string_text(name)}:"
        if isinstance(values, Quoted):
            pieces += [f'{label}"', values.inner, '"']
        elif values.null_count:
            pieces.append(_optional(label, values))
        else:
            pieces += [label, values]
    return joined(*_merged([*pieces, f"}}{after}"]))


def in_quotes(values: pa.Array | Quoted) -> pa.Array:
    """Put quotes around strings that lack them."""
    return joined('"', values.inner, '"') if isinstance(values, Quoted) else values


def _merged(pieces: Iterable[str | pa.Array]) -> Iterator[str | pa.Array]:
    """Each piece is copied row by row: texts that stand side by side become one."""
    for is_text, some in groupby(pieces, key=lambda piece: isinstance(piece, str)):
        if is_text:
            yield "".join(some)
        else:
            yield from some


def _optional(label: str, values: pa.Array) -> pa.Array:
    # Not null_handling="skip": that leaves out rows whose members are all null.
    return pc.fill_null(joined(label, values), "")


def string_text(text: str) -> str:
    """Write a string as canonical JSON."""
    # json.dumps writes U+007F as it is and other controls as \u00xx, in lower case.
    return _ESCAPED(text)


def plain(value: Decimal) -> str:
    """Write a decimal in plain notation, without needless zeros."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def number_text(value: float) -> str:
    """Write a double's shortest digits, in plain notation."""
    text = repr(value)
    if "e" in text:
        return plain(Decimal(text))
    if text.endswith(".0"):
        text = text[:-2]
    return "0" if text == "-0" else text


def _time_text(value: datetime) -> str:
    return f'"{times.iso(value)}"'


def _date_text(value: date) -> str:
    return f'"{value.isoformat()}"'


def _struct_text(value: dict[str, Any], type_: Type) -> str:
    members = (
        f"{string_text(name)}:{value_text(value[name], inner)}"
        for name, inner in sorted(type_.fields, key=lambda field: field[0])
        if value[name] is not None
    )
    return "{" + ",".join(members) + "}"


def _list_text(value: list[Any], type_: Type) -> str:
    item = type_.item or TEXT
    return "[" + ",".join("null" if v is None else value_text(v, item) for v in value) + "]"


_WRITERS: dict[Kind, Callable[[Any, Type], str]] = {
    Kind.INTEGER: lambda value, _: str(value),
    Kind.NUMBER: lambda value, _: number_text(value),
    Kind.DECIMAL: lambda value, _: plain(value),
    Kind.STRING: lambda value, _: string_text(value),
    Kind.TEXT: lambda value, _: string_text(value),
    Kind.DATE: lambda value, _: _date_text(value),
    Kind.TIMESTAMP: lambda value, _: _time_text(value),
    Kind.BOOLEAN: lambda value, _: "true" if value else "false",
    Kind.STRUCT: _struct_text,
    Kind.LIST: _list_text,
}


def texts(array: pa.Array, type_: Type) -> pa.Array:
    """Write each value of a column in canonical text; null where it is null."""
    if type_.kind in (Kind.STRING, Kind.TEXT):
        return _string_texts(array)
    if type_.kind in (Kind.INTEGER, Kind.BOOLEAN):
        return pc.cast(array, pa.large_string())
    if type_.kind is Kind.DATE:
        return joined('"', pc.cast(array, pa.large_string()), '"')
    if type_.kind is Kind.TIMESTAMP:
        return _time_texts(array)
    if type_.kind is Kind.NUMBER:
        return _number_texts(array)
    if type_.kind is Kind.DECIMAL:
        return _decimal_texts(array)
    if type_.kind is Kind.STRUCT:
        objects = _object_texts(array.flatten(), type_.fields, len(array))
        return pc.if_else(array.is_valid(), objects, _NOTHING)
    return list_texts(array, texts(array.flatten(), type_.item or TEXT))


def list_texts(array: pa.ListArray, items: pa.Array) -> pa.Array:
    """Write lists whose items are written already.

    Args:
        items: The texts of ``array.flatten()``.
    """
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    ends = np.concatenate(([0], np.cumsum(lengths.to_numpy(), dtype=np.int64)))
    lists = pa.LargeListArray.from_arrays(pa.array(ends), pc.fill_null(items, "null"))
    written = joined("[", pc.binary_join(lists, _large(",")), "]")
    return pc.if_else(array.is_valid(), written, _NOTHING)


def _number_texts(array: pa.Array) -> pa.Array:
    """Arrow writes a double's shortest digits too, though with exponents from some size on."""
    text = pc.cast(array, pa.large_string())
    if text_bytes.most(text) > ord("9"):
        numbers = (None if value is None else number_text(value) for value in array.to_pylist())
        return pa.array(numbers, pa.large_string())
    whole = pc.ends_with(text, ".0")
    if pc.any(whole).as_py():
        text = pc.if_else(whole, pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), "."), text)
    return pc.if_else(pc.equal(text, _large("-0")), _large("0"), text)


def _decimal_texts(array: pa.Array) -> pa.Array:
    """Arrow writes a decimal's digits too, though some very small ones with exponents."""
    text = pc.cast(pc.cast(array, pa.string()), pa.large_string())
    if text_bytes.most(text) > ord("9"):
        numbers = (None if value is None else plain(value) for value in array.to_pylist())
        return pa.array(numbers, pa.large_string())
    return text if array.type.scale <= 0 else pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")


_LOCAL = len("2020-08-19 13:01:56.245769")


def _time_texts(array: pa.Array) -> pa.Array:
    """Write instants: all have the same length, so bytes are put in place as in a table."""
    local = pc.cast(pc.cast(array, pa.timestamp("us")), pa.large_string())
    filled = pc.fill_null(local, "0001-01-01 00:00:00.000000") if local.null_count else local
    if not (np.diff(text_bytes.ends(filled)) == _LOCAL).all():
        return joined('"', pc.replace_substring(local, " ", "T", max_replacements=1), 'Z"')
    count = len(local)
    whole = np.empty((count, _LOCAL + 3), np.uint8)
    whole[:, 1 : _LOCAL + 1] = text_bytes.written(filled).reshape(count, _LOCAL)
    for place, letter in ((0, '"'), (11, "T"), (-2, "Z"), (-1, '"')):
        whole[:, place] = ord(letter)
    ends = np.arange(count + 1, dtype=np.int64) * whole.shape[1]
    written = pa.LargeStringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(whole))
    return pc.if_else(local.is_valid(), written, _NOTHING) if local.null_count else written


_ESCAPES = {ord(letter): _ESCAPED(letter)[1:-1] for letter in ('"', *map(chr, range(0x20)))}


def _string_texts(array: pa.Array) -> pa.Array:
    return joined('"', escaped(array), '"')


def escaped(array: pa.Array) -> pa.Array:
    """Escape strings as they stand in quotes; null where they are."""
    text = pc.cast(array, pa.large_string())
    data = text_bytes.written(text)
    if (data == ord("\\")).any():  # first: the others bring more of them
        text = pc.replace_substring(text, "\\", "\\\\")
    special = np.unique(data[data < ord(" ")]).tolist()
    special += [ord('"')] if (data == ord('"')).any() else []
    for letter in special:
        text = pc.replace_substring(text, chr(letter), _ESCAPES[letter])
    return text


def joined(*parts: str | pa.Array) -> pa.Array:
    """Put strings and arrays of them behind one another; null where an array is."""
    pieces = [_large(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*pieces, _large(""))


def _large(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


# Not by pa.scalar, whose first call imports pandas: reading an index in Python needs none.
_NOTHING = pa.nulls(1, pa.large_string())[0]
