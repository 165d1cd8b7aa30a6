"""Blocks as bytes: nothing changes, everything comes once, STATE where a transaction ends."""

from __future__ import annotations

import gzip
import io
import json
import logging
from contextlib import redirect_stdout
from typing import Any

import pytest

from singerlake.format.log import SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.lake import Lake
from singerlake.log.staging import StagedTable
from tap_singerlake.tap import TapSingerlake
from tests.build import commit_rows, record_line, schema_line
from tests.tap.run import Run, config_of, freeze, run

INT = {"id": {"type": "integer"}}
WIDE = {**INT, "note": {"type": ["null", "string"]}}

ODD_RECORDS = [
    '{"id": 1.10, "note": "caf\u00e9 \\u00e9 \\ud83d\\ude00"}',
    '{"id":1e5,"note":null}',
    '{ "id" : 123456789012345678901234567890, "note":"a\u2028b" }',
    '{"note": "\\"type\\": \\"STATE\\"", "id": 0.1000000000000000055511151231257827}',
]


def commit_schema(lake: Lake, table: str, properties: dict[str, Any], keys: list[str]) -> None:
    """A transaction without rows, as an empty source makes it."""
    tap, _, stream = table.partition(".")
    staged = StagedTable(lake.store, TableName(tap, stream))
    entry = SchemaEntry({"type": "object", "properties": properties}, keys)
    staged.set_schema(schema_hash(entry.schema, keys), entry)
    assert lake.table(TableName(tap, stream)).writer().commit(staged) is not None


def ids(part: Run) -> list[Any]:
    return [record["id"] for record in part.records()]


def test_every_byte_of_every_line_comes_back(lake: Lake) -> None:
    commit_rows(lake, "tap_x.odd", INT, [], [*ODD_RECORDS[:3]], block_rows=2)
    commit_rows(lake, "tap_x.odd", INT, [], [ODD_RECORDS[3], ({"id": 9}, 7), 7])
    table = lake.table(TableName("tap_x", "odd"))
    files = dict.fromkeys(block.file for block in table.snapshot().blocks)
    stored = b"".join(gzip.decompress(lake.store.get(table.name.data(file)).data) for file in files)
    first_schema, *rest = stored.splitlines(keepends=True)
    expected = [first_schema, *(line for line in rest if line != first_schema)]

    out = run(lake).lines
    assert [line for line in out if b'"type":"STATE"' not in line[:20]] == expected
    assert len(expected) == 1 + 4 + 2


def test_a_second_run_brings_nothing_and_a_third_only_what_came_since(lake: Lake) -> None:
    commit_rows(lake, "tap_x.orders", INT, ["id"], [{"id": i} for i in range(5)], block_rows=2)
    commit_rows(lake, "tap_x.users", INT, ["id"], [{"id": 100}])
    first = run(lake)
    assert ids(first) == [0, 1, 2, 3, 4, 100]

    second = run(lake, first.state)
    assert second.kinds == ["STATE", "SCHEMA", "SCHEMA", "STATE"]
    assert second.state == first.state

    snapshot = commit_rows(lake, "tap_x.orders", INT, ["id"], [{"id": 5}])
    third = run(lake, second.state)
    assert ids(third) == [5]
    assert third.state == {
        "bookmarks": {
            "orders": {"transaction": 2, "commit": snapshot.commit},
            "users": first.state["bookmarks"]["users"],
        }
    }


def test_state_of_streams_that_are_not_here_is_kept(lake: Lake) -> None:
    commit_rows(lake, "tap_x.orders", INT, [], [{"id": 1}])
    gone = {"transaction": 3, "commit": "abc"}
    assert run(lake, {"bookmarks": {"gone": gone}}).state["bookmarks"]["gone"] == gone


def test_resuming_from_any_state_line_gives_exactly_the_rest(lake: Lake) -> None:
    number = 0
    for table in ("tap_x.a", "tap_x.b"):
        for rows in (3, 1, 4):
            messages: list[Any] = [{"id": number + n} for n in range(rows)]
            number += rows
            commit_rows(lake, table, INT, ["id"], messages, block_rows=2)
    whole = run(lake)
    ends = [n for n, kind in enumerate(whole.kinds, start=1) if kind == "STATE"]
    assert len(ends) == 6
    for end in ends:
        before = Run(b"".join(whole.lines[:end]))
        after = run(lake, before.state)
        assert before.raw_records() + after.raw_records() == whole.raw_records()
    transactions = [m["value"]["bookmarks"]["a"]["transaction"] for m in whole.of("STATE")]
    assert transactions == [1, 2, 3, 3, 3, 3]


def test_the_schema_comes_again_where_it_changes(lake: Lake) -> None:
    commit_rows(lake, "tap_x.t", INT, ["id"], [{"id": 1}, {"id": 2}], block_rows=1)
    commit_rows(lake, "tap_x.t", WIDE, ["id"], [{"id": 3, "note": "x"}])
    commit_rows(lake, "tap_x.t", INT, ["id"], [{"id": 4}])
    out = run(lake)
    assert out.kinds == (
        ["SCHEMA", "RECORD", "RECORD", "STATE"] + ["SCHEMA", "RECORD", "STATE"] * 2
    )
    assert [sorted(m["schema"]["properties"]) for m in out.of("SCHEMA")] == [
        ["id"],
        ["id", "note"],
        ["id"],
    ]


def test_a_schema_without_rows_comes_too(lake: Lake) -> None:
    commit_schema(lake, "tap_x.empty", INT, ["id"])
    out = run(lake)
    assert out.kinds == ["SCHEMA", "STATE"]
    assert out.messages[0]["schema"]["properties"] == INT
    assert out.messages[0]["key_properties"] == ["id"]
    assert out.state["bookmarks"]["empty"]["transaction"] == 1

    commit_rows(lake, "tap_x.empty", INT, ["id"], [{"id": 1}])
    commit_schema(lake, "tap_x.empty", WIDE, ["id"])
    later = run(lake, out.state)
    assert later.kinds == ["STATE", "SCHEMA", "RECORD", "STATE", "SCHEMA", "STATE"]
    assert later.of("SCHEMA")[-1]["schema"]["properties"] == WIDE


def test_activate_version_keeps_its_place(lake: Lake) -> None:
    commit_rows(lake, "tap_x.t", INT, [], [({"id": 1}, 5), 5, ({"id": 2}, 6), 6])
    out = run(lake)
    assert [m["version"] for m in out.messages if "version" in m] == [5, 5, 6, 6]
    assert out.kinds[1:-1] == ["RECORD", "ACTIVATE_VERSION"] * 2


def test_a_freeze_only_moves_the_bookmark(lake: Lake) -> None:
    commit_rows(lake, "tap_x.t", INT, [], [{"id": 1}])
    first = run(lake)
    freeze(lake, "tap_x.t")
    second = run(lake, first.state)
    assert second.records() == []
    assert second.state["bookmarks"]["t"]["transaction"] == 2


def test_table_version_by_number_and_by_label(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    commit_rows(lake, "tap_x.t", INT, [], [{"id": 1}])
    freeze(lake, "tap_x.t", "first")  # transaction 2, of transaction 1
    commit_rows(lake, "tap_x.t", WIDE, [], [{"id": 2, "note": None}])  # 3
    freeze(lake, "tap_x.t", "second")  # 4
    commit_rows(lake, "tap_x.t", INT, [], [{"id": 3}])  # 5

    for name in (1, "1", "first"):
        out = run(lake, table_version=name)
        assert ids(out) == [1]
        assert out.state["bookmarks"]["t"]["transaction"] == 1
    assert ids(run(lake, table_version="second")) == [1, 2]
    assert ids(run(lake, streams=["t.2"])) == [1, 2]
    assert ids(run(lake, streams=["t.2"], table_version="first")) == [1, 2]

    first = run(lake, table_version=1)
    assert ids(run(lake, first.state, table_version=2)) == [2]
    everything = run(lake)
    with caplog.at_level(logging.WARNING):
        back = run(lake, everything.state, table_version=1)
    assert back.records() == []
    assert back.state == everything.state
    assert caplog.text.count("there is nothing new") == 1


@pytest.mark.parametrize(
    "bookmark",
    [
        {"transaction": 2, "commit": "of another log"},
        {"transaction": 9, "commit": "x"},
        {"transaction": 1},
        {"transaction": "1", "commit": "x"},
        {"transaction": -1, "commit": "x"},
        {"replication_key": "id", "replication_key_value": 3},
    ],
)
def test_a_bookmark_that_does_not_fit_the_log_reads_everything(
    lake: Lake, bookmark: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    commit_rows(lake, "tap_x.t", INT, [], [{"id": 1}])
    commit_rows(lake, "tap_x.t", INT, [], [{"id": 2}])
    with caplog.at_level(logging.WARNING):
        out = run(lake, {"bookmarks": {"t": bookmark}})
    warned = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(warned) == 1, "what is wrong with it is said once"
    assert ids(out) == [1, 2]
    assert set(out.state["bookmarks"]["t"]) == {"transaction", "commit"}
    assert ids(run(lake, out.state)) == []


def test_full_table_in_the_catalog_reads_everything(lake: Lake) -> None:
    commit_rows(lake, "tap_x.t", INT, [], [{"id": 1}])
    state = run(lake).state
    entry = {"tap_stream_id": "t", "stream": "t", "schema": {"properties": INT}}
    catalog = {"streams": [{**entry, "replication_method": "FULL_TABLE"}]}
    assert ids(run(lake, state, catalog)) == [1]
    assert ids(run(lake, state, {"streams": [entry]})) == []


def test_blocks_read_ahead_come_in_order(lake: Lake) -> None:
    rows: list[Any] = [{"id": i} for i in range(300)]
    commit_rows(lake, "tap_x.t", INT, [], rows, block_rows=1)
    assert ids(run(lake)) == list(range(300))


@pytest.mark.parametrize("kind", ["text only", "over bytes"])
def test_it_writes_to_what_stdout_is_at_that_time(lake: Lake, kind: str) -> None:
    commit_rows(lake, "tap_x.t", INT, [], [{"id": 1}])
    beneath = io.BytesIO()
    stdout = io.StringIO() if kind == "text only" else io.TextIOWrapper(beneath, encoding="utf-8")
    with redirect_stdout(stdout):
        print('{"type": "printed before"}')
        TapSingerlake(config=config_of(lake)).sync_all()
    text = stdout.getvalue() if isinstance(stdout, io.StringIO) else beneath.getvalue().decode()
    kinds = [json.loads(line)["type"] for line in text.splitlines()]
    assert kinds == ["printed before", "SCHEMA", "RECORD", "STATE"]


def test_a_block_without_a_last_newline_does_not_swallow_the_state(lake: Lake) -> None:
    from singerlake.format import block as format_block
    from singerlake.format.log import Block

    name = TableName("tap_x", "t")
    entry = SchemaEntry({"type": "object", "properties": INT}, [])
    staged = StagedTable(lake.store, name)
    hash_ = schema_hash(entry.schema, [])
    staged.set_schema(hash_, entry)
    text = (schema_line("t", INT, []) + record_line("t", {"id": 1}))[:-1]
    staged.add(hash_, format_block.encode(text, 1, 1), Block(0, "", 0, 0, 1, len(text)))
    lake.table(name).writer().commit(staged)
    assert run(lake).kinds == ["SCHEMA", "RECORD", "STATE"]
