"""Reading and inflating blocks ahead of the one that is being written."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from singerlake.format.log import Block
from singerlake.lake import Table
from singerlake.log.blocks import fetch, inflate, member, runs
from singerlake.storage.opening import is_remote

AHEAD_BYTES = 64 * 1024 * 1024
"""Inflated bytes that may wait, so that memory does not follow the size of a table."""

AHEAD_BLOCKS = 2
"""Blocks that may wait. A block is some 10 MB: more of them would only leave the cache."""

AHEAD_BLOCKS_REMOTE = 16
"""On S3, where each block costs a round trip, and small blocks would wait for one another."""

THREADS = 1
"""One inflates faster than a pipe takes it, and the reader behind the pipe needs a core too."""

THREADS_REMOTE = 8


def inflate_ahead(table: Table, blocks: Sequence[Block]) -> Generator[bytes, None, None]:
    """Yield each block's lines, in order, while the next ones are read and inflated.

    Neighbours in a file are read by one request. An error comes out where its block would
    have, after all blocks before it.

    Raises:
        DamagedError: A block is missing, cut or altered.
    """
    remote = is_remote(table.store.uri)
    most = AHEAD_BLOCKS_REMOTE if remote else AHEAD_BLOCKS
    waiting: deque[tuple[int, Future[bytes]]] = deque()
    ahead = 0
    pool = ThreadPoolExecutor(THREADS_REMOTE if remote else THREADS, "singerlake-inflate")
    try:
        for run in runs(blocks):
            data: Future[bytes] | None = None
            for block in run:
                while waiting and (len(waiting) >= most or ahead + block.bytes > AHEAD_BYTES):
                    size, future = waiting.popleft()
                    ahead -= size
                    yield future.result()
                    del future  # it holds the text
                # Before those that wait for it, so that a thread is there to read it.
                data = data or pool.submit(fetch, table.store, table.name, run)
                waiting.append((block.bytes, pool.submit(_inflate, table, run, block, data)))
                ahead += block.bytes
        while waiting:
            yield waiting.popleft()[1].result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _inflate(table: Table, run: list[Block], block: Block, data: Future[bytes]) -> bytes:
    return inflate(table.name, block, member(run, block, data.result()))
