"""Every exception class of the libraries, raised at every call, leaves a store as one of ours."""

from __future__ import annotations

import functools
import http.client
import itertools
import socket
import ssl
import string
import traceback
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import botocore.exceptions
import botocore.parsers
import botocore.response
import obstore
import pytest
import urllib3.exceptions

from singerlake.errors import InvalidNameError, OutcomeUnknownError, SingerlakeError, StoreError
from singerlake.storage.base import KeyMissingError, Range, Store, StoredCopy
from singerlake.storage.s3.store import S3Store
from singerlake.storage.unfinished import Leftover
from tests.storage.conftest import options, staged_file
from tests.storage.contract import MANY
from tests.storage.services import Service, no_settings

__all__ = ["no_settings"]
HUSH = "hush-hush"
"""Text of an exception, which may quote a credential."""
MODULES = (
    urllib3.exceptions,
    botocore.exceptions,
    botocore.parsers,
    http.client,
    obstore.exceptions,
    socket,
    ssl,
)
BUILTIN = (OSError, ConnectionResetError, TimeoutError, ValueError, RuntimeError, EOFError)


def raised_by(modules: Iterable[ModuleType]) -> list[type[Exception]]:
    """The exception classes that the libraries have today, whichever release is installed."""
    found = {
        one
        for module in modules
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Exception) and not issubclass(one, Warning)
    }
    return sorted({*found, *BUILTIN}, key=lambda one: (one.__module__, one.__name__))


CLASSES = raised_by(MODULES)


def made(kind: type[Exception]) -> Exception:
    """One of a class, by whatever arguments it takes."""
    fields = [name for _, name, _, _ in string.Formatter().parse(getattr(kind, "fmt", "")) if name]
    named: list[dict[str, Any]] = [{}, dict.fromkeys(fields, HUSH), {"error": OSError(HUSH)}]
    named.append({"error_response": {"Error": {"Code": "X"}}, "operation_name": "PutObject"})
    for how, count in itertools.product(named, range(6)):
        try:
            return kind(*[HUSH] * count, **how)
        except (TypeError, KeyError, AttributeError):
            continue
    error = kind.__new__(kind)
    error.args = (HUSH,)
    return error


def calls(store: Store) -> dict[str, Callable[[], object]]:
    """Everything that a store can be asked for."""
    found: dict[str, Callable[[], object]] = {
        "get": lambda: store.get("raw/one"),
        "get_if_small": lambda: store.get_if_small("raw/one", 5),
        "get_range": lambda: store.get_range("raw/one", 0, 5),
        "pieces": lambda: [*store.pieces("raw/one", 5)],
        "exists": lambda: store.exists("raw/one"),
        "etag": lambda: store.etag("raw/one"),  # type: ignore[attr-defined]
        "first_key": store.first_key,
        "list": lambda: [*store.list("raw/")],
        "folders": lambda: store.folders("raw/"),
        "copies": lambda: [*store.copies()],
        "read_copy": lambda: store.read_copy(StoredCopy("raw/one", 5), 0, 5),
        "copy": lambda: store.copy([Range("raw/one", 0, 5)], store.stage()),
        "begun": lambda: store.begun("raw/"),
        "leftovers": lambda: [*store.leftovers()],
        "remove_leftover": lambda: store.remove_leftover(
            Leftover("raw/one?uploadId=1", 1, 0.0, certain=False)
        ),
        "delete": lambda: store.delete("raw/one"),
        **writes(store),
    }
    if isinstance(store, S3Store):
        found["earlier"] = lambda: [*store.earlier("raw/")]
        found["delete_earlier"] = lambda: store.delete_earlier([StoredCopy("raw/one", 1, "1")])
    return found


def writes(store: Store) -> dict[str, Callable[[], object]]:
    return {
        "put_if_absent": lambda: store.put_if_absent("raw/one", b"1"),
        "replace": lambda: store.replace("raw/one", b"1", '"1"'),
        "overwrite": lambda: store.replace("raw/one", b"1", None),
        "write_page": lambda: store.write_page("raw/one", b"1", "text/html"),
        "clone": lambda: store.clone("raw/one", "raw/two", 1),
        "publish": lambda: staged_file(store, 3).publish("raw/one"),
        "publish_large": lambda: staged_file(store, MANY).publish("raw/one"),
    }


def check(error: BaseException) -> None:
    assert isinstance(error, SingerlakeError), repr(error)
    assert not isinstance(error, (KeyMissingError, InvalidNameError)) or ":" not in str(error)
    text = "".join(traceback.format_exception(error))
    assert HUSH not in text, text
    if isinstance(error, StoreError):
        assert ": " in str(error)


ANSWERS = (botocore.exceptions.ClientError,)
BEFORE = (botocore.exceptions.BotoCoreError,)
"""What boto3 raises before it sends anything, but for what it says of connections."""
CONNECTIONS = (botocore.exceptions.HTTPClientError, botocore.exceptions.ConnectionError)
NEVER_SENT = (
    botocore.exceptions.ConnectTimeoutError,
    botocore.exceptions.EndpointConnectionError,
    botocore.exceptions.ProxyConnectionError,
)


def may_be_sent(kind: type[Exception]) -> bool:
    if issubclass(kind, (*ANSWERS, *NEVER_SENT)):
        return False
    return issubclass(kind, CONNECTIONS) or not issubclass(kind, BEFORE)


def test_s3_maps_whatever_its_client_raises(
    s3_store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in CLASSES:
        monkeypatch.setattr(s3_store._client, "_make_api_call", refusing(kind))
        for name, call in calls(s3_store).items():
            try:
                call()
            except BaseException as error:
                check(error)
                # A large one looks first whether its name is taken.
                if name in writes(s3_store) and name != "publish_large" and may_be_sent(kind):
                    assert isinstance(error, OutcomeUnknownError), (name, kind, error)
            else:
                assert name in ("copies", "delete_earlier"), f"{name} took no notice of {kind}"


def refusing(kind: type[Exception]) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> None:
        raise made(kind)

    return refuse


def failing_once(kind: type[Exception], real: Callable[..., Any]) -> Callable[..., Any]:
    faults = [made(kind)]

    def call(*args: Any, **named: Any) -> Any:
        if faults:
            raise faults.pop()
        return real(*args, **named)

    return call


def test_s3_repeats_what_a_connection_raises_once(
    s3_port: int, wired: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = botocore.response.StreamingBody.read
    for number, kind in enumerate(one for one in CLASSES if not issubclass(one, BEFORE + ANSWERS)):
        if number % 10 == 0:  # a client repeats only so many requests, of all that it makes
            store = S3Store.open(wired.uri, options(f"http://127.0.0.1:{s3_port}"))
            session = store._client._endpoint.http_session._session
            send = session.send
        key = f"raw/{number}/one"
        monkeypatch.setattr(session, "send", failing_once(kind, send))
        etag = store.put_if_absent(key, b"1")
        asked: list[tuple[Callable[[], object], object]] = [
            (functools.partial(store.get, key), (b"1", etag)),
            (functools.partial(store.folders, f"raw/{number}/"), []),
            (functools.partial(store.exists, "raw/two"), False),
        ]
        for call, expected in asked:
            monkeypatch.setattr(session, "send", failing_once(kind, send))
            assert call() == expected, kind
        monkeypatch.setattr(session, "send", send)
        monkeypatch.setattr(botocore.response.StreamingBody, "read", failing_once(kind, read))
        assert store.get(key).data == b"1", kind


def test_object_stores_map_whatever_obstore_raises(
    google: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = google.open()
    for kind in raised_by((obstore.exceptions, http.client, socket, ssl)):
        for name in ("get", "put", "copy", "delete", "list", "list_with_delimiter"):
            monkeypatch.setattr(obstore, name, refusing(kind))
        for name, call in calls(store).items():
            if name == "begun":
                continue  # these have none
            with pytest.raises(SingerlakeError) as caught:
                call()
            check(caught.value)
            unsure = kind.__module__ != obstore.exceptions.__name__ and kind is not ValueError
            unsure = unsure or kind.__name__ in ("GenericError", "JoinError", "BaseError")
            if unsure and name in writes(store) and name != "publish_large":
                assert isinstance(caught.value, OutcomeUnknownError), (name, kind)


def test_object_stores_repeat_what_a_connection_raises_once(
    google: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = google.open()
    put, get, listing = obstore.put, obstore.get, obstore.list
    for kind in raised_by((socket, ssl)):
        if not issubclass(kind, OSError):
            continue
        key = f"raw/{kind.__module__}/{kind.__name__}"
        monkeypatch.setattr(obstore, "put", failing_once(kind, put))
        store.put_if_absent(key, b"1")
        monkeypatch.setattr(obstore, "get", failing_once(kind, get))
        assert store.get(key).data == b"1"
        monkeypatch.setattr(obstore, "list", failing_once(kind, listing))
        assert key in [one.key for one in store.list(f"raw/{kind.__module__}/")]
