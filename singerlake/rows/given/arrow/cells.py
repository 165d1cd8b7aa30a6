"""Columns of a Parquet file as columns of a table: each value as the table reads it, or a problem.

Whole columns are cast where no value can change by it. Where one could, every value goes by the
road of a record's values: it is spelled as JSON, and read as the table's column reads that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format import times, values
from singerlake.format.types import Kind, Type
from singerlake.rows.columns.arrow_types import DAYS, MICROS, arrow_type
from singerlake.rows.given.values.known_members import strict_converter
from singerlake.rows.given.values.python_values import BeyondTime, shown, spelled

Misfit: TypeAlias = tuple[int, str, str]
"""A row, the value in it as text, and why it does not fit, as words that follow the value."""

_TO_MICROS = 1000


def cells_of(array: pa.Array, type_: Type) -> tuple[pa.Array, list[Misfit]]:
    """Turn a column of a file into one of a table.

    Args:
        array: The file's values, of a type that ``schemas.check_fits`` allows.
        type_: The type of the table's column.

    Returns:
        The table's values, null where one does not fit, and those that do not.
    """
    array = _decoded(array)
    cast = _cast(array, type_)
    if cast is not None:
        return cast, []
    return value_cells(_python_values(array), type_)


def value_cells(given: Iterable[Any], type_: Type) -> tuple[pa.Array, list[Misfit]]:
    """Turn values of Python into a column of a table.

    Args:
        given: The values; None is null.
        type_: The type of the table's column.

    Returns:
        The table's values, null where one does not fit, and those that do not.

    Raises:
        UsageError: A value is of a type that has no place in a lake.
    """
    read_value = strict_converter(type_)
    cells: list[Any] = []
    misfits: list[Misfit] = []
    for row, value in enumerate(given):
        cell = None
        if value is not None:
            raw = b""
            try:
                raw = spelled(value)
                cell = read_value(raw)
            except ValueError as error:
                what = error.args[0] if isinstance(error, values.MisfitError) else str(error)
                misfits.append((row, (raw or shown(value)).decode(), f"is not a valid {what}"))
        cells.append(cell)
    return pa.array(cells, arrow_type(type_)), misfits


def python_values(array: pa.Array) -> list[Any]:
    """Return values as Python has them, times with all their digits; None is null."""
    return _python_values(_decoded(array))


def _decoded(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        return _decoded(array.dictionary_decode())
    if pa.types.is_run_end_encoded(array.type):
        return _decoded(pc.run_end_decode(array))
    return array


def _cast(array: pa.Array, type_: Type) -> pa.Array | None:
    """Cast a column as a whole; None where a value might change, or not fit."""
    caster = _CASTS.get(type_.kind)
    if caster is None:
        return None
    try:
        return caster(array, type_)
    except pa.ArrowInvalid:
        return None


def _integers(array: pa.Array, _: Type) -> pa.Array | None:
    return pc.cast(array, pa.int64()) if pa.types.is_integer(array.type) else None


def _numbers(array: pa.Array, _: Type) -> pa.Array | None:
    if not pa.types.is_floating(array.type):
        return None
    numbers = pc.cast(array, pa.float64())
    return numbers if pc.all(pc.is_finite(numbers)).as_py() is not False else None


def _decimals(array: pa.Array, type_: Type) -> pa.Array | None:
    if pa.types.is_decimal(array.type) or pa.types.is_integer(array.type):
        return pc.cast(array, arrow_type(type_))
    return None


def _strings(array: pa.Array, _: Type) -> pa.Array:
    if not pa.types.is_null(array.type):
        array.validate(full=True)
    return pc.cast(array, pa.string())


def _texts(array: pa.Array, type_: Type) -> pa.Array | None:
    t = pa.types
    if t.is_string(array.type) or t.is_large_string(array.type) or t.is_string_view(array.type):
        return _strings(array, type_)
    return None


def _booleans(array: pa.Array, _: Type) -> pa.Array:
    return pc.cast(array, pa.bool_())


def _dates(array: pa.Array, _: Type) -> pa.Array | None:
    if not pa.types.is_date(array.type):
        return None
    days = pc.cast(array, pa.date32())
    return _within(days, pc.cast(days, pa.int32()), DAYS)


def _instants(array: pa.Array, _: Type) -> pa.Array | None:
    if not pa.types.is_timestamp(array.type):
        return None
    micros = pc.cast(array, pa.timestamp("us", array.type.tz))  # an error where digits would go
    instants = micros.view(pa.int64())
    return _within(instants.cast(pa.timestamp("us", "UTC")), instants, MICROS)


def _within(array: pa.Array, numbers: pa.Array, bounds: tuple[int, int]) -> pa.Array | None:
    least, most = pc.min_max(numbers).as_py().values()
    return array if least is None or bounds[0] <= least <= most <= bounds[1] else None


_CASTS: dict[Kind, Callable[[pa.Array, Type], pa.Array | None]] = {
    Kind.INTEGER: _integers,
    Kind.NUMBER: _numbers,
    Kind.DECIMAL: _decimals,
    Kind.STRING: _strings,
    Kind.TEXT: _texts,
    Kind.BOOLEAN: _booleans,
    Kind.DATE: _dates,
    Kind.TIMESTAMP: _instants,
}


def _python_values(array: pa.Array) -> list[Any]:
    """Values as Python has them; times by their count, which knows no end and drops no digit."""
    if pa.types.is_timestamp(array.type):
        unit = array.type.unit
        return [
            None if n is None else _instant(n, unit) for n in array.cast(pa.int64()).to_pylist()
        ]
    if pa.types.is_date(array.type):
        days = pc.cast(array, pa.timestamp("s")).cast(pa.int64())
        return [None if n is None else _day(n // 86_400) for n in days.to_pylist()]
    if pa.types.is_struct(array.type):
        names = [field.name for field in array.type]
        members = [_python_values(_decoded(member)) for member in array.flatten()]
        rows = zip(*members, strict=True) if members else iter([()] * len(array))
        there = array.is_valid().to_pylist()
        return [
            dict(zip(names, row, strict=True)) if valid else None
            for row, valid in zip(rows, there, strict=True)
        ]
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return [None if item is None else _python_values(_decoded(item)) for item in _lists(array)]
    if pa.types.is_fixed_size_list(array.type):
        return _python_values(array.cast(pa.list_(array.type.value_type)))
    result: list[Any] = array.to_pylist()
    return result


def _lists(array: pa.Array) -> list[pa.Array | None]:
    return [scalar.values if scalar.is_valid else None for scalar in array]


def _instant(number: int, unit: str) -> datetime | BeyondTime:
    micros, rest = divmod(number * _NANOS[unit], _TO_MICROS)
    if not MICROS[0] <= micros <= MICROS[1]:
        return BeyondTime(f"{number:,} {unit} since 1970")
    if rest:
        return BeyondTime(pa.scalar(number, pa.timestamp(unit)).cast(pa.string()).as_py())
    return times.from_micros(micros)


_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def _day(number: int) -> date | BeyondTime:
    if not DAYS[0] <= number <= DAYS[1]:
        return BeyondTime(f"day {number:,} since 1970")
    return times.from_micros(number * 86_400_000_000).date()
