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
from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format import times
from singerlake.format.types import TEXT, Columns, Kind, Type

_ESCAPED = json.JSONEncoder(ensure_ascii=False).encode


def value_text(value: Any, type_: Type) -> str:
    """Write one value that is not null, as Arrow hands it to Python, in canonical text."""
    return _WRITERS[type_.kind](value, type_)


def row_texts(batch: pa.RecordBatch, columns: Columns) -> pa.Array:
    """Write each row in canonical text.

    Args:
        batch: Whose columns are those of ``columns``, in the same order.
        columns: Their names and types.
    """
    return _object_texts(batch.columns, columns, batch.num_rows)


def _object_texts(arrays: list[pa.Array], columns: Columns, count: int) -> pa.Array:
    order = sorted(range(len(columns)), key=lambda i: columns[i][0])
    members = ((columns[i][0], texts(arrays[i], columns[i][1])) for i in order)
    return object_texts(members, count)


def object_texts(members: Iterable[tuple[str, pa.Array]], count: int) -> pa.Array:
    """Write objects of members whose values are written already.

    Args:
        members: The names, in the order in which they are to stand, and for each the values'
            texts, null in an object that has it not.
        count: How many objects.
    """
    # Not null_handling="skip": that leaves out rows whose members are all null.
    written = [
        pc.fill_null(joined(f",{string_text(name)}:", values), "") for name, values in members
    ]
    if not written:
        return pa.array(["{}"] * count, pa.large_string())
    return joined("{", pc.utf8_slice_codeunits(joined(*written), 1), "}")


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
        local = pc.cast(pc.cast(array, pa.timestamp("us")), pa.large_string())
        return joined('"', pc.replace_substring(local, " ", "T", max_replacements=1), 'Z"')
    if type_.kind is Kind.NUMBER:
        return _number_texts(array)
    if type_.kind is Kind.STRUCT:
        objects = _object_texts(array.flatten(), type_.fields, len(array))
        return pc.if_else(array.is_valid(), objects, _NOTHING)
    if type_.kind is Kind.LIST:
        return list_texts(array, texts(array.flatten(), type_.item or TEXT))
    writer = _WRITERS[type_.kind]
    written = (None if value is None else writer(value, type_) for value in array.to_pylist())
    return pa.array(written, pa.large_string())


def list_texts(array: pa.ListArray, items: pa.Array) -> pa.Array:
    """Write lists whose items are written already.

    Args:
        array: The lists.
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
    if not pc.all(pc.match_substring_regex(text, r"^-?[0-9]+(?:\.[0-9]+)?$")).as_py():
        numbers = (None if value is None else number_text(value) for value in array.to_pylist())
        return pa.array(numbers, pa.large_string())
    text = pc.replace_substring_regex(text, r"\.0+$", "")
    return pc.if_else(pc.equal(text, "-0"), _large("0"), text)


def _string_texts(array: pa.Array) -> pa.Array:
    text = pc.cast(array, pa.large_string())
    if pc.any(pc.match_substring_regex(text, r"[\x00-\x1f]")).as_py():
        values = (None if value is None else string_text(value) for value in text.to_pylist())
        return pa.array(values, pa.large_string())
    for special in ("\\", '"'):
        if pc.any(pc.match_substring(text, special)).as_py():
            text = pc.replace_substring(text, special, "\\" + special)
    return joined('"', text, '"')


def joined(*parts: str | pa.Array) -> pa.Array:
    """Put strings and arrays of them behind one another; null where an array is."""
    pieces = [_large(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*pieces, _large(""))


def _large(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


_NOTHING = pa.scalar(None, pa.large_string())
