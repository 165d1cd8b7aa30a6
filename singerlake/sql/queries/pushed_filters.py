"""Conditions that Spark hands to a data source, as expressions of Arrow's.

Only what both mean alike is taken; Spark checks the rest. Left out are doubles (Spark has NaN
equal to itself and above all numbers, Arrow has neither), texts compared by anything but their
bytes, and members of structs.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as ds

_COMPARED: dict[type[ds.Filter], Callable[[pc.Expression, Any], pc.Expression]] = {
    ds.EqualTo: lambda column, value: column == value,
    ds.GreaterThan: lambda column, value: column > value,
    ds.GreaterThanOrEqual: lambda column, value: column >= value,
    ds.LessThan: lambda column, value: column < value,
    ds.LessThanOrEqual: lambda column, value: column <= value,
}


def taken(
    filters: Iterable[ds.Filter], columns: Mapping[str, tuple[str, pa.DataType]]
) -> Iterator[tuple[ds.Filter, pc.Expression | None]]:
    """Translate conditions, all of which must hold.

    Args:
        columns: By their names: what a column is called inside, and its type.

    Yields:
        Each condition with its expression over the columns' names inside; None if Spark has to
        check it.
    """
    for one in filters:
        yield one, _expression(one, columns)


def _expression(
    one: ds.Filter, columns: Mapping[str, tuple[str, pa.DataType]]
) -> pc.Expression | None:
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1 or path[0] not in columns:
        return None
    name, type_ = columns[path[0]]
    column = pc.field(name)
    if isinstance(one, ds.IsNull):
        return column.is_null()
    if isinstance(one, ds.IsNotNull):
        return column.is_valid()
    if not _is_compared_alike(type_):
        return None
    if isinstance(one, ds.In):
        values = [value for value in one.value if value is not None]
        if not all(_is_of(value, type_) for value in values):
            return None
        return column.isin(pa.array(values, type_))
    compare = _COMPARED.get(type(one))
    value = getattr(one, "value", None)
    if compare is None or not _is_of(value, type_):
        return None
    return compare(column, pa.scalar(value, type_))


def _is_compared_alike(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_date32(type_)
        or pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
    )


def _is_of(value: Any, type_: pa.DataType) -> bool:
    """Tell whether a value has the column's own type, so that nothing is cast on the way."""
    if pa.types.is_boolean(type_):
        return isinstance(value, bool)
    if pa.types.is_integer(type_):
        return isinstance(value, int) and not isinstance(value, bool)
    if pa.types.is_decimal(type_):
        return isinstance(value, Decimal) and value.is_finite() and _has_room(value, type_)
    if pa.types.is_date32(type_):
        return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    return isinstance(value, str)


def _has_room(value: Decimal, type_: pa.DataType) -> bool:
    try:
        pa.scalar(value, type_)
    except pa.ArrowException:
        return False
    return True
