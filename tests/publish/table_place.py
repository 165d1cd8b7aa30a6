"""Publishing to a table format without Spark: files by the writer of executors, one commit."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from singerlake.publish import partitions
from singerlake.publish.destinations.base import Destination
from singerlake.publish.files.base import Layout
from singerlake.publish.files.parquet import COLUMNS, Parquet
from singerlake.publish.projection import Format, OrderKey, PartitionKey, Projection, Target
from singerlake.publish.published import Commit, DataFile, Position, Published, SourceState
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from singerlake.storage.opening import open_store

NAME = "orders"
FIRST = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})
SECOND = pa.table({"id": [4, 5], "name": ["d", "e"]})


def projection(uri: str, format_: Format, **said: Any) -> Projection:
    """A projection whose rows are ordered by their key."""
    target = said.pop("target", {})
    said = {"key": ("id",), "order_by": (OrderKey("id"),), "name": NAME, **said}
    return Projection(
        sql="select * from `tap-shop.orders`", target=Target(uri, format_, **target), **said
    )


def destination(of: Projection, store: Store) -> Destination:
    """Its place; as another process finds it."""
    assert of.target is not None
    if of.target.format is Format.ICEBERG:
        from singerlake.publish.destinations.iceberg.destination import IcebergDestination

        return IcebergDestination(of, of.target, store)
    from singerlake.publish.destinations.delta.destination import DeltaDestination

    return DeltaDestination(of, of.target, store)


def position(transaction: int, name: str = NAME) -> Position:
    source = SourceState("tap-shop.orders", transaction, f"commit-{transaction}")
    return Position(name, "d" * 64, "/lake", (source,))


def write(
    place: Destination, rows: pa.Table, schema: pa.Schema, parts: Sequence[str] = ()
) -> DataFile:
    """Write one file, as an executor does."""
    of, out = place.projection, io.BytesIO()
    assert of.target is not None
    layout = Layout(Parquet().compression(of.target.compression), of.order_by, of.key)
    writer = Parquet().writer(out, schema, layout)
    for batch in rows.cast(schema).to_batches():
        writer.write(batch)
    facts = writer.close()
    key = "".join([place.folder(), *(f"{part}/" for part in parts), "part-0.parquet"])
    place.store.put_if_absent(key, out.getvalue())
    bounds = facts[COLUMNS][of.order_by[0].column]
    low, high, nulls = bounds
    return DataFile(
        key, len(out.getvalue()), len(rows), tuple(parts), low, high, bool(nulls), facts
    )


def publish(
    place: Destination,
    rows: pa.Table | None,
    transaction: int,
    *,
    keep: bool = False,
    version: int | None = None,
    apart: PartitionKey | None = None,
) -> Published:
    """Publish rows, behind what is there or instead of it."""
    base = place.published()
    schema = rows.schema if rows is not None else base.schema  # type: ignore[union-attr]
    files = []
    if rows is not None:
        numbered = place.file_schema(schema, base)
        if apart is None:
            files = [write(place, rows, numbered)]
        else:
            values = partitions.values(rows.column(apart.column).combine_chunks(), apart)
            for value in values.unique():
                some = rows.filter(pa.array([one == value for one in values]))
                part = partitions.folder(apart, value.as_py())
                files.append(write(place, some, numbered, [part]))
    before = base.files if base else ()
    kept, removed = (before, ()) if keep else ((), before)
    commit = Commit(position(transaction), schema, kept, files, removed, version)
    return place.commit(base, commit)


class Place:
    """One destination, as publishers and as other readers find it."""

    def __init__(self, root: str, format_: Format, options: Any = None, **said: Any) -> None:
        self.root, self.format, self.options = root, format_, options
        target = {"options": options} if options else {}
        self.projection = projection(root, format_, target=target, **said)

    def open(self, of: Projection | None = None) -> Destination:
        store = open_store(self.root, self.options) if self.options else LocalStore(Path(self.root))
        return destination(of or self.projection, store)

    def read(self, version: str | int | None = None) -> list[dict[str, Any]]:
        """Read by the format's own library, which knows nothing of Singerlake."""
        if self.format is Format.DELTA:
            from deltalake import DeltaTable

            table = DeltaTable(self.root)
            if isinstance(version, str) and not version.startswith("Delta version "):
                table = DeltaTable(f"{self.root}/{version}")
            elif isinstance(version, str):
                table.load_as_version(int(version.rpartition(" ")[2]))
            rows = table.to_pyarrow_table()
        else:
            from pyiceberg.table import StaticTable

            scan = StaticTable.from_metadata(self.root).scan()
            if isinstance(version, str):
                scan = scan.use_ref(version.removeprefix("tag "))
            rows = scan.to_arrow()
        return sorted(rows.to_pylist(), key=lambda row: row["id"])


def rows(*tables: pa.Table) -> list[dict[str, Any]]:
    return [row for table in tables for row in table.to_pylist()]


def files_of(root: str) -> set[str]:
    found = (path for path in Path(root).rglob("*") if path.is_file())
    names = {path.relative_to(root).as_posix() for path in found}
    return {name for name in names if not name.startswith(".staging/")}
