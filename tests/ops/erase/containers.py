"""Containers with room for bytes that no row is in: headers, metadata, dictionaries, gaps."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.ops.erase import planted

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


def avro(text: bytes, codec: str) -> bytes:
    """An Avro file of three blocks, of which the second has the text; Java's writers use Snappy."""
    codecs = {"snappy": snappy_of_avro, "lz4": lz4_of_avro, "zstandard": zstandard_of_avro}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "bytes"}]}
    sink = io.BytesIO()
    pack = codecs.get(codec)
    written = "null" if pack else codec
    writer = fastavro.write.Writer(
        sink, schema, codec=written, sync_marker=b"0123456789abcdef", sync_interval=0
    )
    for value in (b"Ada", text, b"Eve"):
        writer.write({"a": value})
    writer.flush()
    return packed_again(sink.getvalue(), codec, pack) if pack else sink.getvalue()


def packed_again(data: bytes, codec: str, pack: Container) -> bytes:
    """Pack the blocks of an Avro file that are not packed, by a codec that fastavro lacks here."""
    header, *blocks, _ = data.split(sync := b"0123456789abcdef")
    name = codec.encode()
    header = header.replace(
        b"\x14avro.codec\x08null", b"\x14avro.codec" + bytes([2 * len(name)]) + name
    )
    packed = [header]
    for block in blocks:
        body = pack(block[2 if block[1] < 0x80 else 3 :])
        packed.append(block[:1] + _number(len(body)) + body)
    return sync.join([*packed, b""])


def _number(value: int) -> bytes:
    """A whole number as Avro writes it."""
    value <<= 1
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def snappy_of_avro(block: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(block, asbytes=True)
    return packed + struct.pack(">I", zlib.crc32(block))


def lz4_of_avro(block: bytes) -> bytes:
    packed: bytes = pa.Codec("lz4_raw").compress(block, asbytes=True)
    return struct.pack("<I", len(block)) + packed


def zstandard_of_avro(block: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(block, asbytes=True)
    return packed


def arrow(text: bytes, packed: str | None, new: Callable[..., Any]) -> bytes:
    table = pa.table({"a": pa.array([b"Ada", text, b"Eve"] + [b"x" * 300] * 9, pa.binary())})
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=packed)
    with new(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _unused_in_arrow(text: bytes) -> bytes:
    values = pa.array(["Ada", text.decode(), "x" * 999])
    column = pa.DictionaryArray.from_arrays(pa.array([0]), values)
    table = pa.table({"a": column})
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


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
    "a value in a dictionary of Arrow that no row has": _unused_in_arrow,
}
CODECS = ("null", "deflate", "bzip2", "xz", "snappy", "zstandard", "lz4")
"""Of Avro."""
IN_COLUMNS: dict[str, Container] = {
    **{f"Avro packed with {codec}": partial(avro, codec=codec) for codec in CODECS},
    "Avro within gzip": lambda text: gzip.compress(avro(text, "deflate")),
    **{
        f"a {kind} of Arrow packed with {packed}": partial(arrow, packed=packed, new=new)
        for packed in (None, "lz4", "zstd")
        for kind, new in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream))
    },
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
    **IN_COLUMNS,
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
