"""Erasures without Spark: the entries and blocks that the job writes, for a table of few rows."""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Iterable
from typing import Any

from msgspec import structs

from singerlake.format import block as format_block
from singerlake.format import rewritten
from singerlake.format.log import Block, Entry, FrozenVersion, Operation
from singerlake.format.set_hash import SetHash
from singerlake.format.version_notes import ErasedVersion, Erasure, Notice
from singerlake.lake import Lake, Table
from singerlake.log import notices
from singerlake.log.blocks import read_block
from singerlake.log.checkpoint import write_checkpoint
from singerlake.log.commit import commit, draft_entry
from singerlake.log.folding import restored
from singerlake.log.table_state import TableState
from singerlake.ops import freeze as freezing
from singerlake.storage.base import Store
from tests.build import commit_rows
from tests.ops.vacuum.plain_table import events, keys_at, state, until

PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "name": {"type": "string"}}
PROOFS = ("fingerprint", "record_fingerprint")


def write(lake: Lake, table: Table, *rows: dict[str, Any], **options: Any) -> TableState:
    return commit_rows(lake, str(table.name), PROPERTIES, ["id"], [*rows], **options)


def proof_of(rows: Iterable[dict[str, Any]], word: str) -> SetHash:
    """A set hash over rows, of no such texts as the job takes, but as telling."""
    found = SetHash()
    found.add(word.encode() + json.dumps(row, sort_keys=True).encode() for row in rows)
    return found


def proofs_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    hashes = {word: proof_of(rows, word) for word in PROOFS}
    lanes = {word: one.encoded for word, one in hashes.items()}
    return {**{word: one.text for word, one in hashes.items()}, "lanes": lanes}


def rows_at(table: Table, snapshot: TableState, number: int) -> list[dict[str, Any]]:
    """The records of the state at a transaction, by what the blocks say now."""
    some = until(events(table, snapshot), snapshot, number)
    return [event.record for event in state(some, keys_at(snapshot, number))]


def freeze(table: Table, at: int | None = None, **wanted: Any) -> FrozenVersion:
    """A version, with proofs of its rows."""
    head = table.snapshot()
    plan = freezing.plan(head, at=at, **wanted)
    rows = rows_at(table, head, plan.at.number)
    return freezing.commit_version(table.store, head, plan, rows=len(rows), **proofs_of(rows))


def erase(
    table: Table, key: int, *, deleted: bool = True, until: str = "", told: bytes = b""
) -> TableState:
    """Erase all rows of a key, up to and with the deletion of the files, or without that."""
    head = start(table, key)
    told = told or b'{"id":%d}\n' % key
    notice = notices.write(table.store, table.name, told, until) if until else None
    after = commit_erase(table, head, key, notice)
    return delete_files(table, after) if deleted else after


def start(table: Table, key: int) -> TableState:
    """The entry that announces it."""
    head = table.snapshot(dropped=True)
    some = restored(head).blocks
    files = sorted({block.file for block in some if _without(table, block, key)})
    what = {"erasure": Erasure("request 4711", "ada", 1, 1), "deletes": files}
    return _commit(table.store, head, Operation.ERASE_START, **what)


def commit_erase(
    table: Table, head: TableState, key: int, notice: Notice | None = None
) -> TableState:
    """The entry from which on the rows are gone."""
    there = restored(head)
    texts = [(block, _without(table, block, key)) for block in there.blocks]
    moved = [_put(table, block, *text) for block, text in texts if text is not None]
    erased = []
    for version in [*there.frozen, *there.deleted_versions]:
        rows = rows_at(table, there, version.transaction)
        left = [row for row in rows if row["id"] != key]
        if len(left) < len(rows):
            erased.append(
                ErasedVersion(
                    version=version.number,
                    rows_before=len(rows),
                    rows=len(left),
                    **proofs_of(left),
                )
            )
    erasure = Erasure("request 4711", "ada", 1, 1, notice)
    what = {"erasure": erasure, "moved": moved, "erased": erased}
    return _commit(table.store, head, Operation.ERASE, **what)


def delete_files(table: Table, after: TableState) -> TableState:
    """The end of it."""
    waiting = {path for block in after.restorable or () for path in block.paths}
    going = sorted(after.dropped.keys() - waiting)
    for file in going:
        table.store.delete(table.name.key(file))
    done = _commit(table.store, after, Operation.VACUUM, deleted=going)
    return write_checkpoint(table.store, done)


def _commit(store: Store, head: TableState, operation: Operation, **content: Any) -> TableState:
    def draft(present: TableState) -> Entry:
        return draft_entry(present.table, operation, **content)

    return commit(store, head, draft)


def _without(table: Table, block: Block, key: int) -> tuple[bytes, int] | None:
    """A block's text without the rows of a key, and its rows; None where it has none of them."""
    text = read_block(table.store, table.name, block)
    schema, rest = format_block.lines(text)
    places = iter(rewritten.positions(text, block))
    lines, rows = [schema], 0
    for line in rest.splitlines():
        message = json.loads(line)
        if message["type"] == "RECORD":
            place = next(places)
            if message["record"]["id"] == key:
                continue
            line = rewritten.with_position(line, *place)  # the same line
            rows += 1
        lines.append(line + b"\n")
    return (b"".join(lines), rows) if rows < block.rows else None


def _put(table: Table, block: Block, text: bytes, rows: int) -> Block:
    stem = block.file.rpartition("-")[0]
    file = f"{stem}-{uuid.uuid4().hex[:16]}.singer.gz"
    data = format_block.encode(text, rows, 1)
    table.store.put_if_absent(table.name.data(file), data)
    return structs.replace(
        block,
        file=file,
        offset=0,
        length=len(data),
        rows=rows,
        bytes=len(text),
        crc=zlib.crc32(text),
        first_version=block.lowest_version,
    )


def merge(table: Table, first: int, floor: int | None = None) -> TableState:
    """Put a block and all behind it into one, as a vacuum that drops history does.

    No vacuum of ours would set the floor before the last of these blocks.
    """
    head = table.snapshot()
    together = [block for block in head.blocks if block.number >= first]
    lines, rows = [b""], 0
    for block in together:
        text = read_block(table.store, table.name, block)
        lines[0], rest = format_block.lines(text)
        for line, place in zip(rest.splitlines(), rewritten.positions(text, block), strict=True):
            lines.append(rewritten.with_position(line, *place) + b"\n")
            rows += 1
    moved = _put(table, structs.replace(together[-1], first_version=first), b"".join(lines), rows)
    gone = [(first, moved.number - 1)]
    what = {"moved": [moved], "removed": gone, "floor": floor or head.number}
    return _commit(table.store, head, Operation.DROP_HISTORY, **what)


def log_of(table: Table) -> dict[int, bytes]:
    """The bytes of all entries, by number."""
    head = table.snapshot(dropped=True)
    keys = {number: table.name.transaction(number) for number in range(1, head.number + 1)}
    return {number: table.store.get(key).data for number, key in keys.items()}


def holding(table: Table, texts: Iterable[str]) -> list[str]:
    """The keys of objects of the lake that hold one of some texts, the tables' blocks aside."""
    wanted = [text.encode() for text in texts if text]
    keys = (item.key for item in table.store.list("") if not item.key.endswith(".gz"))
    return [key for key in keys if any(text in table.store.get(key).data for text in wanted)]
