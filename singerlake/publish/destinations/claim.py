"""Whose place a destination is: a small file that is there before anything else, and goes last."""

from __future__ import annotations

import json

from singerlake.errors import UsageError
from singerlake.storage.base import KeyExistsError, KeyMissingError, Store

CLAIM = "_projection.json"


def is_ours(store: Store, name: str, kind: str) -> bool:
    """Tell whether a place is claimed for a projection; False where it is empty.

    Args:
        store: The place.
        name: The projection's name.
        kind: In what form it is published.

    Raises:
        UsageError: It holds something else.
    """
    try:
        said = json.loads(store.get(CLAIM).data)
        check_name(store, str(said["projection"]), name)
        if said["kind"] == kind:
            return True
        raise UsageError(
            f"{store.uri} holds {name} as {said['kind']}, not as {kind}: remove it with "
            "`singerlake unpublish --delete`, or publish into another folder"
        )
    except KeyMissingError:
        first = store.first_key()
    except (ValueError, LookupError, TypeError):
        first = CLAIM
    if first is not None:
        raise UsageError(
            f"{store.uri} contains something else ({first}): publish into an empty folder"
        )
    return False


def check_name(store: Store, found: str, name: str) -> None:
    """Make sure that what was found is of this projection.

    Raises:
        UsageError: It is another one's.
    """
    if found != name:
        raise UsageError(
            f"{store.uri} contains the projection {found!r}, not {name!r}: publish into another "
            "folder, or remove the other with `singerlake unpublish`"
        )


def claim(store: Store, name: str, kind: str, about: str) -> None:
    """Claim a place for a projection, if it is not already.

    Args:
        store: The place.
        name: The projection's name.
        kind: In what form it is published: one place holds no two.
        about: What people who open the file are told.

    Raises:
        UsageError: It holds something else.
    """
    if not is_ours(store, name, kind):
        put(store, name, kind, about)


def put(store: Store, name: str, kind: str, about: str) -> None:
    """Put a claim where there is none, whatever else lies there; for the rest see :func:`claim`."""
    said = {"projection": name, "kind": kind, "about": about}
    try:
        store.put_if_absent(CLAIM, json.dumps(said, indent=1).encode())
    except KeyExistsError:
        is_ours(store, name, kind)
