"""Where rows come from that are to be written in order: an answer of Spark's, or an index.

Rows of an index are read as Arrow, and never become Java's. Those of an answer are computed once,
and kept on the executors' disks while it is found out how they are to be shared out.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from singerlake.publish.ranges import SLOT, Slots
from singerlake.publish.sorting import Sample, Sorting
from singerlake.rows.batches.packing import Unpacked, packed_cell
from singerlake.rows.batches.steps import Batches, Pipeline, Step
from singerlake.rows.blocks import block_tasks
from singerlake.snapshot.index import Index
from singerlake.snapshot.selection import Selection
from singerlake.snapshot.state_reader import StateReader
from singerlake.sql.state.frames import numbered

PACK_BYTES = 8 << 20
"""Bytes of rows that are packed together."""
FEW_BYTES = 2 << 20
FEW_ROWS = 100_000
"""Bytes of an index's files, and rows in them, up to which one task reads all of it."""
_SAMPLED = "rows binary, sample binary"


@dataclass(frozen=True)
class Sampled:
    """What is known of rows before they are written.

    Attributes:
        samples: Some of each task's.
        bytes: What all of them take in memory, about.
    """

    samples: Sequence[Sample]
    bytes: int


class RowSource(ABC):
    """Rows, as often as they are asked for."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Their columns."""

    @abstractmethod
    def sampled(self, sorting: Sorting) -> Sampled | None:
        """Look at some of the rows; None where they are known to be few."""

    @abstractmethod
    def through(self, step: Step, schema: str, *, alone: bool = False) -> DataFrame:
        """Give the rows to a step of the executors.

        Args:
            step: Called once for each part of the rows.
            schema: Of what it gives.
            alone: Whether one task is to have all of them.
        """

    @abstractmethod
    def close(self) -> None:
        """Give up what was kept."""


class FrameRows(RowSource):
    """The rows of a frame.

    Args:
        frame: The frame.
        slots: Keeps rows apart that are not to be in one file: they get a column more, ``SLOT``.
    """

    def __init__(self, frame: DataFrame, slots: Slots | None = None) -> None:
        self._frame = frame
        self._slots = slots
        self._packed: DataFrame | None = None

    @property
    def schema(self) -> pa.Schema:
        """The frame's; times are of UTC."""
        return to_arrow_schema(self._frame.schema, timezone="UTC")

    def sampled(self, sorting: Sorting) -> Sampled:
        """Compute the rows, and keep them."""
        step = self._steps(_Packer(sorting))
        packed = self._frame.mapInArrow(step, _SAMPLED).persist(StorageLevel.DISK_ONLY)
        self._packed = packed.select("rows")
        self._kept = packed
        found = packed.where("sample is not null").select("sample").collect()
        # Only our own tasks have written these.
        samples = [pickle.loads(bytes(row.sample)) for row in found]  # noqa: S301
        return Sampled(samples, sum(one.bytes for one in samples))

    def through(self, step: Step, schema: str, *, alone: bool = False) -> DataFrame:
        """Give the rows that are kept, or compute them."""
        if self._packed is not None:
            packed = self._packed.coalesce(1) if alone else self._packed
            return packed.mapInArrow(Pipeline((_present, Unpacked(), step)), schema)
        frame = self._frame.coalesce(1) if alone else self._frame
        return frame.mapInArrow(self._steps(step), schema)

    def close(self) -> None:
        """Delete the rows that were kept."""
        if self._packed is not None:
            self._kept.unpersist()
            self._packed = None

    def _steps(self, step: Step) -> Step:
        return step if self._slots is None else Pipeline((_Slotted(self._slots), step))


def _present(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.filter(batch.column("rows").is_valid())


@dataclass
class _Slotted:
    """Says of each row what keeps it apart.

    Attributes:
        slots: Tells it.
    """

    slots: Slots

    def __call__(self, batches: Batches) -> Batches:
        for rows in batches:
            arrays = [*rows.columns, self.slots(rows)]
            yield pa.RecordBatch.from_arrays(arrays, names=[*rows.schema.names, SLOT])


@dataclass
class _Packer:
    """Packs rows, and gives a sample of them at the end.

    Attributes:
        sorting: What a sample is compared by.
    """

    sorting: Sorting

    def __call__(self, batches: Batches) -> Batches:
        sample = Sample(self.sorting)
        for table in gathered(_looked_at(batches, sample), PACK_BYTES):
            yield _sampled(packed_cell(table), None)
        yield _sampled(pa.nulls(1, pa.binary()), pickle.dumps(sample))


def _looked_at(batches: Batches, sample: Sample) -> Batches:
    for batch in batches:
        sample.add(batch)
        yield batch


def _sampled(rows: pa.Array, sample: bytes | None) -> pa.RecordBatch:
    arrays = [rows, pa.array([sample], pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, names=["rows", "sample"])


def gathered(batches: Batches, size: int) -> Iterator[pa.Table]:
    """Put batches together to tables of some bytes."""
    waiting: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        held += batch.nbytes
        if held >= size:
            yield pa.Table.from_batches(waiting)
            waiting, held = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


class IndexRows(RowSource):
    """Columns of a table's state, from its index.

    Args:
        spark: The session.
        index: The index.
        columns: The indexes of the columns wanted.
        schema: What they are called, and the types that they are to have.
    """

    def __init__(
        self, spark: SparkSession, index: Index, columns: Sequence[int], schema: pa.Schema
    ) -> None:
        self._spark = spark
        self._bytes = index.bytes
        self._rows = sum(
            file.rows for one in (index, index.below) if one for file in one.marker.files
        )
        self._schema = schema
        selection = Selection(index.table.name, index.shape, tuple(columns))
        self._reader = _StateRows(StateReader.of(index), selection, index.misfits, schema)

    @property
    def schema(self) -> pa.Schema:
        """What the columns are called, and their types."""
        return self._schema

    def sampled(self, sorting: Sorting) -> Sampled | None:
        """Read the columns of the order."""
        if self._bytes <= FEW_BYTES and self._rows <= FEW_ROWS:
            return None
        rows = numbered(self._spark, self._reader.reader.parts)
        step = _IndexSampler(self._reader, sorting)
        found = rows.mapInArrow(step, "sample binary").collect()
        samples = [pickle.loads(bytes(row.sample)) for row in found]  # noqa: S301
        rows_there = sum(one.rows for one in samples)
        width = max((one.bytes for one in samples), default=0)
        # Where no row was looked at, what is compressed is four times as much in memory, about.
        return Sampled(samples, width * rows_there or 4 * self._bytes)

    def through(self, step: Step, schema: str, *, alone: bool = False) -> DataFrame:
        """Read the index."""
        parts = self._reader.reader.parts
        rows = self._spark.range(parts, numPartitions=1) if alone else numbered(self._spark, parts)
        return rows.mapInArrow(Pipeline((self._reader, step)), schema)

    def close(self) -> None:
        """Nothing was kept."""


@dataclass
class _StateRows:
    """Reads the parts of a state whose numbers come.

    Attributes:
        reader: Reads them.
        selection: Which columns.
        misfits: Indexes of the columns that may have values which do not fit: an error.
        schema: What the columns are called, and the types that they are to have.
    """

    reader: StateReader
    selection: Selection
    misfits: set[int]
    schema: pa.Schema

    def __call__(self, numbers: Batches) -> Batches:
        for number in block_tasks.numbers(numbers):
            yield from self.part(number)

    def part(self, number: int) -> Batches:
        """Read one part."""
        rows = self.selection.rows(lambda some: self.reader.part(number, some), self.misfits)
        for batch in rows:
            columns = [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(batch.columns, self.schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, names=self.schema.names)

    def only(self, names: Sequence[str]) -> _StateRows:
        """Read some of the columns; a value that does not fit is null, until all are read."""
        places = [self.schema.get_field_index(name) for name in names]
        wanted = tuple(self.selection.wanted[place] for place in places)
        return _StateRows(
            self.reader,
            replace(self.selection, wanted=wanted, strict=False),
            set(),
            pa.schema([self.schema.field(place) for place in places]),
        )


@dataclass
class _IndexSampler:
    """Gives a sample of the parts whose numbers come. The last says what a row takes in memory.

    Attributes:
        rows: Reads rows.
        sorting: What a sample is compared by.
    """

    rows: _StateRows
    sorting: Sorting

    def __call__(self, numbers: Batches) -> Batches:
        for number in block_tasks.numbers(numbers):
            sample = Sample(self.sorting)
            for batch in self.rows.only(self.sorting.columns).part(number):
                sample.add(batch)
            sample.bytes = 0
            if number == self.rows.reader.parts - 1:
                first = next(self.rows.part(number), None)
                if first is not None:
                    sample.bytes = -(-first.nbytes // max(1, first.num_rows))
            yield pa.RecordBatch.from_arrays(
                [pa.array([pickle.dumps(sample)], pa.binary())], names=["sample"]
            )
