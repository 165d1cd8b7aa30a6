"""Rows of a query, as text: a first screenful for people, streams for everything else."""

from __future__ import annotations

import base64
import csv
import json
import sys
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

from singerlake.format import times

if TYPE_CHECKING:
    from singerlake.spark.answer import Answer

FIRST_ROWS = 1000


def first_rows(answer: Answer) -> tuple[list[str], list[list[str | None]], bool]:
    """Headings for ``output.print_table``, the first rows as text, and whether there are more."""
    rows = answer.first(FIRST_ROWS + 1)
    headings = [
        f"{name}>" if _all_numbers([row[place] for row in rows]) else f"{name}~"
        for place, name in enumerate(answer.columns)
    ]
    texts = [[_text(value) for value in row] for row in rows[:FIRST_ROWS]]
    return headings, texts, len(rows) > FIRST_ROWS


def _all_numbers(values: list[Any]) -> bool:
    return all(
        value is None or (isinstance(value, (int, float, Decimal)) and not isinstance(value, bool))
        for value in values
    )


def write(answer: Answer, form: str, to: IO[str] | None) -> None:
    """Stream all rows as csv, tsv or jsonl; null is an empty cell."""
    out = to or sys.stdout
    columns = answer.columns
    if form == "jsonl":
        for row in _rows(answer):
            out.write(_json(dict(zip(columns, row, strict=True))) + "\n")
        return
    writer = csv.writer(out, dialect="excel-tab" if form == "tsv" else "excel", lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(value) for value in row] for row in _rows(answer))


def write_json(answer: Answer, to: IO[str] | None) -> None:
    """Stream one JSON document: what was read, the columns, the rows as arrays."""
    out = to or sys.stdout
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
    return json.dumps(value, ensure_ascii=False)


def _text(value: Any) -> str | None:
    value = plain(value)
    if value is None or isinstance(value, str):
        return value
    return _json(value)
