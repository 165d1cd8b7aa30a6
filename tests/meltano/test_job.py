"""A job of this repository's Meltano project, with its Spark in this process's session.

All else is as in ``test_meltano.py``, where Meltano starts the real command.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

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
