"""Small lakes for tests, written through the core alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from singerlake.format import block as format_block
from singerlake.format import sealed, times
from singerlake.format.log import Block, Entry, SchemaEntry, seal_entry
from singerlake.format.names import TableName
from singerlake.format.overlay import Overlay
from singerlake.format.schema_hash import schema_hash
from singerlake.lake import Lake
from singerlake.log.staging import StagedTable
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions
from singerlake.overlay.alter import AlterOptions, Retyped, alter, retyped
from singerlake.overlay.overlay_changes import with_type
from singerlake.rows.blocks import bounded_keys
from singerlake.storage.base import Store

EXTRACTED = "2026-01-02T03:04:05.000006Z"


def resealed(value: Any) -> bytes:
    """A log entry or manifest that was changed by hand, with the hash that its bytes now have."""
    if not isinstance(value, dict) or "hash" not in value:
        return json.dumps(value).encode()
    return sealed.seal(json.dumps({k: v for k, v in value.items() if k != "hash"}).encode())[0]


def linked(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Entries as a log has them: each with its hash, and the chain id of the one before."""
    chain = ""
    for entry in entries:
        written, _ = seal_entry(msgspec.structs.replace(entry, previous=chain))
        chain = written.chain
        yield written


def schema_line(stream: str, properties: dict[str, Any], keys: list[str]) -> bytes:
    """A SCHEMA line as a tap would write it."""
    schema = {"type": "object", "properties": properties}
    message = {"type": "SCHEMA", "stream": stream, "schema": schema, "key_properties": keys}
    return json.dumps(message).encode() + b"\n"


def record_line(stream: str, record: dict[str, Any] | str, version: int | None = None) -> bytes:
    """A RECORD line; a record given as text goes in as it is."""
    text = record if isinstance(record, str) else json.dumps(record)
    tail = "" if version is None else f', "version": {version}'
    return (
        f'{{"type": "RECORD", "stream": {json.dumps(stream)}, "record": {text}{tail}, '
        f'"time_extracted": "{EXTRACTED}"}}\n'
    ).encode()


def activate_line(stream: str, version: int) -> bytes:
    """An ACTIVATE_VERSION line."""
    message = {"type": "ACTIVATE_VERSION", "stream": stream, "version": version}
    return json.dumps(message).encode() + b"\n"


def commit_rows(
    lake: Lake,
    table: str,
    properties: dict[str, Any],
    keys: list[str],
    messages: list[dict[str, Any] | str | tuple[dict[str, Any] | str, int] | int],
    block_rows: int = 1000,
    metadata: dict[str, Any] | None = None,
) -> TableState:
    """Commit one transaction.

    Args:
        lake: Into which lake.
        table: ``tap.stream``.
        properties: Of the JSON Schema.
        keys: Key properties.
        messages: Records (a dict or JSON text; with a singer version as a pair), or an
            integer for ACTIVATE_VERSION.
        block_rows: Rows in a block.
        metadata: What the run's settings say of it.
    """
    tap, _, stream = table.partition(".")
    name = TableName(tap, stream)
    entry = SchemaEntry({"type": "object", "properties": properties}, keys)
    hash_ = schema_hash(entry.schema, keys)
    staged = StagedTable(lake.store, name)
    staged.set_schema(hash_, entry)
    for start in range(0, len(messages), block_rows):
        lines = [schema_line(stream, properties, keys)]
        rows, activations = 0, []
        for message in messages[start : start + block_rows]:
            if isinstance(message, int):
                activations.append((rows, message))
                lines.append(activate_line(stream, message))
                continue
            record, version = message if isinstance(message, tuple) else (message, None)
            lines.append(record_line(stream, record, version))
            rows += 1
        text = b"".join(lines)
        stamp = times.iso(times.parse(EXTRACTED) or times.now())
        block = Block(0, "", 0, 0, rows, len(text), stamp, stamp, activations)
        bounds = bounded_keys.of_block(text)
        data = format_block.encode(text, rows, time.time_ns() // 1000, bounds=bounds)
        staged.add(hash_, data, block)
    options = WriteOptions(metadata=metadata or {})
    snapshot = lake.table(name).writer(options).commit(staged)
    assert snapshot is not None
    return snapshot


def retype(
    store: Store,
    snapshot: TableState,
    column: str,
    *,
    comment: str | None = None,
    dry_run: bool = False,
) -> Retyped:
    """Make text of a column, as ``singerlake alter TABLE retype COLUMN text`` does."""

    def to_text(present: TableState) -> Overlay:
        return with_type(present, column, None)

    done = alter(store, snapshot, to_text, AlterOptions(comment=comment, dry_run=dry_run))
    return retyped(snapshot, column, to_text(snapshot), done)
