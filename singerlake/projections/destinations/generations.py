"""Folders of published files: which are ours, which readers need, which a run may be at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from singerlake.projections.destinations.pointer import Pointer
from singerlake.projections.published import DataFile

SKEW = timedelta(hours=1)
"""By how much the clocks of two machines that publish may differ."""
SILENCE = timedelta(days=1)
"""A run that has written nothing for so long is dead."""
OWN = re.compile(r"(v(?P<version>\d+)-?)?((?P<time>\d{8}T\d{12}Z)-[0-9a-f]{16})?")
"""The folder of a generation, ``v1/``, or the latter with a name of its own behind it."""


def folder_of(files: Sequence[DataFile]) -> str:
    """The generation, or the version, that files lie in; empty without files."""
    return f"{files[0].path.partition('/')[0]}/" if files else ""


def is_needed(name: str, pointer: Pointer | None, since: datetime) -> bool:
    """Whether readers may still read a folder."""
    if pointer is None:
        return False
    former = [one.folder for one in pointer.former if one.replaced > since]
    versions = [one.folder for one in pointer.versions.values()]
    return f"{name}/" in (pointer.folder, *former, *versions)


def may_live(name: str, pointer: Pointer | None, newest: float, now: datetime) -> bool:
    """Whether a folder that no reader needs may be of a run that is at work.

    Args:
        name: The folder's.
        pointer: What the place has.
        newest: When its newest file was written; one with a second name keeps its time.
        now: The present.
    """
    match = OWN.fullmatch(name)
    if match is None:
        return True
    begun = _time_of(match["time"])
    if pointer is not None:
        if f"{name}/" in (one.folder for one in pointer.former):
            return False
        # Whoever began before the last commit, or is at a version that is there, builds on what
        # is there no more.
        if begun is not None and begun + SKEW < pointer.published:
            return False
        if begun is None:
            return int(match["version"]) not in pointer.versions
    return begun is None or max(newest, begun.timestamp()) > (now - SILENCE).timestamp()


def _time_of(text: str | None) -> datetime | None:
    with suppress(ValueError, TypeError):
        return datetime.strptime(f"{text}+0000", "%Y%m%dT%H%M%S%fZ%z")
    return None
