"""``spark.read.format("singerlake")``: a table through Spark's own door.

Spark plans such a read in a process that has no session, where no job can fold a table. So it
reads what is folded already: indexes, which every frozen version has, and every state that was
queried once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812  # as everybody names it
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from singerlake.errors import NotFoundError, UsageError
from singerlake.lake import Lake, Table
from singerlake.spark import index
from singerlake.spark.frames import shape_of, spark_type
from singerlake.spark.parts import PartReader
from singerlake.storage.base import Store
from singerlake.transactions.snapshot import Snapshot

NAME = "singerlake"


class SingerlakeSource(DataSource):
    """A table of a lake, with the options ``lake`` and ``version``."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` is called with."""
        return NAME

    def schema(self) -> T.StructType:
        """The columns, named exactly as the schema's properties."""
        _, snapshot = self._found()
        columns = shape_of(snapshot).columns
        return T.StructType([T.StructField(name, spark_type(type_)) for name, type_ in columns])

    def reader(self, schema: T.StructType) -> DataSourceReader:
        """What reads the index's files, each in a task."""
        table, snapshot = self._found()
        marker = index.load(table, snapshot)
        if marker is None:
            raise NotFoundError(
                f"{table.name} has no index of transaction {snapshot.head} yet: freeze it, or "
                "read it once with singerlake.spark.read_table"
            )
        shape = shape_of(snapshot)
        keys = index.Index(table, snapshot, shape, marker).keys
        return IndexReader(table.store, keys, schema.names)

    def _found(self) -> tuple[Table, Snapshot]:
        name = self.options.get("path")
        if not name:
            raise UsageError(
                'no table is named: spark.read.format("singerlake").load("tap.stream")'
            )
        uri = self.options.get("lake") or os.environ.get("SINGERLAKE_LAKE")
        if not uri:
            raise UsageError('no lake is named: .option("lake", "s3://bucket/prefix")')
        table, ref = Lake.open(uri).find(name)
        wanted = self.options.get("version") or ref.version
        return table, table.snapshot_at(wanted).settled()


class IndexReader(DataSourceReader):
    """Reads an index.

    Args:
        store: The lake's store.
        keys: The files; a task reads one.
        names: The columns' own names.
    """

    def __init__(self, store: Store, keys: list[str], names: list[str]) -> None:
        self._read = PartReader(store, keys)
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        """One task a file."""
        return [InputPartition(number) for number in range(len(self._read.keys))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one file."""
        if partition is None or partition.value is None:
            return  # an index without rows has no files; Spark asks for one part all the same
        numbers = pa.record_batch({"id": [partition.value]})
        for batch in self._read(iter([numbers])):
            yield batch.select(list(range(len(self._names)))).rename_columns(self._names)
