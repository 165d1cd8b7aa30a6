"""The index: a table's state at one transaction as Parquet, beside the lake's raw data.

A cache, and treated as one. Only the marker makes an index: it is written last, with
put-if-absent, and names the files. It is left aside and made again where it belongs to
another log (its commit id differs), is damaged, or names files that are missing or of
another size. Deleting the folder at any time loses nothing but time.

A later index starts from the newest earlier one under the same schema and reads only the
blocks since. Transactions that changed no row share the index of the one before them.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from singerlake.errors import DamagedError
from singerlake.format import metadata, names
from singerlake.format.metadata import IndexFile, IndexMarker
from singerlake.lake import Table
from singerlake.spark import candidates, frames, rows, state
from singerlake.spark.columns import arrow_type
from singerlake.spark.frames import Shape, shape_of
from singerlake.spark.parts import WRITTEN, PartReader, PartWriter
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
    """

    table: Table
    snapshot: Snapshot
    shape: Shape
    marker: IndexMarker

    @property
    def keys(self) -> list[str]:
        """Keys of its files on the store."""
        folder = self.table.name.index(self.marker.transaction)
        return [folder + file.path for file in self.marker.files]


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
    shape = shape_of(snapshot)
    marker = load(table, snapshot)
    return Index(table, snapshot, shape, marker or _build(spark, table, snapshot, shape, fresh))


def read(spark: SparkSession, index: Index) -> DataFrame:
    """An index's rows, columns under their own names."""
    return frames.renamed(read_inside(spark, index), index.shape)


def read_inside(spark: SparkSession, index: Index) -> DataFrame:
    """An index's rows by place, with where they lie in the blocks."""
    schema = frames.frame_schema(index.shape)
    files = index.marker.files
    if not files:
        return spark.createDataFrame([], schema)
    store = index.table.store
    if isinstance(store, LocalStore) and not _GLOB.search(store.uri):
        paths = [Path(store.root, key).as_posix() for key in index.keys]
        own = file_schema(index.shape)
        fields = [
            T.StructField(name, field.dataType)
            for name, field in zip(own.names, schema, strict=True)
        ]
        # Days of our calendar, also those before 1582.
        reader = spark.read.schema(T.StructType(fields)).option("datetimeRebaseMode", "CORRECTED")
        # A flipped bit in a cache must be an error, not another answer.
        reader = reader.option("parquet.page.verify-checksum.enabled", "true")
        return reader.parquet(*paths).toDF(*schema.names)
    part_reader = PartReader(store, index.keys)
    return spark.range(len(files), numPartitions=len(files)).mapInArrow(part_reader, schema)


def load(table: Table, snapshot: Snapshot) -> IndexMarker | None:
    """The marker of a snapshot's index; None where there is none that can be used."""
    folder = table.name.index(snapshot.head)
    try:
        data = table.store.get(folder + names.INDEX_MARKER).data
        marker = metadata.decode(data, IndexMarker, folder + names.INDEX_MARKER)
    except KeyMissingError:
        return None
    except DamagedError as error:
        logger.warning("%s; making the index anew", error)
        return None
    expected = (snapshot.head, snapshot.commit, snapshot.schema_hash)
    if (marker.transaction, marker.commit, marker.schema_hash) != expected:
        logger.info("the index %s belongs to another log; making it anew", folder)
        return None
    if any(not names.is_index_part(file.path) for file in marker.files):
        logger.warning("the index %s names files that are not its own; making it anew", folder)
        return None
    present = {item.key: item.size for item in table.store.list(folder)}
    if any(present.get(folder + file.path) != file.bytes for file in marker.files):
        logger.warning("files of the index %s are missing; making it anew", folder)
        return None
    return marker


def drop(table: Table, snapshot: Snapshot) -> None:
    """Delete a transaction's index, marker first, so that nobody trusts what is left of it."""
    folder = table.name.index(snapshot.settled().head)
    table.store.delete(folder + names.INDEX_MARKER)
    for item in list(table.store.list(folder)):
        table.store.delete(item.key)


def file_schema(shape: Shape) -> pa.Schema:
    """The schema of an index's files: the table's columns, then where each row lies.

    The latter are ``_block``, ``_ordinal`` and ``_singer_version``, with more underscores in
    front where the table has such a column itself, in any case.
    """
    taken = {name.casefold() for name in shape.names}
    own = [pa.field(name, arrow_type(type_)) for name, type_ in shape.columns]
    extra = []
    for field in rows.PROVENANCE[: len(frames.PROVENANCE)]:
        name = field.name
        while name in taken:
            name = f"_{name}"
        extra.append(field.with_name(name))
    return pa.schema([*own, *extra])


def _build(
    spark: SparkSession, table: Table, snapshot: Snapshot, shape: Shape, fresh: bool
) -> IndexMarker:
    folder = table.name.index(snapshot.head)
    base = None if fresh else _base(table, snapshot, shape)
    writer = PartWriter(table.store, folder, file_schema(shape))
    if base is None:
        parts = _from_blocks(spark, table, snapshot, writer)
    else:
        frame, size = _source(spark, table, snapshot, shape, base)
        parts = frames.fold_rows(frame, shape, size).mapInArrow(writer, WRITTEN)
    written = parts.collect()  # a few words a file come to the driver, never rows
    files = sorted((IndexFile(w["path"], w["rows"], w["bytes"]) for w in written), key=_path)
    marker = IndexMarker(
        transaction=snapshot.head,
        commit=snapshot.commit,
        schema_hash=snapshot.schema_hash,
        rows=sum(file.rows for file in files),
        files=files,
    )
    kept = _publish(table, snapshot, marker)
    for file in files:
        # Not by who the marker is: where a reply was lost, it is found there and is ours.
        if file not in kept.files:
            table.store.delete(folder + file.path)
    return kept


def _from_blocks(
    spark: SparkSession, table: Table, snapshot: Snapshot, writer: PartWriter
) -> DataFrame:
    plan = state.planned(spark, table, snapshot)
    if candidates.likely(snapshot, plan):
        return candidates.written(spark, plan, writer)
    return state.through(spark, plan, writer, WRITTEN)


def _path(file: IndexFile) -> str:
    return file.path


def _source(
    spark: SparkSession, table: Table, snapshot: Snapshot, shape: Shape, base: Index
) -> tuple[DataFrame, int]:
    """All rows that may be in the state, and about how many bytes they are."""
    blocks = snapshot.blocks_after(base.marker.transaction)
    size = sum(b.bytes for b in blocks) + 3 * sum(file.bytes for file in base.marker.files)
    later = frames.read_blocks(spark, table, snapshot, blocks, shape)
    return frames.unjudged(read_inside(spark, base)).unionAll(later), size


def _base(table: Table, snapshot: Snapshot, shape: Shape) -> Index | None:
    """The newest earlier index under the same schema, if it can hold rows of the state."""
    numbers = (int(name) for name in table.store.folders(table.name.indexes) if name.isdecimal())
    for number in sorted((n for n in numbers if 0 < n < snapshot.head), reverse=True):
        if not snapshot.readable(number):
            continue  # its rows may be gone from the blocks, and nobody keeps it
        earlier = snapshot.at(number)
        if earlier.last_block < shape.survival.first_block:
            return None  # an activation has removed all of it since
        if earlier.schema_hash != snapshot.schema_hash:
            continue
        if (marker := load(table, earlier)) is not None:
            return Index(table, earlier, shape, marker)
    return None


def _publish(table: Table, snapshot: Snapshot, marker: IndexMarker) -> IndexMarker:
    """Write the marker; where another was sooner and theirs is good, take theirs."""
    key = table.name.index(snapshot.head) + names.INDEX_MARKER
    data = metadata.encode(marker)
    for _ in range(ATTEMPTS):
        try:
            table.store.put_if_absent(key, data)
            return marker
        except KeyExistsError:
            pass
        if (theirs := load(table, snapshot)) is not None:
            return theirs
        try:
            table.store.replace(key, data, table.store.get(key).etag)
            return marker
        except (KeyExistsError, KeyMissingError):
            continue
    return marker  # others keep changing it; ours is on the store all the same
