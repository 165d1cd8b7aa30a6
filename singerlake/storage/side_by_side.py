"""Many things of a store looked at side by side, where each look waits for a network."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from singerlake.errors import SingerlakeError
from singerlake.storage.base import Store
from singerlake.storage.opening import is_remote

Item = TypeVar("Item")
Found = TypeVar("Found")
LOOKS = 32
"""At once; S3's client keeps as many connections."""


@contextmanager
def threads(count: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """Threads for a generator to take, which waits for them at its end, but not if it is given up.

    A generator that nobody goes on with may be collected anywhere, also while Python itself starts
    a thread and holds the lock that the end of one asks for: to wait there would be for ever.

    Args:
        count: How many at most.
    """
    pool = ThreadPoolExecutor(count, name)
    given_up = False
    try:
        yield pool
    except GeneratorExit:
        given_up = True
        raise
    finally:
        pool.shutdown(wait=not given_up, cancel_futures=given_up)


def in_order(store: Store, look: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
    """Look at items, several at a time on a remote store, and yield what is found in their order.

    No more looks are under way than that, nor are their results kept: who takes long over one
    is not far behind what the others saw. An error comes out where its item has its turn.

    Args:
        store: Where the items are. On a disk of this machine one look follows the other.
        look: Called on threads.
    """
    if not is_remote(store.uri):
        yield from map(look, items)
        return
    under_way: deque[Future[Found]] = deque()
    with threads(LOOKS, "look") as pool:
        try:
            for item in items:
                if len(under_way) == LOOKS:
                    yield under_way.popleft().result()
                under_way.append(pool.submit(look, item))
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()


def each(
    store: Store, look: Callable[[Item], Found], items: Iterable[Item]
) -> Iterator[tuple[Item, Found | SingerlakeError]]:
    """Do as :func:`in_order`, and yield each item with what is found.

    An error of ours that a look raises stands in the place of what it finds, so that one broken
    thing does not hide the others.
    """

    def one(item: Item) -> tuple[Item, Found | SingerlakeError]:
        try:
            return item, look(item)
        except SingerlakeError as error:
            return item, error

    return in_order(store, one, items)
