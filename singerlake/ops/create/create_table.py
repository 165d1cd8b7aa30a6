"""The create job: a query's rows as the first transaction of a new table.

The rows are computed once and kept on the executors' disks, so that a query that answers
differently each time is checked and written as one answer. Everything that the rows can be
refused for is checked before the first lock. What was written is read back as the table that it
will be, and its fingerprint compared with the query's, before the one log entry makes it one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.engine.spark.engine import SparkEngine, SparkRows
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.engine.spark.jvm.session import cores
from singerlake.errors import SingerlakeError, UsageError
from singerlake.format.block import MAX_ROWS
from singerlake.format.log import Block, Entry, FrozenVersion, SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.format.types import Columns, Kind, columns_of
from singerlake.lake import Lake, Table
from singerlake.lineage import Told, told
from singerlake.log.commit import current_user, preview
from singerlake.log.snapshot import Snapshot
from singerlake.log.staging import FILE_BYTES
from singerlake.nearest import offer
from singerlake.ops.change.plan import ChangeOptions, check_words, with_version
from singerlake.ops.change.version import Freezing
from singerlake.ops.create import create as plans
from singerlake.ops.create.first_blocks import FirstBlocks, in_order
from singerlake.ops.create.query_records import CHECKED, PartitionWriter, RowChecker
from singerlake.ops.create.query_schema import schema_of
from singerlake.ops.create.record_writer import WRITTEN
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.state.fingerprint import Content, Proof, Sums
from singerlake.sql.queries.query import query
from singerlake.sql.result import QueryResult, Source
from singerlake.sql.state.content import state_content
from singerlake.sql.state.frames import cast_to

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
        transaction: Its first transaction: 1, unless a table of its name was dropped before; None
            where it was only asked.
        rows: Rows in it.
        blocks: Blocks they lie in.
        fingerprint: Over their values, as a freeze would compute it.
        schema_hash: Its schema.
        key_properties: Its key.
        sources: What the query read.
        columns: Its columns.
        version: The version of it, where one was asked for.
    """

    table: TableName
    transaction: int | None
    rows: int
    blocks: int
    fingerprint: str
    schema_hash: str
    key_properties: list[str]
    sources: list[Source]
    columns: Columns = ()
    version: FrozenVersion | None = None


def create(
    spark: SparkSession,
    lake: Lake,
    name: str,
    sql: str,
    *,
    keys: tuple[str, ...] = (),
    options: ChangeOptions | None = None,
) -> Created:
    """Make a table of a query's rows.

    Args:
        spark: The session.
        lake: The lake that is asked, and that gets the table.
        name: ``tap.stream``.
        sql: One SELECT.
        keys: Columns that are the new table's key.
        options: How; ``etag`` and ``overwrite`` mean nothing here.

    Raises:
        UsageError: There is such a table already, the key is no key of these rows, or what is to
            be kept with the transaction cannot be.
        InvalidQueryError: It is no SELECT, or a column or value has no place in a lake.
        NotFoundError: It names a table that is not there.
        ConflictError: Somebody else made the table meanwhile.
    """
    table = plans.new_name(name)
    plans.check_new(lake.store, table)
    # Its leases are given up here: where the collector does it, Ctrl-C is lost in there.
    with query(spark, lake, sql) as result:
        return create_of(spark, lake, table, sql, result, keys=keys, options=options)


def create_of(
    spark: SparkSession,
    lake: Lake,
    table: TableName,
    sql: str,
    result: QueryResult,
    *,
    keys: tuple[str, ...] = (),
    options: ChangeOptions | None = None,
) -> Created:
    """Make a table of what a query gave; arguments and errors are those of :func:`create`."""
    options = options or ChangeOptions()
    check_words(options)
    made = lake.table(table)
    with told(made, "create", active=not options.dry_run) as telling, plain_errors():
        check_key_names(keys, result.columns)
        schema = schema_of(result.frame.schema.fields, list(keys))
        done = _Job(spark, lake, table, schema, sql, result, options).run()
        _tell(telling, made, result, done)
        return done


def _tell(telling: Told, made: Table, result: QueryResult, done: Created) -> None:
    """Tell what the query read, and where its columns come from."""
    origins = result.origins
    for state in origins.tables.values() if origins is not None else ():
        telling.read(state)
    columns = None if origins is None else origins.columns
    telling.wrote(made.snapshot, rows=done.rows, version=done.version, columns=columns)


def check_key_names(keys: tuple[str, ...], columns: list[str]) -> None:
    """Make sure that a query has the columns that are to be a key.

    Raises:
        UsageError: It lacks one, or one is named twice.
    """
    if len(set(keys)) < len(keys):
        raise UsageError(f"a key column is named twice: {', '.join(keys)}")
    if lacking := [key for key in keys if key not in columns]:
        raise UsageError(
            f"the query has no column {lacking[0]!r} to be the key: {offer(lacking[0], columns)}"
        )


class _Job:
    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        table: TableName,
        schema: SchemaEntry,
        sql: str,
        result: QueryResult,
        options: ChangeOptions,
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._table = table
        self._schema = schema
        self._hash = schema_hash(schema.schema, schema.key_properties)
        self._columns: Columns = columns_of(schema)
        self._sql = sql
        self._result = result
        self._options = options
        self._parts = 0
        names = [name for name, _ in self._columns]
        self._keys = [names.index(key) for key in schema.key_properties]
        for name, type_ in (self._columns[index] for index in self._keys):
            if type_.kind in (Kind.STRUCT, Kind.LIST):
                raise UsageError(f"{name!r} cannot be a key: it is {type_}")

    def run(self) -> Created:
        frame = self._rows().persist(StorageLevel.DISK_ONLY)
        try:
            content, size = self._checked(frame)
            self._check_unique(frame)
            return self._write(frame, content, size)
        finally:
            frame.unpersist()

    def _rows(self) -> DataFrame:
        """The query's rows in exactly the types of the table, as they are called inside."""
        return cast_to(self._result.frame, self._columns)

    def _checked(self, frame: DataFrame) -> tuple[Content, int]:
        checker = RowChecker(self._columns, self._keys)
        # A few numbers a partition come back to the driver, never rows.
        parts = frame.mapInArrow(checker, CHECKED).collect()
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
        named = F.struct(*(F.col(alias(i)).alias(self._columns[i][0]) for i in self._keys))
        counted = frame.groupBy(named.alias("key")).agg(F.count(F.lit(1)).alias("n")).where("n > 1")
        repeated = counted.agg(
            F.count(F.lit(1)).alias("keys"),
            F.max("n").alias("most"),
            F.max_by(F.to_json("key"), "n").alias("example"),
        ).collect()[0]
        if repeated["keys"]:
            raise UsageError(
                f"{', '.join(self._schema.key_properties)} cannot be the key: {repeated['keys']} "
                f"of its values are there more than once, such as {repeated['example']} "
                f"{repeated['most']} times"
            )

    def _write(self, frame: DataFrame, content: Content, size: int) -> Created:
        if self._options.dry_run:
            return self._created(content, None)
        blocks = FirstBlocks(
            SparkEngine(self._spark), self._lake, self._table, self._hash, self._options.writing
        )
        done = blocks.commit(
            lambda: self._write_blocks(blocks, frame, size) if content.rows else [],
            self._entry,
            lambda first: self._with_version(self._read_back(first, content)),
        )
        return self._created(content, done)

    def _created(self, content: Content, done: Snapshot | None) -> Created:
        return Created(
            table=self._table,
            transaction=None if done is None else done.number,
            rows=content.rows,
            blocks=0 if done is None else done.transactions[-1].blocks,
            fingerprint=content.fingerprint,
            schema_hash=self._hash,
            key_properties=self._schema.key_properties,
            sources=self._result.sources,
            columns=self._columns,
            version=done.frozen[-1] if done is not None and done.frozen else None,
        )

    def _with_version(self, first: Entry) -> Entry:
        if not self._options.new_version:
            return first
        table = self._lake.table(self._table)
        version, lanes = Freezing(SparkEngine(self._spark), table, self._options)(
            Snapshot(self._table), first
        )
        return with_version(first, version, lanes)

    def _write_blocks(self, blocks: FirstBlocks, frame: DataFrame, size: int) -> list[Block]:
        least = 2 * cores(self._spark)
        wanted = max(least if size >= least * _WORTHWHILE else 1, -(-size // PART_BYTES))
        if wanted < self._parts:
            # Spark puts together what lies near, not what is neighbours: the query's order,
            # which a table does not promise, is kept only where nothing is put together.
            frame, self._parts = frame.coalesce(wanted), wanted
        writer = PartitionWriter(
            store=self._lake.store,
            table=self._table,
            columns=self._columns,
            schema=self._schema,
            schema_hash=self._hash,
            micros=blocks.micros,
            block_rows=MAX_ROWS,
            file_bytes=FILE_BYTES,
        )
        return in_order(
            blocks.collect(blocks.engine.map(SparkRows(frame), writer, WRITTEN), self._parts)
        )

    def _entry(self, blocks: list[Block], writer_id: str) -> Entry:
        sources = [
            {
                "table": str(s.table),
                "version": s.version,
                "transaction": s.transaction,
                "commit": s.commit,
                **({"erased": s.erased} if s.erased else {}),
            }
            for s in self._result.sources
        ]
        comment = self._options.comment
        said = {} if comment is None else {"comment": comment}
        return plans.draft(
            self._table,
            self._hash,
            self._schema,
            blocks,
            writer_id=writer_id,
            metadata={
                **self._options.metadata,
                **said,
                "by": current_user(),
                "query": self._sql,
                "sources": sources,
            },
            metrics={"rows": sum(block.rows for block in blocks)},
        )

    def _read_back(self, first: Entry, content: Content) -> Entry:
        """Read what was written as the table that it will be."""
        after = preview(Snapshot(self._table), first)
        table = self._lake.table(self._table)
        written = state_content(self._spark, table, after, (Proof.VALUES,))
        if written != content:
            raise SingerlakeError(
                f"what was written of {self._table} does not read as what the query gave "
                f"({written.rows} rows, {content.rows} expected): nothing was committed. Parts of "
                "the query may have run twice with different results; run it again"
            )
        return first
