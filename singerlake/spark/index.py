"""The index: a table's state at one transaction as Parquet, beside the lake's raw data.

A cache, and treated as one. Only the marker makes an index: it is written last, with
put-if-absent, and names the files. It is left aside and made again where it belongs to
another log (its commit id differs), is damaged, or names files that are missing, of
another size or of other bytes. Deleting the folder at any time loses nothing but time.

A later index starts from the newest earlier one under the same schema and reads only the
blocks since: a small change to a large state becomes a layer on it (``layers.py``), anything
else a whole state again. Transactions that changed no row share the index of the one before.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812

from singerlake.errors import DamagedError
from singerlake.format import metadata, names
from singerlake.format.metadata import INDEX_FORMAT, IndexFile, IndexMarker
from singerlake.lake import Table
from singerlake.maintenance.misfits import ColumnMisfits
from singerlake.spark import candidates, frames, layers, rows, state
from singerlake.spark.columns import arrow_type
from singerlake.spark.frames import Shape, shape_of
from singerlake.spark.misfits import found_in
from singerlake.spark.parts import WRITTEN, Part, PartReader, PartWriter
from singerlake.spark.sound import is_sound
from singerlake.storage.base import KeyExistsError, KeyMissingError
from singerlake.storage.local import LocalStore
from singerlake.transactions.snapshot import Snapshot

logger = logging.getLogger(__name__)
ATTEMPTS = 10
_GLOB = re.compile(r"[*?{}\[\]\\]")
"""Spark takes these in a path for a pattern and finds nothing; told not to, it reads each of
several files twice (its option ``__globPaths__``, seen in 4.3)."""


@dataclass(frozen=True)
class Index:
    """A finished index.

    Attributes:
        table: Whose.
        snapshot: The table at the transaction that the index is filed under.
        shape: The table's columns and keys then.
        marker: What the index says of itself.
        below: The index that this one is a layer on; None where it holds a whole state.
    """

    table: Table
    snapshot: Snapshot
    shape: Shape
    marker: IndexMarker
    below: Index | None = None

    @property
    def parts(self) -> list[Part]:
        """Its files on the store."""
        folder = self.table.name.index(self.marker.transaction)
        return [Part(folder + file.path, file.hash) for file in self.marker.files]

    @property
    def keys(self) -> list[str]:
        """Keys of its files on the store."""
        return [part.key for part in self.parts]

    @property
    def misfits(self) -> set[int]:
        """Places of the columns that may have values which do not fit."""
        counted = self.marker.misfits
        own = {place for place, name in enumerate(self.shape.names) if name in counted}
        return own if self.below is None else own | self.below.misfits

    @property
    def bytes(self) -> int:
        """Size of its files, and of those below."""
        below = self.below.bytes if self.below is not None else 0
        return below + sum(file.bytes for file in self.marker.files)


def ensure(spark: SparkSession, table: Table, snapshot: Snapshot, *, fresh: bool = False) -> Index:
    """The index of a transaction: the one that is there, or a new one.

    Args:
        spark: The session.
        table: The table.
        snapshot: The table at the transaction, read from its log.
        fresh: Start from the blocks alone, past any earlier index.

    Raises:
        DamagedError: A block that is needed cannot be read.
        StoreError: The store refused.
    """
    snapshot = snapshot.settled()
    return _sound(table, snapshot) or _build(spark, table, snapshot, fresh)


def read(spark: SparkSession, index: Index) -> DataFrame:
    """An index's rows, columns under their own names."""
    return frames.renamed(read_inside(spark, index), index.shape)


def read_inside(
    spark: SparkSession, index: Index, misfits: str = frames.FAIL, *, digests: bool = False
) -> DataFrame:
    """An index's rows by place, with where they lie in the blocks.

    Args:
        spark: The session.
        index: The index.
        misfits: What becomes of a value that does not fit, where it is read.
        digests: Whether the records' digests are wanted.
    """
    rows = rows_inside(spark, index, digests=digests)
    return frames.guarded(rows, index.shape, index.table.name, index.misfits, misfits)


def rows_inside(spark: SparkSession, index: Index, *, digests: bool = False) -> DataFrame:
    """As :func:`read_inside`, with what of each row does not fit; there the value is null."""
    own = _own_rows(spark, index, digests=digests)
    if index.below is None:
        return own
    return layers.over(rows_inside(spark, index.below, digests=digests), own, index.shape)


def misfits(spark: SparkSession, index: Index) -> list[ColumnMisfits]:
    """The values that do not fit, by column."""
    if not index.misfits:
        return []
    return found_in(rows_inside(spark, index), index.shape)


def count_rows(spark: SparkSession, index: Index) -> int:
    """Rows of the state; a layer has to be laid over what is below to know."""
    rows = index.marker.rows
    return read_inside(spark, index).count() if rows is None else rows


def part_reader(index: Index, *, digests: bool = False) -> PartReader:
    """What reads an index's own files in Python, with or without the records' digests."""
    left_out = frozenset[str]() if digests else frozenset((frames.DIGEST,))
    return PartReader(index.table.store, index.parts, frame_schema(index).names, left_out)


def _own_rows(spark: SparkSession, index: Index, *, digests: bool) -> DataFrame:
    """The rows in an index's own files; of a layer, whether they are deleted too."""
    schema = frame_schema(index)
    files = index.marker.files
    if not files:
        return spark.createDataFrame([], schema)
    store = index.table.store
    if isinstance(store, LocalStore) and not _GLOB.search(store.uri):
        paths = [Path(store.root, key).as_posix() for key in index.keys]
        own = file_schema(index.shape, layer=index.below is not None)
        fields = [
            T.StructField(name, field.dataType)
            for name, field in zip(own.names, schema, strict=True)
        ]
        # Days of our calendar, also those before 1582.
        reader = spark.read.schema(T.StructType(fields)).option("datetimeRebaseMode", "CORRECTED")
        # A flipped bit in a cache must be an error, not another answer.
        reader = reader.option("parquet.page.verify-checksum.enabled", "true")
        return reader.parquet(*paths).toDF(*schema.names)
    reading = part_reader(index, digests=digests)
    return spark.range(len(files), numPartitions=len(files)).mapInArrow(reading, schema)


def frame_schema(index: Index) -> T.StructType:
    """The columns of an index's own files, as they are called inside."""
    schema = frames.frame_schema(index.shape)
    return schema if index.below is None else schema.add(frames.GONE, T.BooleanType())


def load(table: Table, snapshot: Snapshot) -> Index | None:
    """A snapshot's index; None where there is none that can be used.

    What is in its files is not looked at: see :func:`_sound`, and :class:`PartReader`.
    """
    folder = table.name.index(snapshot.head)
    try:
        data = table.store.get(folder + names.INDEX_MARKER).data
        marker = metadata.decode(data, IndexMarker, folder + names.INDEX_MARKER)
    except KeyMissingError:
        return None
    except DamagedError as error:
        logger.warning("%s; making the index anew", error)
        return None
    if marker.format < INDEX_FORMAT:
        logger.info("an earlier release made the index %s; making it anew", folder)
        return None
    expected = (snapshot.head, snapshot.commit, snapshot.schema_hash)
    if (marker.transaction, marker.commit, marker.schema_hash) != expected:
        logger.info("the index %s belongs to another log; making it anew", folder)
        return None
    if marker.types != snapshot.rules:
        logger.info("the index %s was made by other rules of types; making it anew", folder)
        return None
    if any(not names.is_index_part(file.path) for file in marker.files):
        logger.warning("the index %s names files that are not its own; making it anew", folder)
        return None
    present = {item.key: item.size for item in table.store.list(folder)}
    if any(present.get(folder + file.path) != file.bytes for file in marker.files):
        logger.warning("files of the index %s are missing; making it anew", folder)
        return None
    below = None
    if marker.base:
        below = _below(table, snapshot, marker.base)
        if below is None:
            logger.warning("what the index %s lies on is gone; making it anew", folder)
            return None
    return Index(table, snapshot, shape_of(snapshot), marker, below)


def _sound(table: Table, snapshot: Snapshot) -> Index | None:
    """A snapshot's index, where its files are as they were written.

    Spark's own reader of Parquet proves its pages by their checksums, and nothing proves a
    file's footer. So files that it reads are held against their hashes before, once a process;
    :class:`PartReader`, which has a file's bytes whole, does it whenever it reads.
    """
    found = load(table, snapshot)
    if found is None or not isinstance(table.store, LocalStore):
        return found
    read = [*found.parts, *(found.below.parts if found.below is not None else [])]
    for part in read:
        if not is_sound(Path(table.store.root, part.key), part.hash):
            logger.warning("%s is not as it was written; making the index anew", part.key)
            return None
    return found


def _below(table: Table, snapshot: Snapshot, number: int) -> Index | None:
    """The index of a whole state that a layer lies on."""
    if not 0 < number < snapshot.head:
        return None
    # It is read from its own files: whether the blocks are still there does not matter.
    found = load(table, snapshot.filed(number))
    return found if found is not None and found.below is None else None


def drop(table: Table, snapshot: Snapshot) -> None:
    """Delete a transaction's index, marker first, so that nobody trusts what is left of it."""
    folder = table.name.index(snapshot.settled().head)
    table.store.delete(folder + names.INDEX_MARKER)
    for item in list(table.store.list(folder)):
        table.store.delete(item.key)


def file_schema(shape: Shape, *, layer: bool = False) -> pa.Schema:
    """The schema of an index's files: the table's columns, then where each row lies.

    The latter are ``_block``, ``_ordinal``, ``_singer_version`` and ``_digest``, what does not
    fit is said in ``_misfit``, and a layer has ``_deleted``; with more underscores in front where
    the table has such a column itself, in any case.
    """
    taken = {name.casefold() for name in shape.names}
    own = [pa.field(name, arrow_type(type_)) for name, type_ in shape.columns]
    extra = []
    for field in rows.PROVENANCE[: len(frames.PROVENANCE) + 1 + layer]:
        name = field.name
        while name in taken:
            name = f"_{name}"
        extra.append(field.with_name(name))
    return pa.schema([*own, *extra])


def _build(spark: SparkSession, table: Table, snapshot: Snapshot, fresh: bool) -> Index:
    shape = shape_of(snapshot)
    base = None if fresh else _base(table, snapshot, shape)
    below = None
    if base is None:
        parts = _from_blocks(spark, table, snapshot, _writer(table, snapshot, shape))
    else:
        parts, below = _from_index(spark, snapshot, shape, base)
    written = parts.collect()  # a few words a file come to the driver, never rows
    files = sorted((IndexFile(w.path, w.rows, w.bytes, w.hash) for w in written), key=_path)
    marker = IndexMarker(
        format=INDEX_FORMAT,
        transaction=snapshot.head,
        commit=snapshot.commit,
        schema_hash=snapshot.schema_hash,
        rows=sum(file.rows for file in files) if below is None else None,
        files=files,
        base=0 if below is None else below.marker.transaction,
        misfits=_summed((json.loads(w["misfits"]) for w in written), shape),
        types=snapshot.rules,
    )
    kept = _publish(table, snapshot, Index(table, snapshot, shape, marker, below))
    for file in files:
        # Not by who the marker is: where a reply was lost, it is found there and is ours.
        if file not in kept.marker.files:
            table.store.delete(table.name.index(snapshot.head) + file.path)
    return kept


def _from_blocks(
    spark: SparkSession, table: Table, snapshot: Snapshot, writer: PartWriter
) -> DataFrame:
    plan = state.planned(spark, table, snapshot, digests=True)
    if candidates.likely(snapshot, plan):
        return candidates.written(spark, plan, writer)
    return state.through(spark, plan, writer, WRITTEN)


def _from_index(
    spark: SparkSession, snapshot: Snapshot, shape: Shape, base: Index
) -> tuple[DataFrame, Index | None]:
    """A layer on an earlier index's whole state, or a new whole state; and what is below."""
    table = base.table
    since = snapshot.blocks_after(base.marker.transaction)
    later = frames.read_blocks(spark, table, snapshot, since, shape, digests=True)
    # A block that a vacuum put together may hold older rows too: a layer must not hide a newer
    # one below behind them.
    later = later.where(F.col(frames.BLOCK) > base.snapshot.last_block)
    size = sum(block.bytes for block in since)
    whole = base.below or base
    layered = base if base.below is not None else None
    changed = sum(b.rows for b in since) + (_file_rows(base) if layered is not None else 0)
    if layers.worthwhile(_file_rows(whole), changed) and not any(b.activations for b in since):
        if layered is not None:
            later = _own_rows(spark, layered, digests=True).unionAll(later)
        writer = _writer(table, snapshot, shape, layer=True)
        return layers.layer(later, shape, size).mapInArrow(writer, WRITTEN), whole
    size += 3 * base.bytes
    frame = frames.unjudged(rows_inside(spark, base, digests=True)).unionAll(later)
    writer = _writer(table, snapshot, shape)
    return frames.fold_rows(frame, shape, size).mapInArrow(writer, WRITTEN), None


def _writer(table: Table, snapshot: Snapshot, shape: Shape, *, layer: bool = False) -> PartWriter:
    schema = file_schema(shape, layer=layer)
    misfit = len(shape.columns) + len(frames.PROVENANCE)
    return PartWriter(table.store, table.name.index(snapshot.head), schema, misfit)


def _summed(counts: Iterable[dict[str, int]], shape: Shape) -> dict[str, int]:
    """Misfits by column, of what is said of each file by place."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update({shape.names[int(place)]: count for place, count in one.items()})
    return dict(sorted(total.items()))


def _file_rows(index: Index) -> int:
    return sum(file.rows for file in index.marker.files)


def _path(file: IndexFile) -> str:
    return file.path


def _base(table: Table, snapshot: Snapshot, shape: Shape) -> Index | None:
    """The newest earlier index under the same schema, if it can hold rows of the state."""
    numbers = (int(name) for name in table.store.folders(table.name.indexes) if name.isdecimal())
    for number in sorted((n for n in numbers if 0 < n < snapshot.head), reverse=True):
        if not snapshot.readable(number):
            continue  # its rows may be gone from the blocks, and nobody keeps it
        earlier = snapshot.at(number)
        if earlier.last_block < shape.survival.first_block:
            return None  # an activation has removed all of it since
        if not earlier.reads_like(snapshot):
            continue
        if (found := _sound(table, earlier)) is not None:
            return found
    return None


def _publish(table: Table, snapshot: Snapshot, made: Index) -> Index:
    """Write the marker; where another was sooner and theirs is good, take theirs."""
    key = table.name.index(snapshot.head) + names.INDEX_MARKER
    data = metadata.encode(made.marker)
    for _ in range(ATTEMPTS):
        try:
            table.store.put_if_absent(key, data)
            return made
        except KeyExistsError:
            pass
        if (theirs := _sound(table, snapshot)) is not None:
            return theirs
        try:
            table.store.replace(key, data, table.store.get(key).etag)
            return made
        except (KeyExistsError, KeyMissingError):
            continue
    return made  # others keep changing it; ours is on the store all the same
