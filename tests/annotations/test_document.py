"""Annotations as YAML, and as data contracts."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from singerlake.annotations import changes, document, odcs, yaml_text
from singerlake.annotations.subjects import LAKE, Subject
from singerlake.errors import UsageError
from singerlake.format.overlay import ColumnOverlay, Constraint, Overlay
from singerlake.lake import Lake
from singerlake.site.columns import columns_for
from tests.build import commit_rows

SAID = {
    "owner": "Data team",
    "tags": ["öffentlich"],
    "taps": {
        "tap-shop": {
            "description": "The shop:\n'all' of it",
            "freshness": "90min",
            "documentation": "https://example.com/shop",
            "job_url": "https://example.com/job",
            "deprecated": "no: keep it",
            "tables": {
                "orders": {
                    "owner": "ada@example.com",
                    "job_status": "on",
                    "freshness": "2d",
                    "classification": "internal",
                    "tags": ["finance", "yes"],
                    "columns": {
                        "id": {"description": "Never used again", "owner": "x"},
                        "address": {
                            "columns": {"city": {"classification": "confidential", "tags": ["pii"]}}
                        },
                        "items": {"columns": {"sku": {"description": "What", "deprecated": "yes"}}},
                    },
                }
            },
        }
    },
}
PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
    "name": {
        "type": ["null", "string"],
        "maxLength": 10,
        "pattern": "^a",
        "description": "Its name",
    },
    "address": {
        "type": ["null", "object"],
        "properties": {"city": {"type": "string"}, "lat": {"type": "number", "maximum": 90}},
    },
    "items": {
        "type": "array",
        "minItems": 1,
        "items": {"type": "object", "properties": {"sku": {"type": "string"}}},
    },
    "tags": {"type": "array", "items": {"type": "string"}},
    "at": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "price": {"type": "number", "multipleOf": 0.01},
    "blob": {},
    "ok": {"type": "boolean"},
}


@pytest.fixture
def annotated(lake: Lake) -> Lake:
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], [{"id": 2}])
    commit_rows(lake, "tap-shop.empty", {}, [], [{}])
    changes.annotate(lake, document.changes(SAID, LAKE))
    return Lake.open(lake.store.uri)


def test_what_is_exported_says_the_same(annotated: Lake, tmp_path: Path) -> None:
    exported = document.export(annotated.annotations())
    assert exported == SAID
    file = tmp_path / "annotations.yml"
    file.write_text(yaml_text.to_yaml(exported), encoding="utf-8")
    assert not changes.annotate(annotated, yaml_text.read(file))
    as_json = tmp_path / "annotations.json"
    as_json.write_text(json.dumps(exported))
    assert not changes.annotate(annotated, yaml_text.read(as_json))


def test_a_part_is_exported_with_its_way(annotated: Lake) -> None:
    said = annotated.annotations()
    city = Subject("tap-shop", "orders", ("address", "city"))
    assert document.export(said, city) == {
        "taps": {
            "tap-shop": {
                "tables": {
                    "orders": {
                        "columns": {
                            "address": {
                                "columns": {
                                    "city": {"classification": "confidential", "tags": ["pii"]}
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    orders = document.export(said, Subject("tap-shop", "orders"))["taps"]["tap-shop"]
    assert orders == {"tables": SAID["taps"]["tap-shop"]["tables"]}  # type: ignore[index]


def test_what_a_file_does_not_mention_stays(annotated: Lake) -> None:
    less = {"taps": {"tap-shop": {"description": "", "tables": {"orders": None}}}}
    assert changes.annotate(annotated, document.changes(less, LAKE))
    found = document.export(Lake.open(annotated.store.uri).annotations())
    assert "description" not in found["taps"]["tap-shop"]
    assert found["taps"]["tap-shop"]["freshness"] == "90min"
    assert found["taps"]["tap-shop"]["tables"] == SAID["taps"]["tap-shop"]["tables"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("taps: {tap-shop: {ownr: x}}", "did you mean owner"),
        ("taps: {tap-shop: {tables: {orders: {columns: {id: {freshness: 1h}}}}}}", "of a column"),
        ("owner: 7", "owner of the lake is not text"),
        ("tags: pii", "not a list"),
        ("- a", "be a mapping"),
        ("taps: [a]", "be a mapping"),
        ("taps: {1: {owner: x}}", "1 in taps of the lake is not text"),
        ("owner: x\nowner: y", "line 2, column 1: 'owner' occurs twice"),
        ("a: &a [1]\nb: *a", "aliases"),
        ("owner: [", "line 1"),
        ("owner: !!python/object/apply:os.system [x]", "line 1"),
        ("\x00", "YAML"),
        ("documentation: javascript:x", "documentation of the lake"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "annotations.yml"
    file.write_text(text)
    with pytest.raises(UsageError, match=says) as caught:
        yaml_text.read(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_a_contract_is_valid_by_the_standards_schema(annotated: Lake) -> None:
    schema = json.loads(files("open_data_contract_standard").joinpath("schema.json").read_text())
    assert odcs.API_VERSION in schema["properties"]["apiVersion"]["enum"]
    snapshots = [annotated.table(name).snapshot() for name in annotated.tables()]
    orders = next(s for s in snapshots if s.table.stream == "orders")
    asked = {
        "own": Constraint("unique", ["name"]),
        "pair": Constraint("unique", ["id", "name"]),
        "known": Constraint("check", ["id", "name"], sql="`id` > 0 or `name` is null"),
    }
    columns = {"price": ColumnOverlay(type="text")}
    orders = orders.laid_over(Overlay(columns=columns, constraints=asked))
    snapshots = [s for s in snapshots if s.table.stream != "orders"] + [orders]
    for uri in ("s3://bucket/prefix", "gs://bucket/prefix", "az://container/x", "/srv/lake"):
        found = odcs.contract(uri, annotated.annotations(), "tap-shop", snapshots)
        assert yaml.safe_load(yaml_text.to_yaml(found)) == found
        jsonschema.Draft201909Validator(schema).validate(found)
    table = next(one for one in found["schema"] if one["name"] == "orders")
    by_name = {one["name"]: one for one in table["properties"]}
    assert by_name["id"]["primaryKeyPosition"] == 1
    assert "logicalTypeOptions" in by_name["id"]
    assert "exclusiveMinimum" not in by_name["id"]["logicalTypeOptions"]
    assert by_name["name"]["description"] == "Its name"
    assert by_name["address"]["properties"][0]["classification"] == "confidential"
    assert by_name["items"]["items"]["properties"][0]["description"] == "What"
    assert by_name["price"]["physicalType"] == "text"
    assert [name for name, one in by_name.items() if one.get("unique")] == ["name"]
    pair, known = table["quality"]
    assert pair["arguments"] == {"properties": ["id", "name"]}
    assert known["query"] == "SELECT COUNT(*) FROM {object} WHERE NOT (`id` > 0 or `name` is null)"
    shown = {one.name: one.constraints for one in columns_for(orders, {})}
    assert {"own: name unique", "pair: id, name unique"} <= {*shown["name"]}
    assert "known: `id` > 0 or `name` is null" in shown["id"]
    assert {"property": "freshness", "value": 48, "unit": "h", "element": "orders"} in found[
        "slaProperties"
    ]
