"""Columns of a table as they are, read on any engine: what most projections publish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.engine.base import Engine, R
from singerlake.engine.work import Work
from singerlake.errors import ConflictError, DamagedError, SingerlakeError
from singerlake.format.sql_tables import find
from singerlake.lake import Lake, Table
from singerlake.lineage_events import Columns
from singerlake.log.schema_difference import plan
from singerlake.log.table_state import TableState
from singerlake.ops.diff.both_rows import BothRows
from singerlake.ops.diff.pairs import differing
from singerlake.ops.publish.answer import Answer, why_all
from singerlake.ops.publish.fresh_rows import FreshRows, RowwiseAnswer, fresh_rows
from singerlake.ops.publish.write.changed_rows import AFTER, BEFORE, Changes
from singerlake.ops.publish.write.row_sources import (
    ComputedRows,
    RowSource,
    StateFiles,
    StateRows,
    renamed,
)
from singerlake.publish.plain_query import PlainQuery, plain_query
from singerlake.publish.positions import state_of
from singerlake.publish.published import SourceState
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.batches.steps import Batches, Pipeline
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.state.misfit_steps import MisfitCheck
from singerlake.rows.state.paired_rows import ADDED, CHANGE, MISFIT, NAMES, REMOVED, PairStep
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import building, content, from_blocks


@dataclass(frozen=True)
class Wanted:
    """What a plain query takes of a lake.

    Attributes:
        table: The table.
        query: The query.
        version: The version that its name ends with.
        at: The version in which the table is read if the query names none.
        seen: The table as it was a moment ago.
    """

    table: Table
    query: PlainQuery
    version: str | None
    at: str | None
    seen: TableState

    def state(self, head: TableState) -> tuple[SourceState, TableState]:
        """Return the state that is read, for a position and as it is.

        Raises:
            NotFoundError: There is no such version.
        """
        named = self.version or self.query.table.version
        if self.query.table.timestamp is not None:
            snapshot = head.at_time(self.query.table.timestamp)
            return state_of(snapshot), snapshot
        if named is None and self.at is None:
            return state_of(head), head
        frozen, snapshot = head.named(str(named or self.at))
        if named is None:
            snapshot = head.at(snapshot.number)  # its rows as the head reads them
        return state_of(snapshot, None if frozen is None else frozen.number), snapshot

    def columns(self, snapshot: TableState) -> dict[str, int] | None:
        """Return the places of columns by the names that they get; None if one is not there.

        Names that are given twice are left out.
        """
        names = shape_of(snapshot).names
        if self.query.columns is None:
            return {name: place for place, name in enumerate(names)}
        places = {name: place for place, name in enumerate(names)}
        taken = {other: places.get(name, -1) for name, other in self.query.columns}
        whole = len(taken) == len(self.query.columns) and min(taken.values()) >= 0
        return taken if whole else None

    def work(self) -> Work:
        """Estimate the reading of the state."""
        _, snapshot = self.state(self.seen)
        return from_blocks.reading(snapshot)


def wanted(lake: Lake, sql: str, at: str | None = None) -> Wanted | None:
    """Find what a query takes of a lake; None if only SQL can tell.

    Args:
        lake: The lake.
        sql: The query.
        at: The version in which the table is read if the query names none.
    """
    query = plain_query(sql)
    if query is None:
        return None
    try:
        name, version = find(query.table.parts, lake.tables())
        if version is not None and (query.table.version or query.table.timestamp):
            return None
        table = lake.table(name)
        one = Wanted(table, query, version, at, table.snapshot())
        _, snapshot = one.state(one.seen)
    except SingerlakeError:
        return None  # whoever reads it says why
    return None if one.columns(snapshot) is None else one


class TableColumns(Answer[R]):
    """Columns of a table's rows.

    Args:
        engine: Reads them.
        asked: Which.

    Raises:
        NotFoundError: There is no such table or version.
        ConflictError: The table got other columns meanwhile.
    """

    def __init__(self, engine: Engine[R], asked: Wanted) -> None:
        self.engine = engine
        self._table = asked.table
        self._lease = asked.table.lease().acquire()
        try:
            self._head = self._lease.snapshot
            state, self._snapshot = asked.state(self._head)
            columns = asked.columns(self._snapshot)
            if columns is None:
                raise ConflictError(
                    f"the columns of {self._table.name} were changed in the meantime: run it again"
                )
            self._columns = columns
        except BaseException:
            self.close()
            raise
        self.sources = (state,)

    def close(self) -> None:  # noqa: D102
        self._lease.release()

    @property
    def states(self) -> tuple[TableState, ...]:  # noqa: D102
        return (self._snapshot,)

    @cached_property
    def schema(self) -> pa.Schema:  # noqa: D102
        own = shape_of(self._snapshot).columns
        return pa.schema([(name, arrow_type(own[at][1])) for name, at in self._columns.items()])

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The answer's columns that are the table's key; empty if it lacks one of them."""
        names = {place: name for name, place in reversed(self._columns.items())}
        key = shape_of(self._snapshot).keys
        return tuple(names[place] for place in key) if names.keys() >= {*key} else ()

    def lineage(self) -> Columns:  # noqa: D102
        names = shape_of(self._snapshot).names
        return {name: [(self._table.name, names[at])] for name, at in self._columns.items()}

    def check_deterministic(self, what: str) -> None:
        """Columns are what they are."""

    def obstacle(self, since: Sequence[SourceState]) -> str | None:  # noqa: D102
        keyed = not self._snapshot.key or bool(self.key)
        return why_all(since, self.sources[0], self._snapshot, self._head, keyed=keyed)

    def count(self) -> int:  # noqa: D102
        index = building.ensure_if_kept(self.engine, self._table, self._snapshot)
        if index is None:
            return self._of_blocks().count()
        return index.marker.rows or content.count_rows(self.engine, index)

    def source(self) -> RowSource[R]:  # noqa: D102
        index = building.ensure_if_kept(self.engine, self._table, self._snapshot)
        if index is None:
            return self._of_blocks()
        files = StateFiles.of(index, [*self._columns.values()], self.schema)
        return StateRows(self.engine, files)

    def _of_blocks(self) -> RowSource[R]:
        places, shape = [*self._columns.values()], shape_of(self._snapshot)
        plan = from_blocks.planned(self.engine, self._table, self._snapshot)
        check = MisfitCheck(
            self._table.name, shape.names, keyed=bool(shape.keys), columns=frozenset(places)
        )
        step = Pipeline((check, _Columns(places, self.schema)))
        rows = from_blocks.through(self.engine, plan, step, self.schema)
        return ComputedRows(self.engine, rows, self.schema)

    def fresh(self, since: Sequence[SourceState]) -> FreshRows | None:  # noqa: D102
        (then,) = since
        compared = plan(self._head, f"@{then.transaction}", f"@{self._snapshot.number}")
        answer = RowwiseAnswer(self.schema, self.key, [*self._columns.values()])
        shape = shape_of(self._snapshot)
        return fresh_rows(self.engine, self._table, compared, shape, answer)

    def changed(self, since: Sequence[SourceState]) -> Changes[R]:  # noqa: D102
        (then,) = since
        compared = plan(self._head, f"@{then.transaction}", f"@{self._snapshot.number}")
        shape = shape_of(self._snapshot)
        pairs = differing(self.engine, self._table, compared).pairs
        both = BothRows.of(self.engine, self._table, compared, pairs, self._snapshot, shape)
        side = pa.struct(list(self.schema))
        schema = pa.schema([(BEFORE, side), (AFTER, side)])
        paired = PairStep(shape.columns, shape.keys, self._table.name, reads_misfits=False)
        names = [shape.names[place] for place in self._columns.values()]
        step = Pipeline((paired, _Sides([*self._columns.values()], names, schema)))
        return Changes(self.engine, both.paired(step, schema), self.schema, self.key)


@dataclass
class _Columns:
    """Takes columns, under the names of a schema.

    Attributes:
        places: The columns.
        schema: What they are called, and their types.
    """

    places: Sequence[int]
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        names = [alias(place) for place in self.places]
        return (renamed(batch.select(names), self.schema) for batch in batches)


@dataclass
class _Sides:
    """Takes columns of both rows of the pairs that differ in one of them.

    Attributes:
        places: The columns.
        names: What they are called in the table.
        schema: Of what it gives: structs of the columns.
    """

    places: Sequence[int]
    names: Sequence[str]
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            for misfit in batch.column(MISFIT).drop_null():
                raise DamagedError(misfit.as_py())
            rows = batch.filter(pa.array(self._differ(batch)))
            sides = [self._side(rows.column(name)) for name in (BEFORE, AFTER)]
            yield pa.RecordBatch.from_arrays(sides, schema=self.schema)

    def _differ(self, batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        lone = pc.is_in(batch.column(CHANGE), pa.array([ADDED, REMOVED]))
        found = np.array(lone, dtype=bool)
        names = batch.column(NAMES)
        own = np.asarray(pc.is_in(names.flatten(), pa.array([*self.names], pa.string())))
        found[np.asarray(pc.list_parent_indices(names))[own]] = True
        return found

    def _side(self, rows: pa.StructArray) -> pa.StructArray:
        arrays = [rows.field(place) for place in self.places]
        fields = [*self.schema.field(0).type]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=rows.is_null())
