"""Freeze and query on S3, where executors reach the lake through boto3 alone."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.api import Table
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.erase.check import Report, check
from singerlake.ops.erase.sought import Key, KeyNames
from singerlake.ops.vacuum.leftovers import plan_leftovers, remove_leftovers
from singerlake.ops.vacuum.plan import PARTS, VacuumOptions
from singerlake.sql.queries.query import query
from singerlake.sql.state import index_build
from singerlake.sql.state.from_blocks import state
from singerlake.storage.s3.store import S3Store
from tests.build import commit_rows
from tests.frozen import freeze_on_spark, vacuum_on_spark
from tests.frozen import verify_on_spark as verify
from tests.sql.index_frames import read_index, state_content
from tests.storage.conftest import (
    KEY_ID,
    SECRET,
    TOKEN,
    in_bucket,
    no_aws_settings,
    s3_port,
    s3_store,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["no_aws_settings", "s3_port", "s3_store"]


def test_freeze_and_query(
    spark: SparkSession, s3_store: S3Store, capfd: pytest.CaptureFixture[str]
) -> None:
    lake = Lake(s3_store)
    columns = {"id": {"type": "integer"}, "name": {"type": "string"}}
    rows: list[Any] = [{"id": n, "name": f"é{n}"} for n in range(50)]
    commit_rows(lake, "tap.s", columns, ["id"], rows, block_rows=20)
    table = lake.find("tap.s")[0]
    first = freeze_on_spark(spark, table)
    commit_rows(lake, "tap.s", columns, ["id"], [{"id": 7, "_sdc_deleted_at": "2026-01-01"}])
    second = freeze_on_spark(spark, table)
    assert (first.rows, second.rows) == (50, 49)
    found = state_content(spark, table, table.snapshot_at("1"))
    assert found.fingerprint == first.fingerprint
    answer = query(
        spark, lake, "select o.id, o.name from tap.s.1 o left anti join tap.s n on n.id = o.id"
    )
    assert list(answer.rows()) == [(7, "é7")]
    built = index_build.ensure(spark, table, table.snapshot())
    plans = [answer.frame, read_index(spark, built), state(spark, table, table.snapshot())]
    for frame in plans:
        frame.explain(True)
    said = "".join(capfd.readouterr()) + repr(plans)
    assert said
    assert not any(secret in said for secret in (SECRET, TOKEN, KEY_ID))


def test_vacuum(spark: SparkSession, s3_store: S3Store) -> None:
    lake = Lake(s3_store)
    columns = {"id": {"type": "integer"}, "n": {"type": "integer"}}
    for n in range(6):
        commit_rows(lake, "tap.s", columns, ["id"], [{"id": i, "n": n} for i in range(5)])
    table = lake.find("tap.s")[0]
    version = freeze_on_spark(spark, table, at=3)
    commit_rows(lake, "tap.s", columns, ["id"], [{"id": 1, "n": 9}])
    upload = {"Bucket": s3_store._bucket, "Key": f"{s3_store._base}raw/half"}
    s3_store._client.create_multipart_upload(**upload)
    before = state_content(spark, table, table.snapshot())
    options = VacuumOptions(retain_seconds=0, guard=False, parts=PARTS)
    with table.lease() as reader:
        done = vacuum_on_spark(spark, table, replace(options, lease_wait_seconds=0))
        assert (done.rows_dropped, done.files_deleted) == (21, 0)
        assert all(reader.snapshot.number < item.dropped for item in done.kept)
        assert state_content(spark, table, reader.snapshot) == before
    done = vacuum_on_spark(spark, table, options)
    assert done.files_deleted == 8  # seven syncs, and what dropping history wrote before combining
    assert len({block.file for block in table.snapshot().blocks}) == 1
    assert state_content(spark, table, table.snapshot()) == before
    found = state_content(spark, table, table.snapshot_at("1"))
    assert (found.rows, found.fingerprint) == (version.rows, version.fingerprint)
    assert vacuum_on_spark(spark, table, options).transaction == 0
    # The test's service dates every upload 2010, so that it is old enough.
    left = remove_leftovers(s3_store, plan_leftovers(s3_store, options))
    assert [item.key.partition("?")[0] for item in left] == ["raw/half"]
    assert not list(s3_store.leftovers())


def test_erase(spark: SparkSession, s3_port: int) -> None:
    """The bucket keeps versions, and an upload that nobody completed: told of, and then gone."""
    s3_store = in_bucket(s3_port, f"versions-{uuid.uuid4().hex}")
    client, bucket = s3_store._client, s3_store._bucket
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    columns = {"id": {"type": "integer"}, "name": {"type": "string"}}
    rows: list[Any] = [{"id": n, "name": f"é{n}"} for n in range(50)]
    commit_rows(Lake(s3_store), "tap.s", columns, ["id"], rows, block_rows=20)
    table = Table(s3_store, TableName("tap", "s"))
    freeze_on_spark(spark, table)
    commit_rows(Lake(s3_store), "tap.s", columns, ["id"], [{"id": 7, "name": "seven"}])
    client.create_multipart_upload(Bucket=bucket, Key=f"{s3_store._base}raw/tap/s/half")
    key = Key("key 1", "7", KeyNames.of(table.snapshot()))

    def checked() -> Report:
        return check(Lake(s3_store), [key], table.name)

    assert {one.version for one in checked().found} == {""}
    done = table.erase(["7"], reason="request 12", wait=0, spark=spark)
    (kept,) = done.earlier
    assert (done.found, done.is_done, done.tables[table.name].left) == (True, False, [])
    assert kept.objects > 0
    report = checked()
    assert all(one.version for one in report.found), "only in what objects were"
    assert {one.kind for one in report.found} == {"data", "index", "log", "manifest"}
    assert report.not_read == [], "the upload was ended: the test's service dates it 2010"
    again = table.erase(["7"], reason="request 12", wait=0, purge_object_versions=True, spark=spark)
    assert (again.found, again.is_done) == (True, True)
    assert again.earlier[0].deleted >= kept.objects
    assert checked().is_clean
    assert verify(spark, table).problems == []
    assert [version.rows for version in table.versions()] == [49]
