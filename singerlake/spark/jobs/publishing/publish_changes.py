"""Brings changed rows into published files: those that hold them are written anew, others stay.

Copy on write. Which files hold a row that changed, their bounds tell; these are read back, or where
the format cannot be read back exactly, their ranges are computed anew. New rows that lie in no
file's range become files of their own, or make a small neighbour larger.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from singerlake.errors import UsageError
from singerlake.projections import ranges
from singerlake.projections.destinations.base import Destination
from singerlake.projections.files import FileFormat, file_format
from singerlake.projections.overlap import overlap
from singerlake.projections.projection import Projection
from singerlake.projections.published import DataFile, Published
from singerlake.projections.ranges import Found, Places, Plan
from singerlake.projections.shares import Shares
from singerlake.records.rows.steps import Batches
from singerlake.spark.jobs.publishing.increments import (
    Counted,
    Increment,
    in_pieces,
    increment_of,
    piece_bytes,
)
from singerlake.spark.jobs.publishing.projected import AFTER, BEFORE, Projected, SourceChanges
from singerlake.spark.jobs.publishing.publish_fresh import can_write_fresh, write_fresh
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.jvm.session import cores
from singerlake.spark.state import layers
from singerlake.spark.state.frames import numbered
from singerlake.spark.write.files_reader import FilesReader
from singerlake.spark.write.merged_files import conforming, shares_of, write_merged
from singerlake.spark.write.ordered_files import write_ordered
from singerlake.spark.write.published_files import (
    bounded_column,
    check_columns,
    column,
)

TASK_BYTES = 64 << 20
"""Bytes of files that one task reads back, about; and writes, where it is all."""
_FOUND = "found binary"
_SIDE, _BOTH = "__singerlake_side", "__singerlake_both"
_GONE, _COME = 0, 1


def write_increment(
    spark: SparkSession,
    asked: Projected,
    projection: Projection,
    destination: Destination,
    base: Published,
    schema: pa.Schema,
) -> Increment:
    """Write what changed of an answer since a destination was committed.

    Args:
        spark: The session.
        asked: The answer; ``obstacle`` gave None for what ``base`` is of.
        projection: Says order, partitions and size of the files; it is the one that ``base`` is of.
        destination: Where they go.
        base: What it shows.
        schema: The columns of the files, see ``Destination.file_schema``.

    Raises:
        DamagedError: A file cannot be read back, or a block.
        UsageError: A column of the order or of the partitions is not there.
    """
    since = base.position.sources
    if can_write_fresh(projection, base, schema):
        fresh = asked.fresh(since)
        if fresh is not None:
            found = write_fresh(spark, fresh, projection, destination, base, schema)
            if found is not None:
                return found
    changes = asked.changes(since)
    everything = lambda: asked.rows().frame  # noqa: E731
    return write_changes(spark, changes, everything, projection, destination, base, schema)


def write_changes(
    spark: SparkSession,
    changes: SourceChanges,
    everything: Callable[[], DataFrame],
    projection: Projection,
    destination: Destination,
    base: Published,
    schema: pa.Schema,
) -> Increment:
    """Write what changes for a destination that shows an earlier state.

    Args:
        spark: The session.
        changes: What changed of the rows since that state.
        everything: Gives all rows of now. Asked only where files cannot be read back.
        projection: Says order, partitions and size of the files; it is the one that ``base`` is of.
        destination: Where they go.
        base: What it shows.
        schema: The columns of the files, see ``Destination.file_schema``.

    Raises:
        DamagedError: A file cannot be read back.
        UsageError: A column of the order or of the partitions is not there.
    """
    if projection.target is None:
        raise UsageError(f"{projection.name} is only staged: it says no place in `to`")
    if not schema.remove_metadata().equals(base.schema.remove_metadata()):
        return Increment(full_build="its columns are others")
    with plain_errors():
        check_columns(projection, to_arrow_schema(changes.after.schema, timezone="UTC"))
        pairs = changes.pairs.persist(StorageLevel.DISK_ONLY)
        try:
            job = _Job(spark, changes, pairs, projection, destination, base, schema)
            return job.run(everything)
        finally:
            pairs.unpersist()


class _Job:
    def __init__(
        self,
        spark: SparkSession,
        changes: SourceChanges,
        pairs: DataFrame,
        projection: Projection,
        destination: Destination,
        base: Published,
        schema: pa.Schema,
    ) -> None:
        self._spark = spark
        self._key = changes.key
        self._pairs = pairs
        self._before = pairs.where(F.col(BEFORE).isNotNull()).select(f"{BEFORE}.*")
        self._after = pairs.where(F.col(AFTER).isNotNull()).select(f"{AFTER}.*")
        self._projection = projection
        self._destination = destination
        self._base = base
        self._schema = schema
        self._bounded = bounded_column(projection, schema)
        self._places = Places(base.files, projection.partition_by, self._bounded)

    def run(self, everything: Callable[[], DataFrame]) -> Increment:
        found = self._find()
        if found.gone and not self._key:
            return Increment(full_build="rows without a key are gone")
        if not found.changed:
            return Increment(kept=self._base.files, overlap=overlap(self._base.files))
        target = self._projection.target
        assert target is not None  # noqa: S101  # looked at before
        form = file_format(target.format)
        made = ranges.plan(
            self._places,
            found.before,
            found.after,
            small=piece_bytes(target, self._base),
            whole_ranges=not form.reads_back,
        )
        if form.reads_back:
            shared = shares_of(self._projection, self._places, made, found.changed)
            if shared is not None:
                files = self._merged(form, made, shared, gone=found.gone > 0)
                return increment_of(self._base, made, files, found.counted)
            rows = self._read_back(form, made, found.gone).unionByName(self._after)
        else:
            rows = self._computed(everything(), made)
        size = sum(self._base.files[index].bytes for index in made.touched)
        few = size <= TASK_BYTES and found.changed <= layers.MOST_ROWS
        # Shared out by ranges rows are computed twice.
        rows = rows if few else rows.persist(StorageLevel.DISK_ONLY)
        try:
            files = self._write(rows, made, few=few)
        finally:
            rows.unpersist()
        return increment_of(self._base, made, files, found.counted)

    def _merged(
        self, form: FileFormat, made: Plan, shared: Shares, *, gone: bool
    ) -> Sequence[DataFile]:
        return write_merged(
            self._spark,
            self._before if gone else None,
            self._after,
            self._key,
            shared,
            self._reader(form, self._base.files),
            in_pieces(self._projection, self._base),
            self._destination,
            made.slots,
        )

    def _reader(self, form: FileFormat, files: Sequence[DataFile]) -> FilesReader:
        store, by = self._destination.store, self._projection.partition_by
        return FilesReader(store, form, files, by, conforming(self._after), self._schema)

    def _write(self, rows: DataFrame, made: Plan, *, few: bool) -> Sequence[DataFile]:
        slots = made.slots if any(made.slots.starts.values()) else None
        projection, destination = in_pieces(self._projection, self._base), self._destination
        return write_ordered(
            self._spark, rows, projection, destination, self._schema, slots=slots, few=few
        )

    def _find(self) -> _Places:
        """Look the changed rows up among the files."""
        by = {key.column for key in self._projection.partition_by}
        names = sorted(by | ({self._bounded} if self._bounded is not None else set()))
        sides = [
            F.struct(*(F.col(side)[name].alias(name) for name in names), F.lit(code).alias(_SIDE))
            for side, code in ((BEFORE, _GONE), (AFTER, _COME))
        ]
        both = F.col(BEFORE).isNotNull() & F.col(AFTER).isNotNull()
        each = F.when(both, F.array(*sides)).otherwise(
            F.when(F.col(BEFORE).isNotNull(), F.array(sides[0])).otherwise(F.array(sides[1]))
        )
        rows = self._pairs.select(both.alias(_BOTH), F.explode(each).alias("one"))
        step = _Finder(self._places)
        found = step.nothing()
        for row in rows.select("one.*", _BOTH).mapInArrow(step, _FOUND).collect():
            found.add(pickle.loads(bytes(row.found)))  # noqa: S301  # of our own tasks
        return found

    def _read_back(self, form: FileFormat, made: Plan, gone: int) -> DataFrame:
        """The rows of files that are written again, without those that changed."""
        files = [self._base.files[index] for index in sorted(made.touched)]
        schema = T.StructType(
            [T.StructField(one.name, one.dataType) for one in self._after.schema.fields]
        )
        if not files:
            return self._spark.createDataFrame([], schema)
        reader = self._reader(form, files)
        size = sum(file.bytes for file in files)
        wished = max(2 * cores(self._spark), size // TASK_BYTES)
        reader.tasks = min(len(files), wished)
        rows = numbered(self._spark, reader.tasks).mapInArrow(reader, schema)
        if not gone:
            return rows
        keys = self._before.select(
            *(column(name).alias(f"k{at}") for at, name in enumerate(self._key))
        )
        same: Column = reduce(
            and_, (column(name).eqNullSafe(F.col(f"k{at}")) for at, name in enumerate(self._key))
        )
        small = gone <= layers.MOST_ROWS
        return rows.join(F.broadcast(keys) if small else keys, same, "left_anti")

    def _computed(self, rows: DataFrame, made: Plan) -> DataFrame:
        """The rows of now in the ranges that are written again, and new ones elsewhere."""
        touched = _Touched(self._places, frozenset(made.touched))
        elsewhere = replace(touched, inside=False)
        within = rows.mapInArrow(touched, rows.schema)
        return within.unionByName(self._after.mapInArrow(elsewhere, self._after.schema))


@dataclass
class _Places:
    """Where changed rows lie.

    Attributes:
        before: Rows as they were.
        after: Rows as they are.
        gone: How many there are of the former.
        come: And of the latter.
        changed: How many rows differ; one that was and is counts once.
    """

    before: Found
    after: Found
    gone: int = 0
    come: int = 0
    changed: int = 0

    @property
    def counted(self) -> Counted:
        """How many rows an increment is of."""
        return Counted(self.gone, self.come, self.changed)

    def add(self, other: _Places) -> None:
        """Count others too."""
        self.before.add(other.before)
        self.after.add(other.after)
        self.gone += other.gone
        self.come += other.come
        self.changed += other.changed


@dataclass
class _Finder:
    """Looks rows up on the executors.

    Attributes:
        places: The files.
    """

    places: Places

    def nothing(self) -> _Places:
        """No row."""
        return _Places(self.places.nothing(), self.places.nothing())

    def __call__(self, batches: Batches) -> Batches:
        """Give one value a partition."""
        found = self.nothing()
        for batch in batches:
            sides = batch.column(_SIDE)
            gone, come = (batch.filter(pc.equal(sides, code)) for code in (_GONE, _COME))
            found.before.add(self.places.find(gone))
            found.after.add(self.places.find(come))
            found.gone += gone.num_rows
            found.come += come.num_rows
            # One that was and is came twice.
            found.changed += batch.num_rows - (pc.sum(come.column(_BOTH)).as_py() or 0)
        data = pickle.dumps(found)
        yield pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], names=["found"])


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
            covered = self.places.touched(batch, set(self.among))
            yield batch.filter(pa.array(covered if self.inside else ~covered))
