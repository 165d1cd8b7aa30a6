"""Paths of files that rows name, and of the lists of them, within a table's folder.

Each copy has a name of its own: the hash of its bytes, by which it is found again, and digits that
nobody else has had. So a file that is deleted late, by a vacuum that was taken for dead, is never
one that somebody has stored again since.
"""

from __future__ import annotations

import re
import secrets

FOLDER = "files/"
CHECKSUM = re.compile(r"SHA-256:([0-9a-fA-F]{64})")
"""The hash of a file's bytes as records say it."""
_CONTENT = re.compile(r"files/([0-9a-f]{2})/(\1[0-9a-f]{62})-[0-9a-f]{16}")
_LIST = re.compile(r"files/(?:lists|doomed)/[0-9a-f]{32}\.gz")


def new_content(digest: str) -> str:
    """Give a file that rows name a path within the table that nobody has had.

    Args:
        digest: The SHA-256 of its bytes, as 64 hexadecimal digits.
    """
    return f"{content_beginning(digest)}{secrets.token_hex(8)}"


def content_beginning(digest: str) -> str:
    """Return how the paths of all copies of a file that rows name begin."""
    return f"files/{digest[:2]}/{digest}-"


def is_content(path: str) -> bool:
    """Tell whether a path within a table's folder is one of a file that rows name."""
    return _CONTENT.fullmatch(path) is not None


def digest_in(path: str) -> str:
    """Return the SHA-256 that the path of a file that rows name has in it."""
    match = _CONTENT.fullmatch(path)
    return match[2] if match else ""


def new_list(*, doomed: bool = False) -> str:
    """Give a list of files that rows name a path within the table that nobody has had.

    Args:
        doomed: Whether it lists what a vacuum is about to delete.
    """
    return f"files/{'doomed' if doomed else 'lists'}/{secrets.token_hex(16)}.gz"


def is_doomed(path: str) -> bool:
    """Tell whether a list's path is one of what a vacuum is about to delete."""
    return path.startswith("files/doomed/")


def is_list(path: str) -> bool:
    """Tell whether a path within a table's folder is one of a list of files that rows name."""
    return _LIST.fullmatch(path) is not None
