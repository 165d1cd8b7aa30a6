"""On S3 the check reads what objects were before, and tells of uploads that nobody completed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from singerlake.errors import StoreError
from singerlake.lake import Lake
from singerlake.ops.erase.check import NotRead, Report, check
from singerlake.ops.erase.sought import Key, KeyNames, Sought, Text
from singerlake.storage.s3.store import S3Store
from singerlake.storage.s3.versions import Versions
from tests.ops.erase import planted
from tests.ops.erase.planted import KEY, NAME, ROW, TEXT, WITH_ROWS
from tests.storage.conftest import no_aws_settings, options, s3_port

__all__ = ["no_aws_settings", "s3_port"]


@pytest.fixture
def lake(s3_port: int) -> Lake:
    """A lake in a bucket that keeps versions."""
    bucket = f"versions-{uuid.uuid4().hex}"
    store = S3Store.open(f"s3://{bucket}/a lake", options(f"http://127.0.0.1:{s3_port}"))
    store._client.create_bucket(Bucket=bucket)
    store._client.put_bucket_versioning(
        Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    return planted.innocent(Lake(store))


def checked(lake: Lake) -> Report:
    names = KeyNames.of(lake.table(NAME).snapshot())
    sought: list[Sought] = [Text("text 1", TEXT), Key("key 1", KEY, names)]
    return check(lake, sought, NAME)


def bucket_of(lake: Lake) -> str:
    assert isinstance(lake.store, S3Store)
    return lake.store._bucket


def test_nothing_of_hers(lake: Lake) -> None:
    assert checked(lake).is_clean


@pytest.mark.parametrize("after", ["deleted", "replaced"])
def test_what_an_object_was_before(lake: Lake, after: str) -> None:
    key, data = WITH_ROWS["a staged file"]
    planted.plant(lake.store, key, data)
    if after == "deleted":
        lake.store.delete(key)
    else:
        planted.plant(lake.store, key, b"nothing")
    report = checked(lake)
    assert {(one.key, one.sought, bool(one.version)) for one in report.found} == {
        (key, "text 1", True),
        (key, "key 1", True),
    }
    assert not report.not_read


def test_an_index_that_was_deleted(lake: Lake) -> None:
    key, data = WITH_ROWS["an index"]
    planted.plant(lake.store, key, data)
    lake.store.delete(key)
    assert {one.sought for one in checked(lake).found} == {"text 1", "key 1"}


def test_an_upload_that_nobody_completed(lake: Lake) -> None:
    assert isinstance(lake.store, S3Store)
    name = "a lake/raw/tap/t/half.singer.gz"
    client = lake.store._client
    client.create_multipart_upload(Bucket=bucket_of(lake), Key=name)
    client.create_multipart_upload(Bucket=bucket_of(lake), Key="another lake/half")
    (unread,) = checked(lake).not_read
    assert unread.key == "raw/tap/t/half.singer.gz"
    assert "S3 does not let anyone read" in unread.why


def test_a_bucket_that_does_not_tell_its_versions(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Versions) -> Iterator[None]:
        raise StoreError("access denied")

    monkeypatch.setattr(Versions, "_objects", refused)
    planted.commit(lake, ROW)
    report = checked(lake)
    assert report.not_read == [NotRead("", "", "earlier versions of objects: access denied")]
    assert {one.sought for one in report.found} == {"text 1", "key 1"}
