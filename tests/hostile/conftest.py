"""A place outside the lake that nobody may touch."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class Chunks:
    """What two runs must share to be compared byte for byte."""

    NOW = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.timezone.utc)


_EVENTS = frozenset({"open", "os.remove", "os.rename", "os.link", "os.mkdir", "os.symlink"})
_seen: list[str] | None = None


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _seen is not None and event in _EVENTS:
        _seen.extend(os.fsdecode(arg) for arg in args if isinstance(arg, str | bytes | os.PathLike))


sys.addaudithook(_hook)  # for ever, so it looks for one name first


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A file beside the lake; the test fails where anybody so much as opens it."""
    global _seen
    file = tmp_path / "outside" / "secret.singer.gz"
    file.parent.mkdir()
    file.write_bytes(b"secret")
    _seen = []
    try:
        yield file
        beside = os.path.realpath(file.parent) + os.sep
        real = [os.path.realpath(path) for path in _seen if "\0" not in path]
        touched = [path for path in real if path.startswith(beside) or path == "/etc/passwd"]
    finally:
        _seen = None
    assert touched == []
    assert [p.name for p in file.parent.iterdir()] == [file.name]
    assert file.read_bytes() == b"secret"
