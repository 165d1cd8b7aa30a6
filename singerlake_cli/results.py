"""Rows of a query, as text: a first screenful for people, streams for everything else."""

from __future__ import annotations

import base64
import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from singerlake.errors import InvalidQueryError, StoreError
from singerlake.format import times

if TYPE_CHECKING:
    from singerlake.spark.answer import Answer

FIRST_ROWS = 1000


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
def _opened(to: Path | None) -> Iterator[IO[str]]:
    """A file to write text to, or standard output."""
    if to is None:
        yield sys.stdout
        return
    try:
        with to.open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise StoreError(f"cannot write {to}: {error.strerror}") from error


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


def write(answer: Answer, form: str, to: Path | None) -> None:
    """Stream all rows as csv, tsv or jsonl; null is an empty cell."""
    with _opened(to) as out:
        _write(answer, form, out)


def _write(answer: Answer, form: str, out: IO[str]) -> None:
    columns = answer.columns
    if form == "jsonl":
        _check_unique(columns)
        for row in _rows(answer):
            out.write(_json(dict(zip(columns, row, strict=True))) + "\n")
        return
    writer = csv.writer(out, dialect="excel-tab" if form == "tsv" else "excel", lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([text(value) for value in row] for row in _rows(answer))


def write_json(answer: Answer, to: Path | None) -> None:
    """Stream one JSON document: what was read, the columns, the rows as arrays."""
    with _opened(to) as out:
        _write_json(answer, out)


def _write_json(answer: Answer, out: IO[str]) -> None:
    read = [
        {"table": str(r.table), "version": r.version, "transaction": r.transaction}
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
