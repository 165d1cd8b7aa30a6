"""JSON lines: an object a row, every column in it, values in the lake's canonical text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.publish.files.base import FileWriter, Layout
from singerlake.publish.files.texts import (
    Compressed,
    TextFormat,
    check_finite,
    columns_of,
    shortest,
)
from singerlake.publish.projection import Format
from singerlake.rows.columns import canonical_text, text_bytes


class JsonLines(TextFormat):
    """JSON lines. A null is written, so that a reader sees all columns in the first line."""

    format = Format.JSONL

    def writer(self, out: BinaryIO, schema: pa.Schema, layout: Layout) -> FileWriter:
        """Begin a file."""
        return _Writer(out, schema, layout)


class _Writer(FileWriter):
    def __init__(self, out: BinaryIO, schema: pa.Schema, layout: Layout) -> None:
        self._columns = columns_of(schema)
        self._out = Compressed(out, layout.compression)

    def write(self, batch: pa.RecordBatch) -> None:
        pieces: list[str | pa.Array] = []
        for number, (name, type_) in enumerate(self._columns):
            array = batch.column(number)
            check_finite(array, name, Format.JSONL)
            text = canonical_text.texts(shortest(array), type_)
            label = f"{',' if number else '{'}{canonical_text.string_text(name)}:"
            pieces += [label, pc.fill_null(text, "null")]
        self._out.write(text_bytes.written(canonical_text.joined(*pieces, "}\n")).data)

    def close(self) -> Mapping[str, Any]:
        self._out.close()
        return {}
