"""singerlake show: one table in detail."""

from __future__ import annotations

from typing import Any

import click
from msgspec import to_builtins
from msgspec.structs import asdict

from singerlake.format.log import FrozenVersion
from singerlake.format.types import Kind, Type, columns_of
from singerlake.transactions.snapshot import Snapshot
from singerlake_cli import output
from singerlake_cli.shared import Shared, complete_table

RECENT = 30
VERSIONS = 10
"""So many transactions back the sparkline goes, and so many versions are listed."""


@click.command("show")
@click.argument("table", shell_complete=complete_table)
@click.pass_obj
def command(shared: Shared, table: str) -> None:
    """Show a TABLE: its columns, sizes, versions and recent transactions.

    "recent" draws the records of the last transactions, the newest at the right.

    \b
    singerlake show tap-shop.orders
    singerlake show tap-shop.orders.2     (as of version 2)
    """
    found, ref = shared.lake().find(table)
    snapshot = found.snapshot_at(ref.version)
    facts = _facts(str(ref), snapshot)
    if shared.json:
        output.print_json(
            {
                **facts,
                "schema": snapshot.schema.schema,
                "overlay": to_builtins(snapshot.overlay),
                "table_versions": [asdict(v) for v in snapshot.frozen],
            }
        )
        return
    for label, value in _lines(facts):
        output.say(f"{label:<14}{value}")
    output.print_table(
        None,
        ("column~", "type~", "key"),
        [
            (name, _retyped(kind) if name in snapshot.retyped else kind, "key" if key else "")
            for name, kind, key in columns(snapshot)
        ],
    )
    if snapshot.frozen:
        _print_versions(snapshot.frozen[-VERSIONS:], len(snapshot.frozen))


def _print_versions(newest: list[FrozenVersion], count: int) -> None:
    """The newest versions; ``singerlake versions`` has all of all."""
    rows = [(v.number, v.label, v.transaction, f"{v.rows:,}", output.clock(v.time)) for v in newest]
    note = (
        f"the newest {len(newest)} of {count}: singerlake versions" if len(newest) < count else ""
    )
    columns = ("version>", "label~", "of>", "rows>", "frozen (UTC)")
    output.print_table(None, columns, rows, note)


def _facts(name: str, snapshot: Snapshot) -> dict[str, Any]:
    files = {block.file for block in snapshot.blocks}
    writes = [t for t in snapshot.transactions if t.rows]
    return {
        "table": name,
        "transaction": snapshot.head,
        "schema_hash": snapshot.schema_hash,
        "schemas": list(snapshot.schemas),
        "key_properties": snapshot.schema.key_properties,
        "records": sum(block.rows for block in snapshot.blocks),
        "blocks": len(snapshot.blocks),
        "files": len(files),
        "bytes": sum(block.length for block in snapshot.blocks),
        "uncompressed_bytes": sum(block.bytes for block in snapshot.blocks),
        "first": next((b.first for b in snapshot.blocks if b.first), None),
        "last": next((b.last for b in reversed(snapshot.blocks) if b.last), None),
        "changed": snapshot.transactions[-1].time if snapshot.transactions else None,
        "last_sync": writes[-1].time if writes else None,
        "recent": [t.rows for t in writes[-RECENT:]],
        "versions": len(snapshot.frozen),
    }


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    stored, raw = facts["bytes"], facts["uncompressed_bytes"]
    return [
        ("table", facts["table"]),
        ("transaction", f"{facts['transaction']}, {output.ago(facts['changed'] or '')}"),
        (
            "stored",
            f"{facts['records']:,} records in {facts['blocks']:,} blocks, "
            f"{facts['files']:,} files, {output.size(stored)} ({output.size(raw)} unpacked)",
        ),
        ("extracted", f"{facts['first'] or '–'} to {facts['last'] or '–'}"),
        ("schema", f"{facts['schema_hash']}, {_ordinal(facts)}"),
        ("last sync", output.ago(facts["last_sync"]) if facts["last_sync"] else "–"),
        ("recent", _recent(facts["recent"])),
        ("versions", str(facts["versions"] or "none yet")),
    ]


def _ordinal(facts: dict[str, Any]) -> str:
    number = facts["schemas"].index(facts["schema_hash"]) + 1
    return f"number {number} of the {len(facts['schemas'])} that this table has had"


def _recent(rows: list[int]) -> str:
    if not rows:
        return "–"
    many = f"{len(rows)} transactions" if len(rows) > 1 else "1 transaction"
    return f"{output.sparkline(rows)}  {sum(rows):,} records in {many}"


def columns(snapshot: Snapshot) -> list[tuple[str, str, bool]]:
    """Name, type as the tap says it, and whether it is a key, of every column."""
    schema = snapshot.schema
    properties = schema.schema.get("properties")
    told = properties if isinstance(properties, dict) else {}
    return [
        (name, _type(told.get(name), column), name in schema.key_properties)
        for name, column in columns_of(schema, snapshot.rules)
    ]


_JSON_NAMES = {
    Kind.STRUCT: "object",
    Kind.LIST: "array",
    Kind.INTEGER: "integer",
    Kind.NUMBER: "number",
    Kind.DATE: "string (date)",
    Kind.TIMESTAMP: "string (date-time)",
}


def _refers(schema: Any) -> bool:
    return isinstance(schema, dict) and not {"type", "anyOf"} & schema.keys() and bool(schema)


def _retyped(kind: str) -> str:
    return f"text, by alter (the tap says {kind})"


def _type(schema: Any, column: Type | None = None) -> str:
    """The JSON type that a schema names; what its column holds, where it refers to another."""
    if column is not None and (schema is None or _refers(schema)):
        return _JSON_NAMES.get(column.kind, str(column))
    if not isinstance(schema, dict):
        return "any"
    if "anyOf" in schema:
        return " or ".join(_type(branch) for branch in schema["anyOf"])
    kinds = schema.get("type", "any")
    text = kinds if isinstance(kinds, str) else " or ".join(kinds)
    return f"{text} ({schema['format']})" if "format" in schema else text
