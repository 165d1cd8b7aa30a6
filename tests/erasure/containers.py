"""Containers with room for bytes that no row is in: headers, metadata, dictionaries, gaps."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.erasure import planted

EXTRA, NAME, COMMENT = 4, 8, 16
Container = Callable[[bytes], bytes]


def member(flags: int, field: bytes, text: bytes = b"{}\n") -> bytes:
    """A gzip member with one of the fields that a header may have."""
    body = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = body.compress(text) + body.flush()
    header = b"\x1f\x8b\x08" + bytes([flags]) + bytes(6)
    if flags == EXTRA:
        field = struct.pack("<H2sH", 4 + len(field), b"XX", len(field)) + field
    return header + field + packed + struct.pack("<II", zlib.crc32(text), len(text))


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", **options)
    return sink.getvalue()


def with_gap(gap: bytes) -> bytes:
    """A Parquet file with bytes before its footer that nothing names."""
    data = planted.parquet(id=[1])
    footer = 8 + int.from_bytes(data[-8:-4], "little")
    return data[:-footer] + gap + data[-footer:]


def _of_field(text: bytes) -> bytes:
    field = pa.field("a", pa.int64(), metadata={b"comment": text})
    return parquet(pa.table([[1]], pa.schema([field])))


def _unused(text: bytes) -> bytes:
    values = pa.array(["Ada", text.decode()])
    column = pa.DictionaryArray.from_arrays(pa.array([0]), values)
    return parquet(pa.table({"a": column}), store_schema=False)


def _unused_within(text: bytes) -> bytes:
    values = pa.array(["Ada", text.decode()])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0]), values)
    return parquet(pa.table({"a": pa.ListArray.from_arrays(pa.array([0, 2]), column)}))


IN_GZIP: dict[str, Container] = {
    "a file's name in gzip": lambda text: member(NAME, text + b"\0"),
    "a comment in gzip": lambda text: member(COMMENT, text + b"\0"),
    "an extra field in gzip": lambda text: member(EXTRA, text),
    "a header that was cut off": lambda text: member(NAME, text)[: 10 + len(text)],
    "a comment of the second member": lambda text: (
        gzip.compress(b"{}\n") + bytes(3) + member(COMMENT, text + b"\0")
    ),
    "a comment of gzip within gzip": lambda text: gzip.compress(member(COMMENT, text + b"\0")),
    "what follows gzip": lambda text: gzip.compress(b"{}\n") + text,
}
IN_PARQUET: dict[str, Container] = {
    "the metadata of a table in Parquet": lambda text: parquet(
        pa.table({"a": [1]}).replace_schema_metadata({b"x": text})
    ),
    "the metadata of a field in Parquet": _of_field,
    "a gap in Parquet": with_gap,
}
IN_DICTIONARY: dict[str, Container] = {
    "a value in a dictionary that no row has": _unused,
    "a nested value in a dictionary that no row has": _unused_within,
}
ANYWHERE: dict[str, Container] = {
    "a file": lambda text: b"\x00\x01" + text + b"\x00",
    "a line": lambda text: b"a\n" + text + b"\nb\n",
    "a line in gzip": lambda text: gzip.compress(b"a\n" + text + b"\nb\n"),
    "the second member": lambda text: gzip.compress(b"a\n") + gzip.compress(text),
    "gzip that was cut off": lambda text: gzip.compress(text + b"\n" + bytes(99))[:-9],
    "a column of binary values": lambda text: planted.parquet(a=[b"x", text]),
    **IN_GZIP,
    **IN_PARQUET,
}
"""By what they are, and with any bytes in them but a zero."""

SPELLINGS: dict[str, Callable[[str], str]] = {
    "itself": lambda text: text,
    "a string of JSON": json.dumps,
    "a string of JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON within JSON": lambda text: json.dumps({"a": json.dumps({"b": text})}),
    "percent-encoded": lambda text: quote(text, safe=""),
    "percent-encoded in small letters": lambda text: quote(text, safe="").lower(),
    "percent-encoded twice": lambda text: quote(quote(text, safe=""), safe=""),
    "all of it percent-encoded": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
}
"""All ways of text that the page of the check promises to see."""
