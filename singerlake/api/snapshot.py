"""The state of a table at one transaction, for programs: its schema, and its rows in many forms.

A state with an index is read by it, in Python. If it has none, one is made first: in this process
if the state is small, by Spark otherwise, or by the engine that the caller names.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from singerlake import extras
from singerlake.api.source import Source, index_of
from singerlake.engine.choice import EngineChoice
from singerlake.errors import SingerlakeError, UsageError
from singerlake.format import content
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

    from singerlake.files.stored import StoredFile

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
        """Show what it is, without a look at the store."""
        facts = [f"{self.table.name} at transaction {self.transaction}"]
        if (version := self.version) is not None:
            facts.append(f"version {version.described()}")
        try:
            columns = ", ".join(f"{name}: {type_}" for name, type_ in self._snapshot.columns)
        except SingerlakeError as error:  # whoever debugs is shown the rest
            columns = str(error)
        return f"Snapshot({', '.join(facts)}; {columns})"

    def _repr_html_(self) -> str:
        """Show what it is in a notebook. No row is read, only what the files' marker counts."""
        from singerlake.cards import card

        version = self.version
        facts: dict[str, object] = {"transaction": str(self.transaction)}
        if version is not None:
            facts |= {"version": str(version.number), "label": version.label}
            facts |= {"rows": version.rows, "fingerprint": version.fingerprint}
        try:
            if version is None:
                facts["rows"] = self._counted()
            columns = [(name, str(type_)) for name, type_ in self._snapshot.columns]
        except SingerlakeError as error:
            return card(f"Snapshot {self.table.name}", {**facts, "error": error})
        return card(f"Snapshot {self.table.name}", facts, ("column", "type"), columns)

    def _counted(self) -> int | None:
        """The number of rows, where the materialized files have it."""
        from singerlake.snapshot import index

        if not self._snapshot.from_log:
            return None
        found = index.load(self.table, self._snapshot.earliest_equal())
        return None if found is None else found.marker.rows

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
        return index_of(self.table, self._snapshot) is not None

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

        source = self._source()
        try:
            shape = shape_of(source.state)
            selected = selection(
                self.table.name, shape, columns, filter, strict=self._misfits == "fail"
            )
            batches = source.rows(source.found(), selected, filter)
        except BaseException:
            source.close()
            raise
        weakref.finalize(batches, source.close)  # it may never be begun
        return pa.RecordBatchReader.from_batches(selected.schema, batches)

    def __arrow_c_schema__(self) -> object:
        """Give the columns to other libraries, by Arrow's PyCapsule interface."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the rows to other libraries, batch by batch: ``pyarrow.table(state)``.

        By Arrow's PyCapsule interface, which pyarrow, Polars, DuckDB and others know. No vacuum
        deletes what is read until the other library gives the stream up.

        Args:
            requested_schema: The types that it would like to have.

        Raises:
            SingerlakeError: As :meth:`scanner`.
        """
        return self.scanner().__arrow_c_stream__(requested_schema)

    def __bool__(self) -> bool:
        """Tell that there is a snapshot, also if it has no rows."""
        return True

    def __len__(self) -> int:
        """Count the rows. They are read only if the materialized files do not have the count.

        Raises:
            SingerlakeError: As :meth:`scanner`.
        """
        from singerlake.rows.batches.row_columns import BLOCK

        source = self._source()
        try:
            index = source.index()
            if index is not None and index.marker.rows is not None:
                return index.marker.rows
            # Without any column, Arrow would lose count of the rows.
            return sum(batch.num_rows for batch in source.found().read([BLOCK]))
        finally:
            source.close()

    def _source(self) -> Source:
        """Protect the rows from vacuums, until what is returned is closed."""
        return Source(self.table, self._snapshot, self._choice, self._misfits)

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

    def scan_polars(self) -> pl.LazyFrame:
        """Return the rows as a lazy frame of Polars, which reads only what a query needs.

        ::

            state.scan_polars().filter(pl.col("total") > 100).select("id").collect()

        Columns and conditions reach the materialized files, whose row groups are left out if
        they have no such row. Each ``collect()`` protects what it reads from vacuums; the lazy
        frame itself holds nothing, and may be kept.

        Raises:
            RuntimeMissingError: Polars is not installed.
            SingerlakeError: From ``collect()``, as :meth:`to_arrow`.
        """
        extras.require("polars", "scan_polars()")
        from polars.io.plugins import register_io_source

        from singerlake.api.lazy import PolarsScan, frame_of

        schema = frame_of(self.schema.empty_table()).schema
        return register_io_source(PolarsScan(self._source, schema), schema=schema)

    def to_duckdb(
        self,
        name: str,
        connection: DuckDBPyConnection | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  # as pyarrow calls it
        copy: bool = False,
    ) -> DuckDBPyConnection:
        """Make the rows a view in DuckDB, which reads only what a query needs.

        ::

            state.to_duckdb("orders").sql("select status, count(*) from orders group by all")

        Each query protects what it reads from vacuums; the view itself holds nothing.

        Args:
            name: What to call the view there. It lasts as long as the connection.
            connection: The database; a new one in memory by default.
            columns: As for :meth:`scanner`.
            filter: As for :meth:`scanner`.
            copy: Make a table with a copy of the rows instead, which stays in the database.
                Always done if a column has no name, or if names differ by case alone.

        Returns:
            The connection.

        Raises:
            RuntimeMissingError: DuckDB is not installed, or Spark must make an index, and is not.
            SingerlakeError: As :meth:`scanner`. Queries raise errors of DuckDB's, which contain
                the messages of :meth:`to_arrow`.
        """
        extras.require("duckdb", "to_duckdb()")
        import duckdb

        from singerlake.api.lazy import Scanned, can_be_scanned

        connection = connection or duckdb.connect()
        rows = self.scanner(columns, filter)
        if copy or not can_be_scanned(rows.schema):
            connection.from_arrow(rows).create(name)
        else:
            connection.register(name, Scanned(rows.schema, self.scanner, filter))
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
