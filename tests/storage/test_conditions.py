"""Whether a store keeps conditions: who asks, what is recorded, and who asks again."""

from __future__ import annotations

import logging
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import StoreError
from singerlake.format import metadata, names
from singerlake.format.metadata import LakeFile
from singerlake.lake import Lake
from singerlake.storage.base import KeyMissingError, Store
from singerlake.storage.local import LocalStore
from singerlake.storage.probe import ignored_conditions
from singerlake.storage.s3 import S3Store
from singerlake.transactions import conditions, derived
from singerlake.transactions.writer import TableWriter
from tests.storage.conftest import in_bucket, options
from tests.storage.contract import in_parallel
from tests.storage.relay import Fault, Relay, answer
from tests.transactions.broken import TABLE, BrokenStore, staged_rows
from tests.transactions.careless import CarelessStore


def lake_file(store: Store) -> LakeFile:
    return metadata.decode(store.get(names.LAKE).data, LakeFile, names.LAKE)


def probes(store: Store) -> list[str]:
    return [item.key for item in store.list(names.STAGING) if "probe" in item.key]


def commit(store: Store, *ids: int) -> None:
    TableWriter(store, TABLE).commit(staged_rows(store, *ids))


def again(store: CarelessStore) -> CarelessStore:
    """Another process's view of the same store."""
    return CarelessStore(store.inner.root, store.settle_seconds)


@pytest.fixture
def careless(tmp_path: Path) -> CarelessStore:
    return CarelessStore(tmp_path / "lake", settle=0.02)


@pytest.mark.parametrize(
    ("bucket", "ignored"),
    [
        ("lakes", []),
        ("careless", ["creation", "replacement", "creation of large files"]),
        ("careless-parts", ["creation of large files"]),
    ],
)
def test_what_a_service_ignores(s3_port: int, bucket: str, ignored: list[str]) -> None:
    store = in_bucket(s3_port, bucket)
    assert ignored_conditions(store) == ignored
    assert [*store.list(names.STAGING)] == []
    commit(store, 1)
    assert lake_file(store).conditional_writes is (not ignored)
    assert store.keeps_conditions is (not ignored)


def test_a_local_disk_is_not_probed(tmp_path: Path) -> None:
    store = BrokenStore(LocalStore(tmp_path))
    commit(store, 1)
    assert not [key for _, key in store.writes if "probe" in key]
    assert lake_file(store).conditional_writes is None


def test_only_the_first_writer_asks_and_no_reader(s3_store: S3Store, relay: Relay) -> None:
    def opened() -> S3Store:
        return S3Store.open(s3_store.uri, options(relay.url))

    commit(opened(), 1)
    assert relay.requests("PUT", "probe")
    relay.seen.clear()
    commit(opened(), 2)
    assert not relay.requests("PUT", "probe")
    assert relay.requests("PUT", "transactions")
    relay.seen.clear()
    s3_store.delete(names.LAKE)
    lake = Lake.open(s3_store.uri, options(relay.url))
    assert lake.table(TABLE).snapshot().head == 2
    assert {seen.method for seen in relay.seen} == {"GET"}


def test_the_user_is_told_once(careless: CarelessStore, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, logger="singerlake"):
        commit(careless, 1)
        commit(careless, 2)
    (said,) = [r.getMessage() for r in caplog.records if "ignores" in r.getMessage()]
    assert careless.uri in said
    assert "docs/safety.md" in said


def test_what_is_recorded_is_obeyed(tmp_path: Path, careless: CarelessStore) -> None:
    """All writers of a lake do alike, whatever each would find out for itself."""
    commit(careless, 1)
    present = lake_file(careless)
    present.lock_settle_seconds = 0.01
    careless.replace(names.LAKE, metadata.encode(present), None)
    able = LocalStore(careless.inner.root)
    able.keeps_conditions = None
    conditions.settle(able)
    assert able.keeps_conditions is False
    assert able.settle_seconds == 0.01


@pytest.mark.parametrize("left", [None, b"junk", b'{"format":1}'])
def test_where_the_record_is_lost_it_is_asked_again(
    careless: CarelessStore, left: bytes | None
) -> None:
    commit(careless, 1)
    careless.delete(names.LAKE)
    if left is not None:
        careless.replace(names.LAKE, left, None)
    second = again(careless)
    commit(second, 2)
    assert second.keeps_conditions is False
    assert lake_file(careless).conditional_writes is False
    assert list(lake_file(careless).taps) == ["tap-x"]


def test_a_lake_that_was_copied_is_asked_again(tmp_path: Path, s3_port: int) -> None:
    there = in_bucket(s3_port, "lakes")
    commit(there, 1)
    copied = CarelessStore(tmp_path / "copy", settle=0.02)
    for item in there.list(names.RAW):
        copied.replace(item.key, there.get(item.key).data, None)
    assert lake_file(copied).conditional_writes is True
    commit(copied, 2)
    assert copied.keeps_conditions is False
    assert lake_file(copied).conditional_writes is False


@pytest.mark.parametrize("step", ["put", "replace", "delete"])
def test_a_probe_that_dies_leaves_the_question_open(careless: CarelessStore, step: str) -> None:
    store = BrokenStore(careless)
    store.keeps_conditions = None
    dead = False

    def before(method: str, key: str) -> None:
        nonlocal dead
        dead = dead or (method == step and "probe" in key)
        if dead:
            raise KeyboardInterrupt

    store.before = before
    with pytest.raises(KeyboardInterrupt):
        commit(store, 1)
    with pytest.raises(KeyMissingError):
        careless.get(names.LAKE)
    assert store.keeps_conditions is None
    second = again(careless)
    commit(second, 2)
    assert lake_file(careless).conditional_writes is False
    assert len(probes(careless)) == (0 if step == "put" else 1)  # a leftover like any other


def test_two_who_ask_at_once_find_the_same(s3_port: int) -> None:
    stores = [in_bucket(s3_port, "careless")]
    stores.append(S3Store.open(stores[0].uri, stores[0]._options))
    stores[1].settle_seconds = stores[0].settle_seconds
    together = threading.Barrier(2)

    def settle(n: int) -> None:
        found = not ignored_conditions(stores[n])
        stores[n].keeps_conditions = found
        together.wait(60)
        derived.update_lake_facts(stores[n], conditional_writes=found)
        derived.update_lake_file(stores[n], f"tap-{n}")

    assert in_parallel(2, settle) == [None, None]
    file = lake_file(stores[0])
    assert (file.conditional_writes, sorted(file.taps)) == (False, ["tap-0", "tap-1"])
    assert [*stores[0].list(names.STAGING)] == []


def test_the_less_to_rely_on_counts(careless: CarelessStore) -> None:
    careless.keeps_conditions = False
    derived.update_lake_facts(careless, conditional_writes=False)
    found = derived.update_lake_facts(careless, conditional_writes=True)
    assert found.conditional_writes is False


def test_a_lost_reply_does_not_fool_the_probe(wired: S3Store, relay: Relay) -> None:
    relay.fail(Fault("PUT", part="probe", forward=True))  # boto3 asks again, and it is taken
    assert ignored_conditions(wired) == []


def test_a_refusal_is_said_plainly(wired: S3Store, relay: Relay) -> None:
    relay.fail(answer("PUT", "AccessDenied", 403))
    with pytest.raises(StoreError, match="access denied"):
        conditions.settle(wired)
    assert wired.keeps_conditions is None


def test_the_answer_travels_to_executors(s3_store: S3Store) -> None:
    s3_store.keeps_conditions = False
    assert pickle.loads(pickle.dumps(s3_store)).keeps_conditions is False
