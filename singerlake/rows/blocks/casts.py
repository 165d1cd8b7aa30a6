"""From the schema that a block was written under to the table's schema now."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.errors import DamagedError
from singerlake.format.names import TableName
from singerlake.format.types import TEXT, WHOLE, Columns, Kind, Type, keeps_numbers
from singerlake.format.values import converter, only_rounds, shown
from singerlake.rows.blocks.exact_decoding import DecodedRows
from singerlake.rows.blocks.misfits import key_of_two_types
from singerlake.rows.columns import canonical_text
from singerlake.rows.columns.arrow_types import arrow_type

_EXACT = 1 << 53
"""Up to here every integer is a double."""
_TEXTS = (Kind.STRING, Kind.TEXT)
_QUOTED = (Kind.STRING, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP)


def cast_columns(
    decoded: DecodedRows,
    source: Columns,
    target: Columns,
    where: str,
    keys: frozenset[str],
    table: TableName | None = None,
    *,
    lenient: bool = False,
) -> list[pa.Array]:
    """Turn a block's columns into the table's.

    A column that the block does not know is null; one that the table no longer has is left
    out. A value that the table's column cannot hold becomes a misfit, never just a null.

    Args:
        decoded: The block's rows; misfits are noted in it.
        where: What to call the block in an error.
        keys: Columns by which rows are told apart: here every value must be turned.
        table: Whose block it is; named in the error about a key that cannot be turned.
        lenient: Whether one of these that would only have to be rounded is a misfit as others are.

    Raises:
        DamagedError: A key cannot be turned.
    """
    rows = len(decoded)
    present = {
        name: (array, type_) for (name, type_), array in zip(source, decoded.columns, strict=True)
    }
    result = []
    for name, type_ in target:
        if name not in present:
            result.append(pa.nulls(rows, arrow_type(type_)))
            continue
        array, old = present[name]
        misfits: dict[int, bytes] = {}
        result.append(_cast(array, old, type_, misfits))
        errors = {
            row: f"row {row} of {where}: the value {shown(raw)} of column {name!r} was written as "
            f"{old.own or old} and cannot become {type_}"
            for row, raw in misfits.items()
        }
        lost = [
            row
            for row, raw in (misfits.items() if name in keys else ())
            if not (lenient and only_rounds(raw, type_, loose=True))
        ]
        if lost:
            way = key_of_two_types(table, name, numbers=keeps_numbers(old.own or old, WHOLE))
            raise DamagedError(f"{errors[min(lost)]}, {way}")
        for row, text in errors.items():
            decoded.misfits.setdefault(row, {})[name] = text
    return result


def _cast(array: pa.Array, source: Type, target: Type, misfits: dict[int, bytes]) -> pa.Array:
    if source == target or (source.kind in _TEXTS and target.kind in _TEXTS):
        return array
    if source.kind is Kind.INTEGER and target.kind is Kind.NUMBER:
        numbers = pc.cast(array, arrow_type(target), safe=False)  # the nearest double, as in JSON
        if not target.exact or _all_exact(array):
            return numbers
    if source.kind in (Kind.INTEGER, Kind.BOOLEAN) and target.kind in _TEXTS:
        return pc.cast(array, arrow_type(target))
    if source.kind is Kind.DATE and target.kind is Kind.TIMESTAMP:
        return pc.cast(pc.cast(array, pa.timestamp("us")), arrow_type(target))
    return _cast_values(array, source, target, misfits)


def _all_exact(integers: pa.Array) -> bool:
    least, most = pc.min_max(integers).as_py().values()
    return least is None or -_EXACT <= least <= most <= _EXACT


def _cast_values(
    array: pa.Array, source: Type, target: Type, misfits: dict[int, bytes]
) -> pa.Array:
    """The long way round: each value's JSON text, read again under the other type."""
    read_value = converter(TEXT if target.kind in _TEXTS else target, loose=True)
    values: list[Any] = []
    for row, value in enumerate(array.to_pylist()):
        if value is None:
            values.append(None)
            continue
        raw = text_as(value, source, target)
        try:
            values.append(read_value(raw))
        except ValueError:
            misfits[row] = raw
            values.append(None)
    return pa.array(values, arrow_type(target))


def text_as(value: Any, source: Type, target: Type) -> bytes:
    """Write a value of one type as the JSON that is read as the other.

    Args:
        value: As Arrow gives it; not null.
    """
    if source.kind in _TEXTS and target.kind in (Kind.STRUCT, Kind.LIST):
        return str(value).encode()  # JSON text, kept as such until the schema said more
    if isinstance(value, Decimal):
        return canonical_text.plain(value).encode()
    return canonical_text.value_text(value, source).encode()
