"""A lake, and one leftover for each kind of object in which a person may be forgotten."""

from __future__ import annotations

import base64
import gzip
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.storage.base import Store
from tests.build import commit_rows, record_line, schema_line

NAME = TableName("tap", "t")
TEXT = "Zoë Planted"
KEY = "4711"
PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}
ROW = {"id": int(KEY), "name": TEXT}
LINES = schema_line("t", PROPERTIES, ["id"]) + record_line("t", ROW)
_NAMED = "abcdefg/t-20260102T030405000006Z-20260102T030405000006Z-0123456789abcdef.singer.gz"


def commit(lake: Lake, *rows: dict[str, Any], table: TableName = NAME, **more: Any) -> None:
    commit_rows(lake, str(table), PROPERTIES, ["id"], [*rows], **more)


def innocent(lake: Lake) -> Lake:
    """A lake that has nothing of hers."""
    commit(lake, {"id": 1, "name": "Ada"}, {"id": 47110, "name": "Zoe"})
    return lake


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return sink.getvalue()


def refused(**line: Any) -> bytes:
    row = record_line("t__rejected", {"digest": "0", **line})
    return gzip.compress(schema_line("t__rejected", {}, ["digest"]) + row)


_MESSAGE = record_line("t", ROW)
_OF_REJECTED = "raw/tap/t__rejected/"
WITH_ROWS: dict[str, tuple[str, bytes]] = {
    "data that no log names": (f"raw/tap/t/{_NAMED}", gzip.compress(LINES)),
    "a block that was cut off": (f"raw/tap/t/{_NAMED}", gzip.compress(LINES)[:-12]),
    "the second member": (f"raw/tap/t/{_NAMED}", gzip.compress(b"{}\n") + gzip.compress(LINES)),
    "a staged file": (".staging/1-2", gzip.compress(LINES)),
    "a staged file that was cut off": (".staging/1-2", gzip.compress(LINES)[:-12]),
    "an index": (
        f"index/tap/t/3/part-{0:032x}.parquet",
        parquet(id=[1, int(KEY)], name=["Ada", TEXT]),
    ),
    "a rejected line": (_OF_REJECTED + _NAMED, refused(message=_MESSAGE.decode())),
    "a rejected line in Base64": (
        _OF_REJECTED + _NAMED,
        refused(message_base64=base64.b64encode(_MESSAGE).decode()),
    ),
    "an index of rejected lines": (
        f"index/tap/t__rejected/3/part-{0:032x}.parquet",
        parquet(message=[None, _MESSAGE.decode()]),
    ),
    "an index of rejected lines in Base64": (
        f"index/tap/t__rejected/3/part-{0:032x}.parquet",
        parquet(message_base64=[base64.b64encode(_MESSAGE).decode()]),
    ),
    "a file of JSON lines": (
        f"raw/tap/t/files/ab/{'ab' * 32}-0123456789abcdef",
        json.dumps(ROW).encode(),
    ),
    "what somebody else put there": ("backup/t.jsonl", json.dumps(ROW).encode()),
    "a member behind a padding of zeros": (
        "raw/zz/a",
        gzip.compress(b"{}\n") + bytes(512) + gzip.compress(LINES) + bytes(9),
    ),
    "gzip within gzip": ("raw/zz/a", gzip.compress(gzip.compress(b"{}\n" + LINES))),
    "JSON with a byte order mark": ("x.json", b"\xef\xbb\xbf" + json.dumps(ROW).encode()),
    "JSON in UTF-16, with escapes": ("x.json", json.dumps(ROW).encode("utf-16")),
    "UTF-16 in gzip": ("x.json.gz", gzip.compress(json.dumps(ROW).encode("utf-16-be"))),
    "a file in a table's folder": ("raw/tap/t/old/copy.jsonl.gz", gzip.compress(LINES)),
}
"""Objects with a row of hers, by what they are."""

ONLY_TEXTS: dict[str, tuple[str, bytes]] = {
    "a log entry": (
        "raw/tap/t/transactions/000000000009.json",
        rb'{"metadata":{"c":"Zo\u00EB Planted"}}',
    ),
    "a lake version": ("versions/000000000001.json", json.dumps({"label": TEXT}).encode()),
    "a manifest": ("raw/tap/u/manifest.json", json.dumps({"label": TEXT}).encode()),
    "the lake's file put aside": ("raw/singerlake.123.damaged", f"{{{TEXT}".encode()),
    "a catalogue": ("raw/tap/catalogue.json", json.dumps({"description": TEXT}).encode()),
    "a lock": ("raw/tap/t/vacuum.lock", json.dumps({"writer-id": TEXT}).encode()),
    "a lease": ("raw/tap/t/leases/r.json", json.dumps({"reader-id": TEXT}).encode()),
    "an index's marker": ("index/tap/t/3/_index.json", json.dumps({"x": TEXT}).encode()),
    "a list of files": (
        f"raw/tap/t/files/lists/{0:032x}.gz",
        gzip.compress(f"{TEXT} 3\n".encode()),
    ),
    "a document": (f"raw/tap/t/files/ab/{'ab' * 32}-0123456789abcdef", f"\x00{TEXT}\x00".encode()),
    "a document in UTF-16": (
        f"raw/tap/t/files/ab/{'ab' * 32}-0123456789abcdef",
        TEXT.encode("utf-16"),
    ),
    "a name": (f"raw/tap/t/files/{TEXT}", b""),
    "a nested column": ("x.parquet", parquet(a=[{"b": [{"c": TEXT}]}])),
    "a map": (
        "x.parquet",
        parquet(a=pa.array([[("k", TEXT)]], pa.map_(pa.string(), pa.string()))),
    ),
    "JSON in a column": ("x.parquet", parquet(a=[json.dumps({"b": TEXT})])),
    "a Parquet file's own metadata": (
        "x.parquet",
        parquet(**{TEXT: [1]}),
    ),
}
"""Objects with her name."""


def plant(store: Store, key: str, data: bytes) -> None:
    store.replace(key, data, None)
