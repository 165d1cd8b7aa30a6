"""Answers a statement of the set in this process, or says what it has that is outside of it."""

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
from singerlake.format.types import Columns, Kind
from singerlake.lake import Lake
from singerlake.log.lease import ReaderLease
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import BLOCK, TYPES, alias
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks.misfits import FAIL
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.snapshot import building, index
from singerlake.snapshot.from_blocks import reading
from singerlake.snapshot.index import Index
from singerlake.snapshot.result import LocalResult
from singerlake.snapshot.state_reader import StateReader
from singerlake.sql.local import duck
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.local.statement import Answered, Statement
from singerlake.sql.local.text import parsed
from singerlake.sql.tables import Relation, Source, Tables

MATERIALIZED_BYTES = 1 << 30
"""Bytes of Parquet that one process reads while people wait."""
_CLOCK = pa.timestamp("us")


@dataclass(frozen=True)
class LocalQueryResult(LocalResult):
    """The rows of a statement, which this process computes; see ``QueryResult``, of Spark's.

    Attributes:
        leases: What keeps vacuums off what it reads, until :meth:`close` or until the result is
            garbage.
    """

    sources: Sequence[Source] = ()
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
) -> LocalQueryResult:
    """Answer a statement without Spark. Arguments are those of Spark's ``query``.

    Args:
        lake: The lake.
        sql: One SELECT.
        choice: Says how much of a table is too much.
        row_metadata: As for Spark's ``query``.
        if_transaction: As for Spark's ``query``.
        on_type_mismatch: As for Spark's ``query``.
        lake_version: As for Spark's ``query``.

    Raises:
        OutsideError: It is outside of the set, or a table is too large.
        ConflictError: A table is no longer at its transaction in ``if_transaction``.
        InvalidQueryError: It names no column of the tables.
        NotFoundError: It names a table or a version that is not there.
        DamagedError: A table's data cannot be read.
    """
    if row_metadata:
        raise OutsideError("row metadata")
    tree = parsed(sql)
    tables = Tables(lake=lake, if_transaction=dict(if_transaction or {}), lake_version=lake_version)
    try:
        found: list[TableState] = []
        statement = Statement(tree, lambda relation: _found(tables, relation, found)).answered()
        strict = on_type_mismatch == FAIL
        relations = [
            _Rows(_index(lake, state, choice), used, strict=strict)
            for state, used in zip(found, statement.used, strict=True)
        ]
        computed = _Computed(statement, relations)
    except BaseException:
        tables.release()
        raise
    return LocalQueryResult(
        duck.schema_of(statement.columns), computed, list(tables.sources.values()), tables.leases
    )


def _found(
    tables: Tables, relation: Relation, found: list[TableState]
) -> tuple[TableName, Columns, int]:
    name, state, number = tables.read(relation)
    tables.note(name, state, number, {})
    found.append(state)
    _, version = find(relation.parts, tables.known)
    return name, state.columns, len(relation.parts) - (version is not None)


def _index(lake: Lake, state: TableState, choice: EngineChoice) -> Index:
    """The files that hold a state, which are made if it is small."""
    if not state.from_log:
        raise OutsideError("a table without a log")
    table, kept = lake.table(state.table), state.earliest_equal()
    there = index.load(table, kept)
    if choice.name != LOCAL:
        if there is not None and there.bytes > MATERIALIZED_BYTES:
            raise OutsideError(f"the table {state.table}, which is large")
        if there is None and not reading(kept).fits(choice.limit):
            raise OutsideError(f"the table {state.table}, which is large and not materialized yet")
    made = building.ensure_if_kept(LocalEngine(), table, state, shown=True)
    if made is None:
        raise OutsideError(f"the table {state.table}, whose rows cannot be materialized")
    return made


@dataclass(frozen=True)
class _Rows:
    """The columns of a relation that a statement reads.

    Attributes:
        index: The files.
        used: The columns' indexes.
        strict: Whether values that do not fit are an error; otherwise those of the whole table
            are counted.
    """

    index: Index
    used: list[int]
    strict: bool = True

    def __post_init__(self) -> None:
        unfit = self.index.misfits
        if self.strict:
            unfit = unfit.intersection(self.used)
        if unfit:
            name = self.index.shape.names[min(unfit)]
            raise OutsideError(f"the column {name}, which has values that do not fit its type")

    def __call__(self) -> tuple[pa.Schema, Batches]:
        """Begin to read the rows; a column that nobody asks for stands for those of none."""
        columns = self.index.shape.columns
        names = [alias(one) for one in self.used]
        types = [
            _CLOCK if columns[one][1].kind is Kind.TIMESTAMP else arrow_type(columns[one][1])
            for one in self.used
        ]
        names, types = names or [BLOCK], types or [TYPES[BLOCK]]
        schema = pa.schema(list(zip(names, types, strict=True)))
        return schema, self._batches(names, schema)

    def _batches(self, names: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for batch in StateReader.proven(self.index).rows(names):
            columns = [
                column.view(type_) if type_ == _CLOCK else column
                for column, type_ in zip(batch.columns, schema.types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


class _Computed:
    """Computes the rows, from the beginning whenever it is called.

    The first batch is computed at once: until then, Spark may still answer instead.
    """

    def __init__(self, statement: Answered, relations: Sequence[duck.Opened]) -> None:
        self._statement, self._relations = statement, relations
        rows = duck.answered(statement, relations)
        first = next(rows, None)
        self._first: Iterator[pa.RecordBatch] | None = (
            rows if first is None else chain([first], rows)
        )

    def __call__(self) -> Batches:
        rows, self._first = self._first, None
        try:
            yield from rows or duck.answered(self._statement, self._relations)
        except OutsideError as error:  # some rows were given already
            raise UsageError(
                f"a query with {error.construct} needs Spark: use the engine spark"
            ) from None


def _release(leases: list[ReaderLease]) -> None:
    for lease in leases:
        lease.release()
