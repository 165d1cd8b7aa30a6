"""Brings changed rows into published files: those that hold them are written anew, others stay.

Copy on write. Which files hold a row that changed, their bounds tell; these are read back, or if
the format cannot be read back exactly, their ranges are computed anew. New rows that lie in no
file's range become files of their own, or make a small neighbour larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic

import numpy as np
import pyarrow as pa

from singerlake.engine.base import R
from singerlake.ops.publish.answer import Answer
from singerlake.ops.publish.publish_fresh import can_plan_fresh, plan_fresh
from singerlake.ops.publish.write.changed_rows import Changes, Located, come, unpacked
from singerlake.ops.publish.write.files_reader import FilesReader
from singerlake.ops.publish.write.increments import Counted, Planned, Publication
from singerlake.ops.publish.write.merged_files import shares_of, write_merged
from singerlake.ops.publish.write.ordered_files import write_ordered
from singerlake.ops.publish.write.published_files import check_columns
from singerlake.ops.publish.write.row_sources import ComputedRows, RowSource
from singerlake.publish import ranges
from singerlake.publish.files import file_format
from singerlake.publish.keys import Keys
from singerlake.publish.merging import without
from singerlake.publish.published import DataFile
from singerlake.publish.ranges import Places, Plan
from singerlake.rows.batches.packing import pack, unpack
from singerlake.rows.batches.steps import Batches, Pipeline

TASK_BYTES = 64 << 20
"""Bytes of files that one task reads back, about; and writes, if it is all."""
MOST_ROWS = 500_000
"""Changed rows that one task writes, at most."""
_OF_FILE = "file int, rows binary"


@contextmanager
def planned_increment(answer: Answer[Any], publication: Publication) -> Iterator[Planned]:
    """Find what changed of an answer since a destination was committed, and which files hold it.

    What was found is given up at the end: write within.

    Args:
        answer: The answer; ``obstacle`` gave None for what the destination shows.
        publication: What is there.

    Raises:
        DamagedError: A file cannot be read back, or a block.
        UsageError: A column of the order or of the partitions is not there.
    """
    since = publication.base.position.sources
    fresh = answer.fresh(since) if can_plan_fresh(publication) else None
    found = None if fresh is None else plan_fresh(answer.engine, fresh, publication)
    if found is not None:
        yield found
        return
    with planned_changes(answer.changed(since), answer.source, publication) as compared:
        yield compared


@contextmanager
def planned_changes(
    changes: Changes[R], everything: Callable[[], RowSource[R]], publication: Publication
) -> Iterator[Planned]:
    """Find which files hold rows that changed between two states.

    What was found is given up at the end: write within.

    Args:
        changes: What changed of the rows since the state that is published.
        everything: Gives all rows of now. Asked only if files cannot be read back.
        publication: What is there.

    Raises:
        DamagedError: A file cannot be read back, or a block.
        UsageError: A column of the order or of the partitions is not there.
    """
    if not publication.has_columns_of_base:
        yield Planned(publication, full_build="its columns have changed")
        return
    check_columns(publication.projection, changes.schema)
    with changes.located(publication.places) as rows:
        yield _Job(rows, publication, everything).planned()


@dataclass(frozen=True)
class _Job(Generic[R]):
    """One increment.

    Attributes:
        rows: The rows that changed.
        publication: What is there.
        everything: Gives all rows of now.
    """

    rows: Located[R]
    publication: Publication
    everything: Callable[[], RowSource[R]]

    @property
    def _reads_back(self) -> bool:
        return file_format(self.publication.target.format).reads_back

    def planned(self) -> Planned:
        publication, found = self.publication, self.rows.found
        if found.gone and not self.rows.key:
            return Planned(publication, full_build="rows without a key were deleted")
        if not found.changed:
            return Planned(publication)
        made = ranges.plan(
            publication.places,
            found.before,
            found.after,
            small=publication.piece_bytes,
            whole_ranges=not self._reads_back,
        )
        counted = Counted(found.gone, found.come, found.changed)
        return Planned(publication, counted, made, partial(self._files, counted, made))

    def _files(self, counted: Counted, made: Plan) -> Sequence[DataFile]:
        places = self.publication.places
        if self._reads_back:
            shared = shares_of(self.publication.projection, places, made, counted.changed)
            if shared is not None:
                return write_merged(self.publication, self.rows, shared, made.slots)
            rows = self._read_back(made)
        else:
            rows = self._computed(made)
        size = sum(self.publication.base.files[index].bytes for index in made.touched)
        few = size <= TASK_BYTES and counted.changed <= MOST_ROWS
        slots = made.slots if any(made.slots.starts.values()) else None
        publication = self.publication
        return write_ordered(
            ComputedRows(self.rows.engine, rows, self.rows.schema, slots),
            publication.in_pieces,
            publication.destination,
            publication.schema,
            in_slots=slots is not None,
            few=few,
        )

    def _read_back(self, made: Plan) -> R:
        """The rows of files that are written again as they are now, and new ones."""
        engine, schema = self.rows.engine, self.rows.schema
        new = engine.map(self.rows.rows, come, schema)
        if not made.touched:
            return new
        touched = sorted(made.touched)
        files = [self.publication.base.files[index] for index in touched]
        places = replace(self.publication.places, files=files)
        marks = engine.map(engine.source([b""]), _FileMarks(len(files)), _OF_FILE)
        gone = engine.map(self.rows.rows, _GoneByFile(places, self.rows.key), _OF_FILE)
        parts = max(engine.parts, sum(one.bytes for one in files) // TASK_BYTES)
        sent = engine.exchange(engine.union(marks, gone), min(len(files), parts), "file")
        left = engine.map(sent, _FilesLeft(self.publication.reader(files, schema)), schema)
        return engine.union(left, new)

    def _computed(self, made: Plan) -> R:
        """The rows of now in the ranges that are written again, and new ones elsewhere."""
        engine, schema = self.rows.engine, self.rows.schema
        touched = _Touched(self.publication.places, frozenset(made.touched))
        within = self.everything().through(touched, schema)
        elsewhere = Pipeline((come, replace(touched, inside=False)))
        return engine.union(within, engine.map(self.rows.rows, elsewhere, schema))


@dataclass
class _FileMarks:
    """Gives each file a row that says nothing.

    Attributes:
        files: How many there are.
    """

    files: int

    def __call__(self, numbers: Batches) -> Batches:
        for _ in numbers:
            arrays = [pa.array(range(self.files), pa.int32()), pa.nulls(self.files, pa.binary())]
            yield pa.RecordBatch.from_arrays(arrays, names=["file", "rows"])


@dataclass
class _GoneByFile:
    """Gives the keys of rows that are gone to the files that may hold them.

    Attributes:
        places: The files.
        key: The columns by which rows are the same.
    """

    places: Places
    key: tuple[str, ...]

    def __call__(self, batches: Batches) -> Batches:
        for is_gone, rows in unpacked(batches):
            if not is_gone:
                continue
            for number in np.flatnonzero(self.places.find(rows).inside).tolist():
                own = rows.filter(pa.array(self.places.touched(rows, {number}))).select(self.key)
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number], pa.int32()), pa.array([pack(own)])], names=["file", "rows"]
                )


@dataclass
class _FilesLeft:
    """Reads files back, without the rows that are gone.

    Attributes:
        reader: Reads them.
    """

    reader: FilesReader

    def __call__(self, batches: Batches) -> Batches:
        gone: dict[int, list[pa.Table]] = {}
        for batch in batches:
            for number, rows in zip(*(one.to_pylist() for one in batch), strict=True):
                gone.setdefault(number, []).extend([] if rows is None else [unpack(rows)])
        for number, tables in sorted(gone.items()):
            keys = Keys(pa.concat_tables(tables)) if tables else None
            for rows in self.reader.read(self.reader.files[number]):
                yield rows if keys is None else without(rows, keys)


@dataclass
class _Touched:
    """Gives the rows that some files cover, or all others.

    Attributes:
        places: The files.
        among: Which of them, by index.
        inside: Whether rows are wanted that they cover.
    """

    places: Places
    among: frozenset[int]
    inside: bool = True

    def __call__(self, batches: Batches) -> Batches:
        """Leave the others out."""
        for batch in batches:
            covered = self.places.touched(batch, {*self.among})
            yield batch.filter(pa.array(covered if self.inside else ~covered))
