"""A statement of the set over small tables, for operations that make rows of it."""

from __future__ import annotations

import pyarrow as pa

from singerlake.engine.choice import EngineChoice
from singerlake.engine.work import Work
from singerlake.lake import Lake
from singerlake.lineage_events import Columns
from singerlake.log.table_state import TableState
from singerlake.rows.batches.steps import Batches
from singerlake.snapshot.from_blocks import reading
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.local.query import index_of, planned
from singerlake.sql.local.relation_rows import RelationRows
from singerlake.sql.tables import Tables


class SmallQuery:
    """A statement that DuckDB answers, its tables held at their states.

    While it is held, no vacuum deletes what it reads; to be used as a context.

    Args:
        sql: One SELECT.
        choice: Says how much of the tables is too much.
        at: The version, by number or label, in which tables are read that the SQL names without
            one; their heads by default.

    Attributes:
        statement: As DuckDB gets it.
        read: The state of each of its relations.
        tables: The tables, with their states.

    Raises:
        OutsideError: It is outside of the set, or its tables are large.
        InvalidQueryError: It names a column that is not there.
        NotFoundError: It names a table or a version that is not there.
    """

    def __init__(
        self, lake: Lake, sql: str, choice: EngineChoice, *, at: str | None = None
    ) -> None:
        self._lake = lake
        self.tables = Tables(lake=lake)
        try:
            self.statement, self.read = planned(sql, self.tables, at=at)
            work = sum((reading(one) for one in self.tables.states.values()), Work())
            if not choice.takes(work):
                raise OutsideError("large tables")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> SmallQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up what was kept: nothing more is read. May be called again."""
        self.tables.release()

    @property
    def schema(self) -> pa.Schema:
        """The columns, as Spark has them."""
        return self.statement.schema

    @property
    def states(self) -> tuple[TableState, ...]:
        """The states that are read, each once."""
        return tuple(self.tables.states.values())

    def lineage(self) -> Columns:
        """Map each column's name to the tables' columns that its values are made of, in order."""
        read = [(one.table, [name for name, _ in one.columns]) for one in self.read]
        return {
            name: sorted({(read[n][0], read[n][1][index]) for n, index in one.bare | one.inside})
            for name, one in self.statement.items
        }

    def rows(self) -> Batches:
        """Compute the rows. The tables are materialized first, where they are not.

        Raises:
            OutsideError: DuckDB cannot answer it as Spark does, or needs more memory than it may
                have.
        """
        relations = [
            RelationRows(state, index_of(self._lake, state), used)
            for state, used in zip(self.read, self.statement.used, strict=True)
        ]
        return self.statement.rows(relations)
