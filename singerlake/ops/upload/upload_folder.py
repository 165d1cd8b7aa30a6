"""Uploading a folder: each file's content into the lake, and the rows of all as one change.

The files are stored before the rows that name them, and before Java starts. If something went wrong
or another process was sooner, no row names them: then they are orphan files, which the next vacuum
deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from singerlake.engine.base import Engine
from singerlake.engine.choice import EngineChoice
from singerlake.errors import ConflictError
from singerlake.files.folder import Folder
from singerlake.files.folder_rows import SCHEMA, FolderRows
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log import log
from singerlake.log.capabilities import open_for_writing
from singerlake.log.table_state import TableState
from singerlake.ops.change.change import begin
from singerlake.ops.change.job import Changed
from singerlake.ops.change.row_set import RowSet
from singerlake.ops.upload.given_readers import FileRows, Inferred
from singerlake.ops.upload.new_table import NewTable, make
from singerlake.ops.upload.upload import WHAT, Uploaded, UploadOptions, upload_rows
from singerlake.rows.input.csv.dialect import Dialect
from singerlake.rows.input.files import JSONL, GivenFile, kept
from singerlake.storage.base import Store


@dataclass(frozen=True)
class FolderGiven(GivenFile):
    """The rows of a folder's files, and how a log entry describes the folder.

    Attributes:
        rows: How many files there are.
        bytes: How many bytes they have.
    """

    rows: int
    bytes: int

    def described(self) -> dict[str, Any]:
        """Return what a log entry keeps of it."""
        return {"name": self.name, "files": self.rows, "size": self.bytes}


@dataclass(frozen=True)
class FolderUploaded:
    """The result of the upload of a folder, or of its dry run.

    Attributes:
        folder: The folder, as the log has it.
        stored: Files that the lake did not have and has now.
    """

    uploaded: Uploaded
    folder: dict[str, Any]
    stored: int
    stored_bytes: int


def upload_folder(
    lake: Lake,
    table: Table | TableName,
    folder: Folder,
    options: UploadOptions,
    choice: EngineChoice | None = None,
    *,
    follow: Callable[[FolderRows], None] = lambda _: None,
    show: Callable[[NewTable], None] = lambda _: None,
) -> FolderUploaded:
    """Upload a folder's files.

    Args:
        table: The table, which ``folder_rows.check_fits``; the name of one that is to be made.
        options: How; of a table that is made, ``mode``, ``keys`` and ``types`` mean nothing.
        choice: What may write the rows.
        follow: Is given what counts the files, before the first is read.
        show: Is shown a new table before it is made.

    Raises:
        InputError: A file cannot be stored, or changed while it was read.
        ConflictError: Somebody else made the table, or a vacuum of it ran meanwhile.
        SingerlakeError: As ``change`` does. Whatever is raised, no row has changed.
    """
    name, dry_run, choice = _name(table), options.change.dry_run, choice or EngineChoice()
    if not dry_run:
        open_for_writing(lake.store)
    if isinstance(table, Table):
        begin(table, options.change, choice)
    with ExitStack() as stack:
        before = TableState(name)
        if isinstance(table, Table):
            before = stack.enter_context(table.lease()).snapshot
        rows = FolderRows(lake.store, name, lambda: before, folder, dry_run=dry_run)
        stack.callback(rows.contents.close)
        follow(rows)
        options = _naming(options, rows)
        given = stack.enter_context(_given(rows, folder))
        source = stack.enter_context(_FolderRows(lake, before, given))
        if isinstance(table, Table):
            done = Uploaded(name, options.mode, None, upload_rows(table, source, options, choice))
        else:
            engine = choice.engine_for(source.work, WHAT)
            new = NewTable(
                name,
                SCHEMA,
                source.reader(engine),
                Inferred(SCHEMA.schema["properties"], {}, rows.done),
            )
            show(new)
            made = make(engine, lake, new, options.change)
            changed = Changed(made.transaction, inserted=made.rows, version=made.version)
            done = Uploaded(name, options.mode, new, changed)
    return FolderUploaded(done, given.described(), rows.contents.stored, rows.contents.bytes)


def _naming(options: UploadOptions, rows: FolderRows) -> UploadOptions:
    """The same for a commit whose rows name files that are stored for it."""
    writing = replace(options.change.writing, files=rows.contents)
    return replace(options, change=replace(options.change, writing=writing))


def _name(table: Table | TableName) -> TableName:
    return table.name if isinstance(table, Table) else table


@contextmanager
def _given(rows: FolderRows, folder: Folder) -> Iterator[GivenFile]:
    """Store the files; gives the rows that they make, in a file."""
    nobody: Future[str] = Future()  # asks for the hash of the rows
    with kept(rows.lines(), folder.name) as source:
        yield FolderGiven(source, JSONL, source.size, nobody, rows.done, rows.bytes)


class _FolderRows(FileRows):
    """The rows of a folder's files, as long as all is still there that they name again."""

    def __init__(self, lake: Lake, before: TableState, file: GivenFile) -> None:
        super().__init__([file], Dialect(), lake.store)
        self._before = before

    def row_set(self, engine: Engine[Any], present: TableState, source: str) -> RowSet:
        """Read them; see :meth:`FileRows.row_set` and :func:`check_no_vacuum`."""
        check_no_vacuum(self._store, self._before)
        return super().row_set(engine, present, source)


def check_no_vacuum(store: Store, before: TableState) -> None:
    """Make sure that all is still there that rows name again.

    The change begins with a table of its own, later than the one by which files were found: what
    a vacuum announced in between, the commit would not see.

    Args:
        before: The table by which files were found.

    Raises:
        ConflictError: A vacuum announced that it deletes files.
    """
    later = log.refresh(store, before)
    if any(by > before.number for by, _ in later.pending_lists):
        raise ConflictError(
            f"a vacuum of {before.table} began to delete files while these were stored: nothing "
            "was changed; run it again"
        )
