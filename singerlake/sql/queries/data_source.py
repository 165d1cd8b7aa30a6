"""``spark.read.format("singerlake")``: a table as a data source of Spark.

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
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import MISFITS
from singerlake.rows.blocks.misfits import FAIL, NULL
from singerlake.rows.state.misfit_steps import MisfitCheck
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import index
from singerlake.snapshot.index import Index
from singerlake.snapshot.state_reader import StateReader
from singerlake.sql.state.frames import spark_type

NAME = "singerlake"


class SingerlakeSource(DataSource):
    """A table of a lake, with the options ``lake``, ``version`` and ``on_type_mismatch``."""

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` is called with."""
        return NAME

    def schema(self) -> T.StructType:
        """Return the columns, named exactly as the schema's properties."""
        _, snapshot = self._requested()
        columns = shape_of(snapshot).columns
        return T.StructType([T.StructField(name, spark_type(type_)) for name, type_ in columns])

    def reader(self, schema: T.StructType) -> DataSourceReader:
        """Make what reads the index's files, each in a task."""
        table, snapshot = self._requested()
        built = index.load(table, snapshot)
        if built is None:
            raise NotFoundError(
                f"{table.name} has no index of transaction {snapshot.number} yet: freeze it, or "
                "read it once with singerlake.spark.read_table"
            )
        misfits = self.options.get("on_type_mismatch") or FAIL
        if misfits not in (FAIL, NULL):
            raise UsageError(
                f"the option on_type_mismatch={misfits!r} is neither {FAIL} nor {NULL}"
            )
        return IndexReader(built, schema.names, misfits)

    def _requested(self) -> tuple[Table, TableState]:
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
        return table, table.snapshot_at(wanted).earliest_equal()


class IndexReader(DataSourceReader):
    """Reads an index, and what it is a layer on.

    Args:
        built: The index.
        names: The columns' own names.
        misfits: What becomes of a value that does not fit.
    """

    def __init__(self, built: Index, names: list[str], misfits: str) -> None:
        self._shape = built.shape
        self._names = names
        # All columns are read here, so every value must fit.
        self._check = MisfitCheck(built.table.name, names, keyed=bool(built.shape.keys))
        self._misfits = misfits
        self._reader = StateReader.of(built)

    def partitions(self) -> Sequence[InputPartition]:
        """Make one task a file."""
        return [InputPartition(number) for number in range(self._reader.parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one file."""
        if partition is None or partition.value is None:
            return  # an index without rows has no files; Spark asks for one part all the same
        rows = self._reader.part(partition.value, [*self._shape.aliases, MISFITS])
        for batch in self._check(rows) if self._misfits == FAIL else rows:
            yield batch.select(self._shape.aliases).rename_columns(self._names)
