"""Every refusal of S3 in plain words with a next step, and never with a secret."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

import botocore.config
import pytest

from singerlake.errors import OutcomeUnknownError, StoreError, UsageError
from singerlake.storage.base import KeyMissingError
from singerlake.storage.opening import open_store
from singerlake.storage.options import StoreOptions
from singerlake.storage.s3 import store as s3_module
from singerlake.storage.s3.store import S3Store
from tests.storage.conftest import BUCKET, KEY_ID, SECRET, TOKEN, options, staged_file
from tests.storage.contract import MANY
from tests.storage.relay import Fault, Relay, answer, error_body

# --- every refusal in plain words


REGION = "<Region>eu-west-1</Region>"
REFUSALS = [
    ("NoSuchBucket", 404, "", f"no bucket '{BUCKET}'"),
    ("AccessDenied", 403, "", "access denied.*s3:ListBucket"),
    ("KMS.DisabledException", 400, "", "access denied"),
    ("Unheard", 403, "", r"access denied.*\[Unheard\]"),
    ("ExpiredToken", 400, "", "expired.*aws sso login"),
    ("ExpiredTokenException", 400, "", "expired"),
    ("InvalidToken", 400, "", "aws_session_token"),
    ("InvalidAccessKeyId", 403, "", "aws_access_key_id"),
    ("SignatureDoesNotMatch", 403, "", "aws_secret_access_key"),
    ("AuthorizationHeaderMalformed", 400, REGION, r"another region \(eu-west-1\).*aws_region"),
    ("IllegalLocationConstraintException", 400, "", "another region: set aws_region"),
    ("RequestTimeTooSkewed", 403, "", "clock"),
    ("KeyTooLongError", 400, "", "shorter prefix"),
    ("InvalidObjectState", 403, "", "Glacier"),
    ("QuotaExceeded", 403, "", "quota"),
    ("NotImplemented", 501, "", "conditional writes"),
    ("Unheard", 400, "", "Unheard .400.: the server's message"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: f"{refusal[0]}-{refusal[1]}")
def test_refusals(wired: S3Store, relay: Relay, refusal: tuple[str, int, str, str]) -> None:
    code, status, more, words = refusal
    calls: dict[str, list[tuple[str, Callable[[], object]]]] = {
        "GET": [
            ("read", lambda: wired.get("raw/one")),
            ("read", lambda: wired.get_range("raw/one", 0, 1)),
            ("read", lambda: wired.exists("raw/one")),
            ("list", lambda: list(wired.list("raw/"))),
            ("list", lambda: wired.folders("raw/")),
        ],
        "PUT": [
            ("create", lambda: wired.put_if_absent("raw/one", b"")),
            ("replace", lambda: wired.replace("raw/one", b"", '"1"')),
        ],
        "DELETE": [("delete", lambda: wired.delete("raw/one"))],
        "POST": [("create", lambda: staged_file(wired, MANY).publish("raw/one"))],
    }
    for method, named in calls.items():
        for action, call in named:
            # More than once: boto3 itself follows a bucket to its region.
            relay.fail(answer(method, code, status, more), times=3)
            with pytest.raises(StoreError, match=words) as caught:
                call()
            relay.recover()
            assert str(caught.value).startswith(f"cannot {action} {wired.uri}/raw/")
            assert not isinstance(caught.value, OutcomeUnknownError)
            assert_no_secret(caught.value)


def test_a_redirect_to_another_region(wired: S3Store, relay: Relay) -> None:
    body = error_body("PermanentRedirect", more="<Endpoint>elsewhere</Endpoint>")
    relay.fail(Fault("PUT", 301, body, {"x-amz-bucket-region": "eu-west-1"}), times=9)
    relay.fail(Fault("HEAD", 301, "", {"x-amz-bucket-region": "eu-west-1"}), times=9)
    with pytest.raises(StoreError, match=r"another region \(eu-west-1\).*AWS_REGION"):
        wired.put_if_absent("raw/one", b"")


def test_a_bucket_that_is_not_there_is_no_missing_key(s3_port: int, s3_store: S3Store) -> None:
    store = S3Store.open("s3://no-such-bucket/x", options(f"http://127.0.0.1:{s3_port}"))
    for call in (
        lambda: store.get("raw/one"),
        lambda: store.exists("raw/one"),
        lambda: list(store.list("raw/")),
        lambda: store.put_if_absent("raw/one", b""),
        lambda: staged_file(store, MANY).publish("raw/one"),
    ):
        with pytest.raises(StoreError, match="no bucket 'no-such-bucket'"):
            call()


@pytest.mark.parametrize("status", [200, 404, 405])
def test_a_web_server_is_no_empty_lake(wired: S3Store, relay: Relay, status: int) -> None:
    page = "<!doctype html><html><body>It works!<br></body></html>"
    for method, call in (
        ("GET", lambda: wired.folders("raw/")),
        ("GET", lambda: list(wired.list("raw/"))),
        ("PUT", lambda: wired.put_if_absent("raw/one", b"")),
    ):
        relay.fail(Fault(method, status, page), times=5)
        with pytest.raises(StoreError, match=r"S3.*endpoint|not S3"):
            call()
        relay.recover()
    relay.fail(Fault("GET", status, page))
    if status != 200:
        with pytest.raises(StoreError, match="endpoint"):
            wired.get("raw/one")


def test_missing_in_the_servers_own_words(wired: S3Store, relay: Relay) -> None:
    relay.fail(answer("GET", "NoSuchKey", 404))
    with pytest.raises(KeyMissingError, match="raw/one"):
        wired.get("raw/one")


def test_nobody_answers(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    store = S3Store.open("s3://lakes/x", options("http://127.0.0.1:9"))
    with pytest.raises(StoreError, match=r"cannot connect to http://127\.0\.0\.1:9") as caught:
        store.put_if_absent("raw/one", b"")
    assert not isinstance(caught.value, OutcomeUnknownError)
    assert_no_secret(caught.value)


def test_an_answer_that_takes_too_long(
    s3_store: S3Store, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    whole = botocore.config.Config
    monkeypatch.setattr(
        s3_module, "Config", lambda **settings: whole(**{**settings, "read_timeout": 0.2})
    )
    impatient = S3Store.open(s3_store.uri, options(relay.url))
    late = threading.Event()
    relay.fail(Fault("GET", meanwhile=lambda: late.wait(30)), times=5)
    relay.fail(Fault("PUT", meanwhile=lambda: late.wait(30)), times=5)
    try:
        with pytest.raises(StoreError, match="did not answer in time"):
            impatient.get("raw/one")
        with pytest.raises(OutcomeUnknownError, match="did not answer in time"):
            impatient.put_if_absent("raw/one", b"")
    finally:
        late.set()


def test_no_credentials(relay: Relay) -> None:
    store = S3Store.open("s3://lakes/x", StoreOptions(region="us-east-1", endpoint_url=relay.url))
    with pytest.raises(StoreError, match=r"no usable AWS credentials.*aws sso login") as caught:
        store.put_if_absent("raw/one", b"")
    assert not isinstance(caught.value, OutcomeUnknownError)
    assert relay.seen == []


def test_a_profile_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"no profile 'nobody'.*aws_profile"):
        open_store("s3://lakes/x", StoreOptions(profile="nobody"))
    monkeypatch.setenv("AWS_PROFILE", "someone")
    with pytest.raises(UsageError, match="no profile 'someone'"):
        open_store("s3://lakes/x")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (StoreOptions(KEY_ID), "go together"),
        (StoreOptions(secret_access_key=SECRET), "go together"),
        (StoreOptions(session_token=TOKEN), "needs aws_access_key_id"),
        (StoreOptions(KEY_ID, SECRET + "\n"), "aws_secret_access_key is empty, or has a space"),
        (StoreOptions(KEY_ID, SECRET, TOKEN + "\n"), "aws_session_token"),
        (StoreOptions("", ""), "aws_access_key_id is empty"),
        (StoreOptions(region="not a region"), "aws_region"),
        (StoreOptions(endpoint_url="localhost:9000"), "http://"),
        (StoreOptions(endpoint_url=f"http://me:{SECRET}@host"), "user or password"),
        (StoreOptions(endpoint_url="http://in valid"), "aws_endpoint_url"),
    ],
)
def test_settings_that_cannot_work(wrong: StoreOptions, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        open_store("s3://lakes/x", wrong)
    assert_no_secret(caught.value)


# --- secrets


def assert_no_secret(error: BaseException) -> None:
    shown = "".join(traceback.format_exception(error)) + repr(error)
    for secret in (SECRET, TOKEN, KEY_ID):
        assert secret not in shown


def test_no_secret_is_shown(s3_store: S3Store) -> None:
    for shown in (repr(s3_store), str(s3_store), s3_store.uri, repr(s3_store._options)):
        assert SECRET not in shown
        assert TOKEN not in shown
        assert KEY_ID not in shown
    assert repr(s3_store) == f"S3Store({s3_store.uri!r})"


def test_a_token_that_breaks_the_header_is_not_quoted(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", f"{TOKEN}\nx")
    store = S3Store.open("s3://lakes/x", StoreOptions(region="us-east-1", endpoint_url=relay.url))
    with pytest.raises(StoreError, match="space or line break") as caught:
        store.put_if_absent("raw/one", b"")
    assert not isinstance(caught.value, OutcomeUnknownError)
    assert_no_secret(caught.value)


def test_a_missing_key_is_only_said_of_one_that_was_asked_for(wired: S3Store, relay: Relay) -> None:
    relay.fail(answer("PUT", "NoSuchKey", 404))
    with pytest.raises(StoreError, match="cannot create"):
        wired.put_if_absent("raw/one", b"")
    relay.fail(answer("GET", "NoSuchKey", 404))
    with pytest.raises(StoreError, match="cannot list"):
        list(wired.list("raw/"))
