"""Google Cloud Storage and Azure when replies are lost, and their refusals in plain words."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import timedelta

import pytest
from obstore.exceptions import GenericError

from singerlake.errors import OutcomeUnknownError, RuntimeMissingError, StoreError, UsageError
from singerlake.storage.base import KeyExistsError, KeyMissingError
from singerlake.storage.object_store import store as store_module
from singerlake.storage.object_store.store import ObjectStore
from singerlake.storage.opening import open_store
from singerlake.storage.options import StoreOptions
from tests.storage import azurite
from tests.storage.conftest import staged_file
from tests.storage.relay import Fault, Relay, answer
from tests.storage.services import CONTAINER, TOKEN, Service, no_settings

__all__ = ["no_settings"]
LARGE = store_module.BULK_BYTES + 7
CONDITIONS = ("x-goog-if-generation-match", "if-none-match", "if-match")


def conditions(wire: Relay, part: str) -> list[str | None]:
    """The condition of each write that came by."""
    sent = [{n.lower(): v for n, v in one.headers.items()} for one in wire.requests("PUT", part)]
    return [next((one[name] for name in CONDITIONS if name in one), None) for one in sent]


def test_conditions_are_sent(service: Service, wired_store: ObjectStore, wire: Relay) -> None:
    etag = wired_store.put_if_absent("raw/one", b"1")
    wired_store.replace("raw/one", b"2", etag)
    wired_store.replace("raw/one", b"3", None)
    nothing = "0" if service.scheme == "gs" else "*"
    assert conditions(wire, "one") == [nothing, etag, None]
    staged_file(wired_store, LARGE).publish("raw/file")
    assert conditions(wire, "file") == [nothing]
    if service.scheme == "gs":
        wired_store.clone("raw/file", "raw/other", LARGE)
        assert conditions(wire, "other") == ["0"]


def test_a_request_lost_once_is_sent_again(wired_store: ObjectStore, wire: Relay) -> None:
    wire.fail(Fault("PUT"))
    etag = wired_store.put_if_absent("raw/one", b"1")
    wire.fail(Fault("GET"))
    assert wired_store.get("raw/one") == (b"1", etag)
    wire.fail(Fault("GET"))
    assert [one.key for one in wired_store.list("raw/")] == ["raw/one"]


def test_a_creation_whose_reply_was_lost_finds_its_own_object(
    wired_store: ObjectStore, wire: Relay
) -> None:
    wire.fail(Fault("PUT", forward=True))
    with pytest.raises(KeyExistsError):
        wired_store.put_if_absent("raw/one", b"mine")
    assert wired_store.get("raw/one").data == b"mine"


def test_a_replacement_whose_reply_was_lost(
    wired_store: ObjectStore, wire: Relay, direct: ObjectStore
) -> None:
    etag = wired_store.put_if_absent("raw/lock", b"1")
    wire.fail(Fault("PUT", forward=True))
    etag = wired_store.replace("raw/lock", b"2", etag)
    assert wired_store.get("raw/lock") == (b"2", etag)
    wire.fail(Fault("PUT"))
    wire.fail(Fault("PUT", meanwhile=lambda: direct.replace("raw/lock", b"theirs", etag)))
    with pytest.raises(KeyExistsError, match="another"):
        wired_store.replace("raw/lock", b"mine", etag)
    etag = wired_store.get("raw/lock").etag
    wire.fail(Fault("PUT", forward=True))
    wire.fail(answer("GET", "AccessDenied", 403))
    with pytest.raises(OutcomeUnknownError, match="access denied"):
        wired_store.replace("raw/lock", b"3", etag)


@pytest.mark.parametrize(
    "fault", [Fault("PUT"), answer("PUT", "InternalError", 500), Fault("PUT", 504)]
)
def test_a_write_without_an_answer_is_in_doubt(
    wired_store: ObjectStore, wire: Relay, fault: Fault
) -> None:
    calls: list[Callable[[], object]] = [
        lambda: wired_store.put_if_absent("raw/one", b"1"),
        lambda: wired_store.replace("raw/one", b"1", "7"),
        lambda: staged_file(wired_store, store_module.BULK_BYTES).publish("raw/one"),
    ]
    for call in calls:
        wire.fail(fault, times=5)
        with pytest.raises(OutcomeUnknownError, match=r"raw/one was written .* cannot be det"):
            call()
    assert not wired_store.exists("raw/one")


def test_doubt_and_refusals(wired_store: ObjectStore, wire: Relay) -> None:
    wire.fail(Fault("PUT", forward=True))
    wire.fail(answer("PUT", "AccessDenied", 403))
    with pytest.raises(OutcomeUnknownError, match="access denied"):
        wired_store.put_if_absent("raw/one", b"1")
    for code, status in (("AccessDenied", 403), ("SlowDown", 503), ("SlowDown", 429)):
        wire.fail(answer("PUT", code, status), times=5)
        with pytest.raises(StoreError) as caught:
            wired_store.put_if_absent("raw/two", b"1")
        assert not isinstance(caught.value, OutcomeUnknownError)
        wire.recover()
    wire.fail(answer("PUT", "ServerBusy", 503), times=4)
    wired_store.put_if_absent("raw/two", b"1")


def test_a_read_that_breaks_off_is_repeated(wired_store: ObjectStore, wire: Relay) -> None:
    wired_store.put_if_absent("raw/one", b"0123456789")
    wire.fail(Fault("GET", cut=True), times=2)
    assert wired_store.get("raw/one").data == b"0123456789"
    wire.fail(Fault("GET", cut=True), times=2)
    assert wired_store.get_range("raw/one", 2, 6) == b"234567"
    wire.fail(Fault("GET", cut=True), times=5)
    with pytest.raises(StoreError, match="run it again"):
        wired_store.get("raw/one")


def test_a_key_taken_during_a_large_upload(
    wired_store: ObjectStore, wire: Relay, direct: ObjectStore
) -> None:
    take = lambda: direct.put_if_absent("raw/file", b"theirs")  # noqa: E731
    wire.fail(Fault("PUT", part="file", meanwhile=take))
    staged = staged_file(wired_store, LARGE)
    with pytest.raises(KeyExistsError):
        staged.publish("raw/file")
    assert wired_store.get("raw/file").data == b"theirs"
    staged.publish("raw/file-2")
    staged.discard()
    assert wired_store.get_range("raw/file-2", LARGE - 1, 5) == b"x"


def test_what_is_too_large_for_one_request(
    direct: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(direct._connection.vendor.__dict__, "put_bytes", 5)
    with pytest.raises(StoreError, match="takes 5 in one request: set a smaller file_bytes"):
        staged_file(direct, 6).publish("raw/file")


REFUSALS = [
    ("NoSuchBucket", 404, f"there is no .* '{CONTAINER}'"),
    ("ContainerNotFound", 404, f"there is no .* '{CONTAINER}'"),
    ("AccessDenied", 403, "access denied: these credentials need"),
    ("AuthorizationPermissionMismatch", 403, "access denied: these credentials need"),
    ("AuthenticationFailed", 403, r"credentials are not accepted.*\[AuthenticationFailed\]"),
    ("", 401, "credentials are not accepted"),
    ("BlobImmutableDueToPolicy", 409, "a policy of the"),
    ("RetentionPolicyNotMet", 403, "a policy of the"),
    ("UserProjectMissing", 400, "requester to pay"),
    ("ServerBusy", 503, "slow down"),
    ("", 429, "slow down"),
    ("OperationTimedOut", 500, "an internal error"),
    ("", 404, "the server there is not"),
    ("Unheard", 400, r"answered with an error \[Unheard\]"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda one: f"{one[0]}-{one[1]}")
def test_refusals(wired_store: ObjectStore, wire: Relay, refusal: tuple[str, int, str]) -> None:
    code, status, words = refusal
    calls: list[tuple[str, str, Callable[[], object]]] = [
        ("GET", "read", lambda: wired_store.get("raw/one")),
        ("GET", "read", lambda: wired_store.exists("raw/one")),
        ("GET", "list", lambda: [*wired_store.list("raw/")]),
        ("GET", "list", lambda: wired_store.folders("raw/")),
        ("PUT", "create", lambda: wired_store.put_if_absent("raw/one", b"")),
        ("PUT", "replace", lambda: wired_store.replace("raw/one", b"", "1")),
    ]
    for method, action, call in calls:
        wire.fail(answer(method, code, status) if code else Fault(method, status), times=5)
        with pytest.raises(StoreError, match=words) as caught:
            call()
        wire.recover()
        text = str(caught.value)
        assert f"{action} " in text or f"({action}) cannot be determined" in text
        assert "\n" not in text
        assert TOKEN not in text and azurite.KEY not in text
        assert caught.value.__cause__ is None


def test_a_container_that_is_not_there_is_no_missing_key(service: Service) -> None:
    nowhere = service.open(container="nobodys-own")
    for call in (
        lambda: nowhere.get("raw/one"),
        lambda: nowhere.exists("raw/one"),
        lambda: [*nowhere.list("raw/")],
        lambda: nowhere.put_if_absent("raw/one", b""),
    ):
        with pytest.raises(StoreError, match="there is no .* 'nobodys-own'"):
            call()


@pytest.mark.usefixtures("services")
def test_nobody_answers(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    silence = "singerlake.storage.object_store.connection._SILENCE"
    # A refusal comes at once, but on a busy machine not within milliseconds.
    monkeypatch.setattr(silence, timedelta(seconds=10))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(StoreError, match="cannot connect to http://127.0.0.1") as caught:
            service.open(address=address).put_if_absent("raw/one", b"1")
        assert not isinstance(caught.value, OutcomeUnknownError)
        monkeypatch.setattr(silence, timedelta(milliseconds=50))
        listening.listen(50)
        with pytest.raises(StoreError, match="did not answer in time"):
            service.open(address=address).get("raw/one")
        with pytest.raises(OutcomeUnknownError, match="did not answer in time"):
            service.open(address=address).put_if_absent("raw/one", b"1")


def test_a_listing_that_breaks_off_goes_on_where_it_did(
    wired_store: ObjectStore, wire: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "PAGE_KEYS", 2)
    for number in range(5):
        wired_store.put_if_absent(f"raw/{number}", b"")
    pages = store_module._Pages(wired_store._quick, wired_store._folder("raw/"))
    keys = [one["path"] for one in pages.next()]
    pages._stream = iter(_breaking())
    with pytest.raises(OSError, match="broke"):
        pages.next()
    while page := pages.next():
        keys += [one["path"] for one in page]
    assert [key[-1] for key in keys] == list("01234")


def _breaking() -> object:
    raise OSError("broke")
    yield ()


WRONG = [
    ("gs", {"gcs_token": "a", "gcs_anonymous": True}, "different credentials"),
    ("gs", {"gcs_service_account_path": "/nowhere.json"}, "names no file"),
    ("gs", {"gcs_service_account_key": "hush-hush"}, "not the JSON of a service"),
    ("gs", {"gcs_service_account_key": '{"private_key": "hush-hush"}'}, "settings of Google"),
    ("gs", {"gcs_endpoint_url": "storage.example.com"}, "must begin with http"),
    ("gs", {"gcs_endpoint_url": "http://u:hush-hush@x"}, "must not hold a user"),
    ("az", {}, "set azure_storage_account_name"),
    ("az", {"azure_storage_account_name": "a", "azure_storage_account_key": "hush!"}, "Base64"),
    ("az", {"azure_storage_account_name": "a", "azure_client_secret": "hush"}, "all three"),
    (
        "az",
        {"azure_storage_account_key": "aHVzaA==", "azure_storage_sas_token": "sig=hush"},
        "different credentials",
    ),
    ("az", {"azure_storage_connection_string": "hush-hush"}, "names no account"),
]


@pytest.mark.parametrize(("scheme", "settings", "words"), WRONG)
def test_what_cannot_work_is_refused(scheme: str, settings: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        open_store(f"{scheme}://lakes/x", StoreOptions(**settings))  # type: ignore[arg-type]
    assert "hush" not in str(caught.value)


def test_one_container_by_all_its_names(azure: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    account, key = azurite.ACCOUNT, azurite.KEY
    text = f"AccountName={account};AccountKey={key};BlobEndpoint={azure.address}/{account}"
    azure.open("named").put_if_absent("raw/one", b"1")
    by_setting = StoreOptions(azure_storage_connection_string=text)
    assert open_store(f"az://{CONTAINER}/named", by_setting).exists("raw/one")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    assert open_store(f"az://{CONTAINER}/named").exists("raw/one")
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"{azure.address}/{account}")
    monkeypatch.setenv("AZURE_STORAGE_KEY", key)
    for uri in (
        f"abfss://{CONTAINER}@{account}.dfs.core.windows.net/named",
        f"https://{account}.blob.core.windows.net/{CONTAINER}/named/",
    ):
        store = open_store(uri)
        assert (store.uri, store.exists("raw/one")) == (f"az://{CONTAINER}/named", True)
        with pytest.raises(UsageError, match="leave one of them out"):
            open_store(uri, StoreOptions(azure_storage_account_name="other"))


def test_only_the_services_themselves_need_no_probe(service: Service) -> None:
    assert not service.open().is_open_for_writing
    key = {"azure_storage_account_name": "a", "azure_storage_account_key": "aGk="}
    of_google = open_store("gs://lakes/x", StoreOptions(gcs_token="a"))
    of_azure = open_store("az://lakes/x", StoreOptions(**key))  # type: ignore[arg-type]
    assert of_google.is_open_for_writing and of_azure.is_open_for_writing
    assert (of_google.service, of_azure.service) == ("", "a.blob.core.windows.net")


def test_what_is_missing_is_installed_by_the_line_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("singerlake.extras.find_spec", lambda _: None)
    for uri, extra in (("gs://lakes/x", "gcs"), ("az://lakes/x", "azure")):
        with pytest.raises(RuntimeMissingError, match=rf"pip install 'singerlake\[{extra}\]'"):
            open_store(uri, StoreOptions())


def test_no_object_is_missed_on_the_way_to_another(wired_store: ObjectStore, wire: Relay) -> None:
    wire.fail(Fault("PUT", 404))
    with pytest.raises(StoreError) as caught:
        wired_store.put_if_absent("raw/one", b"")
    assert not isinstance(caught.value, KeyMissingError)


def test_a_machine_that_is_not_theirs_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without credentials the machine is asked who it is; elsewhere nobody answers there."""
    monkeypatch.setattr("singerlake.storage.object_store.obstore_errors.PAUSE", 60)
    text = (
        "Generic GCS error: Error performing token request: Error performing GET "
        "http://169.254.169.254/computeMetadata/v1/ in 1s - HTTP error\n\nDebug source:\n"
        "Http(HttpError { kind: Connect, source: reqwest::Error"
    )
    store = open_store("gs://lakes/x", StoreOptions(gcs_token="a"))
    assert isinstance(store, ObjectStore)

    def refuse() -> None:
        raise GenericError(text)

    with pytest.raises(StoreError, match="no usable credentials: log in") as caught:
        store._requests.write("create", "raw/one", refuse)
    assert not isinstance(caught.value, OutcomeUnknownError)
