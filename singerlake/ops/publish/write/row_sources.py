"""Sources of rows to be written in order: an answer that is computed, or a state.

The files of a state are read as often as they are needed. The rows of an answer are computed once,
and kept until it is known how they are shared out.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Generic

import pyarrow as pa

from singerlake.engine.base import Engine, R, Schema
from singerlake.ops.publish.write.published_files import WRITTEN, FilesWriter
from singerlake.publish.ranges import SLOT, Slots
from singerlake.publish.sorting import Sample, Sorting
from singerlake.rows.batches.packing import Unpacked, packed_cell
from singerlake.rows.batches.steps import Batches, Pipeline, Step
from singerlake.rows.blocks import block_tasks
from singerlake.snapshot.index import Index
from singerlake.snapshot.selection import Selection
from singerlake.snapshot.state_reader import StateReader

PACK_BYTES = 8 << 20
"""Bytes of rows that are packed together."""
FEW_BYTES = 2 << 20
FEW_ROWS = 100_000
"""Bytes of a state's files, and rows in them, up to which one task reads all of it."""
_SAMPLED = "part int, rows binary, sample binary"
_SAMPLE = "sample binary"


@dataclass(frozen=True)
class Sampled:
    """The facts of rows before they are written.

    Attributes:
        samples: Some of each part's.
        bytes: What all of them take in memory, about.
    """

    samples: Sequence[Sample]
    bytes: int


class RowSource(ABC, Generic[R]):
    """Rows, as often as they are asked for."""

    engine: Engine[R]
    schema: pa.Schema

    @abstractmethod
    def sampled(self, sorting: Sorting) -> Sampled | None:
        """Look at some of the rows; None if they are known to be few."""

    @abstractmethod
    def through(self, step: Step, schema: Schema) -> R:
        """Give the rows to a step, part by part.

        Args:
            step: Called once for each part of the rows.
            schema: Of what it gives.
        """

    @abstractmethod
    def alone(self, step: Step, schema: Schema) -> R:
        """Give all rows to a step at once."""

    @abstractmethod
    def written(self, writer: FilesWriter) -> R:
        """Write the rows as they lie, part by part."""

    @abstractmethod
    def close(self) -> None:
        """Give up what was kept."""

    def count(self) -> int:
        """Count the rows."""
        return sum(row["rows"] for row in self.engine.collect(self.through(counted, "rows long")))


def counted(batches: Batches) -> Batches:
    """Count the rows of a part."""
    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})


class ComputedRows(RowSource[R]):
    """Rows that an engine computes.

    Args:
        slots: Keeps rows apart that are not to be in one file: they get a column more, ``SLOT``.
        part: Returns the number of the part that a step is called with.
    """

    def __init__(
        self,
        engine: Engine[R],
        rows: R,
        schema: pa.Schema,
        slots: Slots | None = None,
        part: Callable[[], int] = int,
    ) -> None:
        self.engine = engine
        self.schema = schema
        self._rows = rows
        self._slots = slots
        self._part = part
        self._kept: R | None = None
        self._stack = ExitStack()

    def sampled(self, sorting: Sorting) -> Sampled:
        """Compute the rows, and keep them."""
        self._kept = self._stack.enter_context(self.engine.keep(self._packed(sorting)))
        samples = sampled(self.engine.collect(self.engine.having(self._kept, "sample")))
        return Sampled(samples, sum(one.bytes for one in samples))

    def through(self, step: Step, schema: Schema) -> R:  # noqa: D102
        if self._kept is None:
            return self.engine.map(self._rows, self._steps(step), schema)
        rows = self.engine.having(self._kept, "rows")
        return self.engine.map(rows, Pipeline((Unpacked(), step)), schema)

    def alone(self, step: Step, schema: Schema) -> R:  # noqa: D102
        packed = self._packed() if self._kept is None else self._kept
        rows = self.engine.exchange(self.engine.having(packed, "rows"), 1, "part")
        return self.engine.map(rows, Pipeline((Unpacked(), step)), schema)

    def written(self, writer: FilesWriter) -> R:  # noqa: D102
        return self.through(_PartWriter(writer, self._part), WRITTEN)

    def close(self) -> None:
        """Delete the rows that were kept."""
        self._kept = None
        self._stack.close()

    def _packed(self, sorting: Sorting | None = None) -> R:
        return self.engine.map(self._rows, self._steps(_Packer(sorting)), _SAMPLED)

    def _steps(self, step: Step) -> Step:
        return step if self._slots is None else Pipeline((_Slotted(self._slots), step))


def sampled(found: Sequence[Mapping[str, Any]]) -> list[Sample]:
    """Return the samples that parts gave."""
    # Only our own tasks have written these.
    return [pickle.loads(bytes(row["sample"])) for row in found]  # noqa: S301


@dataclass
class _PartWriter:
    """Writes the rows of a part.

    Attributes:
        part: Returns the number of the part.
    """

    writer: FilesWriter
    part: Callable[[], int]

    def __call__(self, batches: Batches) -> Batches:
        yield from self.writer.write(batches, self.part())


@dataclass
class _Slotted:
    """Says of each row what keeps it apart."""

    slots: Slots

    def __call__(self, batches: Batches) -> Batches:
        for rows in batches:
            arrays = [*rows.columns, self.slots(rows)]
            yield pa.RecordBatch.from_arrays(arrays, names=[*rows.schema.names, SLOT])


@dataclass
class _Packer:
    """Packs rows, and gives a sample of them at the end.

    Attributes:
        sorting: What a sample is compared by; None for no sample.
    """

    sorting: Sorting | None

    def __call__(self, batches: Batches) -> Batches:
        if self.sorting is None:
            for table in gathered(batches, PACK_BYTES):
                yield _sampled(packed_cell(table), None)
            return
        sample = Sample(self.sorting)
        for table in gathered(_looked_at(batches, sample), PACK_BYTES):
            yield _sampled(packed_cell(table), None)
        yield _sampled(pa.nulls(1, pa.binary()), pickle.dumps(sample))


def _looked_at(batches: Batches, sample: Sample) -> Batches:
    for batch in batches:
        sample.add(batch)
        yield batch


def _sampled(rows: pa.Array, sample: bytes | None) -> pa.RecordBatch:
    arrays = [pa.array([0], pa.int32()), rows, pa.array([sample], pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, names=["part", "rows", "sample"])


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


@dataclass
class StateFiles:
    """Reads the columns of an answer from the files of a state. Sent to executors by value.

    Attributes:
        misfits: Indexes of the columns that may have values which do not fit: an error.
        schema: What the columns are called, and the types that they are to have.
        bytes: The size of the files.
        rows: How many rows they have, at most.
    """

    reader: StateReader
    selection: Selection
    misfits: set[int]
    schema: pa.Schema
    bytes: int
    rows: int

    @classmethod
    def of(cls, index: Index, columns: Sequence[int], schema: pa.Schema) -> StateFiles:
        """Make what reads an index.

        Args:
            columns: The indexes of the columns wanted.
            schema: What they are called, and their types.
        """
        files = [one.marker.files for one in (index, index.below) if one]
        rows = sum(file.rows for some in files for file in some)
        selection = Selection(index.table.name, index.shape, tuple(columns))
        return cls(StateReader.of(index), selection, index.misfits, schema, index.bytes, rows)

    @property
    def parts(self) -> int:
        """The number of files."""
        return self.reader.parts

    def part(self, number: int) -> Batches:
        """Read the rows that one of the files has of the state."""
        rows = self.selection.rows(lambda some: self.reader.part(number, some), self.misfits)
        return (renamed(batch, self.schema) for batch in rows)

    def only(self, names: Sequence[str]) -> StateFiles:
        """Read some of the columns; a value that does not fit is null, until all are read."""
        places = [self.schema.get_field_index(name) for name in names]
        wanted = tuple(self.selection.wanted[place] for place in places)
        return replace(
            self,
            selection=replace(self.selection, wanted=wanted, strict=False),
            misfits=set(),
            schema=pa.schema([self.schema.field(place) for place in places]),
        )


def renamed(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return columns under the names of a schema, in its types."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


class StateRows(RowSource[R]):
    """Columns of a table's state, from its files."""

    def __init__(self, engine: Engine[R], files: StateFiles) -> None:
        self.engine = engine
        self.schema = files.schema
        self._files = files

    def sampled(self, sorting: Sorting) -> Sampled | None:
        """Read the columns of the order."""
        if self._files.bytes <= FEW_BYTES and self._files.rows <= FEW_ROWS:
            return None
        rows = self.engine.map(self._source(), _FilesSampler(self._files, sorting), _SAMPLE)
        samples = sampled(self.engine.collect(rows))
        rows_there = sum(one.rows for one in samples)
        width = max((one.bytes for one in samples), default=0)
        # If no row was looked at, what is compressed is four times as much in memory, about.
        return Sampled(samples, width * rows_there or 4 * self._files.bytes)

    def through(self, step: Step, schema: Schema) -> R:  # noqa: D102
        return self.engine.map(self._source(), Pipeline((_FilesStep(self._files), step)), schema)

    def alone(self, step: Step, schema: Schema) -> R:  # noqa: D102
        every = Pipeline((_FilesStep(self._files, every=True), step))
        return self.engine.map(self.engine.source([b""]), every, schema)

    def written(self, writer: FilesWriter) -> R:  # noqa: D102
        return self.engine.map(self._source(), _FilesWriter(self._files, writer), WRITTEN)

    def close(self) -> None:
        """Nothing was kept."""

    def _source(self) -> R:
        return self.engine.source([b""] * self._files.parts)


@dataclass
class _FilesStep:
    """Reads the files whose numbers come.

    Attributes:
        files: Reads them.
        every: Whether to read all of them, whatever comes.
    """

    files: StateFiles
    every: bool = False

    def __call__(self, numbers: Batches) -> Batches:
        for number in block_tasks.numbers(numbers):
            for one in range(self.files.parts) if self.every else [number]:
                yield from self.files.part(one)


@dataclass
class _FilesWriter:
    """Writes the rows of the files whose numbers come."""

    files: StateFiles
    writer: FilesWriter

    def __call__(self, numbers: Batches) -> Batches:
        for number in block_tasks.numbers(numbers):
            yield from self.writer.write(self.files.part(number), number)


@dataclass
class _FilesSampler:
    """Gives a sample of the files whose numbers come. The last says what a row takes in memory.

    Attributes:
        sorting: What a sample is compared by.
    """

    files: StateFiles
    sorting: Sorting

    def __call__(self, numbers: Batches) -> Batches:
        for number in block_tasks.numbers(numbers):
            sample = Sample(self.sorting)
            for batch in self.files.only(self.sorting.columns).part(number):
                sample.add(batch)
            sample.bytes = 0
            if number == self.files.parts - 1:
                first = next(self.files.part(number), None)
                if first is not None:
                    sample.bytes = -(-first.nbytes // max(1, first.num_rows))
            cell = pa.array([pickle.dumps(sample)], pa.binary())
            yield pa.RecordBatch.from_arrays([cell], names=["sample"])
