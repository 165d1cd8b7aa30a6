"""Published files as Delta's log names them, and back: types, statistics, paths."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from singerlake.errors import UsageError
from singerlake.publish.bounds import Bounds
from singerlake.publish.destinations.casts import cast_for
from singerlake.publish.files.parquet import COLUMNS
from singerlake.publish.published import DataFile

_REFUSED_IN_NAMES = frozenset(" ,;{}()\n\t=")
"""What names of Delta's columns cannot have, unless readers know how to map them."""
_PLAIN: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_boolean,
    pa.types.is_signed_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_decimal128,
    pa.types.is_date32,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


def check(schema: pa.Schema) -> None:
    """Make sure that a Delta table can have these columns.

    Raises:
        UsageError: It cannot. The message tells what to write.
    """
    seen: dict[str, str] = {}
    for field in schema:
        _check(field, field.name)
        other = seen.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise UsageError(
                f"Delta ignores case: columns {other!r} and {field.name!r} are the same; rename "
                "one with AS"
            )


def _check(field: pa.Field, column: str) -> None:
    if odd := _REFUSED_IN_NAMES.intersection(field.name):
        raise UsageError(
            f"Delta has no column names with {min(odd)!r}, as in {field.name!r}: rename it with AS"
        )
    type_ = field.type
    if pa.types.is_timestamp(type_) and type_.unit == "us":
        return
    if pa.types.is_nested(type_) and not pa.types.is_union(type_):
        for i in range(type_.num_fields):
            inner = type_.field(i)
            _check(inner, column)
        return
    if not any(is_it(type_) for is_it in _PLAIN):
        raise UsageError(cast_for("Delta", column, type_))


def added(file: DataFile, schema: pa.Schema) -> AddAction:
    """Say that a file, which has these columns, becomes part of the table."""
    # No partition is declared: Delta has no months and no buckets, takes an empty text for a null
    # there, and finds the files as well by these numbers.
    known = _statistics(file, schema)
    return AddAction(file.path, file.bytes, {}, int(time.time() * 1000), True, known)


def removed(file: DataFile) -> RemoveAction:
    """Say that a file is no part of the table any more."""
    return RemoveAction(
        file.path, True, int(time.time() * 1000), size=file.bytes, partition_values={}
    )


def _statistics(file: DataFile, schema: pa.Schema) -> str:
    bounds: Mapping[str, Bounds] = file.facts.get(COLUMNS, {})
    known = {name: one for name, one in bounds.items() if one.low is not None}
    # Of a struct Delta counts each member, and a number in their place makes the log unreadable.
    nested = {field.name for field in schema if pa.types.is_nested(field.type)}
    nulls = {
        name: str(one.nulls)
        for name, one in bounds.items()
        if name not in nested and (one.low is not None or one.nulls == file.rows)
    }
    parts = {
        "numRecords": str(file.rows),
        "minValues": _object(_ends((name, one.low) for name, one in known.items())),
        "maxValues": _object(_ends((name, one.high) for name, one in known.items())),
        "nullCount": _object(nulls.items()),
    }
    return _object(parts.items())


def _object(members: Any) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in members) + "}"


def _ends(values: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, value in values:
        if (text := _spelled(value)) is not None:
            yield name, text


def _spelled(value: Any) -> str | None:
    """Spell a bound as JSON, exactly; None where Delta has none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return json.dumps(value) if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return format(value, "f")  # with all digits: as a double it would be another
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return json.dumps(value.isoformat(timespec="microseconds"))
        plain = value.astimezone(timezone.utc).replace(tzinfo=None)
        return json.dumps(plain.isoformat(timespec="microseconds") + "Z")
    if isinstance(value, date):
        return json.dumps(value.isoformat())
    return json.dumps(value)


def published(table: DeltaTable, schema: pa.Schema, first: str | None) -> Sequence[DataFile]:
    """Say the files of a table in our words.

    Args:
        table: The table, at a version.
        schema: The columns of the rows.
        first: The column that rows are ordered by first.
    """
    known = pa.table(table.get_add_actions(flatten=True))
    is_known = first is not None and first in schema.names
    found = []
    for row in known.to_pylist():
        path = unquote(row["path"])
        rows = row["num_records"]
        nulls = row.get(f"null_count.{first}") or 0
        low, high = row.get(f"min.{first}"), row.get(f"max.{first}")
        if is_known and nulls < rows:
            low, high = _whole(low, high, schema.field(first).type)
        found.append(
            DataFile(
                path,
                row["size_bytes"],
                rows,
                tuple(part for part in path.split("/")[:-1] if "=" in part),
                low=low,
                high=high,
                nulls=nulls > 0,
            )
        )
    return sorted(found, key=lambda file: file.path)


def _whole(low: Any, high: Any, type_: pa.DataType) -> tuple[Any, Any]:
    """Put in what Delta's statistics leave out: infinite numbers, NaN, both of the booleans."""
    if pa.types.is_boolean(type_):
        return False, True
    if pa.types.is_floating(type_):
        return -math.inf if low is None else low, math.nan if high is None else high
    return low, high
