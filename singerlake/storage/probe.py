"""Finding out whether a store keeps conditions, by asking it to do what it should refuse."""

from __future__ import annotations

import uuid
from contextlib import suppress

from singerlake.errors import StoreError
from singerlake.format.names import STAGING
from singerlake.storage.base import KeyExistsError, Store


def ignored_conditions(store: Store) -> list[str]:
    """Find out which conditions a store ignores.

    The objects that it takes have names that nobody else uses, among the files that nobody
    reads, and are removed again; those of a probe that died are leftovers like any other.

    Args:
        store: Any store that can be written to.

    Returns:
        Some of ``"creation"``, ``"replacement"`` and ``"creation of large files"``; nothing
        where all conditions are kept.

    Raises:
        StoreError: The store refused something for another reason.
    """
    key = f"{STAGING}probe-{uuid.uuid4().hex}"
    ignored = []
    try:
        with suppress(KeyExistsError):  # a repeated request found what the first had made
            store.put_if_absent(key, b"first")
        if not _refuses_creation(store, key):
            ignored.append("creation")
        if not _refuses_replacement(store, key):
            ignored.append("replacement")
        if not _refuses_parts(store, key):
            ignored.append("creation of large files")
    finally:
        with suppress(StoreError):
            store.delete(key)
    return ignored


def _refuses_creation(store: Store, key: str) -> bool:
    try:
        store.put_if_absent(key, b"second")
    except KeyExistsError:
        return True
    return False


def _refuses_replacement(store: Store, key: str) -> bool:
    old = store.get(key).etag
    try:
        store.replace(key, b"third", old)
    except KeyExistsError:
        return False  # it was to be replaced: such a store cannot be relied on either
    try:
        store.replace(key, b"fourth", old)
    except KeyExistsError:
        return True
    return False


def _refuses_parts(store: Store, key: str) -> bool:
    staged = store.stage_in_parts()
    try:
        staged.write(b"fifth")
        staged.publish(key)
    except KeyExistsError:
        return True
    finally:
        staged.discard()
    return False
