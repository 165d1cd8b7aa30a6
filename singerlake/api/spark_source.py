"""``spark.read.format("singerlake")``: a table, and its changes, as a data source of Spark.

Spark plans such a read in a process that has no session, where no job can be run. So it reads
materialized snapshots, which every frozen version has, and every snapshot that was queried once.
That of a small table it makes itself, in that process.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T  # noqa: N812  # as everybody names it
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)

from singerlake.engine.local import LocalEngine
from singerlake.engine.work import SMALL
from singerlake.errors import NotFoundError, SingerlakeError, UsageError
from singerlake.lake import Lake, Table
from singerlake.log.requested_state import Naming, requested_state
from singerlake.log.table_state import TableState
from singerlake.nearest import offer
from singerlake.rows.blocks.misfits import FAIL, NULL
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.state.parquet_parts import ROW_GROUP, Share
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot import building, from_blocks, index
from singerlake.snapshot.index import Index
from singerlake.snapshot.selection import selection
from singerlake.snapshot.state_reader import StateReader
from singerlake.sql.queries import pushed_filters
from singerlake.sql.state.frames import spark_type

NAME = "singerlake"


_STATES = ("version", "label", "transaction", "time")
_OF_STREAMS = ("since", "max_transactions_per_trigger", "max_rows_per_trigger")
_CHANGES = "change_feed"
_OF_SNAPSHOTS = (*_STATES, "columns")
_OPTIONS = ("path", "lake", *_OF_SNAPSHOTS, "on_type_mismatch", _CHANGES, *_OF_STREAMS)
TASK_BYTES = 32 << 20
"""Bytes of materialized files that one task reads, about, if they have enough row groups."""
_PUSHES = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module in whose process Spark hands conditions over."""


class SingerlakeSource(DataSource):
    """A table of a lake.

    Its options are ``lake`` and ``on_type_mismatch``; for a snapshot one of ``version``, ``label``,
    ``transaction`` and ``time``; for a stream of changes ``change_feed``, ``since``,
    ``max_transactions_per_trigger`` and ``max_rows_per_trigger``; see
    :func:`singerlake.spark.register`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format`` takes."""
        return NAME

    def schema(self) -> T.StructType:
        """Return the columns, named exactly as the schema's properties."""
        if self._asks_for_changes():
            changes: T.StructType = _streams().schema_of(self._named()[0].snapshot().columns)
            return changes
        _, snapshot = self._requested()
        types = {name: spark_type(type_) for name, type_ in shape_of(snapshot).columns}
        wanted = [*types]
        if (said := self.options.get("columns")) is not None:
            wanted = [name.strip() for name in said.split(",")]
        for name in wanted:
            if name not in types:
                raise UsageError(
                    f"{snapshot.table} has no column {name!r}: {offer(name, list(types))}"
                )
        return T.StructType([T.StructField(name, types[name]) for name in wanted])

    def reader(self, schema: T.StructType) -> DataSourceReader:
        """Return a reader of the snapshot's files, each in a task."""
        if self._asks_for_changes():
            raise UsageError(
                f"the option {_CHANGES} is one of spark.readStream: compare two snapshots with "
                "singerlake.spark.diff"
            )
        table, snapshot = self._requested()
        misfits = self._misfits()
        built = index.sound(table, snapshot) or _made(table, snapshot)
        _check_columns(built.shape, schema)
        # Spark fails if a reader takes conditions and the setting for it is off, as it is by
        # default; only where it is on, it asks in this process.
        pushes = _PUSHES in sys.modules or _PUSHES in sys.orig_argv
        kind = FilteredReader if pushes else IndexReader
        return kind(built, schema.names, misfits)

    def streamReader(self, schema: T.StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a reader of the table's changes, transaction by transaction.

        What is wrong is raised by the reader's first method: where this one raises, PySpark
        ends its error with one of its own, that it has no reader to stop.
        """
        try:
            return self._stream_reader(schema)
        except SingerlakeError as error:
            return RefusedReader(error)

    def _stream_reader(self, schema: T.StructType) -> DataSourceStreamReader:
        if not self._asks_for_changes():
            # Spark asked for the columns before it said that this is a stream.
            raise UsageError(
                "a stream gives the changes of a table, with three more columns: add "
                f'.option("{_CHANGES}", "true")'
            )
        table, version = self._named()
        if version is not None:
            raise UsageError(f"a stream is of a table: load {table.name}, with since={version}")
        since = self.options.get("since")
        limits = self._limit("max_transactions_per_trigger"), self._limit("max_rows_per_trigger")
        made: DataSourceStreamReader = _streams().reader(
            table, schema, since, limits, self._misfits()
        )
        return made

    def _asks_for_changes(self) -> bool:
        said = {name.lower() for name in self.options}
        if unknown := sorted(said.difference(_OPTIONS)):
            hint = offer(unknown[0], list(_OPTIONS[1:]), "there are none")
            raise UsageError(f"the option {unknown[0]!r} is not known: {hint}")
        value = str(self.options.get(_CHANGES, "false")).lower()
        if value not in ("true", "false"):
            raise UsageError(f"the option {_CHANGES}={value!r} is neither true nor false")
        wrong = sorted(said.intersection(_OF_SNAPSHOTS if value == "true" else _OF_STREAMS))
        if wrong and value == "true":
            raise UsageError(
                f"a stream has no {wrong[0]}: say where it begins with the option since"
            )
        if wrong:
            raise UsageError(f"the option {wrong[0]} is one of streams, with {_CHANGES}=true")
        return value == "true"

    def _limit(self, option: str) -> int | None:
        value = self.options.get(option)
        if value is None:
            return None
        if not re.fullmatch(r"[1-9][0-9]{0,17}", value):
            raise UsageError(f"the option {option}={value!r} is not a positive number")
        return int(value)

    def _misfits(self) -> str:
        misfits = self.options.get("on_type_mismatch") or FAIL
        if misfits not in (FAIL, NULL):
            raise UsageError(
                f"the option on_type_mismatch={misfits!r} is neither {FAIL} nor {NULL}"
            )
        return misfits

    def _requested(self) -> tuple[Table, TableState]:
        table, version = self._named()
        return table, self._state(table, version).earliest_equal()

    def _named(self) -> tuple[Table, str | None]:
        name = self.options.get("path")
        if not name:
            raise UsageError(
                'no table is named: spark.read.format("singerlake").load("tap.stream")'
            )
        uri = self.options.get("lake") or os.environ.get("SINGERLAKE_LAKE")
        if not uri:
            raise UsageError('no lake is named: .option("lake", "s3://bucket/prefix")')
        table, ref = Lake.open(uri).find(name)
        return table, ref.version

    def _state(self, table: Table, version: str | None) -> TableState:
        namings = [
            Naming(f"{table.name}.{version}", "version", version),
            Naming("version", "version", self.options.get("version")),
            Naming("label", "version", self.options.get("label")),
            Naming("transaction", "transaction", self.options.get("transaction")),
            Naming("time", "time", self.options.get("time")),
        ]
        return requested_state(table.snapshot(), *namings)[1]


class RefusedReader(DataSourceStreamReader):
    """The reader of a stream that cannot be read, which says why.

    Args:
        error: Why it cannot.
    """

    def __init__(self, error: SingerlakeError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's names
        """Raise the error, in a query that begins."""
        raise self._error

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """Raise the error, in a query that continues from its checkpoint."""
        raise self._error

    def partitions(self, start: object, end: object) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raise the error, in a query that repeats its last batch."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Raise the error; Spark asks for no partition before it asked for offsets."""
        raise self._error


def _streams() -> ModuleType:
    """Import the reader of streams.

    Raises:
        UsageError: PySpark is too old for it.
    """
    try:
        from singerlake.api import spark_stream
    except ImportError as error:
        raise UsageError(
            "streams need PySpark 4.2 or later: pip install --upgrade 'pyspark>=4.2'"
        ) from error
    return spark_stream


def _check_columns(shape: Shape, schema: T.StructType) -> None:
    """Refuse columns that a caller of ``schema`` names, but the table does not have so.

    Raises:
        UsageError: There is one.
    """
    known = {name: spark_type(type_) for name, type_ in shape.columns}
    for field in schema.fields:
        if field.name not in known:
            raise UsageError(f"there is no column {field.name!r}: {offer(field.name, list(known))}")
        if field.dataType != known[field.name]:
            raise UsageError(
                f"the column {field.name!r} is {known[field.name].simpleString()}, not "
                f"{field.dataType.simpleString()}"
            )


def _made(table: Table, snapshot: TableState) -> Index:
    """Make the materialized snapshot of a small table.

    Raises:
        NotFoundError: It is no small one.
    """
    if not from_blocks.reading(snapshot).fits(SMALL):
        raise NotFoundError(
            f"{table.name} has no materialized snapshot of transaction {snapshot.number}, and is "
            "too large to make one here: freeze it, or read it once with "
            "singerlake.spark.read_table"
        )
    with table.lease():
        return building.ensure(LocalEngine(), table, snapshot)


class IndexReader(DataSourceReader):
    """A reader of the materialized files of a snapshot.

    Args:
        built: The files.
        names: The columns wanted, by their own names.
        misfits: The treatment of a value that does not fit.
    """

    def __init__(self, built: Index, names: list[str], misfits: str) -> None:
        self._files = [*built.marker.files, *(built.below.marker.files if built.below else [])]
        self._misfits = built.misfits
        self._reader = StateReader.proven(built)
        self._is_local = built.table.store.local_path(built.parts[0].key) if built.parts else None
        self._selected = selection(
            built.table.name, built.shape, names, None, strict=misfits == FAIL
        )
        self._filter: pc.Expression | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """Share out the files by size; a remote one is fetched whole, so one task reads it.

        Of local files, those without a row group for the filter get no task: starting a task takes
        longer than reading a file's statistics.
        """
        tasks = []
        row_filter = self._row_filter()
        for number, file in enumerate(self._files):
            groups = max(1, file.rows // ROW_GROUP)
            shares = min(groups, -(-file.bytes // TASK_BYTES)) if self._is_local else 1
            if self._is_local and row_filter is not None:
                shares = min(shares, self._reader.groups(number, row_filter))
            tasks += [InputPartition((number, Share(one, shares))) for one in range(shares)]
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one share of a file."""
        if partition is None or partition.value is None:
            return  # a snapshot without rows has no files; Spark asks for one part all the same
        number, share = partition.value
        read = partial(self._reader.part, number, row_filter=self._row_filter(), share=share)
        yield from self._selected.rows(read, self._misfits)

    def _row_filter(self) -> pc.Expression | None:
        """Return what leaves row groups out: nothing if a value does not fit, which is an error."""
        doubtful = self._selected.strict and not self._misfits.isdisjoint(self._selected.used)
        return None if doubtful else self._filter


class FilteredReader(IndexReader):
    """A reader of the rows for which conditions hold, without row groups that cannot have such."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Take the conditions that Arrow means as Spark does, and return the others."""
        selected = self._selected
        types = {name: (name, arrow_type(type_)) for name, type_ in selected.shape.columns}
        for one, expression in pushed_filters.taken(filters, types):
            if expression is None:
                yield one
            elif self._filter is None:
                self._filter = expression
            else:
                self._filter = self._filter & expression
        self._selected = selection(
            selected.table,
            selected.shape,
            selected.schema.names,
            self._filter,
            strict=selected.strict,
        )
