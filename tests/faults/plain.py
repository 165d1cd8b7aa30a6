"""A reader that shares no line with the project: docs/internals/format.md, in plain Python.

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
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.sshsig import signed_with

Dump = dict[str, bytes]
Row = dict[str, Any]
_ENTRY = re.compile(r"raw/([^/]+)/([^/]+)/transactions/(\d{12})\.json")
_LAKE_VERSION = re.compile(r"versions/\d{12}\.json")
_NOT_COPIED = "versions/not-copied.json"
_BOOKMARK = re.compile(r"bookmarks/[^/]+\.json")
COUNTS = ("inserted", "updated", "deleted")
_ERASES = {"erase-start", "erase"}
_LEAVES_DROPPED = {"vacuum-start", "vacuum", "block-keys", *_ERASES}
_STORED = re.compile(
    r"raw/[^/]+/[^/]+/files/(([0-9a-f]{2})/\2[0-9a-f]{62}-[0-9a-f]{16}"
    r"|(lists|doomed)/[0-9a-f]{32}\.gz)"
)
_PATH = re.compile(rb'"path": ?"(files/[^"]*)"')
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
        """What was frozen, and can be read."""
        if is_dropped(self.log):
            return []
        deleted = {entry["deletion"]["version"] for entry in self.log if "deletion" in entry}
        frozen = [entry["version"] for entry in self.log if "version" in entry]
        frozen = [version for version in frozen if version["number"] not in deleted]
        return [version for version in frozen if version["transaction"] >= begun(self.log)]

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
        """Its records at a transaction (the head by default), sorted, by the key in effect.

        None of a dropped table.
        """
        if is_dropped(self.log[:upto]):
            return []
        assert len(self.log[:upto]) >= begun(self.log), "it is of a table that was dropped"
        return folded(self.messages(upto), self.keys(upto))

    def keys(self, upto: int | None = None) -> list[str]:
        """The members by which its rows are told apart at a transaction."""
        log = self.log[:upto]
        schemas = {h: s for entry in log for h, s in entry.get("schemas", {}).items()}
        last = next((e["schema_hash"] for e in reversed(log) if e.get("schema_hash")), "")
        keys: list[str] = schemas.get(last, {}).get("key_properties", [])
        overlay = self.overlay(upto)
        given = {said.get("name", name): name for name, said in overlay.get("columns", {}).items()}
        if overlay.get("key") is not None:
            keys = [given.get(name, name) for name in overlay["key"]]
        return keys

    def overlay(self, upto: int | None = None) -> Row:
        """What people have said of it up to a transaction."""
        own = self.log[begun(self.log) - 1 : upto]
        return next((e["overlay"] for e in reversed(own) if "overlay" in e), {})

    def files(self) -> dict[str, int]:
        """The files that its rows name, by lists, each with its size; all must be there, whole."""
        found: dict[str, int] = {}
        for block in blocks_now(self.log).values():
            start = block.get("offset", 0)
            member = self.dump[self.folder + block["file"]][start : start + block["length"]]
            named = {path.decode() for path in _PATH.findall(gzip.decompress(member))}
            assert bool(named) is ("files" in block), f"block {block['number']} has no list"
            if not named:
                continue
            data = self.dump[self.folder + block["files"]["path"]]
            assert sha256(data) == block["files"]["hash"]
            lines = gzip.decompress(data).decode().splitlines()
            listed = {path: int(size) for path, size in (line.split() for line in lines)}
            assert named == listed.keys(), f"block {block['number']} has another list"
            assert lines == sorted(lines)
            assert (len(lines), sum(listed.values())) == (
                block["files"]["files"],
                block["files"]["bytes"],
            )
            found |= listed
        for path, size in found.items():
            content = self.dump[self.folder + path]
            assert size in (0, len(content))  # 0: the row says none
            assert sha256(content) == path[9:73], f"{path} is another file"
        return found

    def lists(self) -> set[str]:
        """The lists that are needed: of blocks, and of vacuums before the next."""
        lists = {b["files"]["path"] for b in blocks_now(self.log).values() if "files" in b}
        doomed = {e["deletes_listed"]["path"] for e in self.log if "deletes_listed" in e}
        return lists | (doomed - {file for e in self.log for file in e.get("deleted", ())})

    def check_rewritten(self) -> None:
        """Hold each entry that was rewritten against the one that must have allowed it."""
        for entry in self.log:
            if by := entry.get("rewritten"):
                assert entry["format"] >= 5
                assert entry["stands_for"]
                assert entry["number"] < by <= len(self.log)
                assert self.log[by - 1]["operation"] == "erase-start", f"{by} allows nothing"

    def check_signatures(self) -> None:
        """Verify each signature of a version, by the key in it, and what it covers by the log."""
        frozen = {e["version"]["number"] for e in self.log if "version" in e}
        for entry in self.log:
            signed = entry.get("signature")
            if signed is None or signed["version"] not in frozen:
                continue
            head = self.log[signed["head"] - 1]
            assert head["number"] < entry["number"]
            if head["format"] > 1:
                assert chain_of(head) == signed["chain"], f"{entry['number']} signs another log"
            text = self._signed_text(signed)
            assert signed_with(text, signed["signature"]), f"{entry['number']} signs another text"
            version = self._version(signed["version"], entry["number"])
            salt, later = signed.get("salt"), self._version(signed["version"], len(self.log))
            if salt is not None and version == later:
                proofs = f"{version['fingerprint']}\n{version['record_fingerprint']}\n"
                assert sha256(f"{salt}\n{proofs}".encode()) == signed["content"]
                assert version["rows"] == signed["rows"]

    def _version(self, number: int, upto: int) -> dict[str, Any]:
        """A version as the entries up to one leave it, with erasures that the whole log tells."""
        own = [e["version"] for e in self.log if "version" in e]
        version: dict[str, Any] = next(one for one in own if one["number"] == number)
        told = [(e["number"], one) for e in self.log[:upto] for one in e.get("erased", ())]
        mine = [(at, one) for at, one in told if one["version"] == number]
        now = mine[-1][1] if mine else version
        proofs = {name: now[name] for name in ("rows", "fingerprint", "record_fingerprint")}
        erased = [(at, one["rows_before"], one["rows"]) for at, one in mine]
        return {**version, **proofs, "erased": erased}

    def _signed_text(self, signed: dict[str, Any]) -> bytes:
        version = self._version(signed["version"], signed["head"])
        tap, stream = (unquote(part) for part in self.folder.split("/")[1:3])
        lines = [
            "singerlake-version-1",
            f"table {json.dumps(f'{tap}.{stream}', ensure_ascii=False)}",
            f"version {version['number']}",
        ]
        if "label" in version:
            lines.append(f"label {json.dumps(version['label'], ensure_ascii=False)}")
        lines += [
            f"transaction {version['transaction']}",
            f"schema {version['schema_hash']}",
            f"types {version.get('types', 1)}",
            *(f"erased {at} {before} {rows}" for at, before, rows in version["erased"]),
            f"rows {signed['rows']}",
            f"content {signed['content']}",
            f"head {signed['head']} {signed['chain']}",
            f"time {signed['time']}",
        ]
        return "".join(f"{line}\n" for line in lines).encode()

    def check_changes(self) -> None:
        """Hold what each change says that it did against the states before and after it."""
        if is_dropped(self.log):
            return
        erased = (entry["number"] for entry in self.log if entry["operation"] == "erase")
        floor = max(begun(self.log), *erased, *(entry.get("floor", 0) for entry in self.log))
        for entry in self.log:
            # A new key, or another name for a column, is for those to compare who know columns.
            alone = entry["operation"] == "change" and "overlay" not in entry
            if alone and entry["number"] > floor:
                self._check_change(entry)

    def _check_change(self, entry: dict[str, Any]) -> None:
        told = {name: entry.get("metrics", {}).get(name, 0) for name in COUNTS}
        before, after = self.state(entry["number"] - 1), self.state(entry["number"])
        assert len(after) - len(before) == told["inserted"] - told["deleted"], entry["number"]
        keys = self.keys(entry["number"])
        if not keys:
            return
        old, new = ({str([r.get(k) for k in keys]): r for r in rows} for rows in (before, after))
        assert len(new.keys() - old.keys()) == told["inserted"]
        assert len(old.keys() - new.keys()) == told["deleted"]
        others = sum(old[key] != new[key] for key in old.keys() & new.keys())
        assert others == told["updated"]
        assert sum(block["rows"] for block in entry.get("blocks", ())) == sum(told.values())


def is_dropped(log: list[dict[str, Any]]) -> bool:
    """Whether the last word of the log is that there is no table."""
    dropped = False
    for entry in log:
        word = entry["operation"]
        dropped = word == "drop" or (dropped and word in _LEAVES_DROPPED)
    return dropped


def begun(log: list[dict[str, Any]]) -> int:
    """The number of the entry that began the table of which the log speaks last."""
    first = 1
    for before, entry in pairwise(log):
        if is_dropped(log[: before["number"]]):
            stays = entry["operation"] in {"drop", "undrop", *_LEAVES_DROPPED}
            first = first if stays else entry["number"]
    return first


def blocks_now(log: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The blocks there are by the last word of the log, by number.

    Those of a dropped table are there as long as it can be brought back.
    """
    blocks: dict[int, dict[str, Any]] = {}
    dropped = False
    for entry in log:
        was_dropped, dropped = dropped, is_dropped(log[: entry["number"]])
        erases = entry["operation"] in _ERASES
        gone = set() if erases else {*entry.get("deletes", ()), *entry.get("deleted", ())}
        anew = was_dropped and not dropped and entry["operation"] != "undrop"
        if anew or (dropped and any(block["file"] in gone for block in blocks.values())):
            blocks = {}
        for block in (*entry.get("blocks", ()), *entry.get("moved", ())):
            blocks[block["number"]] = block
        for first, last in entry.get("removed", ()):
            blocks = {n: b for n, b in blocks.items() if not first <= n <= last}
    return blocks


def is_time(value: Any) -> bool:
    """Tell whether a record's ``_sdc_deleted_at`` makes it a deletion: an ISO 8601 date or time."""
    if not isinstance(value, str) or not re.match(r"\s*\d{4}-\d\d-\d\d", value, re.ASCII):
        return False
    time = value.strip().replace(" ", "T", 1).replace("Z", "+00:00")
    try:
        datetime.fromisoformat(time)
    except ValueError:
        return False
    return True


def folded(messages: Iterable[dict[str, Any]], keys: list[str]) -> list[Row]:
    """The state that messages lead to, sorted."""
    rows: list[tuple[Any, Any, Row]] = []
    for message in messages:
        if message["type"] == "ACTIVATE_VERSION":
            rows = [row for row in rows if row[1] == message["version"]]
            continue
        record = message["record"]
        key = [record.get(name) for name in keys]
        if keys and None not in key:  # a row with a null in its key is a row of its own
            rows = [row for row in rows if row[0] != key]
        if not is_time(record.get("_sdc_deleted_at")):
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
            table.chain = chain_of(entry) or sha256(dump[key])
            table.log.append(entry)
    for table in found.values():
        table.check_rewritten()
        table.check_signatures()
        table.check_changes()
        table.files()
    return found


def lake_versions(dump: Dump) -> list[dict[str, Any]]:
    """The entries of the lake's log; each must follow the one before, and name what is there."""
    found: list[dict[str, Any]] = []
    known, left_out = tables(dump), not_copied(dump)
    for key in sorted(dump):
        if not _LAKE_VERSION.fullmatch(key):
            continue
        entry = json.loads(dump[key])
        assert entry["number"] == int(key[9:21]) == len(found) + 1, f"a hole before {key}"
        assert entry.get("previous", "") == (chain_of(found[-1]) if found else "")
        assert hash_of(dump[key]) == entry["hash"], f"{key} is damaged"
        lines = b""
        for allowed in entry.get("rewritten", ()):
            own = known[f"{allowed['tap']}.{allowed['stream']}"].log
            assert own[allowed["transaction"] - 1]["operation"] == "erase-start"
        absent = left_out.get((entry["number"], chain_of(entry)), set())
        for table in entry["tables"]:
            name = f"{table['tap']}.{table['stream']}"
            log = known[name].log if name in known else []
            frozen = {one["version"]["number"] for one in log if "version" in one}
            assert table["version"] in frozen or name in absent, (key, name)
            proofs = f"{table['fingerprint']} {table['record_fingerprint']}"
            lines += f"{table['tap']}/{table['stream']} {table['version']} {proofs}\n".encode()
        assert entry["fingerprint"] == f"lv1:{sha256(lines)}"
        found.append(entry)
    return found


def not_copied(dump: Dump) -> dict[tuple[int, str], set[str]]:
    """The tables that a copy says it has left out, by lake version and its chain id."""
    if (data := dump.get(_NOT_COPIED)) is None:
        return {}
    content = json.loads(data)
    assert (content["format"], content["hash"]) == (2, hash_of(data))
    assert content.keys() == {"format", "lake_versions", "hash"}
    return {
        (one["number"], one["chain"]): {f"{t['tap']}.{t['stream']}" for t in one["tables"]}
        for one in content["lake_versions"]
    }


def chain_of(entry: dict[str, Any]) -> str:
    """What the next entry must say that it follows."""
    return str(entry.get("stands_for") or entry.get("hash", ""))


def sha256(data: bytes) -> str:
    """As hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def hash_of(data: bytes) -> str:
    """The hash of a log entry or manifest: of all bytes before the line that says it."""
    return sha256(data[: data.rindex(b' "hash": "')])


def check_head(table: PlainTable, data: bytes) -> None:
    """Make sure that a head file says what the log says up to the transaction it names."""
    head = json.loads(data)
    assert head["hash"] == hash_of(data)
    upto = head["last"]["number"]
    entries = table.log[:upto]
    if len(entries) < upto:  # a copy that is not done, or the log has lost its end
        return
    blocks = [b["number"] for entry in entries for b in entry.get("blocks", ())]
    assert (head["chain"], head["last"]["commit"]) == (chain_of(entries[-1]), entries[-1]["commit"])
    assert head["last"].get("last_block", 0) == max(blocks, default=0)
    assert head["schemas"] == {h: s for e in entries for h, s in e.get("schemas", {}).items()}
    assert head["manifest"] <= upto


def leftovers(dump: Dump) -> list[str]:
    """Keys that nothing needs. Anything else that is not known to the format is an error."""
    needed = {"raw/singerlake.json", ".staging/replace.lock", _NOT_COPIED}
    for table in tables(dump).values():
        needed.add(f"{table.folder}manifest.json")
        if (head := f"{table.folder}head.json") in dump:
            check_head(table, dump[head])
            needed.add(head)
        needed.add(f"{table.folder.rsplit('/', 2)[0]}/catalogue.json")
        needed |= {table.folder + b["file"] for b in blocks_now(table.log).values()}
        needed |= {table.folder + path for path in (*table.files(), *table.lists())}
        said = [entry["blocked"] for entry in table.log if "blocked" in entry][-1:]
        needed |= {f"{table.folder}erased/blocked/{one.get('id')}.gz" for one in said}
        told = (e["erasure"].get("notice") for e in table.log if e["operation"] == "erase")
        needed |= {f"{table.folder}erased/notices/{one['id']}.gz" for one in told if one}
    for key, data in dump.items():
        if key.endswith("/_index.json"):
            folder = key.rpartition("/")[0]
            needed |= {key, *(f"{folder}/{file['path']}" for file in json.loads(data)["files"])}
    logs = (_ENTRY, _LAKE_VERSION, _BOOKMARK)
    left = [key for key in dump if key not in needed and not any(r.fullmatch(key) for r in logs)]
    for key in left:
        removable = (
            _DATA.fullmatch(key)
            or _STORED.fullmatch(key)
            or re.fullmatch(r"raw/.*/erased/(notices|blocked)/[0-9a-f]{32}\.gz", key)
            or key.startswith(".staging/")
            or key.endswith(("/singerlake.lock", "/vacuum.lock"))
            or re.fullmatch(r"raw/.*/leases/[^/]+\.json", key)
            or re.fullmatch(r"bookmarks/[^/]+\.lock", key)
            or re.fullmatch(r"index/.*/part-[0-9a-f]{32}\.parquet", key)
        )
        assert removable, f"{key} was left behind, and no vacuum would know it"
    assert all(key in dump for key in needed if _DATA.fullmatch(key)), "a file is lost"
    return left
