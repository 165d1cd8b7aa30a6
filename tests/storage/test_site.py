"""A site goes up to a bucket with its media types, and only what changed goes up again."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake.site import build as site
from singerlake.site.destination import open_destination
from singerlake.storage.s3.store import S3Store
from tests.build import commit_rows
from tests.site.example import NOW
from tests.storage.conftest import in_bucket


def test_a_site_in_a_bucket(s3_port: int, tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    commit_rows(lake, "tap-a.b %", {"id": {"type": "integer"}}, [], [{"id": 1}])
    store: S3Store = in_bucket(s3_port, "site")
    uri, options = f"{store.uri}/docs", store._options

    def build() -> site.Built:
        with open_destination(uri, options) as place:
            return site.build(Lake.open(str(tmp_path / "lake")), place, site.Options(now=NOW))

    assert build().written == 7
    client = store._client
    bucket = uri.removeprefix("s3://").partition("/")[0]
    found = {
        item["Key"]: client.head_object(Bucket=bucket, Key=item["Key"])["ContentType"]
        for item in client.list_objects_v2(Bucket=bucket)["Contents"]
    }
    (home,) = [key for key in found if key.endswith("docs/index.html")]
    assert found[home] == "text/html; charset=utf-8"
    assert any(key.endswith("tables/b%20%25/index.html") for key in found)
    assert build().written == 0
    commit_rows(lake, "tap-a.c", {"id": {"type": "integer"}}, [], [{"id": 1}])
    assert build().written == 4  # its page, its tap's, the home page, the search index
    store.replace("docs2/thesis.pdf", b"mine", None)
    with pytest.raises(UsageError), open_destination(f"{store.uri}/docs2", options) as place:
        site.build(lake, place, site.Options(now=NOW))
