"""Rows of a query, as text: a first screenful for people, streams for everything else."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click

from singerlake import safe_text
from singerlake.errors import InvalidQueryError, UsageError
from singerlake.format import times
from singerlake.quantities import repeated
from singerlake.spreadsheet_cells import inert

if TYPE_CHECKING:
    from singerlake.snapshot.result import Result

Command = TypeVar("Command", bound=Callable[..., Any])
FIRST_ROWS = 1000
FORMS = ("table", "csv", "tsv", "jsonl", "parquet")
"""What ``--format`` may be."""
PAGES = ("html", "markdown")
"""What it may be besides, of a command that shows its rows to people on a page."""
_PAGE_SUFFIXES = {".html": "html", ".htm": "html", ".md": "markdown"}
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
}


def row_options(command: Command) -> Command:
    """Add the options of all commands that print rows: the format, and the file."""
    return _row_options(command, FORMS, "All but `table` stream any number of rows.")


def row_and_page_options(command: Command) -> Command:
    """Add the same to a command that prints pages for people, too."""
    return _row_options(
        command,
        (*FORMS, *PAGES),
        "html and markdown are pages for people, table is for the terminal; the others stream any "
        "number of rows.",
    )


def _row_options(command: Command, forms: Sequence[str], about: str) -> Command:
    options = (
        click.option(
            "--format",
            "form",
            type=click.Choice(forms),
            help=f"How rows are printed. {about}  [default: "
            "by the extension of --out, otherwise table]",
        ),
        click.option(
            "--safe-cells",
            is_flag=True,
            help="For spreadsheets: in csv and tsv, put ' before texts that would be evaluated; "
            "upload --safe-cells removes it.",
        ),
        click.option(
            "--out",
            "to",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="A file to write; parquet needs one.",
        ),
        click.option("--force", is_flag=True, help="Replace the file in --out if it exists."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def form_of(given: str | None, to: Path | None, *, as_json: bool, pages: bool = False) -> str:
    """Return the format of rows: as the option says, else as the file's name does.

    Args:
        given: The value of ``--format``.
        as_json: Whether the output is for scripts.
        pages: Whether the command gives pages, too.

    Raises:
        UsageError: Parquet without a file, or a name that says no format.
    """
    if to is None:
        if given == "parquet":
            raise UsageError("parquet is not for a terminal: name a file with --out")
        return "json" if as_json else given or "table"
    if given is not None:
        return given
    suffix = to.suffix.lower()
    suffixes = _SUFFIXES | (_PAGE_SUFFIXES if pages else {})
    if suffix in suffixes:
        return suffixes[suffix]
    if as_json:
        return "json"
    raise UsageError(
        f"the name {to.name} does not specify a format: end it in {', '.join(suffixes)}, or add "
        "--format"
    )


def first_rows(answer: Result) -> tuple[list[str], list[list[str | None]], bool]:
    """Return headings for ``output.print_table``, the first rows as text, and if there are more."""
    rows = answer.glimpse(FIRST_ROWS + 1)
    headings = [
        f"{name}>" if _all_numbers([row[index] for row in rows]) else f"{name}~"
        for index, name in enumerate(answer.columns)
    ]
    texts = [[glanced_at(value) for value in row] for row in rows[:FIRST_ROWS]]
    return headings, texts, len(rows) > FIRST_ROWS


def _all_numbers(values: list[Any]) -> bool:
    return all(
        value is None or (isinstance(value, (int, float, Decimal)) and not isinstance(value, bool))
        for value in values
    )


@contextmanager
def _opened(to: Path | None, shown: Callable[[str], str]) -> Iterator[IO[str]]:
    """Open a file to write text to, or standard output.

    Args:
        shown: Makes the text safe for a terminal; files and pipes get it as it is.
    """
    if to is None:
        yield cast("IO[str]", _Screen(shown)) if sys.stdout.isatty() else sys.stdout
        return
    with to.open("w", encoding="utf-8", newline="") as file:
        yield file


class _Screen:
    """A terminal, which would obey control characters in rows."""

    def __init__(self, shown: Callable[[str], str]) -> None:
        self._shown = shown

    def write(self, text: str) -> int:
        return sys.stdout.write(self._shown(text))


def write(answer: Result, form: str, to: Path | None, *, safe_cells: bool = False) -> int:
    """Stream all rows in a form; in csv and tsv null is an empty cell, and an empty text ``""``.

    Args:
        form: ``csv``, ``tsv``, ``jsonl``, ``json`` or ``parquet``; ``table`` is csv.
        to: A file; standard output without one, which parquet must not be.
        safe_cells: Put an apostrophe before texts of csv and tsv that a spreadsheet would compute.

    Returns:
        How many rows were written.

    Raises:
        OSError: The file cannot be written.
    """
    if form == "parquet" and to is not None:
        return _write_parquet(answer, to)
    if form in ("json", "jsonl"):
        with _opened(to, safe_text.visible_json) as out:
            return _write_json(answer, out) if form == "json" else _write_lines(answer, out)
    with _opened(to, lambda text: safe_text.visible(text, spaces=True)) as out:
        return _write_cells(answer, "\t" if form == "tsv" else ",", out, safe_cells)


def write_text(text: str, to: Path | None) -> None:
    """Write a text that is a whole file, or print it.

    Args:
        text: Ends in a newline.
    """
    with _opened(to, str) as out:
        out.write(text)


def _write_parquet(answer: Result, to: Path) -> int:
    import pyarrow.parquet as pq

    _check_unique(answer.columns)
    batches = answer.batches()
    first = next(batches)
    count = int(first.num_rows)
    with pq.ParquetWriter(to, first.schema, compression="zstd") as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _check_unique(columns: list[str]) -> None:
    """Refuse duplicate column names in a format that finds a row's values by name."""
    if twice := repeated(columns):
        raise InvalidQueryError(
            f"the result has two columns named {twice[0]!r}: rename one with AS"
        )


def _write_lines(answer: Result, out: IO[str]) -> int:
    columns = answer.columns
    _check_unique(columns)
    count = 0
    for count, row in enumerate(_rows(answer), start=1):  # noqa: B007  # the last is what counts
        out.write(_json(dict(zip(columns, row, strict=True))) + "\n")
    return count


def _write_cells(answer: Result, delimiter: str, out: IO[str], safe_cells: bool) -> int:
    cell = _inert if safe_cells else text
    # A byte order mark too, for a file that begins with one is taken to be without it.
    needs_quotes = re.compile(f'["\r\n\ufeff{delimiter}]').search

    def quoted(cell: str | None) -> str:
        if cell is None:
            return ""
        if cell and not needs_quotes(cell):
            return cell
        return '"' + cell.replace('"', '""') + '"'

    out.write(delimiter.join(quoted(cell(name)) for name in answer.columns) + "\n")
    count = 0
    for count, row in enumerate(answer.rows(), start=1):  # noqa: B007
        out.write(delimiter.join([quoted(cell(value)) for value in row]) + "\n")
    return count


def _inert(value: Any) -> str | None:
    """Return a cell that no spreadsheet takes for a formula; numbers stay numbers."""
    cell = text(value)
    return cell if cell is None or isinstance(value, (int, float, Decimal)) else inert(cell)


def write_document(members: Mapping[str, Any], answer: Result, to: Path | None) -> int:
    """Stream one JSON document: some members, then ``rows``, each an object.

    Args:
        members: The members before the rows.
        to: A file; standard output without one.

    Returns:
        How many rows were written.

    Raises:
        OSError: The file cannot be written.
    """
    with _opened(to, safe_text.visible_json) as out:
        head = "".join(f"{_json(name)}: {_json(value)},\n " for name, value in members.items())
        objects = (dict(zip(answer.columns, row, strict=True)) for row in _rows(answer))
        return _write_array("{" + head, objects, out)


def _write_json(answer: Result, out: IO[str]) -> int:
    """Write one JSON document: the sources, the columns, the rows as arrays."""
    read = [
        {
            "table": str(r.table),
            "version": r.version,
            "transaction": r.transaction,
            "misfits": dict(r.misfits),
        }
        for r in answer.sources
    ]
    head = f'{{"read": {_json(read)},\n "columns": {_json(answer.columns)},\n '
    return _write_array(head, _rows(answer), out)


def _write_array(head: str, rows: Iterable[Any], out: IO[str]) -> int:
    """Write the end of a document: its rows, one a line."""
    out.write(f'{head}"rows": [')
    count = 0
    for count, row in enumerate(rows, start=1):
        out.write(("\n  " if count == 1 else ",\n  ") + _json(row))
    out.write("]}\n")
    return count


def _rows(answer: Result) -> Iterator[list[Any]]:
    for row in answer.rows():
        yield [plain(value) for value in row]


def plain(value: Any) -> Any:
    """Convert a Spark value for JSON; a decimal becomes text, so that no digit is lost."""
    if isinstance(value, datetime):
        return times.iso(value if value.tzinfo else value.replace(tzinfo=timezone.utc))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if hasattr(value, "asDict"):
        return {name: plain(part) for name, part in value.asDict().items()}
    if isinstance(value, dict):
        return {str(plain(key)): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


def shown(value: Any) -> str | None:
    """Convert a Spark value to a cell for people: a time without digits that are all zero."""
    cell = text(value)
    if isinstance(value, datetime) and cell is not None:
        return cell.replace(".000000", "", 1)
    return cell


def glanced_at(value: Any) -> str | None:
    """Do as :func:`shown`; of a named file, show its name, size, type and hash."""
    cell = shown(value)
    if cell is None or cell[:1] != "{" or '"files/' not in cell:
        return cell
    from singerlake.files import stored  # few rows name files

    file = stored.of_value(cell)
    return cell if file is None else file.glance


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def text(value: Any) -> str | None:
    """Convert a Spark value to a cell: text as it is, all else as JSON, null as None."""
    value = plain(value)
    if value is None or isinstance(value, str):
        return value
    return _json(value)
