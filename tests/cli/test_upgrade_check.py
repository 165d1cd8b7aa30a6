"""``singerlake doctor --upgrade`` lists what this release reads otherwise, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.format.annotations import Publication
from singerlake.lake import Lake
from singerlake.ops.drop import drop_table
from singerlake.ops.freeze import FreezePlan, commit_version
from singerlake.overlay.alter import AlterOptions
from singerlake.publish import registry
from tests.build import commit_rows
from tests.cli import call

NUMBER = {"type": ["null", "number"]}
IDS = [1234567890123456780 + n for n in range(20)]


@pytest.fixture
def full(lake: Lake) -> Lake:
    """Tables with keys that are rounded, with nulls in them, as before, and dropped."""
    big: list[Any] = [f'{{"id": {one}}}' for one in IDS]
    head = commit_rows(lake, "tap.big", {"id": NUMBER}, ["id"], big)
    old = FreezePlan(head.by_rules(2), None, None)
    commit_version(lake.store, head, old, rows=1, fingerprint="0" * 32)
    nulls: list[Any] = [{"id": None}, {"id": None}, {"id": 1}]
    commit_rows(lake, "tap.null", {"id": {"type": ["null", "integer"]}}, ["id"], nulls)
    commit_rows(lake, "tap.same", {"id": {"type": "integer"}}, ["id"], [{"id": 1}, {"id": 1}])
    gone = commit_rows(lake, "tap.gone", {"id": NUMBER}, ["id"], big)
    drop_table(lake.store, gone, AlterOptions())
    return lake


def test_tables_that_are_read_otherwise_are_listed(full: Lake) -> None:
    before = sorted(item.key for item in full.store.list(""))
    result = call.run(full, "doctor", "--upgrade")
    assert result.exit_code == 0, result.output
    assert "tap.big: 20 rows\n" in result.stdout
    assert "19 rows more than release 0.1 showed" in result.stdout
    assert "singerlake alter tap.big retype id TYPE" in result.stdout
    assert "version 1: keeps the rows" in result.stdout
    assert "tap.null: 3 rows\n" in result.stdout
    assert "1 table reads as before" in result.stdout
    assert "gone" not in result.stdout
    assert not result.stdout.startswith("\n")
    assert sorted(item.key for item in full.store.list("")) == before


def test_document_has_what_the_list_has(full: Lake) -> None:
    registry.enter(full, "big", Publication(tables=["tap.big"], to="/out/big", format="parquet"))
    document = call.run_json(full, "doctor", "--upgrade")
    found = {one["table"]: one for one in document["tables"]}
    assert found.keys() == {"tap.big", "tap.null", "tap.same"}
    assert found["tap.big"] == {
        "table": "tap.big",
        "rows": 20,
        "appear": 19,
        "vanish": 0,
        "types": [],
        "rounded": [{"column": "id", "type": "double", "values": 20}],
        "versions_by_earlier_rules": [1],
        "for_good": [],
    }
    assert (found["tap.null"]["appear"], found["tap.same"]["appear"]) == (1, 0)
    assert document["publications_to_rebuild"] == [
        {"name": "big", "to": "/out/big", "tables": ["tap.big"]}
    ]
    said = call.run(full, "doctor", "--upgrade").stdout
    assert "the next publish rebuilds 1 publication: big" in said


def test_columns_whose_type_changes_are_listed(lake: Lake) -> None:
    money = {"type": "string", "format": "x-singer.decimal", "scale": 2}
    rows: list[Any] = [{"id": "1.50"}, {"id": "1.5"}]
    commit_rows(lake, "tap.t", {"id": money}, ["id"], rows)
    document = call.run_json(lake, "doctor", "--upgrade")
    (found,) = document["tables"]
    assert document["publications_to_rebuild"] == []
    assert found["types"] == [{"column": "id", "before": "string", "now": "decimal(38,2)"}]
    assert (found["rows"], found["appear"], found["vanish"]) == (1, 0, 1)
    shown = call.run(lake, "doctor", "--upgrade").stdout
    assert "column 'id' was string and is decimal(38,2)" in shown


def test_empty_lake_has_nothing_to_list(lake: Lake) -> None:
    commit_rows(lake, "tap.t", {"id": {"type": "integer"}}, [], [{"id": 1}])
    assert call.run(lake, "doctor", "--upgrade").stdout == "1 table reads as before\n"
