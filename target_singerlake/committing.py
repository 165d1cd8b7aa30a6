"""Tables that a run commits side by side, for each mostly waits for its store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from typing import TypeVar

from singerlake.storage.base import Store
from singerlake.storage.opening import is_remote

Table = TypeVar("Table")
Done = TypeVar("Done")
HERE = 4
"""Tables at once on this machine's disks, which serve several fsyncs in the time of one. More
threads would wait for one another, as Python runs one at a time."""
FAR = 32
"""The same where each step waits for a network."""
LARGE_BYTES = 4 * 1024 * 1024
LARGE = 8
"""Tables at once with this much to send: parts of their files are in memory."""


class SideBySide:
    """Threads for a run's commits. None starts before it must, and all serve every commit."""

    def __init__(self, store: Store) -> None:
        self._pool = ThreadPoolExecutor(FAR if is_remote(store.uri) else HERE, "commit")
        self._large = threading.BoundedSemaphore(LARGE)

    def commit(
        self,
        tables: Sequence[Table],
        one: Callable[[Table], Done],
        size: Callable[[Table], int],
    ) -> list[Future[Done | None]]:
        """Commit tables. After a failure no further one is begun.

        Args:
            one: Commits a table; called on threads.
            size: The bytes that it has to send.

        Returns:
            What became of each; None stands for one that was not begun.
        """
        failed = threading.Event()

        def work(table: Table) -> Done | None:
            with self._large if size(table) > LARGE_BYTES else nullcontext():
                if failed.is_set():
                    return None
                try:
                    return one(table)
                except BaseException:
                    failed.set()
                    raise

        futures = [self._pool.submit(work, table) for table in tables]
        wait(futures)
        return futures

    def close(self) -> None:
        """End the threads once what they are at is done."""
        self._pool.shutdown(wait=True, cancel_futures=True)
