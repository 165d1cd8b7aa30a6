"""From the schema that a block was written under to the table's schema now."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.errors import DamagedError
from singerlake.format.values import converter, shown
from singerlake.spark import canonical
from singerlake.spark.columns import NUMBER, TEXT, TIMESTAMP, Columns, Kind, Type, arrow_type
from singerlake.spark.exact import Gathered

_TEXTS = (Kind.STRING, Kind.TEXT)
_QUOTED = (Kind.STRING, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP)


def cast_columns(
    gathered: Gathered, source: Columns, target: Columns, where: str, keys: frozenset[str]
) -> list[pa.Array]:
    """Turn a block's columns into the table's.

    A column that the block does not know is null; one that the table no longer has is left
    out. A value that the table's column cannot hold becomes a misfit, never just a null.

    Args:
        gathered: The block's rows; misfits are noted in it.
        source: Its columns.
        target: Columns of the table's schema.
        where: What to call the block in an error.
        keys: Columns by which rows are told apart: here every value must be turned.

    Raises:
        DamagedError: A key cannot be turned.
    """
    rows = len(gathered.versions)
    present = {
        name: (array, type_) for (name, type_), array in zip(source, gathered.columns, strict=True)
    }
    result = []
    for name, type_ in target:
        if name not in present:
            result.append(pa.nulls(rows, arrow_type(type_)))
            continue
        array, old = present[name]
        misfits: dict[int, str] = {}
        result.append(_cast(array, old, type_, misfits))
        said = {
            row: f"row {row} of {where}: the value {text} of column {name!r} was written as {old} "
            f"and cannot become {type_}"
            for row, text in misfits.items()
        }
        if said and name in keys:
            raise DamagedError(
                f"{said[min(said)]}, and it is of the key, by which rows are told apart: give the "
                "column, in the tap's schema, a type that all its values fit, and sync again"
            )
        for row, text in said.items():
            gathered.misfits.setdefault(row, {})[name] = text
    return result


def never_fails(source: Type, target: Type) -> bool:
    """Whether every value of one type can become the other."""
    return (
        source == target
        or target.kind in _TEXTS
        or (source.kind is Kind.INTEGER and target == NUMBER)
        or (source.kind is Kind.DATE and target == TIMESTAMP)
    )


def _cast(array: pa.Array, source: Type, target: Type, misfits: dict[int, str]) -> pa.Array:
    if source == target or (source.kind in _TEXTS and target.kind in _TEXTS):
        return array
    if source.kind is Kind.INTEGER and target == NUMBER:
        return pc.cast(array, arrow_type(target), safe=False)  # the nearest double, as in JSON
    if source.kind in (Kind.INTEGER, Kind.BOOLEAN) and target.kind in _TEXTS:
        return pc.cast(array, arrow_type(target))
    if source.kind is Kind.DATE and target == TIMESTAMP:
        return pc.cast(pc.cast(array, pa.timestamp("us")), arrow_type(target))
    return _cast_values(array, source, target, misfits)


def _cast_values(array: pa.Array, source: Type, target: Type, misfits: dict[int, str]) -> pa.Array:
    """The long way round: each value's JSON text, read again under the other type."""
    read_value = converter(TEXT if target.kind in _TEXTS else target, loose=True)
    values: list[Any] = []
    for row, value in enumerate(array.to_pylist()):
        if value is None:
            values.append(None)
            continue
        raw = _raw(value, source, target)
        try:
            values.append(read_value(raw))
        except ValueError:
            misfits[row] = shown(raw)
            values.append(None)
    return pa.array(values, arrow_type(target))


def _raw(value: Any, source: Type, target: Type) -> bytes:
    if source.kind in _TEXTS and target.kind in (Kind.STRUCT, Kind.LIST):
        return str(value).encode()  # JSON text, kept as such until the schema said more
    if isinstance(value, Decimal):
        return canonical.plain(value).encode()
    return canonical.value_text(value, source).encode()
