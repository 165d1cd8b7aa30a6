"""Reading ahead: in order, and never far."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from singerlake.errors import DamagedError
from singerlake.format.log import Block
from tap_singerlake import prefetch
from tap_singerlake.prefetch import inflate_ahead


class FakeStore:
    uri = "s3://bucket/lake"


class FakeTable:
    """Answers late for even numbers, and counts what is asked for."""

    store = FakeStore()

    def __init__(self, damaged: int = 0) -> None:
        self.asked = 0
        self.damaged = damaged

    def read_block(self, block: Block) -> bytes:
        self.asked += 1
        if block.number == self.damaged:
            raise DamagedError(f"block {block.number}")
        if block.number % 2 == 0:
            time.sleep(0.005)
        return b"%d" % block.number


def blocks(count: int, size: int = 10) -> list[Block]:
    return [Block(n, "f", 0, 1, 1, size) for n in range(1, count + 1)]


def ahead(table: Any, wanted: list[Block]) -> Any:
    return inflate_ahead(table, wanted)


def test_order_is_kept_whoever_is_done_first() -> None:
    assert list(ahead(FakeTable(), blocks(40))) == [b"%d" % n for n in range(1, 41)]


@pytest.mark.parametrize(
    ("size", "most"), [(10, prefetch.AHEAD_BLOCKS_REMOTE), (prefetch.AHEAD_BYTES // 2, 2)]
)
def test_no_more_is_read_ahead_than_is_set(size: int, most: int) -> None:
    table = FakeTable()
    for taken, _ in enumerate(ahead(table, blocks(60, size)), start=1):
        time.sleep(0.002)
        assert table.asked <= taken + most
    assert table.asked == 60


def test_a_block_larger_than_the_window_is_read_nevertheless() -> None:
    assert len(list(ahead(FakeTable(), blocks(3, prefetch.AHEAD_BYTES * 2)))) == 3


def test_an_error_comes_after_all_that_was_before_it() -> None:
    got = []
    with pytest.raises(DamagedError, match="block 7"):
        for text in ahead(FakeTable(damaged=7), blocks(20)):
            got.append(text)
    assert got == [b"%d" % n for n in range(1, 7)]


def test_giving_up_leaves_no_threads_reading() -> None:
    go_on = threading.Event()

    class Stuck(FakeTable):
        def read_block(self, block: Block) -> bytes:
            self.asked += 1
            return b"" if block.number == 1 else b"%d" % go_on.wait(10)

    table = Stuck()
    reading = ahead(table, blocks(200))
    next(reading)
    reading.close()
    go_on.set()
    deadline = time.monotonic() + 5
    while any("singerlake-inflate" in t.name for t in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert table.asked <= 1 + prefetch.THREADS_REMOTE
