"""Uploads to S3 that broke off, and whoever goes on with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from singerlake.errors import StoreError
from singerlake.ops.vacuum.leftovers import plan_leftovers
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake.storage.base import KeyExistsError, Staged, Store
from singerlake.storage.s3 import store as s3
from singerlake.storage.s3 import uploads
from singerlake.storage.s3.store import S3Store
from tests.storage.conftest import unfinished
from tests.storage.relay import Fault, Relay, answer

PART = 5 << 20
"""The least that S3 takes."""
DATA = b"".join(bytes([n]) * PART for n in range(4)) + b"end"
DAY = 86_400.0


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "PART_BYTES", PART)
    monkeypatch.setattr(uploads, "PARALLEL_PARTS", 1)
    monkeypatch.setattr(s3, "RESUMED_BYTES", PART)


@pytest.fixture
def broken_off(wired: S3Store, relay: Relay) -> Iterator[S3Store]:
    """A store in which an upload to ``raw/file`` broke off at the third of five parts."""
    for number in (3, 4, 5):  # one may be on its way before the first is known to have failed
        relay.fail(answer("PUT", "AccessDenied", 403, part=f"partNumber={number}"))
    with pytest.raises(StoreError, match="access denied"):
        staged(wired).publish("raw/file")
    relay.recover()
    assert unfinished(wired) == [f"{wired._base}raw/file"]
    relay.seen.clear()
    yield wired


def staged(store: Store, data: bytes = DATA) -> Staged:
    file = store.stage_resumable()
    file.write(data)
    return file


def begun(store: Store, prefix: str = "raw/fi") -> list[str]:
    return [one.key for one in store.begun(prefix)]


def parts_sent(relay: Relay) -> list[str]:
    paths = [one.path for one in relay.requests("PUT", "partNumber=")]
    return [path.partition("partNumber=")[2][:1] for path in paths]


def test_another_run_sends_what_is_not_there(broken_off: S3Store, relay: Relay) -> None:
    assert begun(broken_off, "raw/other") == []
    assert begun(broken_off) == ["raw/file"]
    staged(broken_off).publish("raw/file")
    assert parts_sent(relay) == ["3", "4", "5"]
    assert broken_off.get("raw/file").data == DATA
    assert unfinished(broken_off) == []
    (complete,) = relay.requests("POST", "uploadId=")
    assert complete.headers["If-None-Match"] == "*"


def test_parts_of_other_bytes_are_sent_anew(broken_off: S3Store, relay: Relay) -> None:
    other = DATA[:PART] + b"x" * PART + DATA[2 * PART :]
    assert begun(broken_off) == ["raw/file"]
    staged(broken_off, other).publish("raw/file")
    assert parts_sent(relay) == ["2", "3", "4", "5"]
    assert broken_off.get("raw/file").data == other


def test_who_is_not_shown_the_parts_sends_all(broken_off: S3Store, relay: Relay) -> None:
    relay.fail(answer("GET", "AccessDenied", 403, part="uploadId="))
    assert begun(broken_off) == ["raw/file"]
    staged(broken_off).publish("raw/file")
    assert parts_sent(relay) == ["1", "2", "3", "4", "5"]
    assert broken_off.get("raw/file").data == DATA


@pytest.mark.parametrize(("method", "part"), [("PUT", "partNumber=4"), ("POST", "uploadId=")])
def test_an_upload_that_somebody_else_has_ended_is_a_key_that_is_taken(
    broken_off: S3Store, relay: Relay, method: str, part: str
) -> None:
    relay.fail(answer(method, "NoSuchUpload", 404, part=part))
    assert begun(broken_off) == ["raw/file"]
    file = staged(broken_off)
    with pytest.raises(KeyExistsError, match="completed or aborted by another"):
        file.publish("raw/file")
    file.publish("raw/file-2")  # under a name of its own, and from its beginning
    assert parts_sent(relay)[-5:] == ["1", "2", "3", "4", "5"]
    assert broken_off.get("raw/file-2").data == DATA


def test_a_key_that_is_taken_at_the_end_leaves_nothing(
    broken_off: S3Store, relay: Relay, s3_store: S3Store
) -> None:
    relay.fail(
        Fault("POST", part="uploadId=", meanwhile=lambda: s3_store.put_if_absent("raw/file", b"x"))
    )
    begun(broken_off)
    with pytest.raises(KeyExistsError):
        staged(broken_off).publish("raw/file")
    assert broken_off.get("raw/file").data == b"x"
    assert unfinished(broken_off) == []


def test_small_files_and_others_leave_nothing(
    wired: S3Store, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "RESUMED_BYTES", len(DATA) + 1)
    relay.fail(answer("PUT", "AccessDenied", 403, part="partNumber=3"))
    with pytest.raises(StoreError):
        staged(wired).publish("raw/file")
    assert unfinished(wired) == []


def test_a_vacuum_keeps_what_somebody_goes_on_with(broken_off: S3Store) -> None:
    (left,) = broken_off.leftovers()
    assert left.bytes == 2 * PART, "two parts are there"
    started = broken_off._client.list_multipart_uploads(Bucket=broken_off._bucket)["Uploads"]
    (upload,) = (one for one in started if one["Key"] == f"{broken_off._base}raw/file")
    assert left.modified >= upload["Initiated"].timestamp()
    week = VacuumOptions()
    assert plan_leftovers(broken_off, week, now=left.modified + 6 * DAY).going == []
    plan = plan_leftovers(broken_off, week, now=left.modified + 7 * DAY)
    assert plan.going == [left]
    broken_off.remove_leftover(left)
    assert begun(broken_off) == []
