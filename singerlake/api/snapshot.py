"""The state of a table at one transaction, for programs: its schema, and its rows in many forms.

A state with an index is read by it, in Python. If it has none, one is made first: in this process
if the state is small, by Spark otherwise, or by the engine that the caller names.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from singerlake import extras
from singerlake.engine.choice import EngineChoice
from singerlake.errors import StoreError, UsageError
from singerlake.format import content, times
from singerlake.format.log import FrozenVersion
from singerlake.lake import Table
from singerlake.log.table_state import TableState

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame, SparkSession

    from singerlake.engine.base import Engine
    from singerlake.files.stored import StoredFile
    from singerlake.snapshot.index import Index
    from singerlake.snapshot.selection import Read

logger = logging.getLogger(__name__)
Misfits = Literal["fail", "null"]
Files = Literal["reference", "binary"]
_MISFITS = ("fail", "null")


class Snapshot:
    """A table's rows at one transaction. Get one with :meth:`singerlake.Table.at`.

    It never changes. It is a name, and holds nothing: each call that reads rows protects them from
    vacuums for as long as it takes. A state that must stay readable for ever is to be frozen.

    Args:
        table: The table.
        snapshot: The table at the transaction.
        version: The frozen version that was asked for, if one was.
        engine: What makes the index of the state if it has none: ``auto``, ``local`` or ``spark``.
        on_type_mismatch: What becomes of values that do not fit their columns.
    """

    def __init__(
        self,
        table: Table,
        snapshot: TableState,
        version: FrozenVersion | None = None,
        *,
        engine: str | None = None,
        on_type_mismatch: Misfits = "fail",
    ) -> None:
        if on_type_mismatch not in _MISFITS:
            choices = " nor ".join(map(repr, _MISFITS))
            raise UsageError(f"on_type_mismatch={on_type_mismatch!r} is neither {choices}")
        self.table = table
        """The table."""
        self.version = version
        """The frozen version, where it was asked for by its number or label."""
        self._snapshot = snapshot
        self._choice = EngineChoice.of(engine)
        self._misfits = on_type_mismatch

    def __repr__(self) -> str:
        return f"Snapshot({self.table.name} at transaction {self.transaction})"

    @property
    def transaction(self) -> int:
        """The number of the transaction."""
        return self._snapshot.number

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types, named exactly as the schema's properties.

        Raises:
            DamagedError: The log lacks the schema.
        """
        from singerlake.rows.state.shape import shape_of
        from singerlake.snapshot.selection import arrow_schema

        return arrow_schema(shape_of(self._snapshot))

    @property
    def indexed(self) -> bool:
        """Whether there is an index, so that reading needs neither Spark nor a rebuild."""
        return self._index(self._snapshot) is not None

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  # as pyarrow calls it
    ) -> pa.RecordBatchReader:
        """Read rows batch by batch; the state need not fit into memory.

        ::

            for batch in state.scanner(["id", "total"], filter=pc.field("status") == "paid"):
                ...

        Args:
            columns: Those wanted, in this order; all by default.
            filter: Which rows, as ``pyarrow.compute.field("total") > 100``; all by default.

        Returns:
            Arrow's reader. It can be read once, and no vacuum deletes what it reads until it is
            read to its end or is garbage. Reading raises what :meth:`to_arrow` raises.

        Raises:
            InvalidQueryError: There is no such column, or the filter makes no sense of the table.
            NotFoundError: The state was given up.
            RuntimeMissingError: Spark must make an index, and is not installed.
        """
        import pyarrow as pa

        from singerlake.rows.state.shape import shape_of
        from singerlake.snapshot.selection import selection

        lease = self.table.lease().acquire()
        try:
            head = lease.snapshot
            snapshot = head if head.number == self.transaction else head.at(self.transaction)
            snapshot = snapshot.by_rules(self._snapshot.rules)
            selected = selection(
                snapshot.table,
                shape_of(snapshot),
                columns,
                filter,
                strict=self._misfits == "fail",
            )
            read, misfits = self._reader(snapshot)
        except BaseException:
            lease.release()
            raise

        def rows() -> Iterator[pa.RecordBatch]:
            try:
                yield from selected.rows(read, misfits)
            finally:
                lease.release()

        batches = rows()
        weakref.finalize(batches, lease.release)  # it may never be begun
        return pa.RecordBatchReader.from_batches(selected.schema, batches)

    @property
    def has_files(self) -> bool:
        """Whether rows may name files beside them: whether a column is of format `singer.file`."""
        return content.place_in(self._snapshot.schema.schema) is not None

    def files(self) -> list[StoredFile]:
        """List the files that the rows name, in the order of the rows.

        A column whose schema lists the members of a file shows just these. Where the path is not
        among them, the file is found by its checksum; where that is not either, it is not listed.

        Raises:
            SingerlakeError: As :meth:`to_arrow`.
        """
        place = content.place_in(self._snapshot.schema.schema)
        if place is None:
            return []
        from singerlake.files import stored
        from singerlake.files.known import finding

        names = [name for name in self.schema.names if name in place.members]
        with finding(self.table.store, self._snapshot) as find:
            return [
                file
                for batch in self.scanner(names)
                for name in names
                for value in batch.column(name).to_pylist()
                for file in stored.in_value(value, place.members[name], find)
            ]

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  # as pyarrow calls it
    ) -> pa.Table:
        """Read the rows as an Arrow table. Arguments are those of :meth:`scanner`.

        Raises:
            DamagedError: A block or a file of the index is damaged, or a value that is read does
                not fit its column.
            SingerlakeError: As :meth:`scanner`.
        """
        return self.scanner(columns, filter).read_all()

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  # as pyarrow calls it
    ) -> pd.DataFrame:
        """Read the rows as a frame of pandas; else as :meth:`to_arrow`.

        Its columns are of Arrow's types, so that large integers, decimals and nulls stay as they
        are.
        """
        extras.require("pandas", "to_pandas()")
        import pandas as pd

        return self.to_arrow(columns, filter).to_pandas(types_mapper=pd.ArrowDtype)

    def to_polars(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  # as pyarrow calls it
    ) -> pl.DataFrame:
        """Read the rows as a frame of Polars; else as :meth:`to_arrow`."""
        extras.require("polars", "to_polars()")
        import polars as pl

        return pl.DataFrame(self.to_arrow(columns, filter))

    def to_duckdb(
        self,
        name: str,
        connection: DuckDBPyConnection | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  # as pyarrow calls it
    ) -> DuckDBPyConnection:
        """Copy the rows into a new table of DuckDB, batch by batch.

        ::

            state.to_duckdb("orders").sql("select status, count(*) from orders group by all")

        Args:
            name: What to call the table there.
            connection: The database; a new one in memory by default.
            columns: As for :meth:`scanner`.
            filter: As for :meth:`scanner`.

        Returns:
            The connection.

        Raises:
            SingerlakeError: As :meth:`to_arrow`.
        """
        extras.require("duckdb", "to_duckdb()")
        import duckdb

        connection = connection or duckdb.connect()
        connection.from_arrow(self.scanner(columns, filter)).create(name)
        return connection

    def to_spark(
        self, spark: SparkSession | None = None, *, files: Files = "reference"
    ) -> DataFrame:
        """Give the rows as a Spark frame; see :func:`singerlake.spark.read_table`.

        Args:
            spark: The session; the running one by default, or a new one.
            files: ``binary`` adds columns with what the files hold that rows name.

        Raises:
            UsageError: Their content is asked for, and no column names files.
            RuntimeMissingError: Spark or Java is not installed.
        """
        extras.require("pyspark", "to_spark()")
        from singerlake.sql.queries.reading import read_state

        wanted = f"@{self.transaction}" if self._snapshot.from_log else None
        if self.version is not None:  # which is read by the rules that it was frozen under
            wanted = str(self.version.number)
        return read_state(self.table, wanted, spark=spark, misfits=self._misfits, files=files)

    def _index(self, snapshot: TableState) -> Index | None:
        from singerlake.snapshot import index

        # Files read without a log have no commit id that an index could be held to.
        return index.sound(self.table, snapshot.earliest_equal()) if snapshot.from_log else None

    def _reader(self, snapshot: TableState) -> tuple[Read, set[int]]:
        """What reads columns of the state, and which of them may have misfits."""
        from singerlake.snapshot.state_reader import StateReader

        found = self._index(snapshot)
        if found is None:
            engine = self._engine_for(snapshot)
            found = self._made(engine, snapshot)
            if found is None:
                return self._without_index(engine, snapshot)
        return StateReader.of(found).rows, found.misfits

    def _engine_for(self, snapshot: TableState) -> Engine[Any]:
        from singerlake.engine.work import Work
        from singerlake.snapshot.from_blocks import needed_blocks

        work = Work.of(needed_blocks(snapshot), len(snapshot.columns))
        what = f"making the index of {self.table.name} at transaction {self.transaction}"
        return self._choice.engine_for(work, what)

    def _made(self, engine: Engine[Any], snapshot: TableState) -> Index | None:
        """The index of a state, made now; None where none can be kept."""
        from singerlake.snapshot import building

        if not snapshot.from_log:
            return None
        try:
            return building.build(engine, self.table, snapshot.earliest_equal())
        except StoreError as error:
            logger.warning("reading without an index, because none can be kept: %s", error)
            return None

    def _without_index(self, engine: Engine[Any], snapshot: TableState) -> tuple[Read, set[int]]:
        """What reads the state from its blocks each time; see :meth:`_reader`."""
        from singerlake.engine.local import LocalEngine
        from singerlake.snapshot.from_blocks import local_rows

        if isinstance(engine, LocalEngine):
            rows = local_rows(self.table, snapshot)
            every = set(range(len(snapshot.columns)))
            return lambda columns: (batch.select(list(columns)) for batch in rows), every
        from singerlake.sql.queries.reading import arrow_rows

        return arrow_rows(self.table, snapshot, misfits=self._misfits), set()


def named_state(
    head: TableState,
    version: int | str | None,
    transaction: int | None,
    time: datetime | str | None,
) -> tuple[FrozenVersion | None, TableState]:
    """Return the version, if one is named, and the table at what is named.

    Raises:
        NotFoundError: There is no such version or transaction, or its state was given up.
        UsageError: Several states are named, or a time is none.
    """
    if [version, transaction, time].count(None) < 2:  # noqa: PLR2004
        raise UsageError("name one state: a version, transaction= or time=")
    if version is not None:
        return head.named(str(version))
    if transaction is not None:
        return None, head.at(head.summary(transaction).number)
    if time is None:
        return None, head
    if isinstance(time, datetime):
        zoned = time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)
        time = times.iso(zoned.astimezone(timezone.utc))
    return None, head.at_time(time)
