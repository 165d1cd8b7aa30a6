"""The commit: what happens on the way to it, at it and after it when something fails."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import ConflictError, DamagedError, OutcomeUnknownError, StoreError
from singerlake.format import names
from singerlake.format.log import SchemaEntry
from singerlake.format.metadata import TransactionSummary
from singerlake.lake import Lake
from singerlake.log import checkpoint
from singerlake.log.files import data_files
from singerlake.log.log import entries, read_snapshot, refresh
from singerlake.log.table_state import TableState
from singerlake.log.writer import TableWriter
from singerlake.storage.base import KeyExistsError, Listed, Store
from singerlake.storage.local.store import LocalStore
from tests.build import resealed
from tests.log.broken import (
    HASH,
    NO_ANSWER,
    PROPERTIES,
    TABLE,
    BrokenStore,
    ids_in,
    raising,
    staged_rows,
)

OTHER = SchemaEntry({"type": "object", "properties": {**PROPERTIES, "x": {}}}, [])
LOG = "/transactions/"


@pytest.fixture
def store(tmp_path: Path) -> BrokenStore:
    return BrokenStore(LocalStore(tmp_path / "lake"))


def head(store: Store) -> int:
    snapshot = read_snapshot(store, TABLE)
    return snapshot.number if snapshot else 0


def files(store: Store) -> list[str]:
    return [item.key for item in store.list(TABLE.folder) if item.key.endswith(names.SUFFIX)]


def commit(store: Store, *ids: int) -> TableState:
    snapshot = TableWriter(store, TABLE).commit(staged_rows(store, *ids))
    assert snapshot is not None
    return snapshot


def test_two_writers_take_turns_at_one_log(store: BrokenStore) -> None:
    one, other = TableWriter(store, TABLE), TableWriter(store, TABLE)
    for n in range(5):
        one.commit(staged_rows(store, 2 * n))
        other.commit(staged_rows(store, 2 * n + 1))
    assert head(store) == 10
    assert ids_in(store) == list(range(10))


def test_a_number_taken_meanwhile_means_a_later_one(store: BrokenStore) -> None:
    """Another schema's writer holds another lock, and gets in between reading and writing."""
    commit(store, 1)
    rival = [True]

    def before(method: str, key: str) -> None:
        if method == "put" and LOG in key and rival[0]:
            rival[0] = False
            inner = store.store
            TableWriter(inner, TABLE).commit(staged_rows(inner, 2, 3, rows=1, schema=OTHER))

    store.before = before
    snapshot = TableWriter(store, TABLE).commit(staged_rows(store, 4))
    assert snapshot is not None
    assert snapshot.number == head(store) == 3
    assert ids_in(store) == [1, 2, 3, 4]
    assert [b.number for b in snapshot.blocks] == [1, 2, 3, 4]


def test_many_threads_lose_no_row_and_leave_no_gap(store: BrokenStore) -> None:
    threads, commits = 4, 6

    def work(thread: int) -> None:
        schema = SchemaEntry({"type": "object", "properties": {**PROPERTIES, f"x{thread}": {}}}, [])
        writer = TableWriter(store, TABLE)
        for n in range(commits):
            writer.commit(staged_rows(store, thread * 100 + n, schema=schema))

    running = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    found = list(entries(store, TABLE))
    assert [entry.number for entry in found] == list(range(1, threads * commits + 1))
    assert len({entry.commit for entry in found}) == threads * commits
    ids = ids_in(store)
    assert sorted(ids) == sorted(t * 100 + n for t in range(threads) for n in range(commits))
    catalogue = json.loads(store.get(names.catalogue("tap-x")).data)
    assert len(catalogue["streams"]) == 1


def test_a_reply_lost_after_the_effect_is_a_commit(store: BrokenStore) -> None:
    store.after = raising(LOG, NO_ANSWER, times=1)
    assert commit(store, 1).number == 1
    assert ids_in(store) == [1]
    assert [item.key for item in store.list(".staging/")] in ([], [".staging/replace.lock"])


def test_a_retry_that_finds_its_own_entry_is_a_commit(store: BrokenStore) -> None:
    store.after = raising(LOG, KeyExistsError("412"), times=1)
    assert commit(store, 1).number == 1
    assert ids_in(store) == [1]
    assert head(store) == 1


def test_a_reply_lost_before_the_effect_is_unknown_and_deletes_nothing(store: BrokenStore) -> None:
    store.before = raising(LOG, NO_ANSWER)
    staged = staged_rows(store, 1)
    with pytest.raises(OutcomeUnknownError):
        TableWriter(store, TABLE).commit(staged)
    assert len(files(store)) == 1
    staged.discard()
    assert len(files(store)) == 1
    assert head(store) == 0


def test_a_reply_lost_while_another_took_the_number_goes_on(store: BrokenStore) -> None:
    rival = [True]

    def before(method: str, key: str) -> None:
        if method == "put" and LOG in key and rival[0]:
            rival[0] = False
            inner = store.store
            TableWriter(inner, TABLE).commit(staged_rows(inner, 1, schema=OTHER))
            raise NO_ANSWER

    store.before = before
    assert commit(store, 2).number == 2
    assert ids_in(store) == [1, 2]


def test_a_failure_before_the_entry_takes_the_files_back(store: BrokenStore) -> None:
    commit(store, 1)
    store.before = raising(LOG, StoreError("full"))
    staged = staged_rows(store, 2)
    with pytest.raises(StoreError, match="full"):
        TableWriter(store, TABLE).commit(staged)
    assert len(files(store)) == 1
    assert ids_in(store) == [1]
    store.before = lambda _method, _key: None
    # What was staged is still there, and may be tried again.
    TableWriter(store, TABLE).commit(staged)
    assert ids_in(store) == [1, 2]


def test_a_failure_among_the_files_takes_those_back_that_are_there(store: BrokenStore) -> None:
    staged = staged_rows(store, 1)
    second = staged_rows(store, 2, schema=OTHER)
    staged.set_schema(second.schema_hash, OTHER)
    [block] = second.numbered(0)
    staged.add(second.schema_hash, b"x" * block.length, block)
    store.before = raising(f"/{second.schema_hash}/a-", StoreError("full"))
    with pytest.raises(StoreError, match="full"):
        TableWriter(store, TABLE).commit(staged)
    assert files(store) == []
    assert not [item.key for item in store.list(TABLE.folder)]  # and no lock is left


def test_a_lock_lost_commits_nothing(store: BrokenStore) -> None:
    def after(method: str, key: str) -> None:
        if method == "publish":
            store.store.delete(TABLE.lock(HASH))

    store.after = after
    with pytest.raises(ConflictError):
        commit(store, 1)
    assert (head(store), files(store)) == (0, [])


def test_the_order_of_writing(store: BrokenStore) -> None:
    commit(store, *range(30))
    keys = [(method, key.rsplit("/", 1)[1]) for method, key in store.writes]
    assert [(m, "data" if k.endswith(names.SUFFIX) else k) for m, k in keys] == [
        ("put", "singerlake.lock"),
        ("publish", "data"),
        ("put", "000000000001.json"),
        ("delete", "singerlake.lock"),
        ("put", "manifest.json"),
        ("put", "catalogue.json"),
        ("put", "singerlake.json"),
    ]


@pytest.mark.parametrize("part", ["manifest.json", "catalogue.json", "raw/singerlake.json"])
@pytest.mark.parametrize("error", [StoreError("full"), NO_ANSWER])
def test_what_is_derived_may_fail_after_a_commit(
    store: BrokenStore, part: str, error: StoreError
) -> None:
    store.before = raising(part, error)
    assert commit(store, 1).number == 1
    assert ids_in(store) == [1]
    store.before = lambda _method, _key: None
    commit(store, 2)
    assert any(item.key.endswith(part) for item in store.list("raw/"))


@pytest.mark.parametrize(
    "junk", [b"", b"junk", b"{}", b'{"format": 1}', b'{"format":1,"streams":5}']
)
def test_what_is_derived_is_healed(store: BrokenStore, junk: bytes) -> None:
    commit(store, 1)
    keys = [TABLE.manifest, names.catalogue("tap-x"), names.LAKE]
    good = {key: store.get(key).data for key in keys[1:]}
    for key in keys:
        store.store.replace(key, junk, None)
    assert ids_in(store) == [1]
    commit(store, 2)
    catalogue = names.catalogue("tap-x")
    assert json.loads(store.get(catalogue).data) == json.loads(good[catalogue])
    # Members that this release does not know stay in the lake's file, and none must be there.
    assert json.loads(store.get(names.LAKE).data)["taps"] == json.loads(good[names.LAKE])["taps"]
    assert json.loads(store.get(TABLE.manifest).data)["transaction"] == 2
    assert ids_in(store) == [1, 2]


def test_a_manifest_that_is_behind_or_gone_is_no_matter(store: BrokenStore) -> None:
    commit(store, 1)
    old = store.get(TABLE.manifest).data
    commit(store, 2)
    store.store.replace(TABLE.manifest, old, None)
    assert ids_in(store) == [1, 2]
    store.store.delete(TABLE.manifest)
    assert ids_in(store) == [1, 2]
    commit(store, 3)
    assert ids_in(store) == [1, 2, 3]


def test_a_later_manifest_is_not_written_over(store: BrokenStore) -> None:
    commit(store, 1)
    early = read_snapshot(store, TABLE)
    assert early is not None
    commit(store, 2)
    checkpoint.write_checkpoint(store, early)
    assert json.loads(store.get(TABLE.manifest).data)["transaction"] == 2


def test_the_manifest_is_not_read_before_it_is_replaced(store: BrokenStore) -> None:
    commit(store, 1)
    found: list[str] = []
    store.before = lambda method, key: found.append(key) if method == "get" else None
    commit(store, 2)  # reads the table, and nothing else of it
    assert found.count(TABLE.manifest) == 1
    assert json.loads(store.get(TABLE.manifest).data)["transaction"] == 2


@pytest.mark.parametrize("damaged", [False, True])
def test_a_manifest_that_changed_meanwhile_is_replaced_if_it_is_older(
    store: BrokenStore, damaged: bool
) -> None:
    commit(store, 1)
    texts = [b"junk" if damaged else store.get(TABLE.manifest).data + b" "]

    def before(method: str, key: str) -> None:
        if (method, key) == ("replace", TABLE.manifest) and texts:
            store.store.replace(key, texts.pop(), None)

    store.before = before
    commit(store, 2)
    assert not texts
    assert json.loads(store.get(TABLE.manifest).data)["transaction"] == 2


def test_a_damaged_log_is_not_written_on(store: BrokenStore) -> None:
    commit(store, 1)
    store.store.delete(TABLE.manifest)
    store.store.replace(TABLE.transaction(1), b"junk", None)
    with pytest.raises(DamagedError):
        commit(store, 2)
    assert len(files(store)) == 1


def test_a_gap_in_the_log_is_not_filled(store: BrokenStore) -> None:
    for n in range(3):
        commit(store, n)
    store.store.delete(TABLE.manifest)
    store.store.delete(TABLE.transaction(1))
    with pytest.raises(DamagedError, match="rebuild"):
        commit(store, 3)


def test_nothing_new_is_no_transaction(store: BrokenStore) -> None:
    writer = TableWriter(store, TABLE)
    assert writer.commit(staged_rows(store)) is not None  # the schema is new
    count = len(store.writes)
    assert writer.commit(staged_rows(store)) is None
    assert len(store.writes) == count
    assert writer.commit(staged_rows(store, schema=OTHER)) is not None
    assert head(store) == 2


def test_a_checkpoint_leaves_the_snapshot_as_it_was(store: BrokenStore) -> None:
    """Its writer goes on with another, by which it need not read the manifest again."""
    before = commit(store, 1)
    old = replace(before, checkpoint=0, checkpoint_etag=None)
    known = checkpoint.write_checkpoint(store, old)
    assert (old.checkpoint, old.checkpoint_etag) == (0, None)
    assert (known.checkpoint, known.number) == (1, 1)
    assert known.checkpoint_etag == store.get(TABLE.manifest).etag
    writer = TableWriter(store, TABLE)
    writer.commit(staged_rows(store, 2))
    read: list[str] = []
    store.before = lambda method, key: read.append(key) if method == "get" else None
    writer.commit(staged_rows(store, 3))
    assert TABLE.manifest not in read


def test_the_checkpoint_is_written_ever_more_rarely(store: BrokenStore) -> None:
    snapshot = TableState(TABLE)
    written = 0
    for number in range(1, 2001):
        last = TransactionSummary(number=number, commit="c", operation="sync", time="t")
        snapshot = replace(snapshot, transactions=[*snapshot.transactions, last])
        if checkpoint.checkpoint_due(snapshot):
            snapshot = checkpoint.write_checkpoint(store, snapshot)
            written += 1
        assert snapshot.number - snapshot.checkpoint <= 21
        if number <= 100:
            assert snapshot.checkpoint == number
    assert written < 500


def test_the_tail_after_a_checkpoint_is_bounded() -> None:
    for ahead, due in ((checkpoint.MAX_TAIL - 1, False), (checkpoint.MAX_TAIL, True)):
        last = TransactionSummary(number=10**6 + ahead, commit="c", operation="sync", time="t")
        snapshot = TableState(TABLE, [last], checkpoint=10**6, checkpoint_due=2 * 10**6)
        assert checkpoint.checkpoint_due(snapshot) is due


class CaselessStore(LocalStore):
    """As on a file system that ignores case."""

    def _path(self, key: str) -> Path:
        return super()._path(key.lower())

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        return super().get_range(key.lower(), offset, length)


@pytest.mark.parametrize("kind", [LocalStore, CaselessStore])
def test_a_table_of_another_stream_is_not_mixed_in(tmp_path: Path, kind: type[LocalStore]) -> None:
    """Whether it is for the file system's ignoring case is said only where that is so."""
    lake = Lake(kind(tmp_path / "lake"))
    commit(lake.store, 1)
    entry = json.loads(lake.store.get(TABLE.transaction(1)).data)
    entry["stream"] = "A"
    lake.store.replace(TABLE.transaction(1), resealed(entry), None)
    lake.store.delete(TABLE.manifest)
    with pytest.raises(DamagedError, match="transaction 1 of the stream 'A'") as caught:
        commit(lake.store, 2)
    assert ("ignores case" in str(caught.value)) is (kind is CaselessStore)


def test_a_table_made_while_its_folder_was_looked_at(store: BrokenStore) -> None:
    """The log was empty, then files without a lock were there: no sign of a log that is lost."""
    inner, listed = store.store, store.list

    def after_the_rival(prefix: str) -> Iterator[Listed]:
        if head(inner) == 0:
            TableWriter(inner, TABLE).commit(staged_rows(inner, 1))
        return listed(prefix)

    store.list = after_the_rival  # type: ignore[method-assign]
    assert commit(store, 2).number == 2
    assert ids_in(store) == [1, 2]


def test_a_lock_that_the_listing_does_not_show_yet_counts(store: BrokenStore) -> None:
    staged_rows(store, 1).publish()
    store.put_if_absent(TABLE.lock(HASH), b"held")
    listed = store.list
    store.list = lambda prefix: (i for i in listed(prefix) if not i.key.endswith(".lock"))  # type: ignore[method-assign]
    assert [*data_files(store, TABLE)] == []
    assert len([*data_files(store, TABLE, include_locked=True)]) == 1
    store.delete(TABLE.lock(HASH))
    assert len([*data_files(store, TABLE)]) == 1


def test_who_wakes_after_its_lock_was_taken_over_does_not_commit(store: BrokenStore) -> None:
    """Held up between its last look at the lock and the log, while another went ahead."""
    commit(store, 1)
    inner = store.store

    def before(method: str, key: str) -> None:
        if method == "put" and key == TABLE.transaction(2):
            inner.delete(TABLE.lock(HASH))
            TableWriter(inner, TABLE).commit(staged_rows(inner, 2))

    store.before = before
    with pytest.raises(ConflictError, match="was lost"):
        commit(store, 3)
    assert ids_in(store) == [1, 2]
    assert len(files(store)) == 2


def test_a_file_of_the_same_times_is_sent_once(store: BrokenStore) -> None:
    tried: list[str] = []
    store.before = lambda method, key: tried.append(key) if method == "publish" else None
    for n in range(12):
        commit(store, n)  # all of one time, each by a writer that knows only what it reads
    assert sorted(tried) == files(store)
    assert len({*tried}) == 12


def test_a_commit_waits_four_times_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "lake")
    writer = TableWriter(store, TABLE)
    writer.commit(staged_rows(store, 1))
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    writer.commit(staged_rows(store, 2))
    # The file, its name, the log entry, its name; neither the lock nor the manifest.
    assert len(synced) == 4


def test_a_commit_opens_few_files_and_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders are opened one from the other, and each open is a call of the system."""
    store = LocalStore(tmp_path / "lake")
    writer = TableWriter(store, TABLE)
    writer.commit(staged_rows(store, 1))
    opened = 0
    open_ = os.open

    def counted(*args: Any, **named: Any) -> int:
        nonlocal opened
        opened += 1
        return open_(*args, **named)

    staged = staged_rows(store, 2)
    monkeypatch.setattr(os, "open", counted)
    writer.commit(staged)
    assert opened <= 67


def test_a_look_that_finds_nothing_new_copies_nothing(store: BrokenStore) -> None:
    snapshot = commit(store, 1)
    assert refresh(store, snapshot) is snapshot
    commit(store, 2)
    assert refresh(store, snapshot).number == 2
    assert snapshot.number == 1


def test_a_number_taken_by_what_cannot_be_read_is_a_plain_refusal(store: BrokenStore) -> None:
    """Its outcome is known: the entry that is there is another's."""
    commit(store, 1)
    before = files(store)
    number = [0]

    def take(method: str, key: str) -> None:
        if method == "put" and LOG in key and not number[0]:
            number[0] = 1
            store.store.put_if_absent(key, b"junk")

    store.before = take
    with pytest.raises(DamagedError, match="cannot be read"):
        commit(store, 2)
    assert files(store) == before


def test_an_earlier_state_is_filed_whole(store: BrokenStore) -> None:
    """What it does not say of itself, it has from the head; but not its last entry's hash."""
    for n in (1, 2, 3):
        commit(store, n)
    head = read_snapshot(store, TABLE)
    assert head is not None
    head.pending_deletes["x"] = 2
    then = head.filed(2)
    assert (then.number, then.pending_deletes, then.schemas) == (2, {"x": 2}, head.schemas)
    assert then.chain == ""
    assert refresh(store, then).blocks == head.blocks
