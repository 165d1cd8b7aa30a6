"""The contract on S3; names, conditions and uploads as the server sees them."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import pytest

from singerlake.errors import OutcomeUnknownError, StoreError, UsageError
from singerlake.storage import base
from singerlake.storage.base import KeyExistsError, OversizedError, Store
from singerlake.storage.opening import open_store
from singerlake.storage.options import StoreOptions
from singerlake.storage.s3 import bodies, boto_errors, uploads
from singerlake.storage.s3.store import S3Store
from tests.storage.conftest import BUCKET, KEY_ID, SECRET, options, staged_file, unfinished
from tests.storage.contract import MANY, StoreContract
from tests.storage.relay import Fault, Relay, answer


@pytest.fixture
def store(s3_store: S3Store) -> Store:
    return s3_store


class TestS3(StoreContract):
    pass


# --- the place


def test_a_lake_at_the_bucket_itself(s3_port: int, s3_store: S3Store) -> None:
    endpoint = options(f"http://127.0.0.1:{s3_port}")
    s3_store._client.create_bucket(Bucket="whole-bucket")
    whole = open_store("s3://whole-bucket/", endpoint)
    assert whole.uri == "s3://whole-bucket"
    whole.replace("raw/one", b"1", None)
    assert [one.key for one in whole.list("raw/")] == ["raw/one"]
    assert open_store("s3://whole-bucket/raw", endpoint).get("one").data == b"1"


def test_two_prefixes_do_not_meet(s3_port: int, s3_store: S3Store) -> None:
    endpoint = options(f"http://127.0.0.1:{s3_port}")
    one = S3Store.open(f"{s3_store.uri}/lake/", endpoint)
    two = S3Store.open(f"{s3_store.uri}/lake2", endpoint)
    one.put_if_absent("raw/x", b"1")
    two.put_if_absent("raw/x", b"2")
    assert one.uri == f"{s3_store.uri}/lake"
    assert (one.get("raw/x").data, two.get("raw/x").data) == (b"1", b"2")
    assert [listed.key for listed in one.list("raw/")] == ["raw/x"]


def test_folders_made_by_a_console_are_not_listed(s3_store: S3Store) -> None:
    s3_store._client.put_object(Bucket=BUCKET, Key=f"{s3_store._base}raw/made/", Body=b"")
    s3_store.put_if_absent("raw/one", b"")
    assert [one.key for one in s3_store.list("raw/")] == ["raw/one"]
    assert s3_store.folders("raw/") == ["made"]


def test_a_listing_of_many_pages(wired: S3Store, relay: Relay) -> None:
    for number in range(5):
        wired.put_if_absent(f"raw/{number}/o", b"")
    ask_for_two = lambda params, **_: params.update(MaxKeys=2)  # noqa: E731
    wired._client.meta.events.register("before-parameter-build.s3.ListObjectsV2", ask_for_two)
    assert [one.key for one in wired.list("raw/")] == [f"raw/{n}/o" for n in range(5)]
    assert wired.folders("raw/") == ["0", "1", "2", "3", "4"]
    assert len(relay.requests("GET", "list-type=2")) == 6


@pytest.mark.parametrize(
    "uri", ["s3://", "s3:///x", "s3://a", f"s3://{KEY_ID}:{SECRET}@bucket/x", "s3://a b/x"]
)
def test_a_bucket_that_cannot_be_one(uri: str) -> None:
    with pytest.raises(UsageError, match="s3://bucket/prefix") as caught:
        open_store(uri, StoreOptions())
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("prefix", ["a//b", "a/../b", ".", "a/./b", "a\0", "\udc80"])
def test_a_prefix_that_cannot_be_one(prefix: str) -> None:
    with pytest.raises(UsageError, match="prefix"):
        open_store(f"s3://bucket/{prefix}", StoreOptions())


# --- conditions reach the server


def test_conditions_are_sent(wired: S3Store, relay: Relay) -> None:
    etag = wired.put_if_absent("raw/one", b"1")
    wired.replace("raw/one", b"2", etag)
    wired.replace("raw/one", b"3", None)
    sent = [
        (one.headers.get("If-None-Match"), one.headers.get("If-Match"))
        for one in relay.requests("PUT", "raw/one")
    ]
    assert sent == [("*", None), (None, etag), (None, None)]


def test_large_files_go_up_in_parts_under_a_condition(wired: S3Store, relay: Relay) -> None:
    staged_file(wired, MANY).publish("raw/file")
    assert len(relay.requests("PUT", "partNumber=")) == 2
    (complete,) = relay.requests("POST", "uploadId=")
    assert complete.headers["If-None-Match"] == "*"
    assert unfinished(wired) == []


def test_no_file_takes_more_parts_than_s3_allows(
    wired: S3Store, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MAX_PARTS", 3)
    monkeypatch.setattr(uploads, "PART_BYTES", 5 * 2**20)
    staged_file(wired, MANY).publish("raw/file")
    assert len(relay.requests("PUT", "partNumber=")) == 3
    assert wired.get("raw/file").data == b"x" * MANY


def test_a_key_taken_during_a_large_upload(wired: S3Store, relay: Relay, s3_store: S3Store) -> None:
    take = lambda: s3_store.put_if_absent("raw/file", b"theirs")  # noqa: E731
    relay.fail(Fault("POST", part="uploadId=", meanwhile=take))
    staged = staged_file(wired, MANY)
    with pytest.raises(KeyExistsError):
        staged.publish("raw/file")
    assert wired.get("raw/file").data == b"theirs"
    assert unfinished(wired) == []
    staged.publish("raw/file-2")
    assert wired.get("raw/file-2").data == b"x" * MANY


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "OperationAborted"])
def test_a_conflict_is_tried_again(wired: S3Store, relay: Relay, code: str) -> None:
    relay.fail(answer("PUT", code, 409), times=2)
    etag = wired.put_if_absent("raw/one", b"1")
    relay.fail(answer("PUT", code, 409), times=2)
    wired.replace("raw/one", b"2", etag)
    assert wired.get("raw/one").data == b"2"


def test_a_conflict_that_does_not_end(wired: S3Store, relay: Relay) -> None:
    relay.fail(answer("PUT", "ConditionalRequestConflict", 409), times=100)
    with pytest.raises(KeyExistsError, match="raw/one"):
        wired.put_if_absent("raw/one", b"1")
    assert len(relay.requests("PUT", "raw/one")) == boto_errors.CONFLICT_TRIES


def test_a_conflict_at_the_end_of_a_large_upload(wired: S3Store, relay: Relay) -> None:
    relay.fail(answer("POST", "ConditionalRequestConflict", 409, part="uploadId="))
    staged_file(wired, MANY).publish("raw/file")
    assert wired.get("raw/file").data == b"x" * MANY
    assert len(relay.requests("POST", "uploads")) == 2  # all of it anew, as S3 wants it
    assert unfinished(wired) == []


# --- uploads that fail leave nothing


@pytest.mark.parametrize(("method", "part"), [("PUT", "partNumber=2"), ("POST", "uploadId=")])
def test_a_failed_upload_is_aborted(wired: S3Store, relay: Relay, method: str, part: str) -> None:
    relay.fail(answer(method, "AccessDenied", 403, part=part))
    staged = staged_file(wired, MANY)
    with pytest.raises(StoreError, match="access denied") as caught:
        staged.publish("raw/file")
    assert not isinstance(caught.value, OutcomeUnknownError)
    assert len(relay.requests("DELETE", "uploadId=")) == 1
    assert unfinished(wired) == []
    assert not wired.exists("raw/file")
    staged.publish("raw/file")
    assert wired.get("raw/file").data == b"x" * MANY


def test_an_interrupted_upload_is_aborted(wired: S3Store, relay: Relay) -> None:
    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    wired._client.meta.events.register("before-call.s3.CompleteMultipartUpload", interrupt)
    with pytest.raises(KeyboardInterrupt):
        staged_file(wired, MANY).publish("raw/file")
    assert unfinished(wired) == []


def test_the_spool_file_goes(
    s3_store: S3Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    one, two, forgotten = s3_store.stage(), s3_store.stage(), s3_store.stage()
    assert len([*spool.iterdir()]) == 3
    one.write(b"x")
    one.publish("raw/one")
    one.discard()
    two.discard()
    assert len([*spool.iterdir()]) == 1
    del forgotten
    assert [*spool.iterdir()] == []


def test_a_spool_disk_that_fails(
    s3_store: S3Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    staged = s3_store.stage()
    next(spool.iterdir()).unlink()
    with pytest.raises(StoreError, match="TMPDIR"):
        staged.write(b"x")
    with pytest.raises(StoreError, match="TMPDIR"):
        staged.publish("raw/one")
    spool.rmdir()
    with pytest.raises(StoreError, match="TMPDIR"):
        s3_store.stage()
    staged.discard()


# --- the client


def test_how_the_client_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    own = S3Store.open("s3://lakes/x", options("http://localhost:1"))._client.meta.config
    assert own.s3["addressing_style"] == "path"
    assert own.request_checksum_calculation == "when_required"
    assert own.response_checksum_validation == "when_required"
    assert (own.connect_timeout, own.read_timeout) == (10, 60)
    assert own.retries == {"mode": "standard", "total_max_attempts": 5}
    aws = S3Store.open("s3://lakes/x", StoreOptions(region="us-east-1"))._client.meta.config
    assert aws.request_checksum_calculation == "when_supported"
    assert "addressing_style" not in (aws.s3 or {})
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:1")
    by_environment = S3Store.open("s3://lakes/x", StoreOptions(region="us-east-1"))._client.meta
    assert by_environment.endpoint_url == "http://localhost:1"
    assert by_environment.config.s3["addressing_style"] == "path"


def test_stores_that_arrive_in_a_process_share_a_client(s3_store: S3Store) -> None:
    data = pickle.dumps(s3_store)
    one, two = pickle.loads(data), pickle.loads(data)
    assert one._client is two._client
    assert one._client is not s3_store._client
    assert pickle.loads(pickle.dumps(one)).uri == s3_store.uri


def test_no_more_is_asked_for_than_needed(wired: S3Store, relay: Relay) -> None:
    wired.put_if_absent("raw/one", b"0123456789")
    wired.get_range("raw/one", 2, 3)
    assert relay.requests("GET")[-1].headers["Range"] == "bytes=2-4"
    with pytest.raises(KeyExistsError):
        staged_file(wired, MANY).publish("raw/one")
    assert relay.requests("POST") == []  # no large upload to a name that is known to be taken


def test_a_proxy_that_does_not_say_how_long_an_answer_is(
    wired: S3Store, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"0123456789" * 5
    wired.put_if_absent("raw/one", data)
    relay.fail(Fault("GET", chunked=True))
    assert wired.get("raw/one").data == data
    relay.fail(Fault("GET", chunked=True, cut=True))
    assert wired.get("raw/one").data == data, "a part was taken for the whole"
    relay.fail(Fault("GET", chunked=True))
    assert wired.get_range("raw/one", 2, 30) == data[2:32]
    monkeypatch.setattr(base, "MAX_BYTES", 20)
    monkeypatch.setattr(bodies, "CHUNK_BYTES", 7)
    relay.fail(Fault("GET", chunked=True))
    with pytest.raises(OversizedError, match="has 21 bytes, more than any such file"):
        wired.get("raw/one")
