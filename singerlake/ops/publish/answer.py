"""The answer to publish: the rows of a query at some states, or what changed of them.

Plain columns of a table are read on any engine. What SQL computes, DuckDB does if its tables are
small and it does it as Spark does; Spark otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Generic

import pyarrow as pa

from singerlake.engine.base import Engine, R
from singerlake.format.log import SchemaEntry
from singerlake.lineage_events import Columns
from singerlake.log.table_state import TableState
from singerlake.ops.create.answer import QueryAnswer
from singerlake.ops.publish.fresh_rows import FreshRows
from singerlake.ops.publish.write.changed_rows import Changes
from singerlake.ops.publish.write.row_sources import RowSource
from singerlake.publish.positions import erased_since, is_same_table, state_of
from singerlake.publish.published import SourceState
from singerlake.sql.tables import Tables


class Answer(ABC, Generic[R]):
    """The rows of a query over a lake, its tables held at their states.

    While it is held, no vacuum deletes what it reads; to be used as a context.

    Attributes:
        sources: The states of the tables that it reads.
    """

    engine: Engine[R]
    sources: tuple[SourceState, ...]

    def __enter__(self) -> Answer[R]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Give up what was kept: nothing more is read. May be called again."""

    @property
    @abstractmethod
    def states(self) -> tuple[TableState, ...]:
        """The tables at the states of :attr:`sources`."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The answer's columns; times are of UTC."""

    @abstractmethod
    def lineage(self) -> Columns:
        """Return of which columns of the tables each column is made."""

    @abstractmethod
    def check_deterministic(self, what: str) -> None:
        """Make sure that the query answers the same whenever it is asked of the same rows.

        Args:
            what: What the message calls the query.

        Raises:
            InvalidQueryError: It does not; the function is named.
        """

    @abstractmethod
    def obstacle(self, since: Sequence[SourceState]) -> str | None:
        """Tell why it cannot be said what changed since some states; None where it can.

        Args:
            since: The states that the earlier answer was computed of, by the same query.

        Returns:
            The reason, as a clause: ``it has a WITH``.
        """

    @abstractmethod
    def count(self) -> int:
        """Count the rows."""

    @abstractmethod
    def source(self) -> RowSource[R]:
        """Give all rows to be written. Indexes of the tables are made, where there are none."""

    @abstractmethod
    def fresh(self, since: Sequence[SourceState]) -> FreshRows | None:
        """Read what came since some states, if that tells all that may have changed.

        Args:
            since: The states; :meth:`obstacle` gave None for them.

        Raises:
            DamagedError: A block cannot be read, or a value that is asked for does not fit.
        """

    @abstractmethod
    def changed(self, since: Sequence[SourceState]) -> Changes[R]:
        """Find what changed since some states; rows are read when they are taken.

        Args:
            since: The states; :meth:`obstacle` gave None for them.

        Raises:
            DamagedError: A block that is needed cannot be read.
        """


class SqlAnswer(Answer[R]):
    """The rows of SQL, which a staging table can hold."""

    def __enter__(self) -> SqlAnswer[R]:
        return self

    @property
    @abstractmethod
    def key(self) -> tuple[str, ...]:
        """The answer's columns that are the key of the one table of a rowwise query, in order."""

    @abstractmethod
    def is_key(self, columns: Sequence[str]) -> bool:
        """Tell whether columns of the answer are that key, in any order, each once."""

    @abstractmethod
    def table_schema(self, keys: Sequence[str]) -> SchemaEntry:
        """Return the schema of a table that holds its rows; see :meth:`QueryAnswer.schema`."""

    @abstractmethod
    def computed(self) -> AbstractContextManager[QueryAnswer[R]]:
        """Give all rows as those of a table. Indexes of the tables are made, where none are."""


def states_of(tables: Tables) -> dict[SourceState, TableState]:
    """Return the states that a query reads, by how a position names them."""
    return {
        state_of(tables.states[name, number], version or tables.turned.get(name)): (
            tables.states[name, number]
        )
        for name, number, version in tables.sources
    }


def why_all(
    since: Sequence[SourceState],
    now: SourceState,
    snapshot: TableState,
    head: TableState,
    *,
    keyed: bool,
) -> str | None:
    """Tell why changes of one table's rows cannot be told since some states; None if they can.

    Args:
        since: The states that the earlier answer was computed of.
        now: The state that is read now.
        keyed: Whether the answer keeps the table's key, if it has one.

    Returns:
        The reason, as a clause.
    """
    then, *others = since or (None,)
    if then is None or others or then.table != now.table:
        return "it was computed from other tables before"
    if not is_same_table(then, head):
        return f"{then.table} is not the same table that was read before"
    if (erased := erased_since(then, head)) is not None:
        return erased
    if not head.readable(then.transaction):
        return f"the history of {then.table} has expired past the last refresh"
    if not head.filed(then.transaction).reads_like(snapshot):
        return f"the columns of {then.table} have changed since the last refresh"
    return None if keyed else f"it does not contain the key of {then.table}"
