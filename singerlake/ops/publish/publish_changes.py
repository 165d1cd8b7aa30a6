"""Brings changed rows into published files: those that hold them are written anew, others stay.

Copy on write. Which files hold a row that changed, their bounds tell; these are read back, or where
the format cannot be read back exactly, their ranges are computed anew. New rows that lie in no
file's range become files of their own, or make a small neighbour larger.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.engine.spark.jvm.session import cores
from singerlake.ops.publish.increments import Counted, Increment, Planned, Publication
from singerlake.ops.publish.projected import AFTER, BEFORE, Projected, SourceChanges
from singerlake.ops.publish.publish_fresh import can_plan_fresh, plan_fresh
from singerlake.ops.publish.write.merged_files import conforming, shares_of, write_merged
from singerlake.ops.publish.write.ordered_files import write_ordered
from singerlake.ops.publish.write.published_files import check_columns, column
from singerlake.publish import ranges
from singerlake.publish.files import FileFormat, file_format
from singerlake.publish.published import DataFile
from singerlake.publish.ranges import Found, Places, Plan
from singerlake.publish.shares import Shares
from singerlake.rows.batches.steps import Batches
from singerlake.snapshot import building
from singerlake.sql.state.frames import numbered

TASK_BYTES = 64 << 20
"""Bytes of files that one task reads back, about; and writes, where it is all."""
_FOUND = "found binary"
_SIDE, _BOTH = "__singerlake_side", "__singerlake_both"
_GONE, _COME = 0, 1


@contextmanager
def planned_increment(
    spark: SparkSession, asked: Projected, publication: Publication
) -> Iterator[Planned]:
    """Find what changed of an answer since a destination was committed, and which files hold it.

    What was found is given up at the end: write within.

    Args:
        spark: The session.
        asked: The answer; ``obstacle`` gave None for what the destination shows.
        publication: What is there.

    Raises:
        DamagedError: A file cannot be read back, or a block.
        UsageError: A column of the order or of the partitions is not there.
    """
    since = publication.base.position.sources
    fresh = asked.fresh(since) if can_plan_fresh(publication) else None
    found = None if fresh is None else plan_fresh(spark, fresh, publication)
    if found is not None:
        yield found
        return
    everything = lambda: asked.rows().frame  # noqa: E731
    with planned_changes(spark, asked.changes(since), everything, publication) as compared:
        yield compared


@contextmanager
def planned_changes(
    spark: SparkSession,
    changes: SourceChanges,
    everything: Callable[[], DataFrame],
    publication: Publication,
) -> Iterator[Planned]:
    """Find which files hold rows that changed between two states.

    Args:
        spark: The session.
        changes: What changed of the rows since the state that is published.
        everything: Gives all rows of now. Asked only where files cannot be read back.
        publication: What is there.

    Raises:
        DamagedError: A file cannot be read back.
        UsageError: A column of the order or of the partitions is not there.
    """
    target = publication.target
    if not publication.has_columns_of_base:
        yield Planned(publication, full_build="its columns are others")
        return
    with plain_errors():
        rows = to_arrow_schema(changes.after.schema, timezone="UTC")
        check_columns(publication.projection, rows)
        pairs = changes.pairs.persist(StorageLevel.DISK_ONLY)
        try:
            form = file_format(target.format)
            yield _Job(spark, changes, pairs, publication, form).planned(everything)
        finally:
            pairs.unpersist()


def write_changes(
    spark: SparkSession,
    changes: SourceChanges,
    everything: Callable[[], DataFrame],
    publication: Publication,
) -> Increment:
    """Write what changes at a destination that shows an earlier state.

    Args:
        spark: The session.
        changes: What changed of the rows since that state.
        everything: Gives all rows of now. Asked only where files cannot be read back.
        publication: What is there.

    Raises:
        DamagedError: A file cannot be read back.
        UsageError: A column of the order or of the partitions is not there.
    """
    with planned_changes(spark, changes, everything, publication) as planned:
        return planned.write()


class _Job:
    def __init__(
        self,
        spark: SparkSession,
        changes: SourceChanges,
        pairs: DataFrame,
        publication: Publication,
        form: FileFormat,
    ) -> None:
        self._spark = spark
        self._key = changes.key
        self._pairs = pairs
        self._before = pairs.where(F.col(BEFORE).isNotNull()).select(f"{BEFORE}.*")
        self._after = pairs.where(F.col(AFTER).isNotNull()).select(f"{AFTER}.*")
        self._publication = publication
        self._form = form
        self._places = publication.places

    def planned(self, everything: Callable[[], DataFrame]) -> Planned:
        publication, found = self._publication, self._find()
        if found.gone and not self._key:
            return Planned(publication, full_build="rows without a key are gone")
        if not found.changed:
            return Planned(publication)
        made = ranges.plan(
            self._places,
            found.before,
            found.after,
            small=publication.piece_bytes,
            whole_ranges=not self._form.reads_back,
        )
        files = partial(self._files, found.counted, made, everything)
        return Planned(publication, found.counted, made, files)

    def _files(
        self, counted: Counted, made: Plan, everything: Callable[[], DataFrame]
    ) -> Sequence[DataFile]:
        if self._form.reads_back:
            projection = self._publication.projection
            shared = shares_of(projection, self._places, made, counted.changed)
            if shared is not None:
                return self._merged(made, shared, gone=counted.gone > 0)
            rows = self._read_back(made, counted.gone).unionByName(self._after)
        else:
            rows = self._computed(everything(), made)
        size = sum(self._publication.base.files[index].bytes for index in made.touched)
        few = size <= TASK_BYTES and counted.changed <= building.MOST_ROWS
        # Shared out by ranges rows are computed twice.
        rows = rows if few else rows.persist(StorageLevel.DISK_ONLY)
        try:
            return self._write(rows, made, few=few)
        finally:
            rows.unpersist()

    def _merged(self, made: Plan, shared: Shares, *, gone: bool) -> Sequence[DataFile]:
        return write_merged(
            self._spark,
            self._before if gone else None,
            self._after,
            self._key,
            shared,
            self._publication.reader(self._publication.base.files, conforming(self._after)),
            self._publication.in_pieces,
            self._publication.destination,
            made.slots,
        )

    def _write(self, rows: DataFrame, made: Plan, *, few: bool) -> Sequence[DataFile]:
        slots = made.slots if any(made.slots.starts.values()) else None
        projection, destination = self._publication.in_pieces, self._publication.destination
        schema = self._publication.schema
        return write_ordered(
            self._spark, rows, projection, destination, schema, slots=slots, few=few
        )

    def _find(self) -> _Places:
        """Look the changed rows up among the files."""
        by = {key.column for key in self._publication.projection.partition_by}
        bounded = self._publication.bounded
        names = sorted(by | ({bounded} if bounded is not None else set()))
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

    def _read_back(self, made: Plan, gone: int) -> DataFrame:
        """The rows of files that are written again, without those that changed."""
        files = [self._publication.base.files[index] for index in sorted(made.touched)]
        schema = T.StructType(
            [T.StructField(one.name, one.dataType) for one in self._after.schema.fields]
        )
        if not files:
            return self._spark.createDataFrame([], schema)
        reader = self._publication.reader(files, conforming(self._after))
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
        small = gone <= building.MOST_ROWS
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
