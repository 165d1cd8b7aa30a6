"""Answers that break off half-way, errors among them: repeated, read back, never a traceback."""

from __future__ import annotations

import itertools
import time
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from singerlake.errors import OutcomeUnknownError, SingerlakeError, StoreError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.vacuum.ages import check_store
from singerlake.storage.base import KeyExistsError, KeyMissingError, Store
from singerlake.storage.opening import open_store
from singerlake.storage.options import from_settings
from singerlake.storage.s3.store import S3Store
from tests.storage.conftest import staged_file, unfinished
from tests.storage.contract import MANY
from tests.storage.plugins import s3_settings
from tests.storage.relay import Answer, Fault, Relay, answer
from tests.storage.services import no_settings
from tests.target.harness import TAP, record, run, schema, state

pytestmark = pytest.mark.usefixtures("services")

__all__ = ["no_settings"]
LOST = [
    (500, "InternalError"),
    (502, "BadGateway"),
    (503, "ServerBusy"),
    (504, "OperationTimedOut"),
]


@dataclass
class Place:
    """A lake on a service, behind a wire that can misbehave."""

    store: Store
    relay: Relay
    settings: dict[str, str]


@pytest.fixture(params=["s3", "google", "azure"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "s3":
        relay = request.getfixturevalue("relay")
        wired = request.getfixturevalue("wired")
        yield Place(wired, relay, s3_settings(relay.port))
        return
    service = request.getfixturevalue(request.param)
    with Relay(service.port).running() as wire:
        yield Place(service.open(address=wire.url), wire, service.settings(wire.url))


def cut(method: str, code: str, status: int, *, reset: bool, **more: Any) -> Fault:
    return replace(answer(method, code, status), cut=True, reset=reset, **more)


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
@pytest.mark.parametrize("refusal", [(404, "NoSuchKey"), *LOST], ids=lambda one: str(one[0]))
def test_read_is_repeated_when_its_error_answer_is_cut(
    place: Place, refusal: tuple[int, str], reset: bool
) -> None:
    store, (status, code) = place.store, refusal
    etag = store.put_if_absent("raw/a/one", b"1")
    calls: list[tuple[Callable[[], object], object]] = [
        (lambda: store.get("raw/a/one"), (b"1", etag)),
        (lambda: store.get_range("raw/a/one", 0, 1), b"1"),
        (lambda: list(store.pieces("raw/a/one", 5)), [b"1"]),
        (lambda: store.exists("raw/a/two"), False),
        (lambda: [one.key for one in store.list("raw/")], ["raw/a/one"]),
        (lambda: store.folders("raw/"), ["a"]),
    ]
    for call, expected in calls:
        place.relay.fail(cut("GET", code, status, reset=reset))
        assert call() == expected
    place.relay.fail(cut("GET", code, status, reset=reset))
    with pytest.raises(KeyMissingError):
        store.get("raw/a/two")
    for method in ("DELETE", "POST"):  # Azure's are a batch of one
        place.relay.fail(cut(method, code, status, reset=reset))
    store.delete("raw/a/one")
    place.relay.recover()
    assert not store.exists("raw/a/one")


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
def test_list_is_repeated_when_its_answer_is_cut(place: Place, reset: bool) -> None:
    place.store.put_if_absent("raw/a/one", b"1")
    place.relay.fail(Fault("GET", cut=True, reset=reset))
    assert [one.key for one in place.store.list("raw/")] == ["raw/a/one"]
    place.relay.fail(Fault("GET", cut=True, reset=reset))
    assert place.store.folders("raw/") == ["a"]


@pytest.mark.parametrize("forward", [True, False], ids=["done", "not-done"])
@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
@pytest.mark.parametrize("refusal", LOST, ids=lambda one: str(one[0]))
def test_write_is_resolved_when_its_error_answer_is_cut(
    place: Place, refusal: tuple[int, str], reset: bool, forward: bool
) -> None:
    store, (status, code) = place.store, refusal
    fault = cut("PUT", code, status, reset=reset, forward=forward)
    place.relay.fail(fault)
    with suppress(KeyExistsError):  # by us: callers read it back
        store.put_if_absent("raw/one", b"mine")
    data, etag = store.get("raw/one")
    assert data == b"mine"
    place.relay.fail(fault)
    assert store.replace("raw/one", b"2", etag) != etag
    assert store.get("raw/one").data == b"2"
    place.relay.fail(fault, times=5)
    with pytest.raises(OutcomeUnknownError, match=r"raw/two was written .* cannot be determined"):
        store.put_if_absent("raw/two", b"")


@pytest.mark.parametrize("forward", [True, False], ids=["done", "not-done"])
@pytest.mark.parametrize(
    ("method", "part"), [("POST", "uploads"), ("PUT", "partNumber=1"), ("POST", "uploadId=")]
)
def test_upload_in_parts_is_resolved_when_an_error_answer_is_cut(
    wired: S3Store, relay: Relay, method: str, part: str, forward: bool
) -> None:
    relay.fail(cut(method, "InternalError", 500, reset=True, forward=forward, part=part))
    with suppress(KeyExistsError, OutcomeUnknownError):
        staged_file(wired, MANY).publish("raw/file")
    assert wired.get_range("raw/file", MANY - 1, 5) == b"x"
    if part != "uploads":  # of one that nobody heard of a vacuum rids the bucket
        assert unfinished(wired) == []


@pytest.mark.parametrize("forward", [True, False], ids=["done", "not-done"])
@pytest.mark.parametrize("times", [1, 2])
def test_commit_is_made_once_when_its_error_answer_is_cut(
    place: Place, times: int, forward: bool
) -> None:
    lines = [schema("s"), record("s", {"id": 1}), state({"n": 1})]
    run(place.store.uri, lines, **place.settings)
    key = TableName(TAP, "s").transaction(2).rpartition("/")[2].partition(".")[0]
    fault = cut("PUT", "InternalError", 500, reset=True, forward=forward, part=key)
    place.relay.fail(fault, times=times)
    assert run(place.store.uri, lines, **place.settings) == [{"n": 1}]
    assert len(place.relay.requests("PUT", key)) > times
    assert Lake(place.store).table(TableName(TAP, "s")).snapshot().number == 2


@pytest.mark.parametrize("nth", [2, 3])
def test_target_ends_well_when_error_answers_are_cut(
    place: Place, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks, leases, heads and the log are all asked for before they are there."""
    count, forward = itertools.count(1), Relay._forward
    repeated: set[tuple[str, str]] = set()

    def cutting(self: Relay, method: str, path: str, *more: Any) -> Answer:
        found = forward(self, method, path, *more)
        refused = found.status >= 400 and found.data
        if not refused or next(count) % nth:
            return found
        # Requests of several threads come in any order: one that is repeated must not have its
        # answers cut until it gives up.
        if (method, path) in repeated:
            repeated.discard((method, path))
            return found
        repeated.add((method, path))
        return replace(found, cut=True, reset=True)

    monkeypatch.setattr(Relay, "_forward", cutting)
    lines = [schema("s"), record("s", {"id": 1}), state({"n": 1})]
    for _ in range(3):
        assert run(place.store.uri, lines, **place.settings) == [{"n": 1}]
    assert next(count) > 2 * nth
    monkeypatch.undo()
    assert Lake(place.store).table(TableName(TAP, "s")).snapshot().number == 3


def test_error_answers_that_are_always_cut_are_an_error_with_a_next_step(place: Place) -> None:
    place.relay.fail(cut("GET", "NoSuchKey", 404, reset=True), times=5)
    with pytest.raises(StoreError, match=r"cannot read .*raw/one: .*run it again") as caught:
        place.store.get("raw/one")
    assert caught.value.__cause__ is None


def test_store_tells_the_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine an answer takes longer than a person would wait for the time.
    monkeypatch.setattr("singerlake.storage.object_store.facts._PATIENCE", 300)
    place.store.exists("raw/one")
    ahead = place.store.clock_ahead()
    assert ahead is not None and abs(ahead) < 60
    fast = types.SimpleNamespace(time=lambda: time.time() + 9 * 86_400)
    monkeypatch.setattr("singerlake.storage.s3.whole_answers.time", fast)
    monkeypatch.setattr("singerlake.storage.object_store.facts.time", fast)
    other = open_store(place.store.uri, from_settings(place.settings))
    other.exists("raw/one")
    with pytest.raises(SingerlakeError, match="9 days ahead of the clock of"):
        check_store(other)
