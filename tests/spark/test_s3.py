"""Freeze and query on S3, where executors reach the lake through boto3 alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from singerlake.lake import Lake
from singerlake.spark import frames, freeze, index
from singerlake.spark.query import query
from singerlake.storage.s3 import S3Store
from tests.build import commit_rows
from tests.storage.conftest import KEY_ID, SECRET, TOKEN, no_aws_settings, s3_port, s3_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["no_aws_settings", "s3_port", "s3_store"]


def test_freeze_and_query(
    spark: SparkSession, s3_store: S3Store, capfd: pytest.CaptureFixture[str]
) -> None:
    lake = Lake(s3_store)
    columns = {"id": {"type": "integer"}, "name": {"type": "string"}}
    rows: list[Any] = [{"id": n, "name": f"é{n}"} for n in range(50)]
    commit_rows(lake, "tap.s", columns, ["id"], rows, block_rows=20)
    table = lake.find("tap.s")[0]
    first = freeze.freeze(spark, table)
    commit_rows(lake, "tap.s", columns, ["id"], [{"id": 7, "_sdc_deleted_at": "x"}])
    second = freeze.freeze(spark, table)
    assert (first.rows, second.rows) == (50, 49)
    found = freeze.state_content(spark, table, table.snapshot_at("1"))
    assert found.fingerprint == first.fingerprint
    answer = query(
        spark, lake, "select o.id, o.name from tap.s.1 o left anti join tap.s n on n.id = o.id"
    )
    assert list(answer.rows()) == [(7, "é7")]
    built = index.ensure(spark, table, table.snapshot())
    plans = [answer.frame, index.read(spark, built), frames.state(spark, table, table.snapshot())]
    for frame in plans:
        frame.explain(True)
    said = "".join(capfd.readouterr()) + repr(plans)
    assert said
    assert not any(secret in said for secret in (SECRET, TOKEN, KEY_ID))
