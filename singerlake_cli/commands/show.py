"""singerlake show: one table in detail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click
from msgspec import to_builtins
from msgspec.structs import asdict

from singerlake.annotations.columns import column_texts
from singerlake.format import times
from singerlake.format.annotations import TableEntry
from singerlake.format.log import FrozenVersion, Operation
from singerlake.format.metadata import last_sync
from singerlake.format.types import Kind, Type, columns_of
from singerlake.log import log
from singerlake.log.table_state import TableState
from singerlake.ops.requirements import annotated
from singerlake.storage.base import Store
from singerlake_cli import output
from singerlake_cli.shared import Shared, complete_table

_LABELS = {
    "description": "description",
    "documentation": "documentation",
    "job_url": "job",
    "job_status": "job status",
    "tags": "tags",
    "classification": "classified",
    "freshness": "freshness",
    "deprecated": "deprecated",
}
RECENT = 30
VERSIONS = 10
"""So many transactions back the sparkline goes, and so many versions are listed."""
LABELS = 14
"""Columns that the names of facts take."""


@click.command("show")
@click.argument("table", shell_complete=complete_table)
@click.pass_obj
def command(shared: Shared, table: str) -> None:
    """Show a TABLE: columns, sizes, versions, transactions.

    "stored" counts all records that were written, including replaced and deleted ones. "recent" is
    a chart of the records in the last transactions, newest on the right.

    \b
    singerlake show tap-shop.orders
    singerlake show tap-shop.orders.2     (as of version 2)
    """
    lake = shared.lake()
    lake_table, ref = lake.find(table)
    head = lake_table.snapshot(dropped=True)
    if ref.version is None and head.dropped_at:
        from singerlake_cli import dropped_tables

        dropped_tables.show_dropped(shared, lake_table.store, head, LABELS)
        return
    head.check_there()
    snapshot = head if ref.version is None else head.named(ref.version)[1]
    facts = _facts(str(ref), snapshot)
    lake_file = lake.annotations()
    tap, entry = lake_file.tap(ref.table.tap), lake_file.table(ref.table)
    facts["annotations"] = to_builtins(entry)
    facts["job"] = to_builtins(tap.last_run)
    dead = annotated.holds_rejected(lake.store, ref.table)
    facts["requirements"] = lake_file.requirements_of(ref.table, own=dead)
    facts["owner"] = entry.owner or tap.owner or lake_file.owner
    facts["staged"] = _staged(lake_table.store, snapshot)
    facts["published"] = to_builtins(lake_file.published_from(ref.table))
    shared.output.result(
        lambda: {
            **facts,
            "schema": snapshot.schema.schema,
            "overlay": to_builtins(snapshot.overlay),
            "table_versions": [asdict(v) for v in snapshot.frozen],
        },
        lambda: _print(facts, snapshot, entry),
    )


def _print(facts: dict[str, Any], snapshot: TableState, entry: TableEntry) -> None:
    for label, value in _lines(facts):
        output.say(f"{label:<{LABELS}}{value}", hang=LABELS)
    descriptions = column_texts(snapshot.schema, entry.columns)
    rows = [
        (
            name,
            _retyped(kind) if name in snapshot.retyped else kind,
            "key" if key else "",
            *([descriptions.get(name)] if descriptions else []),
        )
        for name, kind, key in columns(snapshot)
    ]
    headings = ("column", "type~", "key", *(["description~"] if descriptions else []))
    output.print_table(None, headings, rows)
    if asked := snapshot.overlay.constraints:
        from singerlake.format.overlay_words import constraint_words

        words = [(name, constraint_words(one)) for name, one in asked.items()]
        output.print_table(None, ("constraint", "asks for~"), words)
    if snapshot.frozen:
        _print_versions(snapshot.frozen[-VERSIONS:], len(snapshot.frozen))


def _print_versions(newest: Sequence[FrozenVersion], count: int) -> None:
    """Print the newest versions; ``singerlake versions`` has all of them."""
    rows = [(v.number, v.label, v.transaction, f"{v.rows:,}", output.clock(v.time)) for v in newest]
    note = (
        f"the newest {len(newest)} of {count}: singerlake versions" if len(newest) < count else ""
    )
    columns = ("version>", "label", "of>", "rows>", "frozen (UTC)")
    output.print_table(None, columns, rows, note)


def _facts(name: str, snapshot: TableState) -> dict[str, Any]:
    files = {block.file for block in snapshot.blocks}
    writes = [t for t in snapshot.own_transactions if t.rows]
    extracted = _in_time(time for b in snapshot.blocks for time in (b.first, b.last))
    description = snapshot.schema.schema.get("description")
    return {
        "table": name,
        "description": description if isinstance(description, str) else None,
        "transaction": snapshot.number,
        "schema_hash": snapshot.schema_hash,
        "schemas": list(snapshot.schemas),
        "key_properties": snapshot.schema.key_properties,
        "records": sum(block.rows for block in snapshot.blocks),
        "blocks": len(snapshot.blocks),
        "files": len(files),
        "bytes": sum(block.length for block in snapshot.blocks),
        "uncompressed_bytes": sum(block.bytes for block in snapshot.blocks),
        "first": extracted[0] if extracted else None,
        "last": extracted[-1] if extracted else None,
        "changed": snapshot.transactions[-1].time if snapshot.transactions else None,
        "last_sync": last_sync(snapshot.own_transactions),
        "recent": [t.rows for t in writes[-RECENT:]],
        "versions": len(snapshot.frozen),
        "keys_blocked": snapshot.blocked.keys if snapshot.blocked is not None else 0,
    }


def _in_time(texts: Iterable[str | None]) -> list[str]:
    """Sort times: blocks are in the order of their writing, and a tap may send older records."""
    told = {text: time for text in texts if text and (time := times.parse(text)) is not None}
    return sorted(told, key=told.__getitem__)


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    stored, raw = facts["bytes"], facts["uncompressed_bytes"]
    return [
        ("table", facts["table"]),
        *([("description", facts["description"])] if facts["description"] else []),
        ("transaction", f"{facts['transaction']}, {output.ago(facts['changed'] or '')}"),
        (
            "stored",
            f"{output.count(facts['records'], 'record')} in "
            f"{output.count(facts['blocks'], 'block')}, {output.count(facts['files'], 'file')}, "
            f"{output.size(stored)} "
            f"({output.size(raw)} unpacked)",
        ),
        ("extracted", _span(facts["first"], facts["last"])),
        ("schema", f"{facts['schema_hash']}, {_ordinal(facts)}"),
        ("last sync", output.ago(facts["last_sync"]) if facts["last_sync"] else "–"),
        ("recent", _recent(facts["recent"])),
        ("versions", str(facts["versions"] or "none")),
        *([("blocked", _blocked(facts["keys_blocked"]))] if facts["keys_blocked"] else []),
        *([("staged", staged_line(facts["staged"]))] if facts["staged"] else []),
        *(("published", published_line(*one)) for one in facts["published"].items()),
        *_annotation_lines(facts),
    ]


def _blocked(keys: int) -> str:
    return f"{output.count(keys, 'key')}: singerlake erase --unblock accepts rows again"


def _span(first: str | None, last: str | None) -> str:
    if first is None or last is None:
        return "–"
    if (start := output.clock(first)) == (end := output.clock(last)):
        return f"{start} UTC"
    return f"{start} to {end} UTC"


def _annotation_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the annotations, a line each."""
    values = facts["annotations"]
    lines = [("owner", facts["owner"])] if facts["owner"] else []
    for name, label in _LABELS.items():
        if value := values.get(name):
            lines.append((label, ", ".join(value) if isinstance(value, list) else value))
    lines += [("required", text) for text in facts["requirements"]]
    if facts["job"]:
        lines.append(("last job", job_line(facts["job"])))
    return lines


def job_line(run: dict[str, Any]) -> str:
    """Describe a tap's last run: its outcome, time, records and URL."""
    rows = output.count(run.get("rows", 0), "record")
    where = f", {run['url']}" if run.get("url") else ""
    return f"{run['outcome']} {output.ago(run['time'])}, {rows}{where}"


def _staged(store: Store, snapshot: TableState) -> dict[str, Any] | None:
    """Return the projection of a staging table, and the sources of its rows.

    Metadata are a writer's word: what is not as `publish` writes it says nothing.
    """
    for summary in reversed(snapshot.own_transactions):
        if summary.operation not in (Operation.CHANGE, Operation.CREATE):
            continue
        entry = log.read_entry(store, snapshot.table, summary.number)
        said = {} if entry is None else entry.metadata
        name, sources = said.get("projection"), said.get("sources")
        if not isinstance(name, str) or not isinstance(sources, list):
            return None
        known = [one for one in sources if isinstance(one, dict) and "table" in one]
        return {"projection": name, "transaction": summary.number, "sources": known}
    return None


def staged_line(staged: dict[str, Any]) -> str:
    """Describe a staging table's projection, and the sources of its rows."""
    read = [f"{one['table']} at transaction {one.get('transaction')}" for one in staged["sources"]]
    return f"by {staged['projection']}, of {', '.join(read) or 'nothing'}"


def published_line(name: str, one: dict[str, Any]) -> str:
    """Describe a projection of the table: its destination, format and name."""
    called = "" if name == one["to"] else f", as {name}"
    return f"{one['to']} ({one['format']}){called}"


def _ordinal(facts: dict[str, Any]) -> str:
    number = facts["schemas"].index(facts["schema_hash"]) + 1
    return f"number {number} of the {len(facts['schemas'])} that this table has had"


def _recent(rows: list[int]) -> str:
    if not rows:
        return "–"
    many = output.count(len(rows), "transaction")
    return f"{output.sparkline(rows)}  {output.count(sum(rows), 'record')} in {many}"


def columns(snapshot: TableState) -> list[tuple[str, str, bool]]:
    """Return name, type as the tap has it, and whether it is a key, of every column."""
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
    return f"text, by alter (the tap declares {kind})"


def _type(schema: Any, column: Type | None = None) -> str:
    """Return the JSON type that a schema names; for a reference, the type that its column holds."""
    if column is not None and (schema is None or _refers(schema)):
        return _JSON_NAMES.get(column.kind, str(column))
    if not isinstance(schema, dict):
        return "any"
    if "anyOf" in schema:
        return " or ".join(_type(branch) for branch in schema["anyOf"])
    kinds = schema.get("type", "any")
    text = kinds if isinstance(kinds, str) else " or ".join(kinds)
    if column is not None and column.kind is Kind.DECIMAL and "precision" in schema:
        from singerlake.format.type_list import declared_type

        return f"{text} ({declared_type(schema, column)})"
    return f"{text} ({schema['format']})" if "format" in schema else text
