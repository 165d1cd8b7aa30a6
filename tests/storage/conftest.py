"""A server that speaks S3, for the whole session, and fresh stores in it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import types
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from singerlake.storage.base import Staged, Store
from singerlake.storage.options import StoreOptions
from singerlake.storage.s3.store import S3Store
from tests.storage.relay import Relay
from tests.storage.services import azure, direct, google, service, wire, wired_store

__all__ = ["azure", "direct", "google", "service", "wire", "wired_store"]
SECRET = "wJalrXUtnFEMI-secret-bPxRfiCY"
TOKEN = "FwoGZXIvYXdzE-session-token"
KEY_ID = "AKIA-EXAMPLE-KEY-ID"
BUCKET = "lakes"


def options(endpoint: str) -> StoreOptions:
    return StoreOptions(KEY_ID, SECRET, TOKEN, region="us-east-1", endpoint_url=endpoint)


@pytest.fixture(scope="session")
def s3_port(services: None) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.storage.moto_process", str(port)],
        cwd=root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_ready(process, port)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:  # on a busy machine it may take longer
            process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, "the S3 server ended at once; is moto[server] installed?"
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < deadline, "the S3 server did not come up in 60 s"
            time.sleep(0.05)


@pytest.fixture(autouse=True)
def no_aws_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the settings of the person who runs it."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def s3_store(s3_port: int) -> S3Store:
    """A lake of its own in the session's bucket."""
    prefix = f"{uuid.uuid4().hex}/a lake+50%/ü"
    store = S3Store.open(f"s3://{BUCKET}/{prefix}", options(f"http://127.0.0.1:{s3_port}"))
    store._client.create_bucket(Bucket=BUCKET)
    return store


@pytest.fixture
def non_conditional_s3(s3_port: int) -> S3Store:
    """A lake on a service that ignores conditions, with a short settle time."""
    return in_bucket(s3_port, "non-conditional")


def in_bucket(port: int, bucket: str) -> S3Store:
    uri = f"s3://{bucket}/{uuid.uuid4().hex}"
    store = S3Store.open(uri, options(f"http://127.0.0.1:{port}"))
    store._client.create_bucket(Bucket=bucket)
    store.default_settle_seconds = 0.2
    return store


@pytest.fixture
def relay(s3_port: int, s3_store: S3Store) -> Iterator[Relay]:
    with Relay(s3_port).running() as running:
        yield running


@pytest.fixture
def wired(relay: Relay, s3_store: S3Store, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    """The same lake through the relay, whose boto3 does not sleep between attempts."""
    impatient = types.SimpleNamespace(time=time.time, sleep=lambda _: None)
    monkeypatch.setattr("botocore.endpoint.time", impatient)
    monkeypatch.setattr("singerlake.storage.s3.boto_errors.CONFLICT_PAUSE", 0.001)
    return S3Store.open(s3_store.uri, options(relay.url))


def unfinished(store: S3Store) -> list[str]:
    # moto ignores the prefix here, so the store's own keys are picked out.
    answer = store._client.list_multipart_uploads(Bucket=BUCKET)
    return [one["Key"] for one in answer.get("Uploads", []) if one["Key"].startswith(store._base)]


def staged_file(store: Store, size: int) -> Staged:
    staged = store.stage()
    staged.write(b"x" * size)
    return staged
