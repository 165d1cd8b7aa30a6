"""What OpenLineage is told of jobs: which state they read, and what they left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import singerlake
from singerlake.errors import RejectedRowsError
from singerlake.lake import Lake
from tests.build import commit_rows
from tests.lineage_events import events, tell_into

pytest.importorskip("openlineage.client")
pytestmark = pytest.mark.spark
PROPERTIES = {"id": {"type": "integer"}, "name": {"type": "string"}}


def facet(dataset: Any, name: str) -> Any:
    return dataset["facets"][name]


def number(dataset: Any) -> str:
    version: str = facet(dataset, "version")["datasetVersion"]
    return version


def test_a_freeze_a_change_and_a_revert(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_rows(lake, "tap.people", PROPERTIES, ["id"], [{"id": n, "name": "x"} for n in range(3)])
    file = tell_into(tmp_path, monkeypatch)
    table = singerlake.open(lake.store.uri)["tap.people"]
    version = table.freeze("monday", spark=spark)
    with table.change(spark=spark) as change:
        change.upsert([{"id": 1, "name": "y"}, {"id": 7, "name": "z"}])
    table.revert("monday", dry_run=True, spark=spark)
    table.revert("monday", spark=spark)
    with pytest.raises(RejectedRowsError), table.change(spark=spark) as change:
        change.upsert([{"name": "nobody"}])
    told = events(file)
    kinds = [(event["job"]["name"], event["eventType"]) for event in told]
    assert kinds == [
        (f"{kind}.tap.people", state)
        for kind, last in (
            ("freeze", "COMPLETE"),
            ("change", "COMPLETE"),
            ("revert", "COMPLETE"),
            ("change", "FAIL"),
        )
        for state in ("START", last)
    ]
    frozen, changed, reverted = (event for event in told if event["eventType"] == "COMPLETE")
    [read], [wrote] = frozen["inputs"], frozen["outputs"]
    assert read["name"] == wrote["name"]
    assert (number(read), number(wrote)) == ("1", "1")
    assert {tag["key"]: tag["value"] for tag in facet(wrote, "tags")["tags"]} == {
        "version": "1",
        "label": "monday",
        "fingerprint": version.fingerprint,
    }
    assert wrote["outputFacets"]["outputStatistics"]["rowCount"] == 3
    [wrote] = changed["outputs"]
    assert number(wrote) == "3"
    assert wrote["outputFacets"]["outputStatistics"]["rowCount"] == 2
    [read], [wrote] = reverted["inputs"], reverted["outputs"]
    assert (number(read), number(wrote)) == ("1", "4")
    fields = facet(wrote, "columnLineage")["fields"]
    assert {name: one["inputFields"][0]["field"] for name, one in fields.items()} == {
        "id": "id",
        "name": "name",
    }
    assert "'id'" in told[-1]["run"]["facets"]["errorMessage"]["message"]
