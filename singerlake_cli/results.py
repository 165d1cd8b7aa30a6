"""Rows of a query, as text: a first screenful for people, streams for everything else."""

from __future__ import annotations

import base64
import csv
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from singerlake import safe_text
from singerlake.errors import InvalidQueryError, StoreError
from singerlake.format import times

if TYPE_CHECKING:
    from singerlake.spark.answer import Answer

FIRST_ROWS = 1000
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What begins a formula in one spreadsheet or another, also in the width of Chinese letters."""


def first_rows(answer: Answer) -> tuple[list[str], list[list[str | None]], bool]:
    """Headings for ``output.print_table``, the first rows as text, and whether there are more."""
    rows = answer.glimpse(FIRST_ROWS + 1)
    headings = [
        f"{name}>" if _all_numbers([row[place] for row in rows]) else f"{name}~"
        for place, name in enumerate(answer.columns)
    ]
    texts = [[text(value) for value in row] for row in rows[:FIRST_ROWS]]
    return headings, texts, len(rows) > FIRST_ROWS


def _all_numbers(values: list[Any]) -> bool:
    return all(
        value is None or (isinstance(value, (int, float, Decimal)) and not isinstance(value, bool))
        for value in values
    )


@contextmanager
def _opened(to: Path | None, shown: Callable[[str], str]) -> Iterator[IO[str]]:
    """A file to write text to, or standard output.

    Args:
        to: The file.
        shown: How a terminal is given the text; files and pipes are given it as it is.
    """
    if to is None:
        yield cast("IO[str]", _Screen(shown)) if sys.stdout.isatty() else sys.stdout
        return
    try:
        with to.open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise StoreError(f"cannot write {to}: {error.strerror}") from error


class _Screen:
    """A terminal, which would obey what stands in rows."""

    def __init__(self, shown: Callable[[str], str]) -> None:
        self._shown = shown

    def write(self, text: str) -> int:
        return sys.stdout.write(self._shown(text))


def write_parquet(answer: Answer, to: Path) -> None:
    """Stream all rows into one Parquet file."""
    import pyarrow.parquet as pq

    _check_unique(answer.columns)
    try:
        batches = answer.batches()
        first = next(batches)
        with pq.ParquetWriter(to, first.schema, compression="zstd") as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)
    except OSError as error:
        raise StoreError(f"cannot write {to}: {error.strerror}") from error


def _check_unique(columns: list[str]) -> None:
    """Where a row's values are found by name, two of one name would be one."""
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise InvalidQueryError(
            f"the answer has two columns named {twice[0]!r}: give one another name with AS"
        )


def write(answer: Answer, form: str, to: Path | None, *, safe_cells: bool = False) -> None:
    """Stream all rows as csv, tsv or jsonl; null is an empty cell.

    Args:
        answer: The rows.
        form: ``csv``, ``tsv`` or ``jsonl``.
        to: A file; standard output without one.
        safe_cells: Put an apostrophe before texts of csv and tsv that a spreadsheet would compute.
    """
    if form == "jsonl":
        with _opened(to, safe_text.visible_json) as out:
            _write_lines(answer, out)
        return
    with _opened(to, lambda text: safe_text.visible(text, spaces=True)) as out:
        _write_cells(answer, "excel-tab" if form == "tsv" else "excel", out, safe_cells)


def _write_lines(answer: Answer, out: IO[str]) -> None:
    columns = answer.columns
    _check_unique(columns)
    for row in _rows(answer):
        out.write(_json(dict(zip(columns, row, strict=True))) + "\n")


def _write_cells(answer: Answer, dialect: str, out: IO[str], safe_cells: bool) -> None:
    cell = _inert if safe_cells else text
    writer = csv.writer(_Rows(out), dialect=dialect, lineterminator=_Rows.END)
    writer.writerow([cell(name) for name in answer.columns])
    writer.writerows([cell(value) for value in row] for row in answer.rows())


class _Rows:
    """Rows as they are written; a carriage return in a cell is quoted as a line's end is.

    The csv module quotes those characters that its own line ends with, and no other.
    """

    END = "\r\n"

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def write(self, row: str) -> int:
        return self._out.write(row.removesuffix(self.END) + "\n")


def _inert(value: Any) -> str | None:
    """A cell that no spreadsheet takes for a formula; numbers stay numbers."""
    cell = text(value)
    number = isinstance(value, (int, float, Decimal))
    return f"'{cell}" if cell is not None and not number and cell.startswith(_FORMULA) else cell


def write_json(answer: Answer, to: Path | None) -> None:
    """Stream one JSON document: what was read, the columns, the rows as arrays."""
    with _opened(to, safe_text.visible_json) as out:
        _write_json(answer, out)


def _write_json(answer: Answer, out: IO[str]) -> None:
    read = [
        {
            "table": str(r.table),
            "version": r.version,
            "transaction": r.transaction,
            "misfits": dict(r.misfits),
        }
        for r in answer.sources
    ]
    out.write(f'{{"read": {_json(read)},\n "columns": {_json(answer.columns)},\n')
    out.write(' "rows": [')
    separator = "\n  "
    for row in _rows(answer):
        out.write(separator + _json(row))
        separator = ",\n  "
    out.write("]}\n")


def _rows(answer: Answer) -> Iterator[list[Any]]:
    for row in answer.rows():
        yield [plain(value) for value in row]


def plain(value: Any) -> Any:
    """A Spark value as JSON has it; a decimal as text, so that no digit is lost."""
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


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def text(value: Any) -> str | None:
    """A Spark value as one cell: text as it is, all else as JSON, null as None."""
    value = plain(value)
    if value is None or isinstance(value, str):
        return value
    return _json(value)
