"""On S3 a bucket may keep what objects were: an erasure says so, and deletes it if asked."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from singerlake.errors import StoreError
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.ops.erase import earlier
from singerlake.ops.erase.check import check
from singerlake.ops.erase.earlier import Earlier
from singerlake.ops.erase.sought import Key, KeyNames
from singerlake.ops.resealing import reseal
from singerlake.storage.s3.store import S3Store
from singerlake.storage.s3.versions import Versions
from tests.ops.erase import by_hand
from tests.storage.conftest import no_aws_settings, options, s3_port

__all__ = ["no_aws_settings", "s3_port"]
NAME = TableName("tap", "t")


@pytest.fixture(params=["Enabled", ""], ids=["versions", "no versions"])
def store(request: pytest.FixtureRequest, s3_port: int) -> S3Store:
    """A lake's store, in a bucket that keeps versions or does not."""
    bucket = f"earlier-{uuid.uuid4().hex}"
    store = S3Store.open(f"s3://{bucket}/a lake", options(f"http://127.0.0.1:{s3_port}"))
    store._client.create_bucket(Bucket=bucket)
    if request.param:
        store._client.put_bucket_versioning(
            Bucket=bucket, VersioningConfiguration={"Status": request.param}
        )
    return store


@pytest.fixture
def table(store: S3Store) -> Table:
    """A table from which a row was erased, beside another of which nothing was."""
    lake = Lake(store)
    other = lake.table(TableName("tap", "other"))
    by_hand.write(lake, other, {"id": 1, "name": "Ada"})
    table = lake.table(NAME)
    by_hand.write(lake, table, {"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"})
    by_hand.freeze(table)
    reseal(store, by_hand.erase(table, 2))
    return table


def found(store: S3Store) -> set[str]:
    lake = Lake(store)
    keys = KeyNames.of(lake.table(NAME).snapshot())
    report = check(lake, [Key("key 1", "2", keys)], NAME)
    assert report.not_read == []
    return {one.kind for one in report.found}


def test_they_are_told_of_and_deleted(store: S3Store, table: Table) -> None:
    kept = earlier.look(store, NAME)
    if not kept.objects:
        assert (kept, found(store)) == (Earlier(NAME), set())
        assert earlier.delete(store, NAME) == Earlier(NAME)
        return
    assert found(store) == {"data", "log", "manifest"}, "the row, and fingerprints from before"
    assert kept.bytes > 0
    others = [copy for copy in store.copies() if "other" in copy.key]
    done = earlier.delete(store, NAME)
    assert done == Earlier(NAME, deleted=kept.objects)
    assert found(store) == set()
    assert earlier.look(store, NAME) == Earlier(NAME)
    assert [copy for copy in store.copies() if "other" in copy.key] == others
    assert [row["id"] for row in by_hand.rows_at(table, table.snapshot(), 1)] == [1]


@pytest.mark.parametrize("store", ["Enabled"], indirect=True)
@pytest.mark.usefixtures("table")
def test_what_cannot_be_deleted_is_said(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = earlier.look(store, NAME)
    plain = store._client.delete_objects

    def locked(**asked: Any) -> Any:
        first, *rest = asked["Delete"]["Objects"]
        plain(**{**asked, "Delete": {"Objects": rest}})
        return {"Errors": [{**first, "Code": "AccessDenied", "Message": "it is locked"}]}

    with monkeypatch.context() as patch:
        patch.setattr(store._client, "delete_objects", locked)
        done = earlier.delete(store, NAME)
    assert (done.objects, done.deleted, done.why) == (1, kept.objects - 1, "it is locked")
    refused = {"Error": {"Code": "AccessDenied", "Message": "no"}}

    def denied(**_: Any) -> Any:
        raise store._client.exceptions.ClientError(refused, "DeleteObjects")

    with monkeypatch.context() as patch:
        patch.setattr(store._client, "delete_objects", denied)
        done = earlier.delete(store, NAME)
    assert (done.objects, done.deleted) == (1, 0)
    assert "delete earlier versions" in done.why

    with monkeypatch.context() as patch:
        patch.setattr(Versions, "_pages", unlisted)
        for done in (earlier.look(store, NAME), earlier.delete(store, NAME)):
            assert (done.objects, done.deleted, done.why) == (0, 0, "access denied")
    assert earlier.look(store, NAME).objects == 1


def unlisted(*_: Any) -> Iterator[Any]:
    raise StoreError("access denied")
    yield
