"""S3 when replies are lost: what was written, what was not, and what is not known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from singerlake.errors import OutcomeUnknownError, StoreError
from singerlake.storage.base import KeyExistsError
from singerlake.storage.s3.store import S3Store
from tests.storage.conftest import staged_file, unfinished
from tests.storage.contract import MANY
from tests.storage.relay import Fault, Relay, answer


def test_a_request_lost_once_is_sent_again(wired: S3Store, relay: Relay) -> None:
    relay.fail(Fault("PUT"))
    etag = wired.put_if_absent("raw/one", b"1")
    assert wired.get("raw/one") == (b"1", etag)


def test_a_creation_whose_reply_was_lost_finds_its_own_object(wired: S3Store, relay: Relay) -> None:
    relay.fail(Fault("PUT", forward=True))
    with pytest.raises(KeyExistsError):
        wired.put_if_absent("raw/one", b"mine")
    assert wired.get("raw/one").data == b"mine"


def test_a_replacement_whose_reply_was_lost_is_known_for_its_own(
    wired: S3Store, relay: Relay
) -> None:
    etag = wired.put_if_absent("raw/lock", b"1")
    relay.fail(Fault("PUT", forward=True))
    etag = wired.replace("raw/lock", b"2", etag)
    assert wired.get("raw/lock") == (b"2", etag)
    wired.replace("raw/lock", b"3", etag)


def test_a_replacement_whose_reply_was_lost_and_another_came(
    wired: S3Store, relay: Relay, s3_store: S3Store
) -> None:
    etag = wired.put_if_absent("raw/lock", b"1")
    relay.fail(Fault("PUT"))
    relay.fail(Fault("PUT", meanwhile=lambda: s3_store.replace("raw/lock", b"theirs", etag)))
    with pytest.raises(KeyExistsError, match="another"):
        wired.replace("raw/lock", b"mine", etag)
    assert wired.get("raw/lock").data == b"theirs"


def test_a_replacement_whose_reply_was_lost_and_cannot_be_read_back(
    wired: S3Store, relay: Relay
) -> None:
    etag = wired.put_if_absent("raw/lock", b"1")
    relay.fail(Fault("PUT", forward=True))
    relay.fail(answer("GET", "AccessDenied", 403))
    with pytest.raises(OutcomeUnknownError, match="access denied"):
        wired.replace("raw/lock", b"2", etag)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("PUT"),
        answer("PUT", "InternalError", 500),
        Fault("PUT", 502, "<html>Bad gateway</html>"),
        Fault("PUT", 504),
    ],
)
def test_a_write_without_an_answer_is_in_doubt(wired: S3Store, relay: Relay, fault: Fault) -> None:
    calls: list[Callable[[], object]] = [
        lambda: wired.put_if_absent("raw/one", b"1"),
        lambda: wired.replace("raw/one", b"1", None),
        lambda: wired.replace("raw/one", b"1", '"0"'),
        lambda: staged_file(wired, 3).publish("raw/one"),
    ]
    for call in calls:
        relay.fail(fault, times=5)
        with pytest.raises(OutcomeUnknownError, match=r"raw/one was written .* cannot be det"):
            call()
    assert not wired.exists("raw/one")


def test_a_doubt_is_kept_over_a_later_refusal(wired: S3Store, relay: Relay) -> None:
    relay.fail(Fault("PUT", forward=True))
    relay.fail(answer("PUT", "ExpiredToken", 400))
    with pytest.raises(OutcomeUnknownError, match="expired"):
        wired.put_if_absent("raw/one", b"1")
    relay.fail(answer("PUT", "ExpiredToken", 400))
    with pytest.raises(StoreError, match="expired") as caught:
        wired.put_if_absent("raw/two", b"1")  # an earlier call's doubt is not this one's
    assert not isinstance(caught.value, OutcomeUnknownError)


@pytest.mark.parametrize("forward", [True, False])
def test_a_large_upload_whose_end_got_no_answer(
    wired: S3Store, relay: Relay, forward: bool
) -> None:
    relay.fail(Fault("POST", forward=forward, part="uploadId="), times=5)
    with pytest.raises(OutcomeUnknownError, match="raw/file"):
        staged_file(wired, MANY).publish("raw/file")
    assert unfinished(wired) == []
    assert wired.exists("raw/file") == forward  # a finished upload cannot be aborted


def test_a_refusal_to_go_so_fast_is_no_doubt(wired: S3Store, relay: Relay) -> None:
    relay.fail(answer("PUT", "SlowDown", 503), times=5)
    with pytest.raises(StoreError, match="slow down") as caught:
        wired.put_if_absent("raw/one", b"1")
    assert not isinstance(caught.value, OutcomeUnknownError)
    relay.fail(answer("PUT", "SlowDown", 503), times=4)
    wired.put_if_absent("raw/one", b"1")


def test_a_read_that_breaks_off_is_repeated(wired: S3Store, relay: Relay) -> None:
    wired.put_if_absent("raw/one", b"0123456789")
    relay.fail(Fault("GET", cut=True), times=2)
    assert wired.get("raw/one").data == b"0123456789"
    relay.fail(Fault("GET", cut=True), times=2)
    assert wired.get_range("raw/one", 2, 6) == b"234567"
    relay.fail(Fault("GET", cut=True), times=3)
    with pytest.raises(StoreError, match="broke in the middle"):
        wired.get("raw/one")


def test_a_service_that_ignores_ranges(wired: S3Store, relay: Relay) -> None:
    relay.fail(Fault("GET", 200, "0123456789", {"ETag": '"1"'}))
    assert wired.get_range("raw/one", 2, 3) == b"234"


def test_an_earlier_doubt_is_not_a_later_uploads(wired: S3Store, relay: Relay) -> None:
    relay.fail(Fault("PUT"), times=5)
    with pytest.raises(OutcomeUnknownError):
        wired.put_if_absent("raw/one", b"1")
    relay.fail(answer("POST", "AccessDenied", 403, part="uploadId="))
    with pytest.raises(StoreError, match="access denied") as caught:
        staged_file(wired, MANY).publish("raw/file")
    assert not isinstance(caught.value, OutcomeUnknownError)
