"""Uploading files: their rows into a table that is there, as a change, or into a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.maintenance.change import ChangeOptions, Mode
from singerlake.records.given.csv.dialect import Dialect
from singerlake.records.given.files import GivenFile, within_reach
from singerlake.records.given.values.inference import Spec
from singerlake.records.state.shape import shape_of
from singerlake.spark.jobs.changes.change import Changed, change
from singerlake.spark.jobs.loading.upload_new import NewTable, make, make_at_once, plan_new
from singerlake.spark.jobs.row_sets.given_readers import CsvReader, GivenReader, reader_of
from singerlake.spark.jobs.row_sets.row_set import RowSet
from singerlake.spark.jvm.session import runs_here
from singerlake.spark.state.frames import numbered
from singerlake.transactions.capabilities import open_for_writing
from singerlake.transactions.snapshot import Snapshot


@dataclass(frozen=True)
class UploadOptions:
    """How files are uploaded.

    Attributes:
        mode: What is asked of the rows.
        keys: A new table's key.
        types: Of columns of a new table, the JSON Schema of their values, null not among them.
        change: How a table is changed.
        dialect: How the files are written, if they are CSV.
    """

    mode: Mode = Mode.UPSERT
    keys: Sequence[str] = ()
    types: Mapping[str, Spec] = field(default_factory=dict)
    change: ChangeOptions = field(default_factory=ChangeOptions)
    dialect: Dialect = field(default_factory=Dialect)


@dataclass(frozen=True)
class Uploaded:
    """What an upload did, or would do.

    Attributes:
        table: The table.
        mode: What was asked of the rows.
        made: The table as it was made; None where it was there.
        changed: The counts, and the transaction.
    """

    table: TableName
    mode: Mode
    made: NewTable | None
    changed: Changed


def upload(
    spark: SparkSession,
    lake: Lake,
    table: Table | TableName,
    files: Sequence[GivenFile],
    options: UploadOptions | None = None,
    show: Callable[[NewTable], None] = lambda _: None,
) -> Uploaded:
    """Upload files.

    Args:
        spark: The session.
        lake: The lake.
        table: The table; the name of one that is to be made.
        files: The files, from ``given.files.open_files``.
        options: How.
        show: Is shown a new table before it is made.

    Raises:
        RejectedRowsError: Rows that cannot be taken; each problem is named, nothing was changed.
        ConflictError: Rows were changed since they were read, or somebody made the table.
        UsageError: It cannot be done as asked.
    """
    options = options or UploadOptions()
    local = runs_here(spark)
    if not local:
        open_for_writing(lake.store)
    with nullcontext(files) if local else within_reach(files, lake.store) as found:
        reader = reader_of(found, options.dialect)
        if isinstance(table, TableName):
            return _into_new(spark, lake, table, reader, options, show)
        done = change_by(spark, table, reader, options)
        return Uploaded(table.name, options.mode, None, done)


def _into_new(
    spark: SparkSession,
    lake: Lake,
    name: TableName,
    reader: GivenReader,
    options: UploadOptions,
    show: Callable[[NewTable], None],
) -> Uploaded:
    made = None
    if isinstance(reader, CsvReader) and not options.types and not options.change.dry_run:
        new, made = make_at_once(spark, lake, name, reader, options.keys, options.change, show)
    else:
        new = plan_new(spark, name, reader, keys=options.keys, types=options.types)
    if made is None:
        show(new)
        made = make(spark, lake, new, options.change)
    changed = Changed(made.transaction, inserted=made.rows, version=made.version)
    return Uploaded(name, options.mode, new, changed)


def change_by(
    spark: SparkSession,
    table: Table,
    reader: GivenReader,
    options: UploadOptions,
    check: Callable[[Snapshot], None] = lambda _: None,
) -> Changed:
    """Change a table by the rows of files.

    Args:
        spark: The session.
        table: The table.
        reader: Reads the files.
        options: How.
        check: Looks at the table that the change goes on from; may raise to end it.

    Raises:
        SingerlakeError: As :func:`upload` does.
    """
    described = {"files": [file.described() for file in reader.files]}
    wanted = replace(options.change, metadata={**options.change.metadata, **described})

    def rows(present: Snapshot) -> list[RowSet]:
        check(present)
        columns = shape_of(present).columns
        step, tasks = reader.step(spark, columns)
        indexes = reader.indexes(columns)
        return [RowSet(numbered(spark, tasks), tuple(indexes), reader.names, step, tasks)]

    return change(spark, table, rows, options.mode, options=wanted)
