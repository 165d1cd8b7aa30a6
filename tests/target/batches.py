"""Files of records as taps leave them, BATCH messages that name them, and what becomes of it."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.rows.columns.canonical_text import row_texts
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import from_blocks as blocks_read
from tests.target.harness import TAP


def batch(stream: str, *files: Path | str, **more: Any) -> bytes:
    """A BATCH line without its newline."""
    manifest = [one if isinstance(one, str) else one.as_uri() for one in files]
    message = {"type": "BATCH", "stream": stream, "encoding": {"format": "jsonl"}, **more}
    return json.dumps({**message, "manifest": manifest}).encode()


def jsonl(rows: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _arrow_stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, 3)
    return sink.getvalue()


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=3)
    return sink.getvalue()


def _feather(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    feather.write_feather(table, sink)
    return sink.getvalue()


FORMS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "jsonl": jsonl,
    "jsonl, gzip": lambda rows: gzip.compress(jsonl(rows)),
    "jsonl, two gzip members": lambda rows: (
        gzip.compress(jsonl(rows[:1])) + gzip.compress(jsonl(rows[1:]))
    ),
    "jsonl, zstd": lambda rows: pa.compress(jsonl(rows), "zstd", asbytes=True) if rows else b"",
    "parquet": lambda rows: _parquet(pa.Table.from_pylist(rows)),
    "parquet, gzip around it": lambda rows: gzip.compress(_parquet(pa.Table.from_pylist(rows))),
    "arrow": lambda rows: _feather(pa.Table.from_pylist(rows)),
    "arrow stream": lambda rows: _arrow_stream(pa.Table.from_pylist(rows)),
}
"""What may be in a file, whatever its message calls it."""


def rows_of(lake: Path | str, stream: str) -> list[str]:
    """The rows of a table's state as the texts that its fingerprint is the hash of."""
    table = Lake.open(str(lake)).table(TableName(TAP, stream))
    snapshot = table.snapshot()
    columns = shape_of(snapshot).columns
    found: list[str] = []
    for part in blocks_read.local_rows(table, snapshot):
        found += row_texts(part.select(range(len(columns))), columns).to_pylist()
    return sorted(found)
