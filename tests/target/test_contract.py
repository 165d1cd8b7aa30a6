"""A stream whose schema changes is taken, noted or refused, as the settings say of it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import InputError
from singerlake.format.log import SchemaEntry
from singerlake.ops.diff.contract import schema_changes
from tests.target.harness import activate, record, records_of, run, schema, state, tables

INT, TEXT = {"type": "integer"}, {"type": "string"}
BEFORE = {"id": INT, "total": {"type": "number"}, "at": TEXT}


def words(before: Any, after: Any, keys: tuple[list[str], list[str]] = ([], [])) -> list[str]:
    old, new = (SchemaEntry(spec, key) for spec, key in zip((before, after), keys, strict=True))
    return [str(change) for change in schema_changes(old, new)]


def test_the_difference_in_words() -> None:
    before = {"type": "object", "properties": BEFORE}
    after = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "id": {"type": ["null", "integer"]},
            "total": TEXT,
            "coupon": {"type": ["string", "null"]},
        },
    }
    assert words(before, after, (["id"], ["id", "coupon"])) == [
        "column 'coupon' was added (string)",
        'the schema of column \'id\' changed from {"type": "integer"} to '
        '{"type": ["integer", "null"]}',
        "column 'total' changed from double to string",
        "column 'at' was removed (string)",
        "the key changed from id to id, coupon",
        'the schema of the rows changed from {"type": "object"} to '
        '{"additionalProperties": false, "type": "object"}',
    ]


@pytest.mark.parametrize(
    "after",
    [
        {"properties": {**BEFORE, "id": {**INT, "title": "Id", "description": "Which."}}},
        {"properties": dict(reversed(BEFORE.items())), "$comment": "new"},
        {"properties": {"id": {"$ref": "#/$defs/id"}, **BEFORE}, "description": "Orders."},
    ],
)
def test_what_binds_nobody_is_no_difference(after: Any) -> None:
    assert words({"properties": BEFORE}, after) == []


def test_nor_is_the_order_of_what_has_none() -> None:
    before = {"properties": {"a": {"type": ["null", "string"]}}, "required": ["a", "b"]}
    after = {"properties": {"a": {"type": ["string", "null"]}}, "required": ["b", "a"]}
    assert words(before, after) == []
    title = {"properties": {"title": {"type": "object", "properties": {"title": INT}}}}
    other = {"properties": {"title": {"type": "object", "properties": {"title": TEXT}}}}
    assert len(words(title, other)) == 1


def test_by_patterns_of_streams(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake, policy = tmp_path / "lake", {"order*": "fail", "log": "evolve", "*": "warn"}
    streams = ["orders", "log", "customers"]
    data = [
        line for name in streams for line in (schema(name, keys=["id"]), record(name, {"id": 1}))
    ]
    run(lake, [*data, state(1)], schema_changes=policy)
    again = [schema(name, {"id": TEXT}, ["id"]) for name in streams[1:]]
    caplog.clear()  # of the metrics of the first run
    with caplog.at_level(logging.WARNING):
        run(lake, [*data, *again, record("log", {"id": "x"}), state(2)], schema_changes=policy)
    said = [text for text in caplog.messages if not text.startswith("METRIC")]
    assert said == [
        "the schema of tap-test.customers has changed: column 'id' changed from int64 to string"
    ]
    changed = schema("orders", {"id": INT, "coupon": TEXT}, ["id"])
    with pytest.raises(InputError) as caught:
        run(lake, [*data, changed], schema_changes=policy)
    assert str(caught.value) == (
        "line 7: the SCHEMA of stream 'orders' cannot be used: it differs from that of "
        "tap-test.orders, and schema_changes is fail: column 'coupon' was added (string); correct "
        "the source, or accept it with evolve or warn"
    )
    assert len(records_of(lake, "orders")) == 2
    run(lake, [changed, state(3)], schema_changes={"orders": "warn"})
    run(lake, [changed, activate("orders", 1), state(4)], schema_changes=policy)
    assert tables(lake)["orders"] == 4


def test_it_is_held_to_what_a_map_makes_of_it(tmp_path: Path) -> None:
    lake, policy = tmp_path / "lake", {"*": "fail"}
    maps = {"a": {"__alias__": "b", "late": None}}
    run(lake, [schema("a"), state(1)], schema_changes=policy, stream_maps=maps)
    more = schema("a", {"id": INT, "late": TEXT})
    run(lake, [more, state(2)], schema_changes=policy, stream_maps=maps)
    with pytest.raises(InputError, match="'late' was added"):
        run(lake, [more], schema_changes=policy, stream_maps={"a": {"__alias__": "b"}})


def test_a_word_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="Config validation failed"):
        run(tmp_path / "lake", [], schema_changes={"*": "stop"})
