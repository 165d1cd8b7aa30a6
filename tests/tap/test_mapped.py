"""Selection, stream maps and flattening."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.lake import Lake
from tests.build import EXTRACTED, commit_rows
from tests.tap.run import catalog_of, run, select

ORDER = {
    "id": {"type": "integer"},
    "price": {"type": "number"},
    "who": {"type": "object", "properties": {"name": {"type": "string"}, "mail": {}}},
}
ROWS = [
    '{"id": 1, "price": 1.10, "who": {"name": "Zoë", "mail": "z@x"}}',
    '{"id": 2, "price": 12345678901234567890.123456789, "who": {"name": "Al", "mail": "a@x"}}',
]


@pytest.fixture
def orders(lake: Lake) -> Lake:
    messages: list[Any] = [(ROWS[0], 3), (ROWS[1], 3), 3]
    commit_rows(lake, "tap_x.orders", ORDER, ["id"], messages, block_rows=2)
    return lake


def test_a_deselected_property_is_in_neither_schema_nor_record(orders: Lake) -> None:
    catalog = select(catalog_of(orders), "orders", "properties", "who", selected=False)
    out = run(orders, catalog=catalog)
    assert sorted(out.of("SCHEMA")[0]["schema"]["properties"]) == ["id", "price"]
    assert [sorted(r) for r in out.records()] == [["id", "price"]] * 2
    assert out.kinds == ["SCHEMA", "RECORD", "RECORD", "ACTIVATE_VERSION", "STATE"]


def test_what_is_around_a_record_and_its_numbers_stay(orders: Lake) -> None:
    catalog = select(catalog_of(orders), "orders", "properties", "who", selected=False)
    out = run(orders, catalog=catalog)
    for message in out.of("RECORD"):
        assert (message["version"], message["time_extracted"]) == (3, EXTRACTED)
    assert b'"price":1.10' in out.out
    assert b'"price":12345678901234567890.123456789' in out.out
    assert out.of("ACTIVATE_VERSION") == [
        {"type": "ACTIVATE_VERSION", "stream": "orders", "version": 3}
    ]


def test_a_property_within_a_property(orders: Lake) -> None:
    breadcrumb = ("properties", "who", "properties", "mail")
    catalog = select(catalog_of(orders), "orders", *breadcrumb, selected=False)
    out = run(orders, catalog=catalog)
    assert out.records()[0]["who"] == {"name": "Zoë"}
    assert list(out.of("SCHEMA")[0]["schema"]["properties"]["who"]["properties"]) == ["name"]


def test_key_properties_cannot_be_deselected(orders: Lake) -> None:
    catalog = catalog_of(orders)
    for entry in catalog["streams"]:
        for place in entry["metadata"]:
            if place["breadcrumb"]:
                place["metadata"] = {"selected": False}  # not even marked automatic
    out = run(orders, catalog=catalog)
    assert out.records() == [{"id": 1}, {"id": 2}]
    assert list(out.of("SCHEMA")[0]["schema"]["properties"]) == ["id"]


def test_a_deselected_stream_is_skipped(orders: Lake) -> None:
    commit_rows(orders, "tap_x.users", {"id": {}}, [], [{"id": 7}])
    catalog = select(catalog_of(orders), "orders", selected=False)
    out = run(orders, catalog=catalog)
    assert {m["stream"] for m in out.messages if "stream" in m} == {"users"}
    assert list(out.state["bookmarks"]) == ["users"]


def test_a_catalog_with_nothing_deselected_leaves_the_bytes_alone(orders: Lake) -> None:
    assert run(orders, catalog=catalog_of(orders)).out == run(orders).out


def test_a_stream_map_renames_filters_and_computes(orders: Lake) -> None:
    maps = {"orders": {"__alias__": "sales", "__filter__": "id > 1", "twice": "int(id * 2)"}}
    out = run(orders, stream_maps=maps)
    assert [(r["id"], r["twice"]) for r in out.records("sales")] == [(2, 4)]
    assert out.of("SCHEMA")[0]["stream"] == "sales"
    assert "twice" in out.of("SCHEMA")[0]["schema"]["properties"]
    assert [m["stream"] for m in out.of("ACTIVATE_VERSION")] == ["sales"]
    assert list(out.state["bookmarks"]) == ["orders"]
    assert run(orders, out.state, stream_maps=maps).records() == []


def test_a_map_can_make_a_second_stream(orders: Lake) -> None:
    out = run(orders, stream_maps={"copy": {"__source__": "orders", "price": None}})
    assert [r["id"] for r in out.records("orders")] == [1, 2]
    assert [sorted(r) for r in out.records("copy")] == [["id", "who"]] * 2
    assert [m["stream"] for m in out.of("SCHEMA")] == ["orders", "copy"]


def test_a_map_can_take_a_stream_out(orders: Lake) -> None:
    commit_rows(orders, "tap_x.users", {"id": {}}, [], [{"id": 7}])
    out = run(orders, stream_maps={"orders": None})
    assert {m["stream"] for m in out.messages if "stream" in m} == {"users"}
    out = run(orders, stream_maps={"users": {"n": "id"}, "__else__": None})
    assert {m["stream"] for m in out.messages if "stream" in m} == {"users"}
    assert out.records() == [{"id": 7, "n": 7}]


def test_a_map_follows_the_schema_when_it_changes(orders: Lake) -> None:
    grown = {**ORDER, "note": {"type": "string"}}
    commit_rows(orders, "tap_x.orders", grown, ["id"], [{"id": 3, "note": "n"}])
    out = run(orders, stream_maps={"orders": {"price": None}})
    properties = [sorted(m["schema"]["properties"]) for m in out.of("SCHEMA")]
    assert properties == [["id", "who"], ["id", "note", "who"]]
    assert out.records()[-1] == {"id": 3, "note": "n"}


def test_flattening(orders: Lake) -> None:
    out = run(orders, flattening_enabled=True, flattening_max_depth=1)
    assert out.records()[0]["who__name"] == "Zoë"
    assert "who__mail" in out.of("SCHEMA")[0]["schema"]["properties"]


def test_schemas_that_the_sdk_cannot_walk(lake: Lake) -> None:
    properties: dict[str, Any] = {
        "id": {"type": "integer"},
        "any": True,
        "never": False,
        "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
        "deep": {"type": "object", "properties": {"x": True}},
    }
    commit_rows(lake, "tap_x.odd", properties, ["id"], [{"id": 1, "any": [1], "deep": {"x": 1}}])
    out = run(lake)
    assert out.of("SCHEMA")[0]["schema"]["properties"] == properties
    catalog = select(catalog_of(lake), "odd", "properties", "pair", selected=False)
    mapped = run(lake, catalog=catalog)
    assert mapped.records() == out.records()
    assert "pair" not in mapped.of("SCHEMA")[0]["schema"]["properties"]
