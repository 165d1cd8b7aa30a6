"""Bookmarks as they lie in the lake: one object for each pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

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


def of_tap(store: Store, tap: str) -> Iterator[str]:
    """Yield the pipelines whose bookmarks go back with the tables of a tap."""
    for state_id in ids(store):
        with suppress(DamagedError):
            found = read(store, state_id)
            if found is not None and found.tap == tap:
                yield state_id
