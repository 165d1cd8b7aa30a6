"""What an Iceberg table is made of: numbered columns, a partition spec, a sort order.

Columns have numbers, and files name their columns by them. They are known before the files are
written: a new table's are counted from one, and a changed table's go on from its last, both as
pyiceberg does it again at the commit.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pyarrow as pa
from pyiceberg import types as ice
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Transaction
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, parse_transform

from singerlake.errors import UsageError
from singerlake.publish.projection import PartitionKey, Projection, Transform

FIELD_ID = b"PARQUET:field_id"
"""In the metadata of an Arrow field, the column's number: pyarrow writes it into Parquet files."""

_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], Callable[[], ice.PrimitiveType]], ...] = (
    (pa.types.is_boolean, ice.BooleanType),
    (pa.types.is_int8, ice.IntegerType),
    (pa.types.is_int16, ice.IntegerType),
    (pa.types.is_int32, ice.IntegerType),
    (pa.types.is_int64, ice.LongType),
    (pa.types.is_float32, ice.FloatType),
    (pa.types.is_float64, ice.DoubleType),
    (pa.types.is_date32, ice.DateType),
    (pa.types.is_string, ice.StringType),
    (pa.types.is_large_string, ice.StringType),
    (pa.types.is_binary, ice.BinaryType),
    (pa.types.is_large_binary, ice.BinaryType),
)


def iceberg_schema(schema: pa.Schema) -> Schema:
    """Say columns as Iceberg has them, numbered as those of a new table.

    Raises:
        UsageError: Iceberg has no such type. The message tells what to cast.
    """
    numbers = count(1)
    fields = [_field(field, numbers, field.name) for field in schema]
    try:
        return assign_fresh_schema_ids(Schema(*fields))
    except ValueError as error:  # a column "a.b", and a struct "a" with a "b"
        raise UsageError(f"Iceberg ignores case: {error}; rename a column with AS") from error


def _field(field: pa.Field, numbers: count[int], column: str) -> ice.NestedField:
    number = next(numbers)
    return ice.NestedField(number, field.name, _type(field.type, numbers, column), required=False)


def _type(type_: pa.DataType, numbers: count[int], column: str) -> ice.IcebergType:
    for is_it, plain in _PLAIN:
        if is_it(type_):
            return plain()
    if pa.types.is_decimal128(type_):
        return ice.DecimalType(type_.precision, type_.scale)
    if pa.types.is_timestamp(type_) and type_.unit == "us":
        return ice.TimestamptzType() if type_.tz else ice.TimestampType()
    if pa.types.is_time64(type_) and type_.unit == "us":
        return ice.TimeType()
    if pa.types.is_struct(type_):
        fields = (type_.field(i) for i in range(type_.num_fields))
        return ice.StructType(*(_field(field, numbers, column) for field in fields))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        item = _type(type_.value_type, numbers, column)
        return ice.ListType(next(numbers), item, element_required=False)
    if pa.types.is_map(type_):
        key, value = (_type(one, numbers, column) for one in (type_.key_type, type_.item_type))
        return ice.MapType(next(numbers), key, next(numbers), value, value_required=False)
    from singerlake.publish.destinations.casts import cast_for

    raise UsageError(cast_for("Iceberg", column, type_))


def with_numbers(schema: pa.Schema, numbered: Schema) -> pa.Schema:
    """Return the columns of rows with the table's numbers, for the writers of files."""
    return pa.schema([_numbered(field, numbered.find_field(field.name)) for field in schema])


def _numbered(field: pa.Field, found: ice.NestedField) -> pa.Field:
    """Number a field and all that lies in it."""
    numbers = {FIELD_ID: str(found.field_id).encode()}
    return field.with_type(_inner(field.type, found.field_type)).with_metadata(numbers)


def _inner(type_: pa.DataType, found: ice.IcebergType) -> pa.DataType:
    if isinstance(found, ice.StructType):
        parts = zip((type_.field(i) for i in range(type_.num_fields)), found.fields, strict=True)
        return pa.struct([_numbered(one, two) for one, two in parts])
    if isinstance(found, ice.ListType):
        make = pa.large_list if pa.types.is_large_list(type_) else pa.list_
        return make(_numbered(type_.value_field, found.element_field))
    if isinstance(found, ice.MapType):
        return pa.map_(
            _numbered(type_.key_field, found.key_field),
            _numbered(type_.item_field, found.value_field),
        )
    return type_


def partition_spec(schema: Schema, keys: tuple[PartitionKey, ...]) -> PartitionSpec:
    """Say what files are kept apart by."""
    numbers = count(PARTITION_FIELD_ID_START)
    return PartitionSpec(
        *(
            PartitionField(
                schema.find_field(key.column).field_id,
                next(numbers),
                parse_transform(_transform(key)),
                _partition_name(key),
            )
            for key in keys
        )
    )


def _transform(key: PartitionKey) -> str:
    return f"bucket[{key.buckets}]" if key.transform is Transform.BUCKET else str(key.transform)


def _partition_name(key: PartitionKey) -> str:
    identity = key.transform is Transform.IDENTITY
    return key.column if identity else f"{key.column}_{key.transform}"


def sort_order(schema: Schema, projection: Projection) -> SortOrder:
    """Say what rows are sorted by; without an order, nothing."""
    return SortOrder(
        *(
            SortField(
                schema.find_field(key.column).field_id,
                IdentityTransform(),
                SortDirection.DESC if key.descending else SortDirection.ASC,
                NullOrder.NULLS_LAST,
            )
            for key in projection.order_by
        ),
        **({} if projection.order_by else {"order-id": 0}),
    )


def evolve(transaction: Transaction, rows: pa.Schema, projection: Projection) -> None:
    """Make a table's columns, partitions and order those that are wanted, within a transaction.

    A column of another type becomes another column, with a number of its own: files that were
    written before do not have it.
    """
    wanted = iceberg_schema(rows)
    gone = _gone(transaction, wanted)
    parts = _parts(transaction)
    apart = [(key.column, _transform(key)) for key in projection.partition_by]
    again = parts != apart or bool(gone & {column for column, _ in parts})
    if again:
        with transaction.update_spec() as spec:
            for field in transaction.table_metadata.spec().fields:
                spec.remove_field(field.name)
    _evolve_columns(transaction, wanted, gone)
    if again:
        with transaction.update_spec() as spec:
            for key in projection.partition_by:
                spec.add_field(key.column, _transform(key), _partition_name(key))
    _sort_again(transaction, projection)


def evolve_columns(transaction: Transaction, rows: pa.Schema) -> None:
    """Make a table's columns those that are wanted, for one snapshot, within a transaction.

    Raises:
        UsageError: The table is partitioned or sorted by a column that would not be there.
    """
    wanted = iceberg_schema(rows)
    gone = _gone(transaction, wanted)
    metadata = transaction.table_metadata
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    used = {column for column, _ in _parts(transaction)}
    used |= {
        str(metadata.schema().find_column_name(field.source_id))
        for field in (order.fields if order else ())
    }
    if gone & used:
        raise UsageError(
            f"the version has no column {min(gone & used)!r} of the type that the Iceberg table is "
            "partitioned or sorted by: publish it to a separate place"
        )
    _evolve_columns(transaction, wanted, gone)


def _gone(transaction: Transaction, wanted: Schema) -> set[str]:
    """Find the columns that are wanted no more, or as another type."""
    return {
        field.name
        for field in transaction.table_metadata.schema().fields
        if field.name not in wanted.column_names
        or _spelled(field.field_type) != _spelled(wanted.find_field(field.name).field_type)
    }


def _parts(transaction: Transaction) -> list[tuple[str, str]]:
    metadata = transaction.table_metadata
    schema = metadata.schema()
    return [
        (str(schema.find_column_name(field.source_id)), str(field.transform))
        for field in metadata.spec().fields
    ]


def _evolve_columns(transaction: Transaction, wanted: Schema, gone: set[str]) -> None:
    now = transaction.table_metadata.schema()
    new = [one for one in wanted.fields if one.name in gone or one.name not in now.column_names]
    kept = [one.name for one in now.fields if one.name not in gone]
    if not gone and not new and kept == [one.name for one in wanted.fields]:
        return
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        for name in gone:
            update.delete_column((name,))
        for field in new:
            update.add_column((field.name,), field.field_type)
    # A second step: columns that were made just now are not found by the first.
    before: str | None = None
    with transaction.update_schema() as update:
        for field in wanted.fields:
            if before is None:
                update.move_first((field.name,))
            else:
                update.move_after((field.name,), (before,))
            before = field.name


def _sort_again(transaction: Transaction, projection: Projection) -> None:
    metadata = transaction.table_metadata
    now = metadata.sort_order_by_id(metadata.default_sort_order_id)
    wanted = sort_order(metadata.schema(), projection)
    if not wanted.fields or (now is not None and now.fields == wanted.fields):
        return  # pyiceberg cannot take an order away; files say whether they keep it
    with transaction.update_sort_order() as order:
        for key in projection.order_by:
            add = order.desc if key.descending else order.asc
            add(key.column, IdentityTransform(), NullOrder.NULLS_LAST)


def _spelled(type_: ice.IcebergType) -> str:
    """Spell a type without its numbers, to compare it."""
    if isinstance(type_, ice.StructType):
        inner = (f"{one.name!r}:{_spelled(one.field_type)}" for one in type_.fields)
        return f"({','.join(inner)})"
    if isinstance(type_, ice.ListType):
        return f"[{_spelled(type_.element_type)}]"
    if isinstance(type_, ice.MapType):
        return f"<{_spelled(type_.key_type)},{_spelled(type_.value_type)}>"
    return str(type_)
