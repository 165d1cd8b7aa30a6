"""``spark.read.format("singerlake")``: a table through Spark's own door.

Spark plans such a read in a process that has no session, where no job can fold a table. So it
reads what is folded already: indexes, which every frozen version has, and every state that was
queried once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T  # noqa: N812  # as everybody names it
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from singerlake.errors import DamagedError, NotFoundError, UsageError
from singerlake.lake import Lake, Table
from singerlake.maintenance.misfits import reader_ways_out
from singerlake.spark import index, layers
from singerlake.spark.frames import FAIL, GONE, MISFIT, NULL, shape_of, spark_type
from singerlake.spark.index import Index
from singerlake.spark.parts import PartReader
from singerlake.transactions.snapshot import Snapshot

NAME = "singerlake"


class SingerlakeSource(DataSource):
    """A table of a lake, with the options ``lake``, ``version`` and ``misfits``."""

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
        found = index.load(table, snapshot)
        if found is None:
            raise NotFoundError(
                f"{table.name} has no index of transaction {snapshot.head} yet: freeze it, or "
                "read it once with singerlake.spark.read_table"
            )
        misfits = self.options.get("misfits") or FAIL
        if misfits not in (FAIL, NULL):
            raise UsageError(f"the option misfits={misfits!r} is none of {FAIL}, {NULL}")
        return IndexReader(found, schema.names, misfits)

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
    """Reads an index, and what it is a layer on.

    Args:
        found: The index.
        names: The columns' own names.
        misfits: What becomes of a value that does not fit.
    """

    def __init__(self, found: Index, names: list[str], misfits: str) -> None:
        self._misfits = misfits
        self._table = found.table.name
        self._own = index.part_reader(found)
        self._below: PartReader | None = None
        if found.below is not None:
            self._below = index.part_reader(found.below)
        self._key = tuple(found.shape.columns[place] for place in found.shape.keys)
        self._places = list(found.shape.keys)
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        """One task a file."""
        below = len(self._below.parts) if self._below is not None else 0
        return [InputPartition(number) for number in range(len(self._own.parts) + below)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one file."""
        if partition is None or partition.value is None:
            return  # an index without rows has no files; Spark asks for one part all the same
        for batch in self._rows(partition.value):
            if self._misfits == FAIL:
                self._check(batch.column(MISFIT))
            yield batch.select(list(range(len(self._names)))).rename_columns(self._names)

    def _check(self, misfits: pa.Array) -> None:
        """All columns are read here, so every value must fit."""
        if misfits.null_count < len(misfits):
            (place, said), *_ = misfits.drop_null()[0].as_py()
            out = reader_ways_out(self._table, self._names[place], keyed=bool(self._places))
            raise DamagedError(f"{said}; {out}")

    def _rows(self, number: int) -> Iterator[pa.RecordBatch]:
        if number < len(self._own.parts):
            for batch in _file(self._own, number):
                yield batch if self._below is None else batch.filter(pc.invert(batch[GONE]))
            return
        assert self._below is not None, "it has no such file"  # noqa: S101
        below = list(_file(self._below, number - len(self._own.parts)))
        layer = [b for place in range(len(self._own.parts)) for b in _file(self._own, place)]
        if not self._places or not layer or not below:
            yield from below
            return
        changed = layers.changed_keys(layer, self._key, self._places)
        whole = pa.Table.from_batches(below)  # the keys of a file are compared once
        left = layers.unchanged(whole, changed, self._key, self._places)
        yield from whole.filter(left).to_batches()


def _file(reader: PartReader, number: int) -> Iterator[pa.RecordBatch]:
    return reader(iter([pa.record_batch({"id": [number]})]))
