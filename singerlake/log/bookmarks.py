"""Bookmarks as they lie in the lake: one object for each pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from singerlake.errors import DamagedError, InvalidNameError, UsageError
from singerlake.format import metadata, names
from singerlake.format.metadata import Bookmark
from singerlake.storage.base import KeyMissingError, Store


def key_of(state_id: str) -> str:
    """Return the key of a pipeline's bookmark.

    Raises:
        UsageError: The id has no place in a lake.
    """
    try:
        return names.bookmark(state_id)
    except InvalidNameError:
        raise UsageError(
            f"{state_id[:40]!r} cannot be the id of a bookmark: use 1 to {names.MAX_PART} bytes of "
            "text; characters other than letters, digits, dots, dashes and underscores count "
            "as three"
        ) from None


def read(store: Store, state_id: str) -> Bookmark | None:
    """Read a pipeline's bookmark; None where there is none.

    Raises:
        UsageError: The id has no place in a lake.
        DamagedError: It cannot be read.
        NewerFormatError: A newer release wrote it.
    """
    key = key_of(state_id)
    try:
        data = store.get(key).data
    except KeyMissingError:
        return None
    try:
        return metadata.decode(data, Bookmark, key)
    except DamagedError as error:
        raise DamagedError(
            f"{error}: delete it, and the next run sends everything again, with: singerlake "
            f"bookmark delete '{state_id}'"
        ) from None


def ids(store: Store) -> list[str]:
    """List the pipelines that have a bookmark in the lake, sorted."""
    found = (names.bookmark_id(item.key) for item in store.list(names.BOOKMARKS))
    return sorted(one for one in found if one is not None)


def all_of(store: Store) -> Iterator[Bookmark]:
    """Yield the bookmarks in the lake; one that cannot be read is skipped."""
    for state_id in ids(store):
        with suppress(DamagedError):
            found = read(store, state_id)
            if found is not None:
                yield found


class _Spelled(msgspec.Struct):
    """A bookmark's bytes, as they are."""

    data: bytes


def spelled(store: Store) -> dict[str, bytes]:
    """Return the bookmarks in the lake as they are spelled, by their keys."""
    found = {}
    for state_id in ids(store):
        with suppress(KeyMissingError):
            key = key_of(state_id)
            found[key] = store.get(key).data
    return found


def put(store: Store, key: str, data: bytes) -> None:
    """Write a bookmark as it is spelled, over whatever is there, by a conditional write."""
    from singerlake.log.shared_file import merge  # late: with locks, which no reader needs

    def read_present() -> tuple[_Spelled, str | None]:
        try:
            present = store.get(key)
        except KeyMissingError:
            return _Spelled(b""), None
        return _Spelled(present.data), present.etag

    merge(
        store,
        key,
        read_present,
        lambda there: None if there.data == data else _Spelled(data),
        sure=True,
        spell=lambda one: one.data,
    )
