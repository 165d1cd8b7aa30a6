"""SQL of the set that DuckDB answers as Spark does: a projection's rows without Java.

It gives what :class:`~singerlake.ops.publish.projected.Projected` gives. Where DuckDB cannot go on,
``OutsideError`` is raised, also when rows are computed: then Spark publishes instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from singerlake.engine.choice import EngineChoice
from singerlake.engine.local import LocalEngine, Parts
from singerlake.format.log import SchemaEntry
from singerlake.format.types import Columns
from singerlake.lake import Lake
from singerlake.lineage_events import Columns as Lineage
from singerlake.log.schema_difference import Comparison, plan
from singerlake.log.table_state import TableState
from singerlake.ops.create.answer_schema import schema_of_columns
from singerlake.ops.create.small_answer import SmallAnswer
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
from singerlake.publish.published import SourceState
from singerlake.rows.batches.row_columns import DELETED, MISFITS, alias
from singerlake.rows.batches.steps import Batches, Pipeline
from singerlake.rows.columns.differences import Mask, differ
from singerlake.rows.state.newest_of_blocks import NewestOfBlocks
from singerlake.rows.state.paired_rows import MISFIT, PairStep
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot import building
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.local.relation_rows import clock_type, clocks
from singerlake.sql.local.small_query import SmallQuery
from singerlake.sql.local.statement import NUMBER, Answered


class SimpleSql(SqlAnswer[Parts]):
    """A projection's SQL, its tables held at their states.

    Args:
        sql: One SELECT.
        choice: Says how much of the tables is too much.
        at: The version, by number or label, in which tables are read that the SQL names without
            one; their heads by default.

    Attributes:
        may_give_up: Whether some values, which nobody has seen yet, can put it outside of the set.

    Raises:
        OutsideError: It is outside of the set, or its tables are large.
        InvalidQueryError: It names a column that is not there.
        NotFoundError: It names a table or a version that is not there.
    """

    def __init__(
        self, lake: Lake, sql: str, choice: EngineChoice, *, at: str | None = None
    ) -> None:
        self.engine = LocalEngine()
        self._lake = lake
        self._query = SmallQuery(lake, sql, choice, at=at)
        self._statement, self._tables = self._query.statement, self._query.tables
        self._states = states_of(self._tables)
        self.sources: tuple[SourceState, ...] = tuple(self._states)
        self.may_give_up = self._statement.may_give_up

    def __enter__(self) -> SimpleSql:
        return self

    def close(self) -> None:  # noqa: D102
        self._query.close()

    @property
    def states(self) -> tuple[TableState, ...]:  # noqa: D102
        return tuple(self._states.values())

    @property
    def schema(self) -> pa.Schema:  # noqa: D102
        return self._statement.schema

    def lineage(self) -> Lineage:  # noqa: D102
        return self._query.lineage()

    def check_deterministic(self, what: str) -> None:
        """Nothing in the set depends on the moment."""

    def obstacle(self, since: Sequence[SourceState]) -> str | None:  # noqa: D102
        if (why := self._statement.obstacle) is not None:
            return f"the SQL cannot be applied row by row ({why})"
        snapshot = self.states[0]
        keyed = not snapshot.key or bool(self.key)
        head = self._tables.head(snapshot.table)
        return why_all(since, self.sources[0], snapshot, head, keyed=keyed)

    @cached_property
    def key(self) -> tuple[str, ...]:  # noqa: D102
        if self._statement.obstacle is not None:
            return ()
        named: dict[int, str] = {}
        for name, one in self._statement.items:
            if one.column is not None:
                named.setdefault(one.column[1], name)
        key = shape_of(self.states[0]).keys
        return tuple(named[place] for place in key) if named.keys() >= {*key} else ()

    def is_key(self, columns: Sequence[str]) -> bool:  # noqa: D102
        if self._statement.obstacle is not None:
            return False
        key = shape_of(self.states[0]).keys
        taken = {name: one.column for name, one in self._statement.items}
        found = {None if (place := taken[name]) is None else place[1] for name in columns}
        return bool(key) and found == {*key} and len(columns) == len(key)

    def table_schema(self, keys: Sequence[str]) -> SchemaEntry:  # noqa: D102
        types = tuple((name, one.type) for name, one in self._statement.items)
        return schema_of_columns(types, list(keys))

    def computed(self) -> SmallAnswer:  # noqa: D102
        return SmallAnswer(self._query)

    @property
    def _columns_of_table(self) -> list[int] | None:
        """The table's columns that the answer is made of, with all rows; None where it is not."""
        if self._statement.obstacle is not None or self._statement.filtered:
            return None
        taken = [one.column for _, one in self._statement.items]
        names = {name for name, _ in self._statement.items}
        if None in taken or len(names) < len(taken):
            return None
        return [place[1] for place in taken if place is not None]

    def count(self) -> int:  # noqa: D102
        return self.source().count()

    def source(self) -> RowSource[Parts]:  # noqa: D102
        columns = self._columns_of_table
        if columns is not None:
            snapshot = self.states[0]
            table = self._lake.table(snapshot.table)
            index = building.ensure_if_kept(self.engine, table, snapshot)
            if index is not None:
                return StateRows(self.engine, StateFiles.of(index, columns, self.schema))
        return ComputedRows(self.engine, [self._query.rows], self.schema)

    def fresh(self, since: Sequence[SourceState]) -> FreshRows | None:  # noqa: D102
        shape, table = shape_of(self.states[0]), self._lake.table(self.states[0].table)
        asked = partial(self._fresh, shape)
        answer = RowwiseAnswer(self.schema, self.key, self._columns_of_table, asked)
        return fresh_rows(self.engine, table, self._compared(since), shape, answer)

    def _compared(self, since: Sequence[SourceState]) -> Comparison:
        (then,), snapshot = since, self.states[0]
        head = self._tables.head(snapshot.table)
        return plan(head, f"@{then.transaction}", f"@{snapshot.number}")

    def _fresh(self, shape: Shape, newest: NewestOfBlocks) -> Sequence[Mapping[str, Any]]:
        keys = pa.schema([self.schema.field(name) for name in self.key])
        step = _FreshRows(_Rowwise(self._statement, shape.columns), shape, keys)
        tasks = self.engine.source(newest.reader.tasks)
        return self.engine.collect(self.engine.map(tasks, Pipeline((newest, step)), FOUND))

    def changed(self, since: Sequence[SourceState]) -> Changes[Parts]:  # noqa: D102
        compared, shape = self._compared(since), shape_of(self.states[0])
        table = self._lake.table(self.states[0].table)
        pairs = differing(self.engine, table, compared).pairs
        both = BothRows.of(self.engine, table, compared, pairs, self.states[0], shape)
        paired = PairStep(shape.columns, shape.keys, table.name, reads_misfits=False)
        step = _BothSides(_Rowwise(self._statement, shape.columns), keyed=bool(self.key))
        rows = both.paired(Pipeline((paired, step)), step.schema)
        return Changes(self.engine, rows, self.schema, self.key)


@dataclass
class _Rowwise:
    """Has DuckDB answer a rowwise statement of some rows.

    Attributes:
        columns: The table's.
    """

    statement: Answered
    columns: Columns

    @property
    def used(self) -> list[int]:
        """The indexes of the columns that it reads."""
        return self.statement.used[0]

    def rows(self, given: Sequence[pa.Array], numbers: pa.Array) -> tuple[pa.Table, pa.Array]:
        """Answer it.

        Args:
            given: The columns that it reads.
            numbers: The rows' numbers.

        Returns:
            Rows, and for each the number of the one that it was made of.
        """
        fields = [pa.field(alias(one), clock_type(self.columns[one][1])) for one in self.used]
        schema = pa.schema([*fields, pa.field(NUMBER, pa.int64())])

        def opened() -> tuple[pa.Schema, Batches]:
            return schema, clocks([[*given, numbers]], schema)

        asked = replace(self.statement, numbered=True)
        found = pa.Table.from_batches(asked.rows([opened]), asked.schema).combine_chunks()
        # By its place: a column of the answer may have the same name.
        numbered = found.column(found.num_columns - 1)
        return found.remove_column(found.num_columns - 1), numbered


@dataclass
class _FreshRows:
    """Packs the keys of rows, and what the SQL makes of those that are not deleted.

    Attributes:
        keys: What the columns of the key are called, and their types.
    """

    sql: _Rowwise
    shape: Shape
    keys: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            keys = [batch.column(name) for name in self.shape.key_aliases]
            if keys:
                named = pa.RecordBatch.from_arrays(keys, names=self.keys.names)
                yield from Side("keys", self.keys)(iter([named]))
            rows = batch.filter(pa.array(~np.asarray(batch.column(DELETED), bool)))
            self._check(rows)
            given = [rows.column(alias(one)) for one in self.sql.used]
            found, _ = self.sql.rows(given, pa.array(np.arange(rows.num_rows)))
            yield from Side("rows", found.schema)(iter(found.to_batches()))

    def _check(self, rows: pa.RecordBatch) -> None:
        """Leave values that do not fit to Spark, which says which ones they are."""
        for misfits in rows.column(MISFITS).drop_null().to_pylist():
            if any(index in self.sql.used for index, _ in misfits):
                raise OutsideError("values that do not fit their columns")


@dataclass
class _BothSides:
    """Takes what the SQL makes of both rows of pairs: the pairs in which that differs.

    Attributes:
        keyed: Whether a row of the answer has a key. If none has, each row is a pair of its own.
        schema: Of what it gives: structs of the answer's columns.
    """

    sql: _Rowwise
    keyed: bool

    @property
    def schema(self) -> pa.Schema:
        """Two structs of the answer's columns."""
        side = pa.struct([field.with_nullable(True) for field in self.sql.statement.schema])
        return pa.schema([(BEFORE, side), (AFTER, side)])

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            if batch.column(MISFIT).null_count < batch.num_rows:
                raise OutsideError("values that do not fit their columns")
            before, after = (self._side(batch.column(name)) for name in (BEFORE, AFTER))
            if self.keyed:
                both = pa.RecordBatch.from_arrays([before, after], schema=self.schema)
                yield both.filter(pa.array(_differ(before, after)))
                continue
            before, after = before.drop_null(), after.drop_null()
            for columns in (
                [before, pa.nulls(len(before), before.type)],
                [pa.nulls(len(after), after.type), after],
            ):
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _side(self, rows: pa.StructArray) -> pa.StructArray:
        """Answer the SQL of rows; null where a row is missing, or the answer leaves it out."""
        there = np.flatnonzero(np.asarray(rows.is_valid()))
        some = rows.take(pa.array(there)).flatten()
        found, numbers = self.sql.rows([some[one] for one in self.sql.used], pa.array(there))
        places = np.full(len(rows), -1)
        places[numbers.to_numpy()] = np.arange(len(found))
        wanted = pa.array(places, mask=places < 0)
        arrays = [column.combine_chunks().take(wanted) for column in found.columns]
        return pa.StructArray.from_arrays(
            arrays, fields=[*self.schema.field(0).type], mask=pa.array(places < 0)
        )


def _differ(before: pa.StructArray, after: pa.StructArray) -> Mask:
    """Tell which pairs have two rows that differ, or one row alone."""
    was, now = np.asarray(before.is_valid()), np.asarray(after.is_valid())
    found: Mask = was != now
    both = np.flatnonzero(was & now)
    some = pa.array(both)
    for old, new in zip(before.take(some).flatten(), after.take(some).flatten(), strict=True):
        found[both] |= differ(old, new)
    return found
