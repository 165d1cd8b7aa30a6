"""A snapshot as it is read: under a lease, by its materialized files or from its blocks."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from singerlake.errors import StoreError

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from singerlake.engine.base import Engine
    from singerlake.engine.choice import EngineChoice
    from singerlake.lake import Table
    from singerlake.log.table_state import TableState
    from singerlake.rows.batches.steps import Batches
    from singerlake.snapshot.index import Index
    from singerlake.snapshot.selection import Read, Selection

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Found:
    """What reads the rows of a snapshot.

    Attributes:
        read: Reads columns of it; by an index, also with a filter.
        misfits: Indexes of the columns that may have values which do not fit.
        index: Its materialized files; None if they cannot be kept.
    """

    read: Read
    misfits: set[int]
    index: Index | None = None


class Source:
    """A snapshot under a lease: until :meth:`close`, no vacuum deletes what it reads.

    Args:
        table: The table.
        wanted: The table at the transaction, as it was when it was asked for.
        choice: What makes the materialized files if there are none.
        misfits: What becomes of values that do not fit: ``fail`` or ``null``.

    Raises:
        NotFoundError: The snapshot was given up.
    """

    def __init__(
        self, table: Table, wanted: TableState, choice: EngineChoice, misfits: str
    ) -> None:
        self._table = table
        self._choice = choice
        self._misfits = misfits
        self._lease = table.lease().acquire()
        try:
            head = self._lease.snapshot
            state = head if head.number == wanted.number else head.at(wanted.number)
            self.state = state.by_rules(wanted.rules)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give up the lease. Never raises, and may be called again."""
        self._lease.release()

    @property
    def strict(self) -> bool:
        """Whether it is an error to read a value that does not fit."""
        return self._misfits == "fail"

    def index(self) -> Index | None:
        """The materialized files, where there are any; local ones are checked first."""
        return index_of(self._table, self.state)

    def found(self) -> Found:
        """Find what reads the rows; the files are made if there are none.

        Raises:
            RuntimeMissingError: Spark must make them, and is not installed.
            SingerlakeError: They cannot be made.
        """
        from singerlake.snapshot.state_reader import StateReader

        index = self.index()
        if index is None:
            engine = self._engine()
            index = self._made(engine)
            if index is None:
                return self._without_index(engine)
        return Found(StateReader.proven(index).rows, index.misfits, index)

    def rows(
        self, found: Found, selected: Selection, row_filter: pc.Expression | None = None
    ) -> Batches:
        """Read rows, and close this at their end.

        Args:
            found: What :meth:`found` gave.
            selected: Which rows and columns.
            row_filter: The filter of ``selected`` if it is one of Arrow's: row groups that
                cannot have such rows are not read.
        """
        read: Any = found.read
        # A value that does not fit is null in the files, and an error all the same.
        doubtful = self.strict and not found.misfits.isdisjoint(selected.used)
        if row_filter is not None and found.index is not None and not doubtful:
            read = partial(read, row_filter=row_filter)
        try:
            yield from selected.rows(read, found.misfits)
        finally:
            self.close()

    def _engine(self) -> Engine[Any]:
        from singerlake.snapshot.from_blocks import reading

        work = reading(self.state)
        what = f"materializing {self._table.name} at transaction {self.state.number}"
        return self._choice.engine_for(work, what)

    def _made(self, engine: Engine[Any]) -> Index | None:
        """The materialized files, made now; None where none can be kept."""
        from singerlake.rows.state.parquet_parts import damaged
        from singerlake.snapshot import building
        from singerlake.snapshot.index import unsound

        if not self.state.from_log:
            return None
        try:
            made = building.build(engine, self._table, self.state.earliest_equal())
        except StoreError as error:
            logger.warning(
                "reading without a materialized snapshot, because none can be stored: %s", error
            )
            return None
        if (part := unsound(made)) is not None:
            raise damaged(part)
        return made

    def _without_index(self, engine: Engine[Any]) -> Found:
        """What reads the rows from the blocks each time."""
        from singerlake.engine.local import LocalEngine
        from singerlake.snapshot.from_blocks import local_rows

        if isinstance(engine, LocalEngine):
            rows = local_rows(self._table, self.state)
            every = set(range(len(self.state.columns)))
            return Found(lambda columns: (batch.select(list(columns)) for batch in rows), every)
        from singerlake.sql.queries.reading import arrow_rows

        return Found(arrow_rows(self._table, self.state, misfits=self._misfits), set())


def index_of(table: Table, state: TableState) -> Index | None:
    """Load the materialized files of a snapshot; local ones are checked against their hashes."""
    from singerlake.snapshot import index

    # Files read without a log have no commit id that an index could be held to.
    return index.sound(table, state.earliest_equal()) if state.from_log else None
