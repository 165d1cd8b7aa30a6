"""A projection's SQL over a lake: its whole answer, or what changed of it since an earlier one.

Where the SQL is rowwise over one table, only that table's rows that changed are read and go through
it. Whether that can be done is told from metadata and the SQL alone, before any row is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from singerlake.engine.spark.engine import SparkEngine, SparkRows
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.format.log import SchemaEntry
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.lineage_events import Columns
from singerlake.log.schema_difference import plan
from singerlake.log.table_state import TableState
from singerlake.ops.create.query_schema import schema_of
from singerlake.ops.create.spark_answer import SparkAnswer
from singerlake.ops.diff.both_rows import BothRows
from singerlake.ops.diff.pairs import differing
from singerlake.ops.publish.answer import SqlAnswer, states_of, why_all
from singerlake.ops.publish.fresh_rows import FOUND, FreshRows, RowwiseAnswer, Side, fresh_rows
from singerlake.ops.publish.write.changed_rows import AFTER, BEFORE, Changes
from singerlake.ops.publish.write.row_sources import (
    ComputedRows,
    RowSource,
    StateFiles,
    StateRows,
)
from singerlake.publish.positions import table_of
from singerlake.publish.published import SourceState
from singerlake.rows.batches.row_columns import DELETED, PROVENANCE
from singerlake.rows.state.newest_of_blocks import NewestOfBlocks
from singerlake.rows.state.rows_at import IS_AFTER
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.sql import row_weight, rowwise
from singerlake.sql.column_lineage import Origins
from singerlake.sql.queries.query import Views, parsed, planned
from singerlake.sql.result import QueryResult
from singerlake.sql.state import frames
from singerlake.sql.state.requested_rows import index_if_kept


@dataclass(frozen=True)
class SourceChanges:
    """The changes of a rowwise answer, because rows of its table changed.

    Both frames have the answer's columns, read by the table's later schema, and nothing else. Of a
    row of the table that changed, the one has what the SQL made of it then, the other what it makes
    of it now. A row that no longer meets the WHERE is in the first alone, one that does now in the
    second alone. Rows that are the same in both may be there, see :attr:`pairs`.

    Attributes:
        before: Rows of the answer that may be gone or replaced.
        after: Rows of the answer that may be new or replace others.
        key: The answer's columns that are the table's key, in its order: no two rows of a frame
            have the same, and none is null. Empty where the table has no key, or the answer
            lacks some of it: then a row is known by being there, and nothing tells which row
            of one frame became which of the other.
    """

    before: DataFrame
    after: DataFrame
    key: tuple[str, ...]

    @property
    def pairs(self) -> DataFrame:
        """Each row of the answer that differs, once: structs ``before`` and ``after``.

        One of them is null where the row is not in that answer, as both never are. Without a key
        one always is.
        """
        before, after = (
            frame.select(F.struct("*").alias(side))
            for side, frame in ((BEFORE, self.before), (AFTER, self.after))
        )
        if not self.key:
            nothing = F.lit(None)
            one = before.withColumn(AFTER, nothing.cast(before.schema[BEFORE].dataType))
            other = after.select(nothing.cast(after.schema[AFTER].dataType).alias(BEFORE), AFTER)
            return one.unionByName(other)
        same_row = reduce(and_, (F.col(BEFORE)[k] == F.col(AFTER)[k] for k in self.key))
        both = before.join(after, same_row, "full_outer")
        return both.where(~F.col(BEFORE).eqNullSafe(F.col(AFTER)))


class Projected(SqlAnswer[SparkRows]):
    """A projection's SQL, parsed and analysed, its tables held at their states.

    While it is held, no vacuum deletes what it reads; to be used as a context.

    Args:
        sql: One SELECT.
        at: The version, by number or label, in which tables are read that the SQL names without
            one; their heads by default.

    Attributes:
        sources: The states of the tables that it reads.
        fields: The answer's columns, as Spark has them.
        origins: Where they come from.

    Raises:
        InvalidQueryError: It is no SELECT, or names a column that is not there.
        NotFoundError: It names a table or a version that is not there.
    """

    def __init__(self, spark: SparkSession, lake: Lake, sql: str, *, at: str | None = None) -> None:
        self._spark = spark
        self.engine = SparkEngine(spark)
        self._lake = lake
        self._kept: list[DataFrame] = []
        with plain_errors():
            own, self._text, self._relations = parsed(spark, sql)
        self._views = Views(spark=spark, own=own, lake=lake)
        try:
            with plain_errors():
                self._turn_to(at)
                views = self._views.over(self._no_rows)
                probe = planned(self._text, self._relations, views)
                tables = {name: views.states[key] for key, name in views.names.items()}
                self.origins = Origins(probe, tables)
                self._analyzed = probe._jdf.queryExecution().analyzed()
                self.fields: list[T.StructField] = probe.schema.fields
                self._obstacle = rowwise.obstacle(self._analyzed)
        except BaseException:
            self.close()
            raise
        self._states = states_of(self._views)
        self.sources: tuple[SourceState, ...] = tuple(self._states)

    @property
    def states(self) -> tuple[TableState, ...]:  # noqa: D102
        return tuple(self._states.values())

    def _turn_to(self, at: str | None) -> None:
        """Have tables read in a version of which the SQL names none."""
        for one in self._relations if at is not None else ():
            if len(one.parts) > 1 and one.version is None and one.timestamp is None:
                self._views.turn_to(one.parts, str(at))

    def __enter__(self) -> Projected:
        return self

    def close(self) -> None:  # noqa: D102
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()
        self._views.release()

    def lineage(self) -> Columns:  # noqa: D102
        return self.origins.columns()

    def check_deterministic(self, what: str) -> None:  # noqa: D102
        rowwise.check_deterministic(self._analyzed, what)

    @property
    def key(self) -> tuple[str, ...]:  # noqa: D102
        named: dict[str | None, str] = {}
        for name, origin in self._origins.items():
            named.setdefault(origin, name)
        key = self._key_of_source
        return tuple(named[one] for one in key) if named.keys() >= {*key} else ()

    def is_key(self, columns: Sequence[str]) -> bool:  # noqa: D102
        key = self._key_of_source
        found = {self._origins.get(name) for name in columns}
        return bool(key) and found == {*key} and len(columns) == len(key)

    @property
    def _key_of_source(self) -> Sequence[str]:
        return self.states[0].schema.key_properties if self._obstacle is None else ()

    @cached_property
    def _origins(self) -> dict[str, str | None]:
        """The table's columns that a rowwise query's are, by the names that it gives them."""
        if self._obstacle is not None:
            return {}
        names = (field.name for field in self.fields)
        return dict(zip(names, rowwise.origins(self._analyzed), strict=True))

    def obstacle(self, since: Sequence[SourceState]) -> str | None:  # noqa: D102
        if self._obstacle is not None:
            return f"the SQL cannot be applied row by row ({self._obstacle})"
        now, snapshot = next(iter(self._states.items()))
        keyed = not snapshot.key or bool(self.key)
        return why_all(since, now, snapshot, self._views.head(snapshot.table), keyed=keyed)

    def changes(self, since: Sequence[SourceState]) -> SourceChanges:
        """Find what changed of the answer since some states; rows are read when they are taken.

        Args:
            since: The states; :meth:`obstacle` gave None for them.

        Raises:
            DamagedError: A block that is needed cannot be read.
        """
        (then,), snapshot = since, next(iter(self._states.values()))
        table, own = self._lake.table(table_of(then)), self._views.own
        head, shape = self._views.head(table.name), shape_of(snapshot)
        compared = plan(head, f"@{then.transaction}", f"@{snapshot.number}")
        with plain_errors():
            engine = SparkEngine(own)
            pairs = differing(engine, table, compared).pairs
            both = BothRows.of(engine, table, compared, pairs, snapshot, shape)
            read = both.rows().frame
            self._kept.append(read.persist(StorageLevel.DISK_ONLY))
            rows = frames.guarded(read, shape, table.name, range(len(shape.columns)))
            before, after = (
                self._answer(frames.renamed(rows.where(side), shape))
                for side in (~F.col(IS_AFTER), F.col(IS_AFTER))
            )
        return SourceChanges(before, after, self.key)

    def changed(self, since: Sequence[SourceState]) -> Changes[SparkRows]:  # noqa: D102
        found = self.changes(since)
        return Changes(self.engine, SparkRows(found.pairs), self.schema, found.key)

    def fresh(self, since: Sequence[SourceState]) -> FreshRows | None:  # noqa: D102
        (then,), snapshot = since, next(iter(self._states.values()))
        table, head = self._lake.table(table_of(then)), self._views.head(snapshot.table)
        asked = partial(self._fresh, shape_of(snapshot))
        answer = RowwiseAnswer(self.schema, self.key, self._columns_of_table, asked)
        compared = plan(head, f"@{then.transaction}", f"@{snapshot.number}")
        own = SparkEngine(self._views.own)
        return fresh_rows(own, table, compared, shape_of(snapshot), answer)

    def _fresh(self, shape: Shape, newest: NewestOfBlocks) -> Sequence[Mapping[str, Any]]:
        """Ask the SQL of the newest rows of some blocks."""
        own, name = self._views.own, newest.reader.table
        keys = pa.schema([self.schema.field(one) for one in self.key])
        with plain_errors():
            schema = frames.frame_schema(shape.columns, (*PROVENANCE, DELETED))
            every = frames.numbered(own, 1).mapInArrow(newest, schema)
            stays = every.where(~F.col(DELETED))
            read = frames.guarded(stays, shape, name, range(len(shape.columns)))
            rows = self._answer(frames.renamed(read, shape))
            found = rows.mapInArrow(Side("rows", self.schema), FOUND)
            if shape.keys:
                of_key = every.select(*shape.key_aliases).toDF(*self.key)
                found = found.unionAll(of_key.mapInArrow(Side("keys", keys), FOUND))
            return [row.asDict() for row in found.collect()]

    def rows(self) -> QueryResult:
        """Give the whole answer. Indexes of its tables are made, where there are none."""
        with plain_errors():
            frame = row_weight.limited(planned(self._text, self._relations, self._views))
        read = self._views.sources.values()
        sources = [replace(s, version=s.version or self._views.turned.get(s.table)) for s in read]
        return QueryResult(frame, sources)

    def table_schema(self, keys: Sequence[str]) -> SchemaEntry:  # noqa: D102
        return schema_of(self.fields, list(keys))

    @contextmanager
    def computed(self) -> Iterator[SparkAnswer]:  # noqa: D102
        with self.rows() as result:
            yield SparkAnswer(SparkEngine(self._spark), result)

    def count(self) -> int:  # noqa: D102
        with plain_errors():
            return self.rows().frame.count()

    def source(self) -> RowSource[SparkRows]:
        """Give the whole answer to be written: where it is columns of one table, past Spark's SQL.

        Indexes of its tables are made, where there are none.
        """
        columns = self._columns_of_table
        if columns is not None:
            snapshot = self.states[0]
            with plain_errors():
                table = self._lake.table(snapshot.table)
                index = index_if_kept(self._spark, table, snapshot)
            if index is not None:
                return StateRows(self.engine, StateFiles.of(index, columns, self.schema))
        rows = SparkRows(self.rows().frame)
        return ComputedRows(self.engine, rows, self.schema, part=task_number)

    @property
    def schema(self) -> pa.Schema:  # noqa: D102
        return to_arrow_schema(T.StructType(self.fields), timezone="UTC")

    @property
    def _columns_of_table(self) -> list[int] | None:
        """The table's columns that the answer is made of, with all rows; None where it is not."""
        if self._obstacle is not None or not rowwise.takes_all_rows(self._analyzed):
            return None
        if None in (taken := list(self._origins.values())) or len(taken) < len(self.fields):
            return None
        places = {name: index for index, name in enumerate(shape_of(self.states[0]).names)}
        return [places[str(name)] for name in taken]

    def _answer(self, rows: DataFrame) -> DataFrame:
        """Return what the SQL makes of some rows of its one table."""
        views = self._views.over(lambda *_: rows)
        return row_weight.limited(planned(self._text, self._relations, views))

    def _no_rows(self, _: TableName, snapshot: TableState) -> DataFrame:
        shape = shape_of(snapshot)
        empty = self._views.own.createDataFrame([], frames.frame_schema(shape.columns, ()))
        return frames.renamed(empty, shape)


def task_number() -> int:
    """Return the number of the part that a step of Spark's is called with."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
