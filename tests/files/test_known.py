"""The index of files that a table has already."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from singerlake.errors import StoreError
from singerlake.files.known import KnownFiles

A, B = "3e" + "0" * 62, "3f" + "0" * 62


def path(digest: str) -> str:
    return f"files/{digest[:2]}/{digest}-{0:016}"


def broken_off() -> Iterator[tuple[str, int]]:
    yield path(A), 1
    raise StoreError("the store is away")


def test_a_listing_that_breaks_off_leaves_what_was_known() -> None:
    known = KnownFiles()
    known.add(path(A), 1)
    known.add(path(B), 2)
    for _ in range(2):
        with pytest.raises(StoreError):
            known.keep(broken_off())
    assert known.find(A) and known.find(B)
    known.keep([(path(B), 2)])
    assert known.find(A) is None
    assert known.find(B) == (path(B), 2)
    known.add(path(A), 1)
    assert known.find(A)
    known.close()
