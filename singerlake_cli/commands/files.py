"""singerlake files: the files that a table's rows name."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from singerlake.errors import StoreError, UsageError
from singerlake_cli import output
from singerlake_cli.shared import (
    Shared,
    SubcommandGroup,
    begin_spark,
    complete_table,
    spark_options,
    start_spark,
)
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.api import Table
    from singerlake.files.stored import StoredFile

_TABLE = click.argument("table", metavar="TABLE[.VERSION|.@T]", shell_complete=complete_table)


@click.group("files", cls=SubcommandGroup)
def command() -> None:
    """List and extract files that rows reference, such as photos.

    Files are those of the current rows, of a frozen VERSION, or of transaction T. If the snapshot
    was never queried, it is materialized first, on Spark if it is large.

    \b
    singerlake files ls tap-shop.products
    singerlake files get tap-shop.products photos/17.jpg --out 17.jpg
    singerlake files export tap-shop.products.2 photos-of-2
    """


@command.command("ls")
@_TABLE
@spark_options
@click.pass_obj
def ls(shared: Shared, table: str, master: str | None, conf: tuple[str, ...]) -> None:
    """List the files that the rows of a TABLE reference.

    \b
    singerlake files ls tap-shop.products
    singerlake files ls tap-shop.products.2
    """
    _, found = _files(shared, table, master, conf)

    def text() -> None:
        rows = [
            [file.name, _size(file), file.content_type or None, file.digest[:16]] for file in found
        ]
        total = output.size(sum(file.size or 0 for file in found))
        note = f"{output.count(len(found), 'file')}, {total}"
        output.print_table(
            None, ["name", "size>", "type", "sha-256"], rows, note, drop=("sha-256", "type")
        )

    shared.output.result(lambda: [_as_json(file) for file in found], text)


@command.command("get")
@_TABLE
@click.argument("name")
@click.option(
    "--out",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to create; it must not exist.  [default: standard output]",
)
@spark_options
@click.pass_obj
def get(
    shared: Shared,
    table: str,
    name: str,
    target: Path | None,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Write one file of a TABLE to standard output, or to a file.

    NAME is a name in `files ls`, or at least the first 8 digits of the file's SHA-256. Names with
    control characters are shown escaped: get such a file by its hash. The content is checked
    against the hash; if it differs, the command fails, and FILE is not created.

    \b
    singerlake files get tap-shop.products photos/17.jpg > 17.jpg
    singerlake files get tap-shop.products.2 98342f0c --out 17.jpg
    """
    if target is not None and target.exists():
        raise UsageError(f"{target} already exists: name another file")
    if target is None and sys.stdout.isatty():
        raise UsageError("a terminal cannot show a file: add --out FILE, or > file")
    from singerlake.files import stored

    lake_table, found = _files(shared, table, master, conf)
    file = stored.chosen(found, name)
    if target is None:
        with lake_table.open_file(file.path) as source:
            shutil.copyfileobj(source, sys.stdout.buffer, stored.PIECE_BYTES)
        sys.stdout.buffer.flush()
        return
    part = target.with_name(f".{target.name}.{os.urandom(8).hex()}.part")
    try:
        with part.open("xb") as out, lake_table.open_file(file.path) as source:
            shutil.copyfileobj(source, out, stored.PIECE_BYTES)
        os.link(part, target)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


@command.command("export")
@_TABLE
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@spark_options
@click.pass_obj
def export(
    shared: Shared, table: str, folder: Path, master: str | None, conf: tuple[str, ...]
) -> None:
    """Write all files that the rows of a TABLE reference into a FOLDER.

    Files get their original names below FOLDER. If a name leads out of it, nothing is written. Each
    file is checked against its SHA-256. Existing files with the same content stay; others are an
    error.

    \b
    singerlake files export tap-shop.products.2 photos-of-2
    """
    from singerlake.files import stored

    lake_table, found = _files(shared, table, master, conf)
    wanted = stored.targets(found)
    with working("writing files"), lake_table.lease():
        written = stored.export(lake_table.store, lake_table.name, wanted, folder.absolute())
    document = {"folder": str(folder), "files": len(wanted), "written": written}
    there = len(wanted) - written
    shared.output.result(
        lambda: document,
        lambda: output.say(
            f"{output.count(written, 'file')} written to {folder}"
            + (f"; {there:,} existed already" if there else "")
        ),
    )


def _files(
    shared: Shared, name: str, master: str | None, conf: tuple[str, ...]
) -> tuple[Table, Sequence[StoredFile]]:
    """Return the files of a state; each name and content once."""
    from singerlake.api import Lake

    lake = Lake.open(shared.uri)
    ref = lake.find(name)[1]
    lake_table = lake.table(ref.table)
    state = lake_table.at(ref.version, engine="local")
    if not state.has_files:
        raise UsageError(f"{lake_table.name} has no files: no column is of format singer.file")
    try:
        found = state.files()
    except UsageError:  # too large to be indexed here
        begin_spark(master, conf)
        with working(f"materializing {ref}"):
            start_spark(master, conf)
            found = lake_table.at(ref.version).files()
    by_name = {(file.name, file.path): file for file in found}
    return lake_table, [by_name[key] for key in sorted(by_name)]


def _size(file: StoredFile) -> str | None:
    return None if file.size is None else output.size(file.size)


def _as_json(file: StoredFile) -> dict[str, Any]:
    return {
        "name": file.name,
        "uri": file.uri or None,
        "size": file.size,
        "content_type": file.content_type or None,
        "checksum": f"SHA-256:{file.digest}",
        "path": file.path,
    }
