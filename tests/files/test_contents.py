"""A table's files by their bytes: found while others look, and stored under a name begun before."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import StoreError
from singerlake.files import contents as contents_module
from singerlake.files.contents import CLOCKS_DIFFER, Contents
from singerlake.files.known import KnownFiles
from singerlake.format import file_paths
from singerlake.lake import Table
from singerlake.storage.unfinished import UnfinishedObject
from tests.files.photos import NAME, clean, forget, sync, table_of


@pytest.mark.parametrize("at_once", [contents_module.LISTED_AT_ONCE, 0], ids=["few", "very many"])
def test_what_is_lost_is_looked_for_before_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(contents_module, "LISTED_AT_ONCE", at_once)
    sync("lake", {n: f"data:,{n}" for n in range(20)})
    table = table_of("lake")
    digests = [hashlib.sha256(b"%d" % n).hexdigest() for n in range(20)]
    for digest in digests[:5]:
        table.store.delete(key_of(table, digest))
    contents = Contents(table.store, NAME, table.snapshot, looked_for=True)
    found = [contents.find(digest) is not None for digest in digests]
    contents.close()
    assert found == [False] * 5 + [True] * 15


LARGE = b"a large file's bytes"
DIGEST = hashlib.sha256(LARGE).hexdigest()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.chdir(tmp_path)
    Path("a.jpg").write_bytes(b"aaa")
    sync("lake", {1: "a.jpg"})
    monkeypatch.setattr(contents_module, "RESUMED_BYTES", len(LARGE))
    return table_of("lake")


def key_of(table: Table, digest: str) -> str:
    listed = table.store.list(f"{NAME.content}{digest[:2]}/")
    [key] = (one.key for one in listed if digest in one.key)
    return key


def contents_of(table: Table) -> Contents:
    return Contents(table.store, NAME, table.snapshot)


def test_what_was_found_before_others_knew_that_it_is_lost_is_not_found(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(b"aaa").hexdigest()
    table.store.delete(key_of(table, digest))
    contents = contents_of(table)
    finds, others = KnownFiles.find, []

    def find(known: KnownFiles, *args: str) -> Any:
        found = finds(known, *args)
        if not others:  # between this thread's look at what rows name and its next step
            others.append(threading.Thread(target=contents.find, args=[digest]))
            others[0].start()
            others[0].join(10)
        return found

    monkeypatch.setattr(KnownFiles, "find", find)
    try:
        assert contents.find(digest) is None
    finally:
        contents.close()


def put(table: Table, monkeypatch: pytest.MonkeyPatch, begun: Sequence[UnfinishedObject]) -> str:
    """Store a large file where a store tells of uploads that broke off; its path."""
    asked: list[str] = []

    def tells(prefix: str) -> Sequence[UnfinishedObject]:
        asked.append(prefix)
        return begun

    monkeypatch.setattr(table.store, "begun", tells)
    contents = contents_of(table)
    try:
        stored = contents.put([LARGE[:5], LARGE[5:]])
    finally:
        contents.close()
    assert asked == [f"{NAME.content}{DIGEST[:2]}/{DIGEST}-"]
    assert table.store.get(NAME.key(stored.path)).data == LARGE
    return stored.path


def name_of(path: str, since: float) -> UnfinishedObject:
    return UnfinishedObject(NAME.key(path), since)


def test_large_content_goes_on_under_the_name_that_was_begun_last(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer = file_paths.new_content(DIGEST), file_paths.new_content(DIGEST)
    others = file_paths.new_content("0" * 64)
    begun = [name_of(newer, 20.0), name_of(older, 10.0), name_of(others, 30.0)]
    begun.append(UnfinishedObject(f"{NAME.folder}{older}-0", 40.0))
    assert put(table, monkeypatch, begun) == newer


def test_what_was_begun_before_a_vacuum_announced_deletions_is_begun_anew(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.jpg").write_bytes(b"other")
    sync("lake", {1: "a.jpg"})
    forget(table)
    clean(table)
    begun = file_paths.new_content(DIGEST)
    sure, unsure = time.time() + CLOCKS_DIFFER + 60, time.time() + CLOCKS_DIFFER / 2
    assert put(table, monkeypatch, [name_of(begun, unsure)]) != begun
    table.store.delete(key_of(table, DIGEST))
    assert put(table, monkeypatch, [name_of(begun, sure)]) == begun


def test_small_content_asks_for_nothing_and_who_may_not_list_begins_anew(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refuses(prefix: str) -> Sequence[UnfinishedObject]:
        asked.append(prefix)
        raise StoreError("access denied")

    monkeypatch.setattr(table.store, "begun", refuses)
    contents = contents_of(table)
    small, large = contents.put([LARGE[:-1]]), contents.put([LARGE])
    contents.close()
    assert len(asked) == 1
    assert [small.size, large.size] == [len(LARGE) - 1, len(LARGE)]
