"""Published files as Iceberg names them in its manifests, and back.

Nothing is read from the files for that: those who wrote them told what their columns lie between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timezone
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, PrimitiveType

from singerlake.errors import DamagedError
from singerlake.publish import partitions
from singerlake.publish.bounds import MOST, Bounds
from singerlake.publish.destinations.iceberg.catalog import key_of
from singerlake.publish.files.parquet import COLUMNS
from singerlake.publish.projection import PartitionKey, Projection, Transform
from singerlake.publish.published import DataFile
from singerlake.storage.base import Store

_EPOCH = datetime(1970, 1, 1)


def named(file: DataFile, metadata: TableMetadata, projection: Projection) -> IcebergFile:
    """Say a file in the words of a manifest.

    Args:
        file: The file; its facts have the bounds of its columns.
        metadata: The table, as it is when the file becomes part of it.
        projection: Says how its rows are kept apart and ordered.

    Raises:
        DamagedError: Its rows are of several partitions, or of another than its folder says.
    """
    schema = metadata.schema()
    bounds: Mapping[str, Bounds] = file.facts[COLUMNS]
    columns = [(schema.find_field(name), bound) for name, bound in bounds.items()]
    ends = [one for one in columns if isinstance(one[0].field_type, PrimitiveType)]
    return IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{metadata.location}/{file.path}",
        file_format=FileFormat.PARQUET,
        partition=_partition(file, metadata, projection),
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
        value_counts={field.field_id: file.rows for field, _ in ends},
        null_value_counts={field.field_id: bound.nulls for field, bound in ends},
        lower_bounds=dict(_ends((field, bound.low) for field, bound in ends)),
        upper_bounds=dict(_ends((field, bound.high) for field, bound in ends)),
        sort_order_id=metadata.default_sort_order_id if projection.order_by else 0,
        spec_id=metadata.default_spec_id,
    )


def _ends(values: Iterator[tuple[NestedField, Any]]) -> Iterator[tuple[int, bytes]]:
    for field, value in values:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            continue  # Iceberg's bounds leave NaN out
        if isinstance(field.field_type, PrimitiveType):
            yield field.field_id, to_bytes(field.field_type, _internal(value))


def _partition(file: DataFile, metadata: TableMetadata, projection: Projection) -> Record:
    """Read which partition a file is of from its folders, and hold it to the bounds of its rows."""
    schema = metadata.schema()
    bounds: Mapping[str, Bounds] = file.facts[COLUMNS]
    values = []
    fields = metadata.spec().fields
    for part, key, folder in zip(fields, projection.partition_by, file.partition, strict=True):
        source = schema.find_type(part.source_id)
        value = _of_folder(folder, key, schema_to_pyarrow(source))
        transform = part.transform.transform(source)
        low, high, nulls = bounds[key.column]
        # A long text is not known whole.
        ends = {transform(_internal(end)) for end in (low, high) if len(str(end)) < MOST}
        if (low is not None and nulls) or ends - {value}:
            raise DamagedError(
                f"{file.path} has rows of another partition by {key} than its folder; nothing was "
                "published"
            )
        values.append(value)
    return Record(*values)


def _of_folder(folder: str, key: PartitionKey, type_: pa.DataType) -> Any:
    """Read the value of a partition, as Iceberg counts it, from the name of a folder."""
    said = folder.partition("=")[2]
    if key.transform is Transform.IDENTITY or said == partitions.NULL:
        plain = pa.string() if pa.types.is_large_string(type_) else type_
        return _internal(partitions.column_of(folder, plain, 1)[0].as_py())
    if key.transform is Transform.DAY:
        return _internal(date.fromisoformat(said))
    year, _, month = said.partition("-")
    if key.transform is Transform.MONTH:
        return (int(year) - 1970) * 12 + int(month) - 1
    return int(said) - 1970 if key.transform is Transform.YEAR else int(said)


def _internal(value: Any) -> Any:
    """Return a value as pyiceberg computes with it: times are numbers."""
    if isinstance(value, datetime):
        plain = value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        since = plain - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + (
            value.microsecond
        )
    return value


def live(snapshot: Snapshot, io: FileIO) -> Iterator[IcebergFile]:
    """List the files whose rows a snapshot shows."""
    for manifest in snapshot.manifests(io):
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
            yield entry.data_file


def published(
    files: Iterator[IcebergFile], store: Store, schema: Schema, rows: pa.Schema, first: str | None
) -> Sequence[DataFile]:
    """Say files of a snapshot in our words, in the order of their first column's values.

    Args:
        files: The files.
        store: Where they lie.
        schema: The table's columns.
        rows: The same in Arrow's words.
        first: The column that rows are ordered by first.
    """
    found = [_published(file, store, schema, rows, first) for file in files]
    return sorted(found, key=lambda file: file.path)


def _published(
    file: IcebergFile, store: Store, schema: Schema, rows: pa.Schema, first: str | None
) -> DataFile:
    key = key_of(store, file.file_path)
    folders = tuple(part for part in key.split("/")[:-1] if "=" in part)
    low = high = None
    nulls = False
    if first is not None and first in rows.names:
        field = schema.find_field(first)
        type_ = rows.field(first).type
        low = _bound(file.lower_bounds, field, type_)
        high = _bound(file.upper_bounds, field, type_)
        missing = (file.null_value_counts or {}).get(field.field_id, 0)
        nulls = missing > 0
        if high is None and missing < file.record_count:
            high = math.nan  # of bounds only these are left out
            low = math.nan if low is None else low
    return DataFile(
        key, file.file_size_in_bytes, file.record_count, folders, low=low, high=high, nulls=nulls
    )


def _bound(bounds: Mapping[int, bytes] | None, field: NestedField, type_: pa.DataType) -> Any:
    data = (bounds or {}).get(field.field_id)
    if data is None or not isinstance(field.field_type, PrimitiveType):
        return None
    value = from_bytes(field.field_type, data)
    if pa.types.is_date(type_):
        return pa.scalar(value, pa.int32()).cast(type_).as_py()
    if pa.types.is_timestamp(type_):
        return pa.scalar(value, pa.int64()).cast(type_).as_py()
    return value
