"""Keys of objects: which are sound, and their names in a bucket."""

from __future__ import annotations

from singerlake.errors import InvalidNameError, UsageError


def prefix_of(path: str) -> str:
    """Read the prefix of a lake in a bucket; what is returned has no slash at its ends.

    Raises:
        UsageError: It cannot be one.
    """
    prefix = path.strip("/")
    if prefix and not is_key(prefix):
        raise UsageError(f"the prefix {prefix!r} has an empty, '.' or '..' part: leave it out")
    return prefix


def is_key(key: str) -> bool:
    """Tell whether a key means the same object for everyone on the way to it."""
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return False
    # HTTP clients fold "." and ".." away before sending, and "//" names no folder.
    return not any(part in ("", ".", "..") or "\0" in part for part in key.split("/"))


def object_name(base: str, key: str) -> str:
    """Build an object's name in its bucket or container.

    Args:
        base: The lake's prefix, with its slash; empty for the whole bucket.
        key: Of the object in the lake.

    Raises:
        InvalidNameError: It is no key.
    """
    if not is_key(key):
        raise InvalidNameError(f"{key!r} is not a key of a lake")
    return f"{base}{key}"
