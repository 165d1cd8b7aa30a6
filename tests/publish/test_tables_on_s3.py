"""Iceberg and Delta tables in a bucket: the default catalog lies there, and commits count there."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import ConflictError, UsageError
from singerlake.publish.destinations.delta.destination import storage_options
from singerlake.publish.projection import Format
from singerlake.publish.published import Commit
from singerlake.storage.options import StoreOptions
from singerlake.storage.s3.store import S3Store
from tests.publish.table_place import (
    FIRST,
    SECOND,
    Place,
    position,
    publish,
    rows,
    write,
)
from tests.storage.conftest import BUCKET, options, s3_port  # noqa: F401  # a fixture

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")


def read(place: Place) -> list[dict[str, Any]]:
    """Read by the format's own library, with its own way to the bucket."""
    if place.format is Format.DELTA:
        from deltalake import DeltaTable

        table = DeltaTable(place.root, storage_options=storage_options(place.root, place.options))
        found = table.to_pyarrow_table()
    else:
        from pyiceberg.table import StaticTable

        said = place.options
        properties = {
            "s3.endpoint": said.endpoint_url,
            "s3.access-key-id": said.access_key_id,
            "s3.secret-access-key": said.secret_access_key,
            "s3.session-token": said.session_token,
            "s3.region": said.region,
        }
        found = StaticTable.from_metadata(place.root, properties).scan().to_arrow()
    return sorted(found.to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("format_", [Format.ICEBERG, Format.DELTA])
def test_a_table_in_a_bucket(format_: Format, s3_port: int) -> None:  # noqa: F811
    place = Place(
        f"s3://{BUCKET}/{uuid.uuid4().hex}/orders", format_, options(f"http://127.0.0.1:{s3_port}")
    )
    store = place.open().store
    assert isinstance(store, S3Store)
    store._client.create_bucket(Bucket=BUCKET)
    assert place.open().published() is None
    first = publish(place.open(), FIRST, 1)
    assert read(place) == rows(FIRST)
    slow = place.open()
    mine = write(slow, SECOND, slow.file_schema(SECOND.schema, first))
    publish(place.open(), SECOND, 2, keep=True)
    with pytest.raises(ConflictError, match="run it again"):
        slow.commit(first, Commit(position(2), FIRST.schema, first.files, [mine]))
    assert read(place) == rows(FIRST, SECOND)
    versions = publish(place.open(), FIRST, 1, version=1).versions
    assert set(versions) == {1}
    assert place.open().sweep(timedelta(0)) >= 0
    assert read(place) == rows(FIRST, SECOND)
    place.open().remove()
    assert store.first_key() is None


def test_deltas_credentials_are_those_that_boto3_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles = tmp_path / "credentials"
    profiles.write_text("[house]\naws_access_key_id = ours\naws_secret_access_key = well hidden\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:9")
    house = StoreOptions(profile="house", region="x-1", requester_pays=True, sse="AES256")
    assert storage_options("s3://b/t", house) == {
        "AWS_ACCESS_KEY_ID": "ours",
        "AWS_SECRET_ACCESS_KEY": "well hidden",
        "AWS_REGION": "x-1",
        "AWS_ENDPOINT_URL": "http://localhost:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_CONDITIONAL_PUT": "etag",
        "AWS_REQUEST_PAYER": "true",
        "AWS_SERVER_SIDE_ENCRYPTION": "AES256",
    }
    with pytest.raises(UsageError, match="deltalake.*has no settings for acl"):
        storage_options("s3://b/t", StoreOptions(acl="bucket-owner-full-control"))


@pytest.mark.parametrize("format_", [Format.ICEBERG, Format.DELTA])
def test_all_of_a_table_is_encrypted_as_asked(format_: Format, s3_port: int) -> None:  # noqa: F811
    asked = replace(options(f"http://127.0.0.1:{s3_port}"), sse="aws:kms", sse_kms_key_id="ours")
    place = Place(f"s3://{BUCKET}/{uuid.uuid4().hex}/orders", format_, asked)
    store = place.open().store
    assert isinstance(store, S3Store)
    store._client.create_bucket(Bucket=BUCKET)
    publish(place.open(), FIRST, 1)
    found = store._client.list_objects_v2(Bucket=BUCKET, Prefix=store._base)["Contents"]
    assert len(found) >= 3
    for one in found:
        about = store._client.head_object(Bucket=BUCKET, Key=one["Key"])
        assert about["SSEKMSKeyId"].endswith("ours"), one["Key"]
