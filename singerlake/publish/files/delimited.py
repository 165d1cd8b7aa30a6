"""CSV and TSV: a header, canonical text, quotes where they are needed.

An empty cell is null, and an empty text is quoted, as the lake's own upload reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format.types import Kind, Type
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

_DELIMITERS = {Format.CSV: ",", Format.TSV: "\t"}
_QUOTED_INSIDE = (Kind.DATE, Kind.TIMESTAMP)
"""Their canonical text has quotes, as JSON wants them."""


class Delimited(TextFormat):
    """Cells with a delimiter between them.

    Args:
        format: CSV or TSV.
    """

    def __init__(self, format: Format) -> None:  # noqa: A002
        self.format = format  # type: ignore[misc]  # of this one

    def writer(self, out: BinaryIO, schema: pa.Schema, layout: Layout) -> FileWriter:
        """Begin a file; the header is in it, whether rows follow or not."""
        return _Writer(out, schema, layout, self.format)


class _Writer(FileWriter):
    def __init__(
        self,
        out: BinaryIO,
        schema: pa.Schema,
        layout: Layout,
        format_: Format,
    ) -> None:
        self._format = format_
        self._delimiter = _DELIMITERS[format_]
        # A file that begins with a byte order mark is taken to be without it.
        self._special = f'["\r\n\ufeff{self._delimiter}]'
        self._columns = columns_of(schema)
        self._out = Compressed(out, layout.compression)
        names = self._quoted(pa.array(schema.names, pa.large_string())).to_pylist()
        self._out.write((self._delimiter.join(names) + "\n").encode())

    def write(self, batch: pa.RecordBatch) -> None:
        pieces: list[str | pa.Array] = []
        for number, (name, type_) in enumerate(self._columns):
            array = batch.column(number)
            check_finite(array, name, self._format)
            if number:
                pieces.append(self._delimiter)
            pieces.append(pc.fill_null(self._cells(shortest(array), type_), ""))
        self._out.write(text_bytes.written(canonical_text.joined(*pieces, "\n")).data)

    def _cells(self, array: pa.Array, type_: Type) -> pa.Array:
        if type_.kind is Kind.STRING:
            return self._quoted(pc.cast(array, pa.large_string()))
        text = canonical_text.texts(array, type_)
        if type_.kind in _QUOTED_INSIDE:
            return pc.utf8_trim(text, '"')
        return self._quoted(text) if type_.kind in (Kind.STRUCT, Kind.LIST) else text

    def _quoted(self, text: pa.Array) -> pa.Array:
        needed = pc.or_(
            pc.equal(pc.binary_length(text), 0), pc.match_substring_regex(text, self._special)
        )
        if not pc.any(needed).as_py():
            return text
        inside = canonical_text.joined('"', pc.replace_substring(text, '"', '""'), '"')
        return pc.if_else(needed, inside, text)

    def close(self) -> Mapping[str, Any]:
        self._out.close()
        return {}
