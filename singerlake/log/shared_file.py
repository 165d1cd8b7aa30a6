"""Files that several tables' writers share: catalogues, and the lake's own.

A change is merged into what is there: read, change and write back, until nobody came in between.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from singerlake.errors import ConflictError, DamagedError, LockTimeoutError
from singerlake.format import metadata, names
from singerlake.log.locks.lock import SURE_SETTLES, WriterLock, new_writer_id
from singerlake.storage.base import Capabilities, KeyExistsError, KeyMissingError, Store

logger = logging.getLogger(__name__)
T = TypeVar("T", bound=msgspec.Struct | dict[str, Any])
S = TypeVar("S", bound=msgspec.Struct)
Present: TypeAlias = tuple[T, str | None]
"""What a file holds, and its etag; None where there is none."""
ATTEMPTS = 10
"""Times that the lock on what several streams share may be lost before it is given up."""


def merge(
    store: Store,
    key: str,
    read: Callable[[], Present[T]],
    change: Callable[[T], T | None],
    capabilities: Capabilities | None = None,
    *,
    sure: bool = False,
    spell: Callable[[T], bytes] = metadata.encode,
) -> None:
    """Read, change and write back, again and again until nobody came in between.

    Args:
        read: Reads what it holds; a new one stands for a file that is missing or damaged.
        change: Changes what is there; None where nothing is to be changed.
        capabilities: The store's, where it is not open for writing yet.
        sure: Whether the file holds what cannot be made again: on a store that ignores conditions
            no change may then be lost, and that takes more time.
    """
    while True:
        value, etag = read()
        changed = change(value)
        if changed is None:
            return
        known = capabilities or store.capabilities
        if not known.supports_conditional_writes:
            _merge_alone(store, key, read, change, known, sure=sure, spell=spell)
            return
        try:
            if etag is None:
                store.put_if_absent(key, spell(changed))
            else:
                store.replace(key, spell(changed), etag)
            return
        except KeyExistsError:
            continue


def _merge_alone(
    store: Store,
    key: str,
    read: Callable[[], Present[T]],
    change: Callable[[T], T | None],
    capabilities: Capabilities,
    *,
    sure: bool,
    spell: Callable[[T], bytes],
) -> None:
    """The same where the store does not tell whether somebody came in between."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            lock = WriterLock(
                store,
                names.LAKE_LOCK,
                new_writer_id(),
                capabilities=capabilities,
                settles=SURE_SETTLES if sure else 1,
            )
            with lock:
                while (changed := change(read()[0])) is not None:
                    data = spell(changed)
                    lock.check()
                    store.replace(key, data, None)
                    if not sure:
                        break
                    time.sleep(capabilities.settle_seconds)
                    if spell(read()[0]) == data:
                        break
            return
        except LockTimeoutError:
            raise
        except ConflictError:
            if attempt == ATTEMPTS:
                raise


def read_or_new(store: Store, key: str, kind: type[S]) -> tuple[S, str | None]:
    """Read a file and its etag: an empty one where it cannot be read, no etag where it is missing.

    Raises:
        OversizedError: It is far too large for one.
        DamagedError: Something stands there that is no file, and cannot be replaced as one.
    """
    try:
        present = store.get(key)
    except KeyMissingError:
        return kind(), None
    try:
        return metadata.decode(present.data, kind, key), present.etag
    except DamagedError as error:
        logger.warning("%s; making a new one", error)
    return kind(), present.etag
