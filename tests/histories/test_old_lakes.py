"""Lakes that earlier releases wrote open for ever: they read, verify, and can be written on."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from singerlake.lake import Lake
from singerlake.ops.vacuum.plan import PARTS, VacuumOptions
from singerlake.rows.state.fingerprint import Content
from singerlake.spark import read_table
from tests.build import commit_rows
from tests.frozen import revert_on_spark as revert
from tests.frozen import vacuum_on_spark
from tests.histories import here
from tests.ops.verify.verified import verify

pytestmark = pytest.mark.usefixtures("each_operation")

KEPT = Path(__file__).parent.parent / "lakes"
PROPERTIES = {
    "id": {"type": "integer"},
    "total": {"type": ["null", "number"], "multipleOf": 0.01},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "_sdc_deleted_at": {"type": ["null", "string"], "format": "date-time"},
}


@pytest.fixture(params=sorted(p.name for p in KEPT.iterdir() if p.is_dir()))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Lake, dict[str, Any]]:
    """A lake as a release left it, and what its tables answer."""
    shutil.copytree(KEPT / request.param, tmp_path / "lake")
    answers = json.loads((KEPT / f"{request.param}.json").read_text())
    return Lake.open(str(tmp_path / "lake")), answers


def answer(frame: DataFrame) -> dict[str, Any]:
    """A frame as the kept answers spell it."""

    def spelled(value: Any) -> Any:
        return str(value) if isinstance(value, Decimal) else value

    rows = [[spelled(value) for value in row] for row in frame.collect()]
    return {"columns": frame.columns, "rows": sorted(rows, key=str)}


def read(spark: SparkSession, lake: Lake, name: str) -> dict[str, Any]:
    frame = read_table(name, lake=lake, spark=spark)
    names = [f"`{c}`" for c in frame.columns]
    return answer(frame.select(*names))


def contents(lake: Lake) -> dict[tuple[str, int], Content]:
    """What each version comes down to."""
    tables = [lake.table(name) for name in lake.tables()]
    return {
        (str(table.name), version.number): here.content(table, head.at(version.transaction))
        for table in tables
        for head in [table.snapshot()]
        for version in head.frozen
    }


def test_an_old_lake_reads_verifies_and_goes_on(
    spark: SparkSession, old: tuple[Lake, dict[str, Any]]
) -> None:
    lake, answers = old
    wanted = {
        name: {**said, "rows": sorted(said["rows"], key=str)} for name, said in answers.items()
    }
    for name, said in wanted.items():
        assert read(spark, lake, name) == said
    orders, _ = lake.find("tap-shop.orders")
    assert verify(spark, orders).problems == []
    for table in lake.tables():
        assert here.problems(lake.table(table)) == []

    # What this release adds stands on what was there; the old versions stay as they are.
    frozen = contents(lake)
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], ['{"id": 9, "total": 9.99}'])
    assert here.freeze(orders, label="now").rows == len(answers["tap-shop.orders"]["rows"]) + 1
    revert(spark, orders, orders.snapshot().version("latest").transaction)
    nothing_kept = VacuumOptions(retain_seconds=0, guard=False, parts=PARTS)
    vacuum_on_spark(spark, orders, nothing_kept)
    after = contents(lake)
    assert {version: after[version] for version in frozen} == frozen
    assert read(spark, lake, "tap-shop.orders")["rows"] == wanted["tap-shop.orders.3"]["rows"]
    assert here.problems(orders) == []


def test_an_old_lake_reads_without_its_derived_files(
    spark: SparkSession, old: tuple[Lake, dict[str, Any]]
) -> None:
    lake, answers = old
    root = Path(lake.store.uri)
    shutil.rmtree(root / "index")
    for manifest in root.glob("raw/*/*/manifest.json"):
        manifest.unlink()
    for name, said in answers.items():
        assert read_table(name, lake=lake, spark=spark).columns == said["columns"]
    said = answers["tap-shop.orders"]
    assert read(spark, lake, "tap-shop.orders")["rows"] == sorted(said["rows"], key=str)
    assert here.problems(lake.find("tap-shop.orders")[0]) == []
