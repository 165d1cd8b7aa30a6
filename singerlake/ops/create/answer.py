"""The answer to a query as the rows of a new table, on the engine that computes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Generic

from singerlake.engine.base import Engine, R
from singerlake.format.log import SchemaEntry
from singerlake.format.types import Columns
from singerlake.lineage_events import Columns as Lineage
from singerlake.log.table_state import TableState
from singerlake.sql.tables import Source

PART = "part"
"""The column of a row's part."""


class QueryAnswer(ABC, Generic[R]):
    """The answer to a query.

    Attributes:
        names: Its columns.
        sources: What it was computed of.
        states: The states of these tables, for lineage.
        lineage: Tells where its columns come from; None if that is not to be told.
    """

    engine: Engine[R]
    names: list[str]
    sources: Sequence[Source]
    states: Sequence[TableState]
    lineage: Callable[[], Lineage] | None

    @abstractmethod
    def schema(self, keys: Sequence[str]) -> SchemaEntry:
        """Return the schema of a table that holds its rows.

        Args:
            keys: Columns that are the key; all others may be null.

        Raises:
            InvalidQueryError: A name is empty or there twice, or a type has no place in a lake.
        """

    @abstractmethod
    def rows(self, columns: Columns) -> R:
        """Give its rows in exactly the types of columns, as these are called inside.

        The number of a row's part is in a column more, ``PART``.
        """

    def gathered(self, rows: R, parts: int) -> R:  # noqa: ARG002
        """Put rows together in fewer parts, if the engine has more of them."""
        return rows

    def plain_errors(self) -> AbstractContextManager[None]:
        """Turn what the engine raises within into errors of ours."""
        return nullcontext()
