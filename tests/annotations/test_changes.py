"""Annotations are kept in the lake's file: none is lost, and nothing else is."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from singerlake.annotations import changes, subjects
from singerlake.annotations.changes import change_of
from singerlake.annotations.subjects import LAKE, Subject
from singerlake.errors import DamagedError, NotFoundError, UsageError
from singerlake.format import metadata, names
from singerlake.format.annotations import JobRun
from singerlake.lake import Lake
from singerlake.log import lake_file
from singerlake.storage.base import Capabilities
from tests.build import commit_rows
from tests.log.broken import BrokenStore
from tests.log.non_conditional import NonConditionalStore

PROPERTIES = {
    "id": {"type": "integer"},
    "a.b": {"type": "string"},
    "address": {
        "type": ["null", "object"],
        "properties": {"city": {"type": "string"}, "geo.lat": {"type": "number"}},
    },
    "items": {
        "type": "array",
        "items": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"sku": {}}}]},
    },
}


@pytest.fixture
def filled(lake: Lake) -> Lake:
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], [{"id": 1}])
    commit_rows(lake, "tap-shop.orders.id", PROPERTIES, ["id"], [{"id": 1}])
    return Lake.open(lake.store.uri)


def raw(lake: Lake) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lake.store.get(names.LAKE).data)
    return found


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("tap-shop", Subject("tap-shop")),
        ("tap_shop.orders", Subject("tap-shop", "orders")),
        ("tap-shop.orders", Subject("tap-shop", "orders")),
        ("tap-shop.orders.id", Subject("tap-shop", "orders.id")),  # a table of that name
        ("tap-shop.`orders`.id", Subject("tap-shop", "orders", ("id",))),
        ("tap-shop.orders.a.b", Subject("tap-shop", "orders", ("a.b",))),
        ("tap-shop.orders.address.city", Subject("tap-shop", "orders", ("address", "city"))),
        ("tap-shop.orders.address.geo.lat", Subject("tap-shop", "orders", ("address", "geo.lat"))),
        ("tap-shop.orders.items.sku", Subject("tap-shop", "orders", ("items", "sku"))),
        ("tap-shop.orders.id.id", Subject("tap-shop", "orders.id", ("id",))),
    ],
)
def test_what_a_name_means(filled: Lake, text: str, subject: Subject) -> None:
    assert subjects.find(filled, text) == subject


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("tap-shp", NotFoundError, "did you mean tap-shop"),
        ("tap-x", NotFoundError, "it has tap-shop"),
        ("tap-shop.order", NotFoundError, "tap-shop.orders"),
        ("tap-shop.orders.adress", NotFoundError, "did you mean address"),
        ("tap-shop.orders.address.zip", NotFoundError, "no column 'address.zip'"),
        ("tap-shop.orders.7", UsageError, "version"),
        ("tap-shop.orders.@7", UsageError, "version"),
    ],
)
def test_what_is_not_there_is_said(filled: Lake, text: str, kind: type, says: str) -> None:
    with pytest.raises(kind, match=says):
        subjects.find(filled, text)


def test_members_that_nobody_knows_stay(filled: Lake) -> None:
    file = raw(filled)
    file["colour"] = {"deep": [1, None]}
    file["taps"]["tap-shop"] = {"mood": 7, "tables": {"orders": {"smell": 1, "owner": "x"}}}
    filled.store.replace(names.LAKE, json.dumps(file).encode(), None)
    orders = Subject("tap-shop", "orders")
    assert changes.annotate(filled, [change_of(orders, {"owner": "", "description": "d"})])
    lake_file.add_tap(filled.store, "tap-new")
    lake_file.record_capabilities(filled.store, Capabilities())
    found = raw(filled)
    assert found["colour"] == {"deep": [1, None]}
    assert found["taps"]["tap-shop"] == {
        "mood": 7,
        "tables": {"orders": {"smell": 1, "description": "d"}},
    }
    assert found["conditional_writes"] is True


def test_what_is_cleared_leaves_no_trace(filled: Lake) -> None:
    before = raw(filled)
    city = Subject("tap-shop", "orders", ("address", "city"))
    said = {"description": "x", "tags": ["a"], "deprecated": True}
    assert changes.annotate(filled, [change_of(city, said), change_of(LAKE, {"owner": "o"})])
    assert not changes.annotate(filled, [change_of(city, said)])  # nothing new, nothing written
    cleared = {"description": "", "tags": [], "deprecated": False}
    assert changes.annotate(filled, [change_of(city, cleared), change_of(LAKE, {"owner": None})])
    assert raw(filled) == before


def in_threads(*steps: Any) -> None:
    failed: list[BaseException] = []

    def one(step: Any) -> None:
        try:
            step()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_two_at_once_lose_nothing(filled: Lake) -> None:
    together = threading.Barrier(4)

    def step(n: int) -> Any:
        def run() -> None:
            lake = Lake.open(filled.store.uri)
            together.wait()
            for round_ in range(5):
                subject = Subject("tap-shop", "orders", ("id",)) if n % 2 else Subject("tap-shop")
                changes.annotate(lake, [change_of(subject, {}, {"tags": [f"{n}-{round_}"]})])

        return run

    in_threads(*map(step, range(4)))
    taps = raw(filled)["taps"]["tap-shop"]
    tags = [*taps["tags"], *taps["tables"]["orders"]["columns"]["id"]["tags"]]
    assert sorted(tags) == sorted(f"{n}-{r}" for n in range(4) for r in range(5))


def test_a_store_that_ignores_conditions_is_changed_under_the_lock(tmp_path: Path) -> None:
    store = BrokenStore(NonConditionalStore(tmp_path / "lake", 0.05))
    store._capabilities = Capabilities(False, 0.05)
    touched: list[tuple[str, str]] = []
    store.before = lambda method, key: touched.append((method, key))
    lake = Lake(store)
    changes.annotate(lake, [change_of(LAKE, {"owner": "ada"})])
    assert raw(lake)["owner"] == "ada"
    write = touched.index(("replace", names.LAKE))
    assert names.LAKE_LOCK in [key for _, key in touched[:write]]
    assert not lake.store.exists(names.LAKE_LOCK)


def test_a_file_that_cannot_be_read_is_kept_aside(filled: Lake) -> None:
    broken = b'{"format": 1, "owner": "ada", "taps": {'
    filled.store.replace(names.LAKE, broken, None)
    lake_file.add_tap(filled.store, "tap-shop")
    (aside,) = [i.key for i in filled.store.list(names.RAW) if i.key.endswith(".damaged")]
    assert filled.store.get(aside).data == broken
    assert metadata.decode(filled.store.get(names.LAKE).data, metadata.LakeFile, "it").taps


def test_a_member_of_another_type_takes_nobodys_words_away(filled: Lake) -> None:
    """A commit goes on without the file; who would write people's words learns what is wrong."""
    changes.annotate(filled, [change_of(LAKE, {"owner": "ada"})])
    broken = filled.store.get(names.LAKE).data.replace(
        b'"lock_settle_seconds": null', b'"lock_settle_seconds": "10"'
    )
    assert b'"10"' in broken
    filled.store.replace(names.LAKE, broken, None)
    again = Lake.open(filled.store.uri)
    commit_rows(again, "tap-new.t", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    with pytest.raises(DamagedError, match="correct it by hand"):
        changes.annotate(again, [change_of(LAKE, {"owner": "bob"})])
    assert filled.store.get(names.LAKE).data == broken
    (problem,) = again.inventory(again.tables()).problems
    assert "lock_settle_seconds" in problem


def test_an_annotation_that_another_wrote_over_is_made_again(tmp_path: Path) -> None:
    """On a store that ignores conditions a writer who was held up can still write over it."""
    store = BrokenStore(NonConditionalStore(tmp_path / "lake", 0.05))
    store._capabilities = Capabilities(False, 0.05)
    lake = Lake(store)
    changes.annotate(lake, [change_of(LAKE, {"description": "before"})])
    old = store.store.get(names.LAKE).data
    met: list[str] = []

    def after(method: str, key: str) -> None:
        if (method, key) == ("replace", names.LAKE) and not met:
            met.append(key)
            store.store.replace(key, old, None)

    store.after = after
    changes.annotate(lake, [change_of(LAKE, {"owner": "ada"})])
    assert (raw(lake)["owner"], met) == ("ada", [names.LAKE])


def test_the_run_that_ended_last_is_the_last_run(filled: Lake) -> None:
    late = JobRun(time="2026-01-02T00:00:00.000000Z", outcome="failed", url="https://x.org/2")
    early = JobRun(time="2026-01-01T00:00:00.000000Z", outcome="succeeded", rows=5)
    changes.record_run(filled, "tap-shop", late)
    changes.record_run(filled, "tap-shop", early)
    assert raw(filled)["taps"]["tap-shop"]["last_run"]["outcome"] == "failed"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("documentation", "javascript:alert(1)"),
        ("documentation", "data:text/html,x"),
        ("documentation", "//example.com"),
        ("documentation", "https://a b"),
        ("documentation", "https:///x"),
        ("documentation", "https://[x"),
        ("job_url", "https://ada:secret@example.com/"),
        ("freshness", "soon"),
        ("freshness", "0h"),
        ("owner", 7),
        ("owner", "x" * 70_000),
        ("owner", "bell\x07"),
        ("owner", "half\ud800"),
        ("tags", "one"),
        ("tags", [str(n) for n in range(200)]),
        ("colour", "red"),
    ],
)
def test_what_a_field_cannot_hold_is_refused(field: str, value: object) -> None:
    with pytest.raises(UsageError) as caught:
        change_of(Subject("tap-shop"), {field: value})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("field", ["job_url", "job_status", "freshness"])
def test_a_column_has_no_job(field: str) -> None:
    with pytest.raises(UsageError, match="is not a field of a column"):
        change_of(Subject("tap-shop", "orders", ("id",)), {field: "x"})


@pytest.mark.parametrize("url", ["https://x.org", "http://x.org/a?b#c", "mailto:ada@example.com"])
def test_links_that_are_taken(url: str) -> None:
    assert change_of(LAKE, {"documentation": url}).values["documentation"] == url
