"""What the columns of a Parquet file are in a lake, and what of them a table's column can take."""

from __future__ import annotations

import pyarrow as pa

from singerlake.errors import UsageError
from singerlake.format.types import DIGITS, TEXT, Kind, Type
from singerlake.quantities import repeated
from singerlake.rows.given.values.inference import Spec, decimal_spec, nullable

_FITS = {
    "null": set(Kind),
    "boolean": {Kind.BOOLEAN, Kind.TEXT},
    "number": {Kind.INTEGER, Kind.NUMBER, Kind.DECIMAL, Kind.TEXT},
    "string": {Kind.STRING, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, Kind.DECIMAL},
    "time": {Kind.DATE, Kind.TIMESTAMP, Kind.TEXT},
    "object": {Kind.STRUCT, Kind.TEXT},
    "array": {Kind.LIST, Kind.TEXT},
}
_ADVICE = (
    (pa.types.is_map, "turn it into a struct, or into text"),
    (pa.types.is_time, "write it as text"),
    (pa.types.is_duration, "write it as a number of seconds"),
    (
        lambda type_: (
            pa.types.is_binary(type_)
            or pa.types.is_large_binary(type_)
            or pa.types.is_fixed_size_binary(type_)
        ),
        "write it as text, in Base64 or hexadecimal digits",
    ),
)


def spec_of(type_: pa.DataType, where: str) -> Spec:
    """Return the JSON Schema of a column of a Parquet file, null not among its values.

    Args:
        type_: Its Arrow type.
        where: The column's name, for the error.

    Raises:
        UsageError: It has no place in a lake; names the column, and says what to do.
    """
    type_ = _plain(type_)
    kind = _kind(type_)
    if kind == "number":
        return _number(type_, where)
    if kind == "time":
        return {"type": "string", "format": "date" if pa.types.is_date(type_) else "date-time"}
    if kind == "object" and type_.num_fields:
        _check_names(type_, where)
        properties = {
            field.name: nullable(spec_of(field.type, f"{where}.{field.name}")) for field in type_
        }
        return {"type": "object", "properties": properties}
    if kind == "array":
        return {"type": "array", "items": nullable(spec_of(type_.value_type, f"{where}[]"))}
    if kind in ("boolean", "string", "null"):
        return {"type": "boolean" if kind == "boolean" else "string"}
    raise UsageError(_no_place(type_, where))


def check_fits(type_: pa.DataType, column: Type, where: str) -> None:
    """Make sure that a table's column can take values of a Parquet file's column at all.

    Args:
        type_: The Arrow type of the file's column.
        column: The type of the table's column.
        where: The column's name, for the error.

    Raises:
        UsageError: It cannot; names the column and both types.
    """
    type_ = _plain(type_)
    kind = _kind(type_)
    if kind is None or (kind == "object" and not type_.num_fields):
        raise UsageError(_no_place(type_, where))
    if column.kind not in _FITS[kind]:
        raise UsageError(
            f"column {where!r} is of the type {type_} in the file, and {column} in the table: cast "
            "it before the upload"
        )
    if column.kind is Kind.LIST and kind == "array":
        check_fits(type_.value_type, column.item or TEXT, f"{where}[]")
    if column.kind is Kind.STRUCT and kind == "object":
        _check_names(type_, where)
        fields = dict(column.fields)
        for field in type_:
            inner = f"{where}.{field.name}"
            if field.name not in fields:
                raise UsageError(f"the table's column {where!r} has no field {field.name!r}")
            check_fits(field.type, fields[field.name], inner)
    elif column.kind is Kind.TEXT:
        spec_of(type_, where)  # every part must have a place, too


def _plain(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return _plain(type_.value_type)
    return _plain(type_.storage_type) if isinstance(type_, pa.BaseExtensionType) else type_


def _kind(type_: pa.DataType) -> str | None:
    t = pa.types
    if t.is_null(type_):
        return "null"
    if t.is_boolean(type_):
        return "boolean"
    if t.is_integer(type_) or t.is_floating(type_) or t.is_decimal(type_):
        return "number"
    if t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_):
        return "string"
    if t.is_date(type_) or t.is_timestamp(type_):
        return "time"
    if t.is_struct(type_):
        return "object"
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        return "array"
    return None


def _number(type_: pa.DataType, where: str) -> Spec:
    if pa.types.is_floating(type_):
        return {"type": "number"}
    if pa.types.is_integer(type_):
        return decimal_spec(20, 0) if type_ == pa.uint64() else {"type": "integer"}
    scale = max(0, type_.scale)
    digits = type_.precision - min(0, type_.scale)
    if digits > DIGITS:
        raise UsageError(
            f"column {where!r} is of the type {type_}, and a lake holds decimals of up to {DIGITS} "
            "digits: cast it to one, or to text"
        )
    return decimal_spec(max(digits, scale), scale)


def _check_names(type_: pa.StructType, where: str) -> None:
    if twice := repeated(field.name for field in type_):
        raise UsageError(f"column {where!r} has the field {twice[0]!r} twice: rename one")


def _no_place(type_: pa.DataType, where: str) -> str:
    advice = next((text for test, text in _ADVICE if test(type_)), "cast it to another")
    return f"column {where!r} is of the type {type_}, which a lake cannot store: {advice}"
