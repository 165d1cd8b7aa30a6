"""Values of the newest records, for those who ask for them with ``--samples``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from singerlake.errors import DataError
from singerlake.files import stored
from singerlake.format.annotations import ColumnEntry
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.site import words
from singerlake.site.pages import Column, Sample

MAX_LETTERS = 60
MAX_OF_FILES = 200
"""Of what is said of a file: its name, size and type, and by which digits to take it out."""
PUBLIC = "public"
"""Tables and columns of any other classification show no values."""


def add_samples(
    table: Table,
    snapshot: TableState,
    shown: list[Column],
    count: int,
    classification: str | None,
    entries: Mapping[str, ColumnEntry],
) -> list[Column]:
    """Give each column the last few values of the newest block, each once.

    Args:
        count: Values of each column.
        classification: The table's, its tap's or its lake's: of what is not public, no column
            shows values.
        entries: The columns' annotations. A column is written whole, so one property inside it
            that is classified keeps all of it back.
    """
    if not _is_public(classification):
        return shown
    records = _newest(table, snapshot)
    sampled = []
    for column in shown:
        entry = entries.get(column.name)
        if column.depth or (entry is not None and _is_classified(entry)):
            sampled.append(column)
            continue
        found: list[Sample] = []
        for record in records:
            if record.get(column.name) is not None:
                sample = _sample(table, record[column.name])
                if sample not in found:
                    found.append(sample)
            if len(found) == count:
                break
        sampled.append(msgspec.structs.replace(column, samples=found))
    return sampled


def _is_public(classification: str | None) -> bool:
    return not classification or classification.strip().lower() == PUBLIC


def _is_classified(entry: ColumnEntry) -> bool:
    return not _is_public(entry.classification) or any(map(_is_classified, entry.columns.values()))


def _newest(table: Table, snapshot: TableState) -> list[dict[str, Any]]:
    """The records of the newest block that has any, the last first."""
    for block in reversed(snapshot.blocks):
        if not block.rows:
            continue
        try:
            lines = table.read_block(block).splitlines()
        except DataError:
            return []
        messages = (json.loads(line) for line in reversed(lines))
        found = [m["record"] for m in messages if m.get("type") == "RECORD"]
        return [record for record in found if isinstance(record, dict)]
    return []


def _sample(table: Table, value: Any) -> Sample:
    file = stored.of_value(value) if isinstance(value, dict) else None
    if file is not None:
        return Sample(words.cut(file.glance, MAX_OF_FILES), table.name.key(file.path))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Sample(words.cut(text, MAX_LETTERS))
