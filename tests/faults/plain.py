"""A reader that shares no line with the project: docs/format.md, in plain Python.

It takes a lake as a dictionary of keys and bytes, and fails loudly where the log has a hole, a
block lies elsewhere than the log says, or a line is no JSON.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Dump = dict[str, bytes]
Row = dict[str, Any]
_ENTRY = re.compile(r"raw/([^/]+)/([^/]+)/transactions/(\d{12})\.json")
_DATA = re.compile(r"raw/[^/]+/[^/]+/[^/]{7}/[^/]+\.singer\.gz")


def dump_folder(root: Path) -> Dump:
    """Every file of a lake on disk."""
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@dataclass
class PlainTable:
    """A table by its log alone.

    Attributes:
        folder: Below which its keys lie.
        log: Its entries.
        chain: The last one's chain id.
    """

    folder: str
    dump: Dump
    log: list[dict[str, Any]] = field(default_factory=list)
    chain: str = ""

    @property
    def versions(self) -> list[dict[str, Any]]:
        """What was frozen."""
        return [entry["version"] for entry in self.log if "version" in entry]

    def messages(self, upto: int | None = None) -> list[dict[str, Any]]:
        """Its RECORD and ACTIVATE_VERSION messages up to a transaction, in order of position."""
        entries = self.log[:upto]
        last = max((b["number"] for e in entries for b in e.get("blocks", ())), default=0)
        found: list[tuple[int, int, dict[str, Any]]] = []
        for block in blocks_now(self.log).values():
            if (block.get("first_version") or block["number"]) <= last:
                found += self._positions(block)
        found.sort(key=lambda item: item[:2])
        return [message for version, _, message in found if version <= last]

    def _positions(self, block: dict[str, Any]) -> Iterable[tuple[int, int, dict[str, Any]]]:
        start = block.get("offset", 0)
        member = self.dump[self.folder + block["file"]][start : start + block["length"]]
        assert len(member) == block["length"], f"{block['file']} is cut"
        crc, size = struct.unpack("<II", member[-8:])
        assert size == block["bytes"], f"{block['file']} holds another block"
        assert crc == block.get("crc", crc), f"{block['file']} holds another block"
        schema, *lines = gzip.decompress(member).splitlines()
        assert json.loads(schema)["type"] == "SCHEMA"
        messages = [json.loads(line) for line in lines]
        assert sum(m["type"] == "RECORD" for m in messages) == block["rows"]
        at = (block.get("first_version") or block["number"], -1)
        for message in messages:
            if message["type"] == "RECORD":
                own = message if block.get("first_version") else {}
                at = (own.get("row_version", at[0]), own.get("row_ordinal", at[1] + 1))
            yield *at, message

    def state(self, upto: int | None = None) -> list[Row]:
        """Its rows at a transaction (the head by default), sorted."""
        log = self.log[:upto]
        schemas = {h: s for entry in log for h, s in entry.get("schemas", {}).items()}
        last = next((e["schema_hash"] for e in reversed(log) if e.get("schema_hash")), "")
        return folded(self.messages(upto), schemas.get(last, {}).get("key_properties", []))


def blocks_now(log: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The blocks there are by the last word of the log, by number."""
    blocks: dict[int, dict[str, Any]] = {}
    for entry in log:
        for block in (*entry.get("blocks", ()), *entry.get("moved", ())):
            blocks[block["number"]] = block
        for first, last in entry.get("removed", ()):
            blocks = {n: b for n, b in blocks.items() if not first <= n <= last}
    return blocks


def folded(messages: Iterable[dict[str, Any]], keys: list[str]) -> list[Row]:
    """The state that messages lead to, sorted."""
    rows: list[tuple[Any, Any, Row]] = []
    for message in messages:
        if message["type"] == "ACTIVATE_VERSION":
            rows = [row for row in rows if row[1] == message["version"]]
            continue
        record = message["record"]
        key = [record.get(name) for name in keys]
        if keys:
            rows = [row for row in rows if row[0] != key]
        if record.get("_sdc_deleted_at") is None:
            rows.append((key, message.get("version"), record))
    return sorted((record for _, _, record in rows), key=str)


def tables(dump: Dump) -> dict[str, PlainTable]:
    """The tables that have a log, by ``tap.stream``; a hole in a log is an error."""
    found: dict[str, PlainTable] = {}
    for key in sorted(dump):
        if match := _ENTRY.fullmatch(key):
            tap, stream, number = match.groups()
            table = found.setdefault(f"{tap}.{stream}", PlainTable(f"raw/{tap}/{stream}/", dump))
            entry = json.loads(dump[key])
            assert entry["number"] == int(number) == len(table.log) + 1, f"a hole before {key}"
            if entry["format"] > 1:
                assert entry.get("previous", "") == table.chain, f"{key} follows another entry"
                assert hash_of(dump[key]) == entry["hash"], f"{key} is damaged"
            table.chain = entry.get("stands_for") or entry.get("hash") or sha256(dump[key])
            table.log.append(entry)
    return found


def sha256(data: bytes) -> str:
    """As hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def hash_of(data: bytes) -> str:
    """The hash of a log entry or manifest: of all bytes before the line that says it."""
    return sha256(data[: data.rindex(b' "hash": "')])


def leftovers(dump: Dump) -> list[str]:
    """Keys that nothing needs. Anything else that is not known to the format is an error."""
    needed = {"raw/singerlake.json", ".staging/replace.lock"}
    for table in tables(dump).values():
        needed.add(f"{table.folder}manifest.json")
        needed.add(f"{table.folder.rsplit('/', 2)[0]}/catalogue.json")
        needed |= {table.folder + b["file"] for b in blocks_now(table.log).values()}
    for key, data in dump.items():
        if key.endswith("/_index.json"):
            folder = key.rpartition("/")[0]
            needed |= {key, *(f"{folder}/{file['path']}" for file in json.loads(data)["files"])}
    left = [key for key in dump if key not in needed and not _ENTRY.fullmatch(key)]
    for key in left:
        removable = (
            _DATA.fullmatch(key)
            or key.startswith(".staging/")
            or key.endswith(("/singerlake.lock", "/vacuum.lock"))
            or re.fullmatch(r"raw/.*/leases/[^/]+\.json", key)
            or re.fullmatch(r"index/.*/part-[0-9a-f]{32}\.parquet", key)
        )
        assert removable, f"{key} was left behind, and no vacuum would know it"
    assert all(key in dump for key in needed if _DATA.fullmatch(key)), "a file is lost"
    return left
