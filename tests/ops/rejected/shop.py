"""A table with rejected records, filled by the target."""

from __future__ import annotations

import json
from typing import Any

from singerlake import api
from singerlake.lake import Lake
from tests.target import harness
from tests.target.harness import record, run, state

NAME = f"{harness.TAP}.a"
NUMBER: dict[str, Any] = {"id": {"type": "integer"}, "total": {"type": "number"}}
EITHER: dict[str, Any] = {**NUMBER, "total": {"type": ["number", "string", "null"]}}
OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def row(id_: Any, total: Any, **more: Any) -> bytes:
    """A RECORD line of the table."""
    return record("a", {"id": id_, "total": total}, **more)


def sync(
    lake: Lake, *lines: bytes, schema: dict[str, Any] = NUMBER, keys: Any = ("id",), **config: Any
) -> None:
    """Run a target that quarantines."""
    spec = {"type": "object", "properties": schema}
    said = {"type": "SCHEMA", "stream": "a", "schema": spec, "key_properties": [*keys]}
    config = {"invalid_records": "quarantine", **config}
    run(lake.store.uri, [json.dumps(said).encode(), *lines, state(1)], **config)


def table_of(lake: Lake) -> api.Table:
    return api.Lake(lake.store)[NAME]


def totals(lake: Lake) -> dict[Any, Any]:
    """The table's rows, by their ids; null where a column cannot hold the value."""
    state = table_of(lake).at(engine="local", on_type_mismatch="null")
    rows = state.to_arrow().to_pylist()
    assert len({one["id"] for one in rows}) == len(rows)
    return {one["id"]: one["total"] for one in rows}


def kept_totals(lake: Lake) -> list[Any]:
    """The totals of the lines that are rejected still."""
    return [json.loads(line.text)["record"]["total"] for line in table_of(lake).rejected()]
