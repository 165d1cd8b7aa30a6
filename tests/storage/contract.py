"""What every store does. Each store's test file subclasses this with a ``store`` fixture."""

from __future__ import annotations

import functools
import os
import pickle
import random
import threading
import time
from collections.abc import Callable

import pytest

from singerlake.errors import InvalidNameError
from singerlake.storage import base
from singerlake.storage.base import (
    KeyExistsError,
    KeyMissingError,
    OversizedError,
    Range,
    Store,
)

MANY = 21 * 2**20 + 7
"""Bytes; more than one part of a multipart upload, and not a whole number of them."""


def in_parallel(count: int, work: Callable[[int], object]) -> list[object]:
    """Run ``work`` in threads that start together; its results, errors included."""
    results: list[object] = [None] * count
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        try:
            results[number] = work(number)
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


class StoreContract:
    # --- whole objects

    @pytest.mark.parametrize("data", [b"", b"one", bytes(range(256)) * 4096])
    def test_what_was_put_is_got(self, store: Store, data: bytes) -> None:
        etag = store.put_if_absent("raw/a/one.json", data)
        assert store.get("raw/a/one.json") == (data, etag)

    @pytest.mark.parametrize(
        "part", ["%2E%2E", "a b", "a+b", "a%20b", "%C3%BC", "x" * 180, "~!$&'()=,;:@"]
    )
    def test_any_name_is_a_key(self, store: Store, part: str) -> None:
        store.put_if_absent(f"raw/{part}/o", part.encode())
        assert store.get(f"raw/{part}/o").data == part.encode()
        assert store.folders("raw/") == [part]
        assert [listed.key for listed in store.list("raw/")] == [f"raw/{part}/o"]

    def test_missing(self, store: Store) -> None:
        store.put_if_absent("raw/a/b", b"")
        for key in ("raw/a/bb", "raw/a/B", "raw/b/b", "other"):
            with pytest.raises(KeyMissingError, match=key):
                store.get(key)
            with pytest.raises(KeyMissingError, match=key):
                store.get_range(key, 0, 1)
            with pytest.raises(KeyMissingError):
                store.get_range(key, 0, 0)

    @pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "a\0b"])
    def test_a_key_that_leaves_its_folder_is_refused(self, store: Store, key: str) -> None:
        staged = store.stage()
        staged.write(b"x")
        for call in (
            lambda: store.get(key),
            lambda: store.get_range(key, 0, 1),
            lambda: store.exists(key),
            lambda: store.put_if_absent(key, b""),
            lambda: store.replace(key, b"", None),
            lambda: store.delete(key),
            lambda: staged.publish(key),
        ):
            with pytest.raises(InvalidNameError):
                call()
        staged.discard()

    def test_exists(self, store: Store) -> None:
        store.put_if_absent("raw/full", b"x")
        store.put_if_absent("raw/empty", b"")
        found = {key: store.exists(f"raw/{key}") for key in ("full", "empty", "ful", "none/x")}
        assert found == {"full": True, "empty": True, "ful": False, "none/x": False}

    # --- conditions

    def test_a_taken_key_is_not_created_again(self, store: Store) -> None:
        etag = store.put_if_absent("raw/one", b"first")
        with pytest.raises(KeyExistsError, match="raw/one"):
            store.put_if_absent("raw/one", b"second")
        with pytest.raises(KeyExistsError):
            store.put_if_absent("raw/one", b"first")
        assert store.get("raw/one") == (b"first", etag)

    def test_replace_by_etag(self, store: Store) -> None:
        first = store.put_if_absent("raw/one", b"first")
        second = store.replace("raw/one", b"second", first)
        assert second != first
        assert store.get("raw/one") == (b"second", second)
        with pytest.raises(KeyExistsError):
            store.replace("raw/one", b"third", first)
        assert store.get("raw/one") == (b"second", second)
        assert store.replace("raw/one", b"third", second) not in (first, second)

    def test_replace_by_etag_of_what_is_gone(self, store: Store) -> None:
        etag = store.put_if_absent("raw/one", b"first")
        store.delete("raw/one")
        with pytest.raises(KeyExistsError):
            store.replace("raw/one", b"second", etag)
        assert not store.exists("raw/one")

    def test_replace_without_condition(self, store: Store) -> None:
        first = store.replace("raw/new/one", b"first", None)
        assert store.get("raw/new/one") == (b"first", first)
        second = store.replace("raw/new/one", b"2", None)
        assert store.get("raw/new/one") == (b"2", second)

    @pytest.mark.parametrize("size", [0, 1, 9, 10])
    def test_what_is_small_is_read_whole(self, store: Store, size: int) -> None:
        etag = store.put_if_absent("raw/one", b"x" * size)
        assert store.get_if_small("raw/one", 10) == (b"x" * size, etag)
        with pytest.raises(KeyMissingError):
            store.get_if_small("raw/two", 10)

    @pytest.mark.parametrize("size", [11, 300_000])
    def test_what_is_larger_is_not(self, store: Store, size: int) -> None:
        store.put_if_absent("raw/one", b"x" * size)
        assert store.get_if_small("raw/one", 10) is None
        assert store.get("raw/one").data == b"x" * size

    def test_what_is_far_too_large_is_refused_before_it_is_read(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.put_if_absent("raw/one", b"x" * 11)
        monkeypatch.setattr(base, "MAX_BYTES", 10)
        with pytest.raises(OversizedError, match="has 11 bytes, more than any such file"):
            store.get("raw/one")
        assert store.get_range("raw/one", 0, 11) == b"x" * 11
        store.replace("raw/one", b"x" * 10, None)
        assert store.get("raw/one").data == b"x" * 10

    def test_what_need_not_be_durable_is_as_whole_and_as_conditional(self, store: Store) -> None:
        first = store.put_if_absent("raw/lock", b"first", durable=False)
        assert store.get("raw/lock") == (b"first", first)
        with pytest.raises(KeyExistsError):
            store.put_if_absent("raw/lock", b"other", durable=False)
        second = store.replace("raw/lock", b"second", first, durable=False)
        with pytest.raises(KeyExistsError):
            store.replace("raw/lock", b"other", first, durable=False)
        assert store.get("raw/lock") == (b"second", second)
        store.replace("raw/lock", b"third", None, durable=False)
        store.delete("raw/lock")
        with pytest.raises(KeyExistsError):
            store.replace("raw/lock", b"other", second, durable=False)

        def create(number: int) -> str:
            return store.put_if_absent("raw/lock", b"%d" % number * 50_000, durable=False)

        results = in_parallel(8, create)
        winners = [n for n, result in enumerate(results) if isinstance(result, str)]
        assert len(winners) == 1, results
        assert store.get("raw/lock") == (b"%d" % winners[0] * 50_000, results[winners[0]])

    def test_one_creator_wins(self, store: Store) -> None:
        for turn in range(5):
            key = f"raw/turn-{turn}"
            create = functools.partial(store.put_if_absent, key)
            results = in_parallel(8, lambda n: create(b"%d" % n))  # noqa: B023
            winners = [n for n, result in enumerate(results) if isinstance(result, str)]
            losers = [result for result in results if isinstance(result, KeyExistsError)]
            assert (len(winners), len(losers)) == (1, 7), results
            assert store.get(key) == (b"%d" % winners[0], results[winners[0]])

    def test_one_replacer_wins(self, store: Store) -> None:
        for turn in range(5):
            key = f"raw/turn-{turn}"
            etag = store.put_if_absent(key, b"start")
            replace = functools.partial(store.replace, key, etag=etag)
            results = in_parallel(8, lambda n: replace(data=b"%d" % n))  # noqa: B023
            winners = [n for n, result in enumerate(results) if isinstance(result, str)]
            losers = [result for result in results if isinstance(result, KeyExistsError)]
            assert (len(winners), len(losers)) == (1, 7), results
            assert store.get(key) == (b"%d" % winners[0], results[winners[0]])

    def test_one_publisher_wins(self, store: Store) -> None:
        def publish(number: int) -> int:
            staged = store.stage()
            try:
                staged.write(b"%d" % number)
                staged.publish("raw/file")
            finally:
                staged.discard()
            return number

        results = in_parallel(8, publish)
        winners = [result for result in results if isinstance(result, int)]
        assert len(winners) == 1, results
        assert sum(isinstance(result, KeyExistsError) for result in results) == 7, results
        assert store.get("raw/file").data == b"%d" % winners[0]

    # --- ranges

    @pytest.mark.parametrize(
        ("offset", "length", "expected"),
        [
            (0, 10, b"0123456789"),
            (0, 1, b"0"),
            (3, 4, b"3456"),
            (9, 1, b"9"),
            (8, 100, b"89"),
            (10, 1, b""),
            (1000, 5, b""),
            (0, 0, b""),
            (4, 0, b""),
            (10, 0, b""),
        ],
    )
    def test_ranges(self, store: Store, offset: int, length: int, expected: bytes) -> None:
        store.put_if_absent("raw/digits", b"0123456789")
        assert store.get_range("raw/digits", offset, length) == expected

    def test_range_of_an_empty_object(self, store: Store) -> None:
        store.put_if_absent("raw/empty", b"")
        assert store.get_range("raw/empty", 0, 5) == b""

    # --- listings

    def test_list(self, store: Store) -> None:
        keys = ["raw/a/1", "raw/a/b/2", "raw/ab/3", "raw/a.b", "raw/a-b/x", "raw/B/4", "index/5"]
        before = time.time()
        for number, key in enumerate(keys):
            store.put_if_absent(key, b"x" * number)
        found = [*store.list("raw/a/")]
        assert [(listed.key, listed.size) for listed in found] == [("raw/a/1", 0), ("raw/a/b/2", 1)]
        assert all(before - 5 <= listed.modified <= time.time() + 5 for listed in found)
        everything = [listed.key for listed in store.list("raw/")]
        assert everything == sorted(key for key in keys if key.startswith("raw/"))
        assert [*store.list("raw/nothing/")] == []
        assert [*store.list("ra/")] == []

    def test_folders(self, store: Store) -> None:
        for key in ("raw/b/1", "raw/a/1", "raw/ab/c/2", "raw/a/d/3", "raw/file", "index/4/5"):
            store.put_if_absent(key, b"")
        assert store.folders("raw/") == ["a", "ab", "b"]
        assert store.folders("raw/a/") == ["d"]
        assert store.folders("raw/b/") == []
        assert store.folders("ra/") == []

    def test_folders_without_objects_are_not_listed(self, store: Store) -> None:
        store.put_if_absent("raw/a/b/c/1", b"")
        store.put_if_absent("raw/a/d", b"")
        store.delete("raw/a/b/c/1")
        assert store.folders("raw/") == ["a"]
        assert store.folders("raw/a/") == []

    def test_a_listing_may_delete_what_it_lists(self, store: Store) -> None:
        for number in range(5):
            store.put_if_absent(f"raw/{number}", b"")
        for listed in store.list("raw/"):
            store.delete(listed.key)
        assert [*store.list("raw/")] == []

    def test_delete(self, store: Store) -> None:
        store.put_if_absent("raw/one", b"x")
        store.put_if_absent("raw/other", b"y")
        store.delete("raw/one")
        assert not store.exists("raw/one")
        store.delete("raw/one")
        store.delete("raw/never/was")
        assert store.get("raw/other").data == b"y"
        store.put_if_absent("raw/one", b"again")

    # --- staged files

    def test_stage_and_publish(self, store: Store) -> None:
        staged = store.stage()
        assert staged.size == 0
        staged.write(b"one ")
        staged.write(b"")
        staged.write(b"two")
        assert staged.size == 7
        assert [*store.list("raw/")] == []
        staged.publish("raw/a/file")
        assert store.get("raw/a/file").data == b"one two"
        staged.discard()
        staged.discard()
        assert store.get("raw/a/file").data == b"one two"

    def test_publish_of_nothing(self, store: Store) -> None:
        staged = store.stage()
        staged.publish("raw/empty")
        staged.discard()
        assert store.get("raw/empty").data == b""

    @pytest.mark.parametrize("size", [3, MANY])
    def test_publish_under_a_taken_key_then_another(self, store: Store, size: int) -> None:
        store.put_if_absent("raw/file", b"mine")
        staged = store.stage()
        staged.write(b"x" * size)
        with pytest.raises(KeyExistsError, match="raw/file"):
            staged.publish("raw/file")
        assert store.get("raw/file").data == b"mine"
        staged.publish("raw/file-2")
        staged.discard()
        assert [(one.key, one.size) for one in store.list("raw/")] == [
            ("raw/file", 4),
            ("raw/file-2", size),
        ]

    def test_discarded_is_nowhere(self, store: Store) -> None:
        staged = store.stage()
        staged.write(b"x")
        staged.discard()
        assert [*store.list("raw/")] == []
        assert store.folders("raw/") == []

    def test_what_is_shared_is_read_elsewhere_until_it_is_discarded(self, store: Store) -> None:
        staged = store.stage()
        staged.write(b"0123456789")
        key = staged.share()
        other = pickle.loads(pickle.dumps(store))
        assert other.get_range(key, 3, 4) == b"3456"
        assert staged.share() == key
        assert [*store.list("raw/")] == []
        staged.discard()
        with pytest.raises(KeyMissingError):
            other.get_range(key, 3, 4)
        assert [one.name for one in store.leftovers()] == []

    def test_two_staged_files_do_not_mix(self, store: Store) -> None:
        one, two = store.stage(), store.stage()
        for _ in range(3):
            one.write(b"1")
            two.write(b"2")
        one.publish("raw/one")
        two.publish("raw/two")
        one.discard()
        two.discard()
        assert (store.get("raw/one").data, store.get("raw/two").data) == (b"111", b"222")

    def test_a_large_file(self, store: Store) -> None:
        data = os.urandom(MANY)
        staged = store.stage()
        for start in range(0, MANY, 2**20):
            staged.write(data[start : start + 2**20])
        assert staged.size == MANY
        staged.publish("raw/large")
        staged.discard()
        assert store.get("raw/large").data == data
        middle = 16 * 2**20 - 5  # across the border of two parts
        assert store.get_range("raw/large", middle, 10) == data[middle : middle + 10]
        assert [one.size for one in store.list("raw/")] == [MANY]

    def test_copies_go_behind_each_other_into_a_staged_file(self, store: Store) -> None:
        large = os.urandom(MANY)
        store.put_if_absent("raw/large", large)
        ranges = [Range("raw/large", 5, MANY - 5), Range("raw/large", 0, 0)]
        expected = b"head" + large[5:]
        for number in range(20):  # more than are read at the same time
            data = b"%d, " % number * number
            store.put_if_absent(f"raw/{number}", data)
            ranges.append(Range(f"raw/{number}", number, number))
            expected += data[number : 2 * number]
        staged = store.stage()
        staged.write(b"head")
        counts = store.copy(ranges, staged)
        assert counts == [one.length for one in ranges]
        staged.write(b"tail")
        with staged.reader() as file:
            assert file.read() == expected + b"tail"
        assert staged.size == len(expected) + 4
        staged.publish("raw/copy")
        staged.discard()
        assert store.get("raw/copy").data == expected + b"tail"

    def test_a_copy_says_where_an_object_ends_early(self, store: Store) -> None:
        store.put_if_absent("raw/digits", b"0123456789")
        staged = store.stage()
        parts = [(8, 5), (0, 1), (10, 1), (99, 1)]
        counts = store.copy([Range("raw/digits", *part) for part in parts], staged)
        assert counts == [2, 1, 0, 0]
        with staged.reader() as file:
            assert file.read() == b"890"
        with pytest.raises(KeyMissingError, match="raw/nothing"):
            store.copy([Range("raw/digits", 0, 1), Range("raw/nothing", 0, 1)], staged)
        staged.discard()

    def test_an_object_gets_a_second_name(self, store: Store) -> None:
        for data in (b"bytes", b"", bytes(range(256)) * 2**16):
            store.replace("raw/a/one", data, None)
            for copying in (store.clone, functools.partial(Store.clone, store)):
                copying("raw/a/one", f"new/x=%2F/{len(data)}", len(data))
                assert store.get(f"new/x=%2F/{len(data)}").data == data
                store.delete("raw/b/two")
                copying("raw/a/one", "raw/b/two", len(data))
                store.delete(f"new/x=%2F/{len(data)}")
            store.replace("raw/a/one", b"others", None)
            assert store.get("raw/b/two").data == data
            with pytest.raises(KeyMissingError, match="raw/nothing"):
                store.clone("raw/nothing", "raw/c", 1)

    def test_whether_anything_is_there(self, store: Store) -> None:
        assert store.first_key() is None
        store.put_if_absent("some/thing", b"")
        assert (store.first_key() or "").startswith("some")
        assert [name for name in store.folders("") if name != ".staging"] == ["some"]
        store.delete("some/thing")
        assert store.first_key() is None

    # --- elsewhere

    def test_pickled(self, store: Store) -> None:
        etag = store.put_if_absent("raw/one", b"x")
        again = pickle.loads(pickle.dumps(store))
        assert again.uri == store.uri
        assert again.get("raw/one") == (b"x", etag)
        again.replace("raw/one", b"y", etag)
        assert store.get("raw/one").data == b"y"

    def test_a_range_is_a_slice(self, store: Store) -> None:
        chance = random.Random(7)
        for _ in range(20):
            data = chance.randbytes(chance.randrange(300))
            offset, length = chance.randrange(400), chance.randrange(400)
            store.replace("raw/slice", data, None)
            found = store.get_range("raw/slice", offset, length)
            assert found == data[offset : offset + length], (len(data), offset, length)
