"""Whether a store keeps conditions: who asks, what is recorded, and who asks again."""

from __future__ import annotations

import logging
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from singerlake.errors import StoreError
from singerlake.format import metadata, names
from singerlake.format.metadata import LakeFile
from singerlake.lake import Lake
from singerlake.log import capabilities, lake_file
from singerlake.log.locks.lock import WriterLock
from singerlake.log.writer import TableWriter
from singerlake.storage.base import Capabilities, KeyMissingError, Store
from singerlake.storage.local.store import LocalStore
from singerlake.storage.probe import ignored_conditions
from singerlake.storage.s3.store import S3Store
from tests.log.broken import TABLE, BrokenStore, staged_rows
from tests.log.non_conditional import NonConditionalStore
from tests.storage.conftest import in_bucket, options
from tests.storage.contract import in_parallel
from tests.storage.relay import Fault, Relay, answer


def lake_file_of(store: Store) -> LakeFile:
    return metadata.decode(store.get(names.LAKE).data, LakeFile, names.LAKE)


def probes(store: Store) -> list[str]:
    return [item.key for item in store.list(names.STAGING) if "probe" in item.key]


def commit(store: Store, *ids: int) -> None:
    TableWriter(store, TABLE).commit(staged_rows(store, *ids))


def again(store: NonConditionalStore) -> NonConditionalStore:
    """Another process's view of the same store."""
    return NonConditionalStore(store.inner.root, store.default_settle_seconds)


@pytest.fixture
def non_conditional(tmp_path: Path) -> NonConditionalStore:
    return NonConditionalStore(tmp_path / "lake", settle=0.02)


@pytest.mark.parametrize(
    ("bucket", "ignored"),
    [
        ("lakes", []),
        ("non-conditional", ["creation", "replacement", "creation of large files"]),
        ("non-conditional-parts", ["creation of large files"]),
    ],
)
def test_what_a_service_ignores(s3_port: int, bucket: str, ignored: list[str]) -> None:
    store = in_bucket(s3_port, bucket)
    assert ignored_conditions(store) == ignored
    assert [*store.list(names.STAGING)] == []
    commit(store, 1)
    assert lake_file_of(store).conditional_writes is (not ignored)
    assert store.capabilities.supports_conditional_writes is (not ignored)


def test_a_local_disk_is_not_probed(tmp_path: Path) -> None:
    store = BrokenStore(LocalStore(tmp_path))
    commit(store, 1)
    assert not [key for _, key in store.writes if "probe" in key]
    assert lake_file_of(store).conditional_writes is None


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
    assert lake.table(TABLE).snapshot().number == 2
    assert {seen.method for seen in relay.seen} == {"GET"}


def test_the_user_is_told_once(non_conditional: NonConditionalStore, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, logger="singerlake"):
        commit(non_conditional, 1)
        commit(non_conditional, 2)
    (said,) = [r.getMessage() for r in caplog.records if "ignores" in r.getMessage()]
    assert non_conditional.uri in said
    assert "docs/about/guarantees.md" in said


def test_what_is_recorded_is_obeyed(tmp_path: Path, non_conditional: NonConditionalStore) -> None:
    """All writers of a lake do alike, whatever each would find out for itself."""
    commit(non_conditional, 1)
    present = replace(lake_file_of(non_conditional), lock_settle_seconds=0.01)
    non_conditional.replace(names.LAKE, metadata.encode(present), None)
    able = LocalStore(non_conditional.inner.root)
    able._capabilities = None
    capabilities.open_for_writing(able)
    assert able.capabilities == Capabilities(False, 0.01)


@pytest.mark.parametrize("left", [None, b"junk", b'{"format":1}'])
def test_where_the_record_is_lost_it_is_asked_again(
    non_conditional: NonConditionalStore, left: bytes | None
) -> None:
    commit(non_conditional, 1)
    non_conditional.delete(names.LAKE)
    if left is not None:
        non_conditional.replace(names.LAKE, left, None)
    second = again(non_conditional)
    commit(second, 2)
    assert second.capabilities.supports_conditional_writes is False
    assert lake_file_of(non_conditional).conditional_writes is False
    assert list(lake_file_of(non_conditional).taps) == ["tap-x"]


def test_a_lake_that_was_copied_is_asked_again(tmp_path: Path, s3_port: int) -> None:
    there = in_bucket(s3_port, "lakes")
    commit(there, 1)
    copied = NonConditionalStore(tmp_path / "copy", settle=0.02)
    for item in there.list(names.RAW):
        copied.replace(item.key, there.get(item.key).data, None)
    assert lake_file_of(copied).conditional_writes is True
    commit(copied, 2)
    assert copied.capabilities.supports_conditional_writes is False
    assert lake_file_of(copied).conditional_writes is False


@pytest.mark.parametrize("step", ["put", "replace", "delete"])
def test_a_probe_that_dies_leaves_the_question_open(
    non_conditional: NonConditionalStore, step: str
) -> None:
    store = BrokenStore(non_conditional)
    store._capabilities = None
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
        non_conditional.get(names.LAKE)
    assert not store.is_open_for_writing
    second = again(non_conditional)
    commit(second, 2)
    assert lake_file_of(non_conditional).conditional_writes is False
    assert len(probes(non_conditional)) == (0 if step == "put" else 1)  # a leftover like any other


def test_two_who_ask_at_once_find_the_same(s3_port: int) -> None:
    stores = [in_bucket(s3_port, "non-conditional")]
    stores.append(S3Store.open(stores[0].uri, stores[0]._options))
    stores[1].default_settle_seconds = stores[0].default_settle_seconds
    together = threading.Barrier(2)

    def settle(n: int) -> None:
        found = Capabilities(not ignored_conditions(stores[n]), 0.2)
        stores[n].fix_capabilities(found)
        together.wait(60)
        lake_file.record_capabilities(stores[n], found)
        lake_file.add_tap(stores[n], f"tap-{n}")

    assert in_parallel(2, settle) == [None, None]
    file = lake_file_of(stores[0])
    assert (file.conditional_writes, sorted(file.taps)) == (False, ["tap-0", "tap-1"])
    assert [*stores[0].list(names.STAGING)] == []


def test_the_less_to_rely_on_counts(non_conditional: NonConditionalStore) -> None:
    non_conditional.fix_capabilities(Capabilities(False, 0.02))
    lake_file.record_capabilities(non_conditional, Capabilities(False, 0.02))
    found = lake_file.record_capabilities(non_conditional, Capabilities(True, 0.02))
    assert found.conditional_writes is False


def test_a_lost_reply_does_not_fool_the_probe(wired: S3Store, relay: Relay) -> None:
    relay.fail(Fault("PUT", part="probe", forward=True))  # boto3 asks again, and it is taken
    assert ignored_conditions(wired) == []


def test_a_refusal_is_said_plainly(wired: S3Store, relay: Relay) -> None:
    relay.fail(answer("PUT", "AccessDenied", 403))
    with pytest.raises(StoreError, match="access denied"):
        capabilities.open_for_writing(wired)
    assert not wired.is_open_for_writing


def test_the_answer_travels_to_executors(s3_store: S3Store) -> None:
    s3_store.fix_capabilities(Capabilities(False, 3.0))
    assert pickle.loads(pickle.dumps(s3_store)).capabilities == Capabilities(False, 3.0)


def test_a_store_that_was_not_opened_names_no_capabilities(s3_store: S3Store) -> None:
    """Nobody takes the slow protocol, or the fast one, without having asked."""
    with pytest.raises(RuntimeError, match="before it was opened for writing"):
        WriterLock(s3_store, names.LAKE_LOCK, "w")
    with pytest.raises(RuntimeError, match="before it was opened for writing"):
        lake_file.add_tap(s3_store, "tap")
    capabilities.open_for_writing(s3_store)
    assert s3_store.capabilities.supports_conditional_writes
    with pytest.raises(RuntimeError, match="do not change"):
        s3_store.fix_capabilities(Capabilities(False))


def test_a_lake_that_was_probed_is_not_asked_about_it_again(
    s3_store: S3Store, relay: Relay
) -> None:
    """What the lake's file says was read when the lake was opened, and serves its writers."""
    commit(s3_store, 1)
    lake = Lake.open(s3_store.uri, options(relay.url))
    assert not lake.store.is_open_for_writing
    relay.seen.clear()
    capabilities.open_for_writing(lake.store)
    assert lake.store.is_open_for_writing
    assert relay.seen == []
