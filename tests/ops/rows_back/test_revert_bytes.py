"""A revert goes by the bytes of records, whatever their columns show; what it writes replays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pyspark.sql import SparkSession

from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.sql.queries.query import query
from tests.build import commit_rows
from tests.frozen import revert_on_spark as revert
from tests.frozen import verify_on_spark as verify
from tests.histories import here
from tests.tap.run import run as run_tap
from tests.target import harness

ID = {"id": {"type": "integer"}}
CASES = {
    "one double": ({"type": "number"}, "12345678901234.123456", "12345678901234.123457"),
    "nanoseconds": (
        {"type": "string", "format": "date-time"},
        '"2026-01-02T03:04:05.123456789Z"',
        '"2026-01-02T03:04:05.123456780Z"',
    ),
    "an offset": (
        {"type": "string", "format": "date-time"},
        '"2026-01-02T03:04:05Z"',
        '"2026-01-02T04:04:05+01:00"',
    ),
    "zeros": ({"type": "number"}, "1.10", "1.1"),
    "a decimal's zeros": ({"type": "number", "multipleOf": 0.01}, "1.10", "1.1"),
    "an exponent": ({"type": "integer"}, "1000", "1e3"),
    "an inner member": (
        {"type": "object", "properties": {"a": {"type": "integer"}}},
        '{"a": 1, "b": 2}',
        '{"a": 1, "b": 3}',
    ),
}


def table_of(lake: Lake) -> Table:
    return lake.table(TableName("tap", "s"))


def replayed(lake: Lake) -> dict[Any, bytes]:
    """What a target that knows keys holds after all that the tap puts out: the records' bytes."""
    held: dict[Any, bytes] = {}
    for line in run_tap(lake).lines:
        message = json.loads(line)
        if message["type"] != "RECORD":
            assert message["type"] != "ACTIVATE_VERSION"
            continue
        key = message["record"]["id"]
        held[key] = line[line.index(b'"record":') + 9 : line.rindex(b', "time_extracted"')].strip()
        if message["record"].get("_sdc_deleted_at"):
            del held[key]
    return held


def test_a_row_that_only_looks_the_same_is_put_back(spark: SparkSession, lake: Lake) -> None:
    """One table, with a column and a row for each case; two more rows stay as they are."""
    columns = {**ID, **{name: spec for name, (spec, _, _) in CASES.items()}}
    values = ", ".join(f'"{name}": {old}' for name, (_, old, _) in CASES.items())
    first = {n: f'{{"id": {n}, {values}}}' for n in range(len(CASES) + 2)}
    commit_rows(lake, "tap.s", columns, ["id"], [*first.values()], block_rows=2)
    table = table_of(lake)
    before = here.freeze(table)
    changed = [
        first[n].replace(f'"{name}": {old}', f'"{name}": {new}')
        for n, (name, (_, old, new)) in enumerate(CASES.items())
    ]
    commit_rows(lake, "tap.s", columns, ["id"], [*changed])
    after = here.freeze(table)
    assert before.fingerprint == after.fingerprint, "else a case shows nothing"
    assert before.record_fingerprint != after.record_fingerprint
    done = revert(spark, table, before.transaction)
    assert (done.put_back, done.deleted, done.unchanged) == (len(CASES), 0, 2)
    again = here.freeze(table)
    assert again.record_fingerprint == before.record_fingerprint
    assert replayed(lake) == {n: text.encode() for n, text in first.items()}
    assert revert(spark, table, before.transaction).transaction is None
    assert verify(spark, table).problems == []


def test_a_member_that_no_column_shows_is_put_back(spark: SparkSession, lake: Lake) -> None:
    first = ['{"id": 1, "hidden": 1}', '{"id": 2}', '{"id": 3, "hidden": null}', '{"id":4}']
    commit_rows(lake, "tap.s", ID, ["id"], [*first])
    table = table_of(lake)
    before = here.freeze(table)
    second = ['{"id": 1, "hidden": 2}', '{"id": 2, "hidden": 2}', '{"id": 3}', '{"id": 4}']
    commit_rows(lake, "tap.s", ID, ["id"], [*second])
    changed = here.freeze(table)
    assert (changed.rows, changed.fingerprint) == (before.rows, before.fingerprint)
    done = revert(spark, table, before.transaction)
    assert (done.put_back, done.deleted, done.unchanged) == (4, 0, 0)
    assert here.freeze(table).record_fingerprint == before.record_fingerprint
    assert list(replayed(lake).values()) == [text.encode() for text in first]
    # And forth again, to what had been reverted.
    assert revert(spark, table, changed.transaction).put_back == 4
    assert here.freeze(table).record_fingerprint == changed.record_fingerprint


def test_what_is_around_a_record_does_not_count(spark: SparkSession, lake: Lake) -> None:
    commit_rows(lake, "tap.s", ID, ["id"], ['{"id": 1}', '{"id": 2}'])
    before = here.freeze(table_of(lake))
    commit_rows(lake, "tap.s", ID, ["id"], [('{"id": 1}', 7)])
    done = revert(spark, table_of(lake), before.transaction)
    assert (done.put_back, done.unchanged) == (0, 2)
    assert here.freeze(table_of(lake)).record_fingerprint == before.record_fingerprint


def test_a_keyless_table_comes_back_to_the_byte(spark: SparkSession, lake: Lake) -> None:
    first = ['{"n": 12345678901234.123456}', '{"n": 1.10, "more": 1}']
    commit_rows(lake, "tap.s", {"n": {"type": "number"}}, [], [*first])
    before = here.freeze(table_of(lake))
    commit_rows(lake, "tap.s", {"n": {"type": "number"}}, [], ['{"n": 3}'])
    done = revert(spark, table_of(lake), before.transaction)
    assert (done.put_back, done.whole) == (2, True)
    assert here.freeze(table_of(lake)).record_fingerprint == before.record_fingerprint
    put_out = run_tap(lake)
    last = max(n for n, kind in enumerate(put_out.kinds) if kind == "ACTIVATE_VERSION")
    written = [line for line in put_out.lines[last:] if b"RECORD" in line]
    assert [text.encode() in line for text, line in zip(first, written, strict=True)] == [True] * 2


def test_a_way_out_of_a_value_that_no_column_can_hold(spark: SparkSession, lake: Lake) -> None:
    """Values need not be read to be reverted, only keys."""
    columns = {**ID, "at": {"type": "string", "format": "date-time"}}
    commit_rows(lake, "tap.s", columns, ["id"], ['{"id": 1, "at": "2026-01-02T03:04:05Z"}'])
    before = here.freeze(table_of(lake))
    commit_rows(lake, "tap.s", columns, ["id"], ['{"id": 1, "at": ""}', '{"id": 2, "at": "24:00"}'])
    done = revert(spark, table_of(lake), before.transaction)
    assert (done.put_back, done.deleted) == (1, 1)
    assert list(query(spark, lake, "select id from tap.s").rows()) == [(1,)]
    assert here.freeze(table_of(lake)).fingerprint == before.fingerprint


def strict(**columns: Any) -> bytes:
    return harness.schema(
        "s", {"id": {"type": "integer"}, **columns}, ["id"], additionalProperties=False
    )


@pytest.mark.parametrize("word", ["plain", "allOf"])
def test_a_deletion_is_under_a_schema_that_knows_it(
    spark: SparkSession, tmp_path: Path, word: str
) -> None:
    body = json.loads(strict())["schema"]
    more = {} if word == "plain" else {"allOf": [body]}
    schema = harness.schema("s", body["properties"], ["id"], additionalProperties=False, **more)
    source = tmp_path / "source"
    harness.run(source, [schema, harness.record("s", {"id": 1})], tap_id="tap")
    lake = Lake.open(str(source))
    before = here.freeze(table_of(lake))
    harness.run(source, [schema, *(harness.record("s", {"id": n}) for n in (2, 3))], tap_id="tap")
    done = revert(spark, table_of(lake), before.transaction)
    assert (done.put_back, done.deleted, done.unchanged) == (0, 2, 1)

    head = table_of(lake).snapshot()
    assert head.schema_hash == before.schema_hash == done.schema_hash
    (block,) = head.blocks_after(done.transaction - 1 if done.transaction else 0)
    mark = head.schema_of(block.schema_hash).schema["properties"]["_sdc_deleted_at"]
    assert mark == {"type": ["null", "string"], "format": "date-time"}
    catalogue = json.loads((source / "raw/tap/catalogue.json").read_text())
    assert "_sdc_deleted_at" not in catalogue["streams"][0]["schema"]["properties"]
    assert here.problems(table_of(lake)) == []

    put_out = run_tap(lake)
    under: dict[str, Any] = {}
    for message in put_out.messages:
        if message["type"] == "SCHEMA":
            under = message["schema"]
        elif message["type"] == "RECORD":
            jsonschema.validate(message["record"], under)
    assert under == head.schema.schema, "the stream ends with the schema in effect"
    harness.run(tmp_path / "copy", put_out.out, tap_id="tap", validate_records=True)
    copy = Lake.open(str(tmp_path / "copy"))
    assert table_of(copy).snapshot().schema_hash == head.schema_hash
    assert here.freeze(table_of(copy)).record_fingerprint == before.record_fingerprint

    again = revert(spark, table_of(lake), before.transaction + 2)
    assert (again.put_back, again.deleted, again.unchanged) == (2, 0, 1)
    third = revert(spark, table_of(lake), before.transaction)
    assert third.deleted == 2
    assert table_of(lake).snapshot().schemas.keys() == head.schemas.keys()


def test_a_schema_that_declares_the_mark_is_left_as_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = strict(_sdc_deleted_at={"type": ["string", "null"]})
    harness.run(tmp_path / "lake", [schema, harness.record("s", {"id": 1})], tap_id="tap")
    lake = Lake.open(str(tmp_path / "lake"))
    harness.run(tmp_path / "lake", [schema, harness.record("s", {"id": 2})], tap_id="tap")
    assert revert(spark, table_of(lake), 1).deleted == 1
    assert len(table_of(lake).snapshot().schemas) == 1
