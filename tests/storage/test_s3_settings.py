"""Each setting of S3 is seen at the server, or has the effect that it promises."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import pickle
import re
import socket
import ssl
import threading
import time
import types
from collections.abc import Iterator
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.loaders import JSONFileLoader
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from singerlake import safe_text
from singerlake.errors import StoreError, UsageError
from singerlake.lake import Lake
from singerlake.plugins.settings import STORES
from singerlake.storage.local.store import LocalStore
from singerlake.storage.opening import open_store
from singerlake.storage.options import (
    SECRETS,
    SETTINGS,
    StoreOptions,
    from_environment,
    from_settings,
)
from singerlake.storage.s3.connection import connect, resolved
from singerlake.storage.s3.store import S3Store
from tests.ops.copy.world import copy, problems, write
from tests.storage.conftest import BUCKET, options, staged_file
from tests.storage.relay import Relay, answer

KEY = base64.b64encode(bytes(range(32))).decode()


def store_with(relay: Relay, uri: str, **settings: Any) -> S3Store:
    return S3Store.open(uri, replace(options(relay.url), **settings))


def work(store: S3Store) -> None:
    """Every kind of request that a lake makes."""
    etag = store.put_if_absent("raw/one", b"1")
    store.replace("raw/one", b"2", etag)
    assert store.get("raw/one").data == b"2" and store.get_range("raw/one", 0, 1) == b"2"
    parts = store.stage_in_parts()
    parts.write(b"x" * 100)
    parts.publish("raw/parts")
    parts.discard()
    staged = staged_file(store, 3)
    staged.publish("raw/small")
    staged.discard()
    assert store.exists("raw/small") and not store.exists("raw/none")
    assert [one.key for one in store.list("raw/")] == ["raw/one", "raw/parts", "raw/small"]
    list(store.folders("raw/"))
    list(store.leftovers())
    store.delete("raw/one")


def sent(relay: Relay, name: str, method: str = "", part: str = "") -> list[str | None]:
    """What each request had of a header."""
    return [
        {k.lower(): v for k, v in one.headers.items()}.get(name)
        for one in relay.seen
        if one.method.startswith(method) and part in one.path
    ]


@pytest.mark.parametrize(
    ("settings", "headers"),
    [
        ({"sse": "AES256"}, {"x-amz-server-side-encryption": "AES256"}),
        (
            {"sse": "aws:kms", "sse_kms_key_id": "alias/lake"},
            {
                "x-amz-server-side-encryption": "aws:kms",
                "x-amz-server-side-encryption-aws-kms-key-id": "alias/lake",
            },
        ),
        ({"acl": "bucket-owner-full-control"}, {"x-amz-acl": "bucket-owner-full-control"}),
    ],
    ids=["sse-s3", "sse-kms", "acl"],
)
def test_what_is_written_is_encrypted_and_owned_as_asked(
    relay: Relay, s3_store: S3Store, settings: dict[str, Any], headers: dict[str, str]
) -> None:
    work(store_with(relay, s3_store.uri, **settings))
    for name, value in headers.items():
        whole = [one for one in relay.seen if one.method == "PUT" and "partNumber" not in one.path]
        begun = relay.requests("POST", "?uploads")
        assert len(whole) == 3 and len(begun) == 1
        for one in (*whole, *begun):
            assert {k.lower(): v for k, v in one.headers.items()}[name] == value
        # Nowhere else: S3 refuses such a header on a request that does not know it.
        assert {*sent(relay, name, "GET"), *sent(relay, name, "DELETE")} == {None}
        assert {*sent(relay, name, "PUT", "partNumber")} == {None}


def test_a_customers_key_goes_with_all_that_reads_or_writes(
    relay: Relay, s3_store: S3Store
) -> None:
    store = store_with(relay, s3_store.uri, sse_customer_key=KEY)
    work(store)
    name = "x-amz-server-side-encryption-customer-key"
    objects = [
        one for one in relay.seen if f"{BUCKET}/" in one.path and "list-type" not in one.path
    ]
    with_key = [one for one in objects if one.method in ("PUT", "GET") or "?uploads" in one.path]
    assert len(with_key) > 8
    for one in with_key:
        if "uploads&" not in one.path and "?uploads=" not in one.path:
            assert {k.lower(): v for k, v in one.headers.items()}[name] == KEY, one.path
    assert KEY not in repr(store._options) and KEY not in safe_text.redacted(f"it is {KEY}")
    assert pickle.loads(pickle.dumps(store))._options.sse_customer_key == KEY


def test_a_copy_is_read_and_written_as_asked(relay: Relay, s3_store: S3Store) -> None:
    s3_store.put_if_absent("raw/one", b"1")
    own = "x-amz-server-side-encryption"
    customers = {
        f"{side}server-side-encryption-customer-{what}": value
        for side in ("x-amz-", "x-amz-copy-source-")
        for what, value in (
            ("algorithm", "AES256"),
            ("key", KEY),
            ("key-md5", base64.b64encode(md5(bytes(range(32))).digest()).decode()),
        )
    }
    asked: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({}, {}),
        ({"sse": "AES256"}, {own: "AES256"}),
        (
            {"sse": "aws:kms", "sse_kms_key_id": "alias/lake"},
            {own: "aws:kms", f"{own}-aws-kms-key-id": "alias/lake"},
        ),
        ({"sse_customer_key": KEY}, customers),
        ({"acl": "private"}, {"x-amz-acl": "private"}),
        ({"requester_pays": True}, {"x-amz-request-payer": "requester"}),
    ]
    about = re.compile(r"x-amz-(copy-source-)?server-side-.*|x-amz-acl|x-amz-request-payer")
    for number, (settings, headers) in enumerate(asked):
        relay.seen.clear()
        store_with(relay, s3_store.uri, **settings).clone("raw/one", f"raw/copy{number}", 1)
        (copied,) = relay.requests("PUT")
        lower = {name.lower(): value for name, value in copied.headers.items()}
        assert "x-amz-copy-source" in lower
        assert {name: value for name, value in lower.items() if about.fullmatch(name)} == headers


def test_requester_pays_goes_with_every_request(relay: Relay, s3_store: S3Store) -> None:
    work(store_with(relay, s3_store.uri, requester_pays=True))
    asked = [one for one in relay.seen if "uploads&" not in one.path or "prefix" not in one.path]
    assert asked and {
        {k.lower(): v for k, v in one.headers.items()}.get("x-amz-request-payer") for one in asked
    } == {"requester"}
    relay.seen.clear()
    store_with(relay, s3_store.uri).list("raw/")
    assert {*sent(relay, "x-amz-request-payer")} <= {None}


def test_without_settings_nothing_is_added(relay: Relay, s3_store: S3Store) -> None:
    work(store_with(relay, s3_store.uri))
    names = {name.lower() for one in relay.seen for name in one.headers}
    assert not any("encryption" in name or name in ("x-amz-acl",) for name in names)


@pytest.mark.parametrize("style", ["path", "virtual", None])
def test_addressing_style(relay: Relay, style: str | None) -> None:
    """By what would be sent: a name such as bucket.localhost may not be known here."""
    endpoint = relay.url.replace("127.0.0.1", "localhost")
    asked = replace(options(endpoint), addressing_style=style)
    client = S3Store.open(f"s3://{BUCKET}/lake", asked)._client
    url = client.generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": "x"})
    assert url.startswith(
        f"http://{BUCKET}.localhost:" if style == "virtual" else f"{endpoint}/{BUCKET}/"
    )


def test_a_proxy_is_used(relay: Relay, s3_store: S3Store) -> None:
    asked = replace(
        options("http://s3.example.invalid"), proxy=relay.url, max_attempts=1, connect_timeout=5
    )
    store = S3Store.open(s3_store.uri, asked)
    with pytest.raises(StoreError):  # the relay knows no such server
        store.get("raw/one")
    assert relay.seen[0].path.startswith("http://s3.example.invalid/")


def certificate(folder: Path) -> tuple[Path, Path]:
    """One that signs itself, for this machine, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test's")])
    now = datetime.datetime.now(datetime.timezone.utc)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, kept = folder / "ca.pem", folder / "key.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    kept.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pem, kept


def test_a_ca_bundle_is_trusted(relay: Relay, s3_store: S3Store, tmp_path: Path) -> None:
    s3_store.put_if_absent("raw/one", b"1")
    pem, key = certificate(tmp_path)
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(pem, key)
    relay._server.socket = secure.wrap_socket(relay._server.socket, server_side=True)
    asked = replace(options(relay.url.replace("http:", "https:")), max_attempts=1)
    trusting = S3Store.open(s3_store.uri, replace(asked, ca_bundle=str(pem)))
    assert trusting.get("raw/one").data == b"1"
    with pytest.raises(StoreError):
        S3Store.open(s3_store.uri, asked).get("raw/one")


def test_attempts_are_counted(relay: Relay, s3_store: S3Store, monkeypatch: Any) -> None:
    impatient = types.SimpleNamespace(time=time.time, sleep=lambda _: None)
    monkeypatch.setattr("botocore.endpoint.time", impatient)
    for attempts, wanted in ((1, 1), (3, 3), (None, 5)):
        relay.seen.clear()
        relay.recover()
        relay.fail(answer("GET", "SlowDown", 503), times=20)
        with pytest.raises(StoreError):
            store_with(relay, s3_store.uri, max_attempts=attempts).get("raw/none")
        assert len(relay.seen) == wanted


def test_a_profile_of_the_settings_goes_before_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profiles = "[{0}]\naws_access_key_id = key-of-{0}\naws_secret_access_key = x\n"
    (tmp_path / "aws-credentials").write_text(profiles.format("one") + profiles.format("two"))
    monkeypatch.setenv("AWS_PROFILE", "one")
    for named, wanted in (("two", "two"), (None, "one")):
        found = resolved(StoreOptions(profile=named, region="us-east-1"))
        assert found.access_key_id == f"key-of-{wanted}"


def test_what_boto3_knows_of_s3_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(options("http://localhost:1"), Config())
    read: list[str] = []
    monkeypatch.setattr(JSONFileLoader, "load_file", lambda _, path: read.append(path))
    connect(options("http://localhost:2"), Config())
    assert read == []


@pytest.fixture
def silent(services: None) -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_timeouts(silent: str) -> None:
    asked = replace(options(silent), read_timeout=0.2, connect_timeout=0.3, max_attempts=1)
    store = S3Store.open(f"s3://{BUCKET}/lake", asked)
    began = time.monotonic()
    with pytest.raises(StoreError):
        store.get("raw/one")
    assert time.monotonic() - began < 5
    config = store._client.meta.config
    assert (config.read_timeout, config.connect_timeout) == (0.2, 0.3)
    usual = S3Store.open(f"s3://{BUCKET}/lake", options(silent))._client.meta.config
    assert (usual.read_timeout, usual.connect_timeout) == (60, 10)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sse": "aes"}, "aws_sse is 'aes': it is one of AES256"),
        ({"sse_kms_key_id": "x"}, "needs aws_sse"),
        ({"sse": "AES256", "sse_kms_key_id": "x"}, "needs aws_sse"),
        ({"sse": "AES256", "sse_customer_key": KEY}, "leave one of them out"),
        ({"sse_customer_key": "c2hvcnQ="}, "32 bytes in Base64"),
        ({"sse_customer_key": "no base64!"}, "32 bytes in Base64"),
        ({"acl": "mine"}, "aws_acl is 'mine'"),
        ({"addressing_style": "host"}, "aws_addressing_style"),
        ({"proxy": "proxy:3128"}, "aws_proxy must begin"),
        ({"ca_bundle": "/none"}, "names no file"),
        ({"connect_timeout": 0.0}, "more than 0"),
        ({"read_timeout": -1.0}, "more than 0"),
        ({"max_attempts": 0}, "more than 0"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as told:
        S3Store.open("s3://bucket/lake", StoreOptions(**settings))
    for secret in ("c2hvcnQ=", "no base64!", KEY):
        assert secret not in str(told.value)


def test_plugins_and_variables_have_every_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tuple(prop.name for prop in STORES) == SETTINGS
    assert {prop.name for prop in STORES if prop.secret} == SECRETS
    for name, text, value in (
        ("aws_requester_pays", "true", True),
        ("aws_requester_pays", "False", False),
        ("aws_connect_timeout", "2.5", 2.5),
        ("aws_max_attempts", "7", 7),
        ("aws_acl", "private", "private"),
    ):
        monkeypatch.setenv(f"SINGERLAKE_{name.upper()}", text)
        wanted = from_settings({name: value})
        assert from_environment() == wanted == from_settings({name: text})
        store = open_store("s3://bucket/lake")
        assert isinstance(store, S3Store) and store._options == wanted
        monkeypatch.delenv(f"SINGERLAKE_{name.upper()}")
    for name, text in (("aws_requester_pays", "maybe"), ("aws_max_attempts", "many")):
        with pytest.raises(UsageError, match=name):
            from_settings({name: text})


def test_a_lake_by_a_customers_key(relay: Relay, s3_store: S3Store, tmp_path: Path) -> None:
    """A lake is written, and copied, and read again, all with its own key."""
    lake = Lake(LocalStore(tmp_path / "lake"))
    write(lake, 1, 2, 3)
    store = store_with(relay, s3_store.uri, sse_customer_key=KEY)
    copy(lake.store, store)
    assert problems(store) == []
