"""Reading and inflating blocks ahead of the one that is being written."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from singerlake.format.log import Block
from singerlake.lake import Table

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

    An error comes out where its block would have, after all blocks before it.

    Args:
        table: Whose blocks.
        blocks: Which.

    Raises:
        DamagedError: A block is missing, cut or altered.
    """
    remote = table.store.uri.startswith("s3://")
    most = AHEAD_BLOCKS_REMOTE if remote else AHEAD_BLOCKS
    waiting: deque[tuple[int, Future[bytes]]] = deque()
    ahead = 0
    pool = ThreadPoolExecutor(THREADS_REMOTE if remote else THREADS, "singerlake-inflate")
    try:
        for block in blocks:
            while waiting and (len(waiting) >= most or ahead + block.bytes > AHEAD_BYTES):
                size, future = waiting.popleft()
                ahead -= size
                yield future.result()
                del future  # it holds the text
            waiting.append((block.bytes, pool.submit(table.read_block, block)))
            ahead += block.bytes
        while waiting:
            yield waiting.popleft()[1].result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
