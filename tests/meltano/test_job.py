"""A job of this repository's Meltano project, with its Spark in this process's session.

All else is as in ``test_meltano.py``, where Meltano starts the real command.
"""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import SparkSession

from singerlake import api
from singerlake.lake import Lake
from tests.meltano import project
from tests.meltano.project import rows
from tests.orchestrators.programs import Programs

pytestmark = pytest.mark.usefixtures("environments")


def test_a_job_syncs_publishes_and_freezes(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> None:
    with closing(Programs(tmp_path_factory.mktemp("programs"))) as programs:
        _job(project.copied(tmp_path, project.installed(), programs), tmp_path)


def _job(here: project.Project, folder: Path) -> None:
    here.run("run", "shop-to-published")
    assert rows(folder) == [("sync", 100), ("freeze", 0)]
    place = folder / "published" / "orders"
    said = json.loads((place / "_latest.json").read_text("utf-8"))
    for run in (said["folder"], said["versions"]["1"]["folder"]):
        files = (place / run).glob("*.parquet")
        assert sum(pq.read_metadata(file).num_rows for file in files) == 100
    here.run("run", "tap-shop", "target-singerlake", "singerlake:publish-all")
    said = json.loads((place / "_latest.json").read_text("utf-8"))
    assert sum(one["rows"] for one in said["files"]) == 109
    assert set(said["versions"]) == {"1"}


PROJECTION = """
version: 1
projections:
- {name: orders, from: tap-shop.orders@current, to: published/orders}
"""
GATE = 'freeze tap-shop.orders --as current --require "rows > 0" --require "deleted < 5%"'


def test_a_sync_that_lost_half_of_the_rows_changes_no_readers_answer(tmp_path: Path) -> None:
    here = project.copied(tmp_path, project.installed())
    spec = yaml.safe_load((tmp_path / "meltano.yml").read_text("utf-8"))
    (utility,) = (one for one in spec["plugins"]["utilities"] if one["name"] == "singerlake")
    utility["commands"]["freeze-checked"] = GATE
    (tmp_path / "meltano.yml").write_text(yaml.safe_dump(spec, sort_keys=False))
    (settings,) = tmp_path.glob("**/projections.yml")
    settings.write_text(PROJECTION)
    steps = ("tap-shop", "target-singerlake", "singerlake:freeze-checked", "singerlake:publish-all")
    here.run("run", *steps)
    table = api.Lake(Lake.open(str(tmp_path / "lake")).store)["tap-shop.orders"]
    latest = tmp_path / "published" / "orders" / "_latest.json"
    before = latest.read_bytes()
    assert table.at("@current", engine="local").to_arrow().num_rows == 100
    tap = tmp_path / "examples" / "tap-shop"
    text = tap.read_text("utf-8")
    lost = 'cancelled = [order(n, day, "paid", _sdc_deleted_at=day) for n in range(51, 101)]'
    changed = re.sub(r"cancelled = \[.*\]", lost, text)
    assert changed != text
    tap.write_text(changed)
    with pytest.raises(AssertionError, match="deleted < 5%: found"):
        here.run("run", *steps)
    assert [operation for operation, _ in rows(tmp_path)][-1] == "sync"
    assert table.at(engine="local").to_arrow().num_rows == 60
    assert table.at("@current", engine="local").to_arrow().num_rows == 100
    assert latest.read_bytes() == before
