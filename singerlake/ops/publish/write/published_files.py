"""Writes rows as files in order: ranges that do not overlap, sorted within, by tasks.

A task is sent one range of partition, order and key, and writes files of about the wished size one
behind the other. A file's name is of the attempt alone, and only the files that an attempt gives
back are published: a task that is repeated doubles nothing.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.errors import UsageError
from singerlake.nearest import offer
from singerlake.publish import bounds, partitions
from singerlake.publish.bounds import Bounds
from singerlake.publish.destinations.base import Destination
from singerlake.publish.files import FileFormat, FileWriter, Layout, file_format
from singerlake.publish.files.output import StagedOutput
from singerlake.publish.projection import (
    OrderKey,
    PartitionKey,
    Projection,
)
from singerlake.publish.published import DataFile
from singerlake.publish.ranges import SLOT
from singerlake.rows.batches.steps import Batches
from singerlake.storage.base import Staged, Store

WRITTEN = "file binary"
PIECES = 8
"""A file's size is looked at so many times, at least."""


def described(
    found: Sequence[Mapping[str, Any]], writer: FilesWriter, projection: Projection
) -> list[DataFile]:
    """Return the files that tasks have written; one without rows where that is all there is.

    Args:
        found: What the tasks gave.
        writer: What they wrote by.
        projection: Says format and partitions.
    """
    # Only our own tasks have written these.
    files = [pickle.loads(bytes(row["file"])) for row in found]  # noqa: S301
    target = projection.target
    if files or projection.partition_by or target is None or target.format.is_table_format:
        return files
    return writer.empty()


def check_columns(projection: Projection, schema: pa.Schema) -> None:
    """Make sure that rows can be ordered and kept apart as a projection says.

    Raises:
        UsageError: A column is not there, or not for that.
    """
    named = {"order_by": [key.column for key in projection.order_by], "key": projection.key}
    for what, columns in named.items():
        for column in columns:
            if column not in schema.names:
                raise UsageError(
                    f"{what} of {projection.name} names {column!r}, which is not a column of its "
                    f"rows: {offer(column, schema.names, 'there are none')}"
                )
            if not bounds.has_bounds(schema.field(column).type):
                raise UsageError(
                    f"{what} of {projection.name} names {column!r}, whose type has no order "
                    f"({schema.field(column).type}): cast it to string"
                )
    partitions.check(projection.partition_by, schema)


def bounded_column(projection: Projection, schema: pa.Schema) -> str | None:
    """Return the column whose bounds files have; None without an order.

    Args:
        projection: Says the order.
        schema: The columns of the files.
    """
    first = next((one.column for one in order_of(projection)), None)
    return first if first in schema.names else None


def order_of(projection: Projection) -> tuple[OrderKey, ...]:
    """What the rows of each partition are ordered by, ties by the key; empty to let them lie."""
    said = {one.column for one in projection.order_by}
    key = (OrderKey(column) for column in projection.key if column not in said)
    return (*projection.order_by, *key)


@dataclass
class FilesWriter:
    """Writes rows that come in order as files. Sent to the executors by value, store and all.

    Attributes:
        store: The destination's store.
        folder: Below which prefix, with a slash at its end.
        format: How files are written.
        layout: How rows lie in one.
        schema: The columns of the files.
        partition_by: What files are kept apart by.
        bounded: The column whose bounds are told; None without an order.
        file_bytes: How large a file becomes, about.
    """

    store: Store
    folder: str
    format: FileFormat
    layout: Layout
    schema: pa.Schema
    partition_by: tuple[PartitionKey, ...]
    bounded: str | None
    file_bytes: int

    @classmethod
    def of(
        cls,
        projection: Projection,
        destination: Destination,
        schema: pa.Schema,
        folder: str | None = None,
    ) -> FilesWriter:
        """Make one for a run.

        Args:
            projection: Says order, key, partitions and size of the files.
            destination: Where they go.
            schema: The columns of the files.
            folder: Below which prefix; by default one of a new run.
        """
        target = projection.target or destination.target
        folder, store = folder or destination.folder(), destination.store
        form = file_format(target.format)
        compression = form.compression(target.compression)
        layout = Layout(compression, order_of(projection), projection.key)
        by, first = projection.partition_by, bounded_column(projection, schema)
        return cls(store, folder, form, layout, schema, by, first, target.file_bytes)

    def write(self, batches: Batches, part: int = 0) -> Batches:
        """Write rows; the files are durable when the descriptions come out, as :data:`WRITTEN`.

        Args:
            batches: The rows, in order.
            part: As for :meth:`files`.
        """
        files = [pickle.dumps(file) for file in self.files(batches, part)]
        if files:
            yield pa.RecordBatch.from_arrays([pa.array(files, pa.binary())], names=["file"])

    def files(self, batches: Batches, part: int = 0) -> Iterator[DataFile]:
        """Write rows, one file behind the other.

        Args:
            batches: The rows, in order.
            part: A number for the files' names, which makes them sort as the rows do.
        """
        return _Run(self, part).write(batches)

    def empty(self) -> list[DataFile]:
        """Write one file without rows: its columns can be read, where nothing else tells them."""
        return list(self.files(iter([pa.RecordBatch.from_pylist([], schema=self.schema)])))


@dataclass
class _Open:
    """A file that is being written."""

    partition: tuple[str, ...]
    slot: int
    staged: Staged
    out: StagedOutput
    writer: FileWriter
    rows: int = 0
    bounds: Bounds = field(default_factory=Bounds)


class _Run:
    """What one attempt of one task writes."""

    def __init__(self, step: FilesWriter, part: int) -> None:
        self._step = step
        self._part = part
        self._count = 0
        self._open: _Open | None = None

    def write(self, batches: Batches) -> Iterator[DataFile]:
        try:
            for batch in batches:
                for partition, slot, rows in self._runs(batch):
                    now = self._open
                    if now is not None and (now.partition, now.slot) != (partition, slot):
                        yield self._close(now)
                    for piece in self._pieces(rows):
                        yield from self._append(partition, slot, piece)
            if self._open is not None:
                yield self._close(self._open)
        finally:
            if self._open is not None:
                self._open.staged.discard()

    def _runs(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, ...], int, pa.RecordBatch]]:
        """Cut a batch where partition or slot changes; leave out what is in no file."""
        by = self._step.partition_by
        values = [partitions.values(batch.column(key.column), key) for key in by]
        slots = [batch.column(SLOT)] if SLOT in batch.schema.names else []
        if not (by or slots):
            yield (), 0, conformed(batch, self._step.schema)
            return
        ends = {0, batch.num_rows}
        for one in (*values, *slots):
            ends |= set(pc.run_end_encode(one).run_ends.to_pylist())
        rows = conformed(batch, self._step.schema)
        for start, end in pairwise(sorted(ends)):
            names = [
                partitions.folder(key, one[start].as_py())
                for key, one in zip(by, values, strict=True)
            ]
            slot = slots[0][start].as_py() if slots else 0
            yield tuple(names), slot, rows.slice(start, end - start)

    def _pieces(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Cut rows so that a file ends near its wished size, be it small beside a batch."""
        size = max(1, rows.num_rows * self._step.file_bytes // max(1, PIECES * rows.nbytes))
        for start in range(0, rows.num_rows, size):
            yield rows.slice(start, size)
        if not rows.num_rows:
            yield rows  # begins a file that holds nothing but its columns

    def _append(
        self, partition: tuple[str, ...], slot: int, rows: pa.RecordBatch
    ) -> Iterator[DataFile]:
        if self._open is None:
            self._open = self._begin(partition, slot)
        now, bounded = self._open, self._step.bounded
        now.writer.write(rows)
        now.rows += rows.num_rows
        if bounded is not None:
            now.bounds = now.bounds.with_more(bounds.bounds_of(rows.column(bounded)))
        if now.out.size + now.writer.waiting >= self._step.file_bytes:
            yield self._close(now)

    def _begin(self, partition: tuple[str, ...], slot: int) -> _Open:
        step = self._step
        staged = step.store.stage()
        out = StagedOutput(staged)
        try:
            writer = step.format.writer(cast("BinaryIO", out), step.schema, step.layout)
        except BaseException:
            staged.discard()
            raise
        return _Open(partition, slot, staged, out, writer)

    def _close(self, now: _Open) -> DataFile:
        facts = now.writer.close()
        now.out.flush()
        name = f"part-{self._part:05d}-{self._count:05d}-{uuid.uuid4().hex[:16]}"
        suffix = self._step.format.suffix(self._step.layout.compression)
        path = "/".join((*now.partition, f"{name}{suffix}"))
        path = f"{self._step.folder}{path}"
        now.staged.publish(path)
        now.staged.discard()
        self._open = None
        self._count += 1
        low, high, nulls = bounds.shortened(now.bounds)
        return DataFile(path, now.out.size, now.rows, now.partition, low, high, nulls > 0, facts)


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a schema, in its types."""
    columns = []
    for one in schema:
        array = batch.column(one.name)
        columns.append(array if array.type == one.type else array.cast(one.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
