"""`singerlake upload` of a folder: its options, its progress, and its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from singerlake.errors import UsageError
from singerlake.lake import Lake, Table
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake_cli import changes, output
from singerlake_cli.file_options import FileOptions
from singerlake_cli.shared import Shared
from singerlake_cli.working import follow, working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.files.folder import Folder, FolderStats
    from singerlake.files.folder_rows import FolderRows
    from singerlake.format.names import TableName
    from singerlake.log.table_state import TableState
    from singerlake.ops.upload.new_table import NewTable
    from singerlake.ops.upload.upload_folder import FolderUploaded

MODES = (Mode.REPLACE, Mode.UPSERT)
_STORED = 0.9
"""The share of an upload that is done when its files are stored: the rows are few and small."""


def folder_of(lake: Lake, files: Sequence[str]) -> Folder | None:
    """Return the folder that is to be uploaded; None for files of rows.

    Raises:
        UsageError: A folder is named among files, or one that is part of the lake.
    """
    from singerlake.files.folder import Folder

    root = lake.store.local_path("")
    found = [Folder.named(file, root) for file in files]
    if not any(found):
        return None
    folder = found[0]
    if folder is None or len(files) > 1:
        raise UsageError("upload one folder, or one pattern in quotes, at a time")
    if root is not None and folder.root.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"{folder.name} is a folder of the lake itself: name another")
    return folder


def check(
    target: Table | TableState,
    mode: str | None,
    said: Mapping[str, str | None],
    reading: FileOptions,
) -> None:
    """Refuse options that have no meaning for a folder.

    Args:
        target: The table, or the state that a new one continues.
        mode: The value of ``--mode``.
        said: Options of a new table of rows, by name.
        reading: The options for reading files of rows.

    Raises:
        UsageError: It was asked; or the table is one of other rows.
    """
    from singerlake.files.folder_rows import check_fits

    if mode not in (None, *MODES):
        raise UsageError(
            f"--mode {mode} is for files of rows: a folder is uploaded with replace, which also "
            "removes the rows of files that are gone, or with upsert, which does not"
        )
    given = {**said, **vars(replace(reading, overwrite=False))}
    if unfit := [name for name, value in given.items() if value]:
        option = unfit[0].replace("_", "-")
        raise UsageError(f"--{option} is for files of rows, and this is a folder: leave it out")
    if isinstance(target, Table):
        check_fits(target.snapshot())


def upload(
    shared: Shared,
    lake: Lake,
    into: Table | TableName,
    folder: Folder,
    mode: str | None,
    change: ChangeOptions,
    choice: EngineChoice,
    show: Callable[[NewTable], None],
) -> None:
    """Upload a folder, and report it.

    Args:
        into: The table, or the name of a new one.
        mode: The value of ``--mode``.
        choice: The engines that may write the rows.
        show: Is shown a new table.

    Raises:
        SingerlakeError: It cannot be done; no row has changed.
    """
    seen = folder.look()
    from singerlake.ops.upload.upload import UploadOptions
    from singerlake.ops.upload.upload_folder import upload_folder

    options = UploadOptions(Mode(mode or Mode.REPLACE), change=change)
    name = into.name if isinstance(into, Table) else into

    def count(rows: FolderRows) -> None:
        doing = "reading files" if change.dry_run else "storing files"
        follow(lambda: (doing, rows.done, seen.files), to=_STORED)

    with working(f"uploading into {name}"):
        done = upload_folder(lake, into, folder, options, choice, follow=count, show=show)
    shared.output.result(
        lambda: _as_json(done, folder, dry_run=change.dry_run),
        lambda: _print(done, folder, seen, dry_run=change.dry_run),
    )


def _print(done: FolderUploaded, folder: Folder, seen: FolderStats, *, dry_run: bool) -> None:
    changes.print_done(done.uploaded.table, done.uploaded.changed, dry_run=dry_run)
    if folder.pattern:
        output.say(f"paths are relative to {folder.base}")
    if dry_run:
        return
    stored, size = output.count(done.stored, "file"), output.size(done.stored_bytes)
    there = seen.files - done.stored
    rest = f"; the lake had the content of {there:,} already" if there else ""
    output.say(f"{stored} stored, {size}{rest}")


def _as_json(done: FolderUploaded, folder: Folder, *, dry_run: bool) -> dict[str, Any]:
    uploaded = done.uploaded
    return {
        **changes.as_json(uploaded.table, uploaded.changed, dry_run=dry_run),
        "mode": str(uploaded.mode),
        "created": uploaded.made is not None and not dry_run,
        "folder": done.folder,
        "paths_from": folder.base,
        "stored": None if dry_run else {"files": done.stored, "bytes": done.stored_bytes},
    }
