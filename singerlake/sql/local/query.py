"""Answers to statements of the set in this process, or the reason that one is outside of it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.engine.local import LocalEngine
from singerlake.errors import UsageError
from singerlake.format.lake_log import LakeVersion
from singerlake.format.names import TableName
from singerlake.format.sql_tables import find
from singerlake.format.types import Columns
from singerlake.lake import Lake
from singerlake.log.lease import ReaderLease
from singerlake.log.table_state import TableState
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks.misfits import FAIL
from singerlake.snapshot import building, index
from singerlake.snapshot.from_blocks import reading
from singerlake.snapshot.index import Index
from singerlake.snapshot.result import LocalResult
from singerlake.sql.local import duck
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.local.relation_rows import RelationRows, columns_of
from singerlake.sql.local.statement import Answered, answered
from singerlake.sql.tables import Relation, Source, Tables

MATERIALIZED_BYTES = 1 << 30
"""Bytes of Parquet that one process reads while people wait."""


@dataclass(frozen=True)
class LocalQueryResult(LocalResult):
    """The rows of a statement, which this process computes; see ``QueryResult``, of Spark's.

    Attributes:
        unrepeatable: What of the statement may give other rows when it is run again; None if
            nothing does.
        leases: Keep vacuums off its files, until :meth:`close` or until the result is
            garbage.
    """

    sources: Sequence[Source] = ()
    unrepeatable: str | None = None
    leases: list[ReaderLease] = field(default_factory=list)

    def __post_init__(self) -> None:
        weakref.finalize(self, _release, self.leases)

    def __enter__(self) -> LocalQueryResult:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the leases up: nothing more is read. May be called again."""
        _release(self.leases)


def query(
    lake: Lake,
    sql: str,
    choice: EngineChoice,
    *,
    row_metadata: bool = False,
    if_transaction: Mapping[str, int] | None = None,
    on_type_mismatch: str = FAIL,
    lake_version: LakeVersion | None = None,
    heads: Mapping[TableName, int] | None = None,
) -> LocalQueryResult:
    """Answer a statement without Spark. Arguments are those of Spark's ``query``.

    Args:
        sql: One SELECT.
        choice: Says how much of a table is too much.
        row_metadata: As for Spark's ``query``.
        if_transaction: As for Spark's ``query``.
        on_type_mismatch: As for Spark's ``query``.
        lake_version: As for Spark's ``query``.
        heads: As for Spark's ``query``.

    Raises:
        OutsideError: It is outside of the set, or a table is too large.
        ConflictError: A table is no longer at its transaction in ``if_transaction``.
        InvalidQueryError: It names no column of the tables.
        NotFoundError: It names a table or a version that is not there.
        DamagedError: A table's data cannot be read.
    """
    tables = Tables(
        lake=lake,
        if_transaction=dict(if_transaction or {}),
        heads=dict(heads or {}),
        lake_version=lake_version,
    )
    try:
        statement, found = planned(sql, tables, row_metadata=row_metadata)
        strict = on_type_mismatch == FAIL
        relations = [
            RelationRows(state, _index(lake, state, choice), used, row_metadata, strict)
            for state, used in zip(found, statement.used, strict=True)
        ]
        computed = _Computed(statement, relations)
    except BaseException:
        tables.release()
        raise
    return LocalQueryResult(
        statement.schema,
        computed,
        list(tables.sources.values()),
        "LIMIT without ORDER BY" if statement.takes_any_rows else None,
        tables.leases,
    )


def planned(
    sql: str, tables: Tables, *, row_metadata: bool = False, at: str | None = None
) -> tuple[Answered, list[TableState]]:
    """Write a statement for DuckDB, and find the states that its relations mean.

    Args:
        sql: One SELECT.
        tables: Gets them.
        row_metadata: As for Spark's ``query``.
        at: The version in which tables are read that are named without one.

    Raises:
        OutsideError: It is outside of the set.
        InvalidQueryError: It names no column of the tables.
        NotFoundError: It names a table or a version that is not there.
        ConflictError: A table is not at the transaction that it must be at.
    """
    found: list[TableState] = []

    def find_table(relation: Relation) -> tuple[TableName, Columns, int]:
        if at is not None and relation.version is None and relation.timestamp is None:
            tables.turn_to(relation.parts, at)
        state, parts = _found(tables, relation)
        found.append(state)
        return state.table, columns_of(state, row_metadata=row_metadata), parts

    return answered(sql, find_table), found


def _found(tables: Tables, relation: Relation) -> tuple[TableState, int]:
    """Find the state that a relation means; count the parts of its name without a version."""
    name, state, number = tables.read(relation)
    tables.states[name, state.number] = state
    tables.note(name, state, number, {})
    _, version = find(relation.parts, tables.known)
    return state, len(relation.parts) - (version is not None)


def _index(lake: Lake, state: TableState, choice: EngineChoice) -> Index:
    """Return the files that hold a state; make them if it is small."""
    if not state.from_log:
        raise OutsideError("a table without a log")
    table, kept = lake.table(state.table), state.earliest_equal()
    if choice.name != LOCAL and not reading(kept).fits(choice.limit):
        there = index.sound(table, kept)
        if there is None:
            raise OutsideError(f"the table {state.table}, which is large and not materialized yet")
        if there.bytes > MATERIALIZED_BYTES:
            raise OutsideError(f"the table {state.table}, which is large")
        return there
    return index_of(lake, state)


def index_of(lake: Lake, state: TableState) -> Index:
    """Return the files that hold a state; make them, whatever its size.

    Raises:
        OutsideError: None can be kept.
    """
    made = building.ensure_if_kept(LocalEngine(), lake.table(state.table), state, shown=True)
    if made is None:
        raise OutsideError(f"the table {state.table}, whose rows cannot be materialized")
    return made


class _Computed:
    """The rows, computed from the beginning whenever it is called.

    The first batch is computed at once: until then, Spark may still answer instead.
    """

    def __init__(self, statement: Answered, relations: Sequence[duck.Opened]) -> None:
        self._statement, self._relations = statement, relations
        rows = statement.rows(relations)
        first = next(rows, None)
        self._first: Iterator[pa.RecordBatch] | None = (
            rows if first is None else chain([first], rows)
        )

    def __call__(self) -> Batches:
        rows, self._first = self._first, None
        try:
            yield from rows or self._statement.rows(self._relations)
        except OutsideError as error:  # some rows were given already
            raise UsageError(
                f"a query with {error.construct} needs Spark: use the engine spark"
            ) from None


def _release(leases: list[ReaderLease]) -> None:
    for lease in leases:
        lease.release()
