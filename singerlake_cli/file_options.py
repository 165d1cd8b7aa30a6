"""Options of commands that read files of rows: their format, and the list of problems."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from singerlake.errors import SingerlakeError, UsageError
from singerlake.format.type_list import parse_names
from singerlake.lake import Table
from singerlake.log.commit import check_metadata
from singerlake.new_file import NewFile
from singerlake.ops.change.plan import ChangeOptions
from singerlake.rows.batches.problems import FIRST, Problems
from singerlake.rows.input.csv.dialect import Dialect
from singerlake.rows.input.files import CSV, FORMATS, STDIN, TSV, GivenFile, open_files
from singerlake_cli.output import Output
from singerlake_cli.rejects import rejects_file, write_rejects

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class FileOptions:
    """The options for reading files.

    Attributes:
        format: One of ``input.files.FORMATS``; None where names tell.
        null: The text that means null in CSV.
        columns: The columns of CSV without a header.
        decimal: The mark before the decimals of CSV's numbers.
        skip: Lines of CSV before its header.
        safe_cells: Whether CSV has the apostrophes of ``query --safe-cells``.
        rejects: The file for the list of problems.
        force: Whether that may replace a file.
        overwrite: Whether rows are changed that are not as ``_row_version`` says they were read.
    """

    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    null: str | None = None
    columns: str | None = None
    decimal: str | None = None
    skip: int | None = None
    safe_cells: bool | None = None
    rejects: Path | None = None
    force: bool = False
    overwrite: bool = False

    def of(self, change: ChangeOptions) -> ChangeOptions:
        """Return how a change by rows of files is made.

        Args:
            change: As the command's other options say.

        Raises:
            UsageError: There is metadata that the transaction would have twice.
        """
        check_metadata(change.metadata, "files")
        return replace(change, overwrite=self.overwrite)

    @contextmanager
    def opened(self, paths: Sequence[str], output: Output) -> Iterator[list[GivenFile]]:
        """Open files; problems of their rows are listed if that was asked for.

        Args:
            paths: Their paths; ``-`` is standard input.
            output: Gets the note that problems were listed.

        Raises:
            SingerlakeError: Something is wrong with a file, an option, or a row.
        """
        listing = rejects_file(self.rejects, force=self.force)
        with open_files(paths, sys.stdin.buffer, self.format) as files:
            self._check(files[0].format)
            try:
                yield files
            except SingerlakeError as error:
                if isinstance(error.problems, Problems):
                    self._list(listing, error.problems, output)
                raise

    def _list(self, listing: NewFile | None, problems: Problems, output: Output) -> None:
        if listing is not None:
            output.note(write_rejects(listing, problems))
        elif problems.total > FIRST:
            listed = len(problems.first)
            some = "all" if listed == problems.total else f"the first {listed:,}"
            output.note(f"{some} of them are listed with --rejects FILE")

    def dialect(self, format_: str) -> Dialect:
        """Return the dialect of CSV files.

        Raises:
            UsageError: They cannot be written so.
        """
        names = None if self.columns is None else tuple(parse_names(self.columns))
        delimiter = self.delimiter or ("\t" if format_ == TSV else ",")
        return Dialect(
            delimiter={"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter),
            encoding=self.encoding or "utf-8",
            null=self.null or "",
            names=names,
            decimal=self.decimal or ".",
            skip=self.skip or 0,
            told=self.delimiter is not None,
            safe_cells=self.safe_cells,
        )

    def dialect_for(
        self, files: Sequence[GivenFile], table: Table | None, output: Output
    ) -> Dialect:
        """Return the dialect of CSV files whose rows a table can take.

        Args:
            files: The files from :meth:`opened`.
            table: The table; None for one that is to be made of them.
            output: Gets notes on the dialect that was detected.

        Raises:
            SingerlakeError: It can take none: a column is unknown, or the key is missing.
        """
        # Arrow, which help can do without.
        from singerlake.rows.input.checks import check_files, check_for_table
        from singerlake.rows.state.shape import shape_of

        dialect = self.dialect(files[0].format)
        if table is None:
            notes = check_files(files, dialect)
        else:
            shape = shape_of(table.snapshot())
            notes = check_for_table(files, dialect, shape.columns, shape.key_names)
        for note in notes:
            output.note(note)
        return dialect

    def _check(self, format_: str) -> None:
        if format_ in (CSV, TSV):
            self.dialect(format_)
            return
        for option in _OF_CSV:
            if getattr(self, option) is not None:
                name = option.replace("_", "-")
                raise UsageError(f"--{name} is for CSV, and this is {format_}: leave it out")


def file_options(command: Command) -> Command:
    """Add the options to a command, which is given them as ``reading``, a :class:`FileOptions`."""

    @wraps(command)
    def packed(*args: Any, **given: Any) -> Any:
        named = {name: given.pop(name) for name in (*_OF_CSV, "rejects", "force", "overwrite")}
        return command(*args, reading=FileOptions(given.pop("format_"), **named), **given)

    wrapped: Any = packed
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


_OF_CSV = ("delimiter", "encoding", "null", "columns", "decimal", "skip", "safe_cells")
_OPTIONS = (
    click.option(
        "--format",
        "format_",
        type=click.Choice(FORMATS),
        help=f"The files' format.  [default: by their names; required for {STDIN}]",
    ),
    click.option(
        "--delimiter",
        metavar="CHARACTER",
        help="The delimiter of CSV.  [default: comma; semicolon, tab or | if only that splits the "
        "first line]",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        help="The encoding of CSV.  [default: utf-8; utf-16 by its byte order mark]",
    ),
    click.option(
        "--null",
        metavar="TEXT",
        help="How CSV spells null, without quotes.  [default: an empty cell]",
    ),
    click.option("--columns", metavar="A,B,…", help="The column names of CSV without a header."),
    click.option(
        "--decimal",
        type=click.Choice((".", ",")),
        help="The decimal mark of CSV's numbers.  [default: .]",
    ),
    click.option(
        "--skip",
        type=click.IntRange(min=0),
        metavar="N",
        help="Lines of CSV before its header; with --columns, before its rows.",
    ),
    click.option(
        "--safe-cells/--raw-cells",
        default=None,
        help="Remove the ' that query --safe-cells put before texts, or keep it.  [default: "
        "reject such texts]",
    ),
    click.option(
        "--rejects",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="A file that lists all rows with problems, as .csv or .jsonl.",
    ),
    click.option("--force", is_flag=True, help="Replace the file of --rejects."),
    click.option(
        "--overwrite",
        is_flag=True,
        help="Change rows even if they have changed since they were read (by _row_version).",
    ),
)
