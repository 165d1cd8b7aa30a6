"""Reading ahead: in order, and never far."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.log import blocks as block_reading
from singerlake.log.blocks import runs
from singerlake.storage.local.store import LocalStore
from tap_singerlake import prefetch
from tap_singerlake.prefetch import inflate_ahead

TABLE = TableName("tap-x", "s")


class FakeStore(LocalStore):
    """Answers late for even numbers, and counts what is asked for. Takes itself for far away."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.uri = "s3://bucket/lake"
        self.asked = 0

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        self.asked += 1
        if int(key.rpartition("-")[2].partition(".")[0]) % 2 == 0:
            time.sleep(0.005)
        return super().get_range(key, offset, length)


@pytest.fixture
def store(tmp_path: Path) -> FakeStore:
    return FakeStore(tmp_path)


def text(number: int, size: int) -> bytes:
    return b"%d\n" % number + b"x" * size


def blocks(
    store: FakeStore, count: int, size: int = 10, in_file: int = 1, damaged: int = 0
) -> list[Block]:
    """Blocks of about a size, some to a file, of which one may be damaged."""
    found: list[Block] = []
    for first in range(1, count + 1, in_file):
        path = f"AAAAAAA/s-{first}.singer.gz"
        data = b""
        for number in range(first, min(count + 1, first + in_file)):
            whole = text(number, size)
            member = format_block.encode(whole, 1, number)
            found.append(Block(number, path, len(data), len(member), 1, len(whole)))
            data += member if number != damaged else bytes(len(member))
        store.put_if_absent(TABLE.data(path), data)
    return found


def ahead(store: FakeStore, wanted: list[Block]) -> Generator[bytes, None, None]:
    return inflate_ahead(Table(store, TABLE), wanted)


def numbers(texts: Iterable[bytes]) -> list[int]:
    return [int(text.partition(b"\n")[0]) for text in texts]


@pytest.mark.parametrize("in_file", [1, 3, 40])
def test_order_is_kept_whoever_is_done_first(store: FakeStore, in_file: int) -> None:
    wanted = blocks(store, 40, in_file=in_file)
    assert list(ahead(store, wanted)) == [text(n, 10) for n in range(1, 41)]
    assert store.asked == -(-40 // in_file)


def test_neighbours_come_by_one_request_up_to_a_size(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = blocks(store, 12, in_file=6)
    monkeypatch.setattr(block_reading, "RUN_BYTES", 4 * wanted[-1].length)
    del wanted[1]  # what is not wanted is not read, and so parts its neighbours
    assert numbers(ahead(store, wanted)) == [1, *range(3, 13)]
    assert [[block.number for block in run] for run in runs(wanted)] == [
        [1],
        [3, 4, 5, 6],
        [7, 8, 9, 10],
        [11, 12],
    ]
    assert store.asked == 4


@pytest.mark.parametrize(("size", "most"), [(10, prefetch.AHEAD_BLOCKS_REMOTE), (1 << 20, 2)])
def test_no_more_is_read_ahead_than_is_set(
    store: FakeStore, size: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "AHEAD_BYTES", 2 * len(text(60, 1 << 20)))
    for taken, _ in enumerate(ahead(store, blocks(store, 60, size)), start=1):
        time.sleep(0.002)
        assert store.asked <= taken + most
    assert store.asked == 60


def test_a_block_larger_than_the_window_is_read_nevertheless(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "AHEAD_BYTES", 5)
    assert numbers(ahead(store, blocks(store, 3))) == [1, 2, 3]


@pytest.mark.parametrize("in_file", [1, 10])
def test_an_error_comes_after_all_that_was_before_it(store: FakeStore, in_file: int) -> None:
    got = []
    with pytest.raises(DamagedError, match="block 7 of"):
        for one in ahead(store, blocks(store, 20, in_file=in_file, damaged=7)):
            got.append(one)
    assert numbers(got) == [1, 2, 3, 4, 5, 6]


def test_a_file_that_is_gone_is_named(store: FakeStore) -> None:
    wanted = blocks(store, 6, in_file=3)
    store.delete(TABLE.data(wanted[-1].file))
    got = []
    with pytest.raises(DamagedError, match="block 4 of .* is missing"):
        for one in ahead(store, wanted):
            got.append(one)
    assert numbers(got) == [1, 2, 3]


def test_a_file_that_is_cut_gives_what_is_whole(store: FakeStore) -> None:
    wanted = blocks(store, 6, in_file=6)
    key = TABLE.data(wanted[0].file)
    store.replace(key, store.get(key).data[:-30], None)
    got = []
    with pytest.raises(DamagedError, match="block 6 of .* is cut"):
        for one in ahead(store, wanted):
            got.append(one)
    assert numbers(got) == [1, 2, 3, 4, 5]


def test_giving_up_leaves_no_threads_reading(store: FakeStore) -> None:
    go_on = threading.Event()

    class Stuck(FakeStore):
        def get_range(self, key: str, offset: int, length: int) -> bytes:
            self.asked += 1
            if "s-1." not in key:
                go_on.wait(10)
            return LocalStore.get_range(self, key, offset, length)

    stuck = Stuck(store.root)
    reading = ahead(stuck, blocks(store, 200))
    next(reading)
    reading.close()
    go_on.set()
    deadline = time.monotonic() + 60
    while any("singerlake-inflate" in t.name for t in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert stuck.asked <= 1 + prefetch.THREADS_REMOTE
