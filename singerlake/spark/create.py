"""The create job: a query's rows as the first transaction of a new table.

The rows are computed once and kept on the executors' disks, so that a query that answers
differently each time is checked and written as one answer. Everything that the rows can be
refused for is found before the first lock. What was written is read back as the table that it
will be, and its fingerprint compared with the query's, before the one log entry makes it one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.errors import SingerlakeError, UsageError
from singerlake.format import names, times
from singerlake.format.block import MAX_ROWS
from singerlake.format.log import Block, Entry, SchemaEntry, decode_block
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.lake import Lake
from singerlake.maintenance import create as plans
from singerlake.spark.answer import Answer, Source
from singerlake.spark.columns import Columns, Kind, columns_of
from singerlake.spark.create_rows import LOOKED_AT, WRITTEN, RecordWriter, RowChecker, schema_of
from singerlake.spark.failures import plain_errors
from singerlake.spark.fingerprint import Content, Proof, Sums
from singerlake.spark.frames import spark_type
from singerlake.spark.freeze import state_content
from singerlake.spark.query import query
from singerlake.spark.session import cores
from singerlake.transactions.commit import new_writer_id
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.staging import FILE_BYTES
from singerlake.transactions.writer import (
    HeldLocks,
    WriteOptions,
    clean_up,
    hold_locks,
    update_checkpoint,
    update_lake,
)

logger = logging.getLogger(__name__)
PART_BYTES = 128 << 20
"""Bytes in memory that one task writes, about; smaller parts are put together."""
_WORTHWHILE = 4 << 20
"""Bytes below which another task makes more small files than it saves time."""


@dataclass(frozen=True)
class Created:
    """A table that was made.

    Attributes:
        table: Its name.
        transaction: Its first transaction, 1.
        rows: Rows in it.
        blocks: Blocks they lie in.
        fingerprint: Over their values, as a freeze would compute it.
        schema_hash: Its schema.
        key_properties: Its key.
        sources: What the query read.
    """

    table: TableName
    transaction: int
    rows: int
    blocks: int
    fingerprint: str
    schema_hash: str
    key_properties: list[str]
    sources: list[Source]


def create(
    spark: SparkSession,
    lake: Lake,
    name: str,
    sql: str,
    *,
    keys: tuple[str, ...] = (),
    options: WriteOptions | None = None,
) -> Created:
    """Make a table of a query's rows.

    Args:
        spark: The session.
        lake: The lake that is asked, and that gets the table.
        name: ``tap.stream``.
        sql: One SELECT.
        keys: Columns that are the new table's key.
        options: Locks, and what to keep with the transaction.

    Raises:
        UsageError: There is such a table already, or the key is no key of these rows.
        InvalidQueryError: It is no SELECT, or a column or value has no place in a lake.
        NotFoundError: It names a table that is not there.
        ConflictError: Somebody else made the table meanwhile.
    """
    table = plans.new_name(name)
    plans.check_new(lake.store, table)
    # Its leases are given up here: where the collector does it, Ctrl-C is lost in there.
    with query(spark, lake, sql) as answer, plain_errors():
        _check_key_names(keys, answer.columns)
        schema = schema_of(answer.frame.schema.fields, list(keys))
        return _Job(spark, lake, table, schema, sql, answer, options or WriteOptions()).run()


def _check_key_names(keys: tuple[str, ...], columns: list[str]) -> None:
    if len(set(keys)) < len(keys):
        raise UsageError(f"a key column is named twice: {', '.join(keys)}")
    if lacking := [key for key in keys if key not in columns]:
        raise UsageError(
            f"the query has no column {lacking[0]!r} to be the key: it has {', '.join(columns)}"
        )


class _Job:
    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        table: TableName,
        schema: SchemaEntry,
        sql: str,
        answer: Answer,
        options: WriteOptions,
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._table = table
        self._schema = schema
        self._hash = schema_hash(schema.schema, schema.key_properties)
        self._columns: Columns = columns_of(schema)
        self._sql = sql
        self._answer = answer
        self._options = options
        self._micros = times.micros(times.now())
        self._parts = 0
        self._files: set[str] = set()
        self._unknown = False
        own = [name for name, _ in self._columns]
        self._keys = [own.index(key) for key in schema.key_properties]
        for place in self._keys:
            if self._columns[place][1].kind in (Kind.STRUCT, Kind.LIST):
                raise UsageError(f"{own[place]!r} cannot be a key: it is {self._columns[place][1]}")

    def run(self) -> Created:
        frame = self._placed().persist(StorageLevel.DISK_ONLY)
        try:
            content, size = self._look_at(frame)
            self._check_unique(frame)
            return self._write(frame, content, size)
        finally:
            frame.unpersist()

    def _placed(self) -> DataFrame:
        """The answer with columns by place, in exactly the types of the table."""
        places = [f"c{place}" for place in range(len(self._columns))]
        return self._answer.frame.toDF(*places).select(
            *(
                F.col(place).cast(spark_type(type_)).alias(place)
                for place, (_, type_) in zip(places, self._columns, strict=True)
            )
        )

    def _look_at(self, frame: DataFrame) -> tuple[Content, int]:
        checker = RowChecker(self._columns, self._keys)
        # A few numbers a partition come back to the driver, never rows.
        parts = frame.mapInArrow(checker, LOOKED_AT).collect()
        self._parts = len(parts)
        rows = sum(part["rows"] for part in parts)
        for n, key in enumerate(self._schema.key_properties):
            if nulls := sum(part["nulls"][n] for part in parts):
                raise UsageError(f"{key!r} cannot be a key: it is null in {nulls} of {rows} rows")
        sums = Sums((Proof.VALUES,))
        for part in parts:
            sums.add(part.asDict())
        return sums.content(), sum(part["bytes"] for part in parts)

    def _check_unique(self, frame: DataFrame) -> None:
        if not self._keys:
            return
        keys = [f"c{place}" for place in self._keys]
        named = F.struct(*(F.col(k).alias(self._columns[int(k[1:])][0]) for k in keys))
        counted = frame.groupBy(named.alias("key")).agg(F.count(F.lit(1)).alias("n")).where("n > 1")
        found = counted.agg(
            F.count(F.lit(1)).alias("keys"),
            F.max("n").alias("most"),
            F.max_by(F.to_json("key"), "n").alias("example"),
        ).collect()[0]
        if found["keys"]:
            raise UsageError(
                f"{', '.join(self._schema.key_properties)} cannot be the key: {found['keys']} of "
                f"its values are there more than once, such as {found['example']} "
                f"{found['most']} times"
            )

    def _write(self, frame: DataFrame, content: Content, size: int) -> Created:
        store, table = self._lake.store, self._table
        writer_id = new_writer_id()
        with hold_locks(store, table, [self._hash], writer_id, self._options) as locks:
            plans.check_still_new(store, table)
            try:
                blocks = self._write_blocks(frame, size) if content.rows else []
                first = self._entry(blocks, writer_id)
                self._read_back(first, content)
                locks.check()
                done = plans.commit_create(store, table, first)
            except BaseException as error:
                self._clean_up(error, locks)
                raise
        update_checkpoint(store, done)
        update_lake(store, [done])
        return Created(
            table=table,
            transaction=done.head,
            rows=content.rows,
            blocks=len(blocks),
            fingerprint=content.fingerprint,
            schema_hash=self._hash,
            key_properties=self._schema.key_properties,
            sources=self._answer.sources,
        )

    def _write_blocks(self, frame: DataFrame, size: int) -> list[Block]:
        least = 2 * cores(self._spark)
        wanted = max(least if size >= least * _WORTHWHILE else 1, -(-size // PART_BYTES))
        if wanted < self._parts:
            # Spark puts together what lies near, not what is neighbours: the query's order,
            # which a table does not promise, is kept only where nothing is put together.
            frame, self._parts = frame.coalesce(wanted), wanted
        writer = RecordWriter(
            store=self._lake.store,
            table=self._table,
            columns=self._columns,
            schema=self._schema,
            schema_hash=self._hash,
            micros=self._micros,
            block_rows=MAX_ROWS,
            file_bytes=FILE_BYTES,
        )
        self._unknown = True
        # A description a block comes back to the driver, never rows.
        with plain_errors():
            rows = frame.mapInArrow(writer, WRITTEN).collect()
        self._unknown = False
        found = [(row["part"], decode_block(row["block"])) for row in rows]
        found.sort(key=lambda item: item[0])  # stable: a part's blocks come in order
        self._files = {block.file for _, block in found}
        return [block for _, block in found]

    def _entry(self, blocks: list[Block], writer_id: str) -> Entry:
        sources = [
            {"table": str(s.table), "version": s.version, "transaction": s.transaction}
            for s in self._answer.sources
        ]
        return plans.entry(
            self._table,
            self._hash,
            self._schema,
            blocks,
            writer_id=writer_id,
            metadata={**self._options.metadata, "query": self._sql, "sources": sources},
            metrics={"rows": sum(block.rows for block in blocks)},
        )

    def _read_back(self, first: Entry, content: Content) -> None:
        """Read what was written as the table that it will be."""
        after = Snapshot(self._table).applied([first])
        table = self._lake.table(self._table)
        found = state_content(self._spark, table, after, (Proof.VALUES,))
        if found != content:
            raise SingerlakeError(
                f"what was written of {self._table} does not read as what the query gave "
                f"({found.rows} rows, {content.rows} expected): nothing was committed. Parts of "
                "the query may have run twice with different results; run it again"
            )

    def _clean_up(self, error: BaseException, locks: HeldLocks) -> None:
        clean_up(error, locks, lambda: self._withdraw(locks))
        if self._unknown:
            # A task that Spark has given up may still be writing. Beside a lock that goes
            # stale, nobody takes its file for a table whose log was lost.
            locks.abandon()

    def _withdraw(self, locks: HeldLocks) -> None:
        store = self._lake.store
        for file in self._files:
            store.delete(self._table.data(file))
        if not self._unknown:
            return
        # The job failed and did not say what its tasks had written. Their times are known, and
        # while the lock is still held nobody else has written here.
        locks.check()
        stamps = (times.from_micros(self._micros + part) for part in range(self._parts))
        own = tuple(self._table.file_base(s, s) for s in map(times.compact, stamps))
        folder = f"{self._table.folder}{self._hash}/"
        for item in list(store.list(folder)):
            name = item.key[len(folder) :]
            if name.startswith(own) and names.is_data_file(name):
                store.delete(item.key)
