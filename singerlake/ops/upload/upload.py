"""Upload: the rows of files into a table that is there, as a change, or into a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from singerlake.engine.choice import EngineChoice
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.ops.change.change import ChangeStep, change
from singerlake.ops.change.job import Changed
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.upload.given_readers import CsvReader, FileRows
from singerlake.ops.upload.new_table import NewTable, make, make_at_once, plan_new
from singerlake.rows.given.csv.dialect import Dialect
from singerlake.rows.given.files import GivenFile
from singerlake.rows.given.values.inference import Spec

WHAT = "creating a table from files"


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
    lake: Lake,
    table: Table | TableName,
    files: Sequence[GivenFile],
    options: UploadOptions | None = None,
    choice: EngineChoice | None = None,
    show: Callable[[NewTable], None] = lambda _: None,
) -> Uploaded:
    """Upload files.

    Args:
        lake: The lake.
        table: The table; the name of one that is to be made.
        files: The files, from ``given.files.open_files``.
        options: How.
        choice: What may read the files, and write rows.
        show: Is shown a new table before it is made.

    Raises:
        RejectedRowsError: Rows that cannot be taken; each problem is named, nothing was changed.
        ConflictError: Rows were changed since they were read, or somebody made the table.
        UsageError: It cannot be done as asked.
        RuntimeMissingError: Spark is needed, and it or Java is not installed.
    """
    options, choice = options or UploadOptions(), choice or EngineChoice()
    with FileRows(files, options.dialect, lake.store) as rows:
        if isinstance(table, TableName):
            return _into_new(lake, table, rows, options, choice, show)
        done = upload_rows(table, rows, options, choice)
        return Uploaded(table.name, options.mode, None, done)


def upload_rows(
    table: Table, rows: FileRows, options: UploadOptions, choice: EngineChoice
) -> Changed:
    """Change a table by the rows of files, which its log describes."""
    described = {"files": rows.described()}
    wanted = replace(options.change, metadata={**options.change.metadata, **described})
    return change(table, [ChangeStep(options.mode, rows, "")], wanted, choice)


def _into_new(
    lake: Lake,
    name: TableName,
    rows: FileRows,
    options: UploadOptions,
    choice: EngineChoice,
    show: Callable[[NewTable], None],
) -> Uploaded:
    engine = choice.engine_for(rows.work, WHAT)
    reader, made = rows.reader(engine), None
    if isinstance(reader, CsvReader) and not options.types and not options.change.dry_run:
        new, made = make_at_once(engine, lake, name, reader, options.keys, options.change, show)
    else:
        new = plan_new(engine, name, reader, keys=options.keys, types=options.types)
    if made is None:
        show(new)
        made = make(engine, lake, new, options.change)
    changed = Changed(made.transaction, inserted=made.rows, version=made.version)
    return Uploaded(name, options.mode, new, changed)
