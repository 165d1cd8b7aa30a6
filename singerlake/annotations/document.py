"""Annotations as a document of plain values: as settings and files ask, and as exported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from singerlake.annotations.changes import Change, change_of
from singerlake.annotations.fields import FIELDS
from singerlake.annotations.subjects import LAKE, Subject
from singerlake.errors import UsageError
from singerlake.format.annotations import ColumnEntry, TableEntry, TapEntry
from singerlake.format.metadata import LakeFile
from singerlake.nearest import nearest

_BELOW = {"lake": "taps", "tap": "tables", "table": "columns", "column": "columns"}
"""The member that holds what is inside."""


def changes(document: object, subject: Subject) -> list[Change]:
    """The changes that a document about a subject asks for.

    Raises:
        UsageError: It says what cannot be said.
    """
    return list(_changes(document, subject))


def _changes(document: object, subject: Subject) -> Iterator[Change]:
    if document is None:
        return
    if not isinstance(document, Mapping):
        raise UsageError(f"the annotations of {subject} must be a mapping of fields to values")
    below = _BELOW[subject.kind]
    known = (*FIELDS[subject.kind], below)
    for name in document:
        if name not in known:
            near = nearest(str(name), known)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"{str(name)[:80]!r} is not a field of a {subject.kind}: {hint}")
    values = {name: value for name, value in document.items() if name != below}
    if values:
        yield change_of(subject, values)
    inner = document.get(below) or {}
    if not isinstance(inner, Mapping):
        raise UsageError(f"{below} of {subject} must be a mapping of names to annotations")
    for name, value in inner.items():
        if not isinstance(name, str):
            raise UsageError(f"{name!r} in {below} of {subject} is not text: write it in quotes")
        yield from _changes(value, _inside(subject, name))


def _inside(subject: Subject, name: str) -> Subject:
    if subject.tap is None:
        return Subject(name)
    if subject.stream is None:
        return Subject(subject.tap, name)
    return Subject(subject.tap, subject.stream, (*subject.column, name))


def export(file: LakeFile, subject: Subject = LAKE) -> dict[str, Any]:
    """What was said, as a document that :func:`changes` makes the same annotations of.

    Args:
        file: The lake's file.
        subject: Leave out what is not on the way to it, or inside it.
    """
    document = _exported(file, LAKE, subject)
    return document if document is not None else {}


def _exported(
    entry: LakeFile | TapEntry | TableEntry | ColumnEntry, here: Subject, wanted: Subject
) -> dict[str, Any] | None:
    path, goal = here.keys(), wanted.keys()
    on_the_way = goal[: len(path)] == path
    if not on_the_way and path[: len(goal)] != goal:
        return None
    exported: dict[str, Any] = {}
    if len(path) >= len(goal):
        fields = ((name, getattr(entry, name)) for name in FIELDS[here.kind])
        exported = {name: msgspec.to_builtins(value) for name, value in fields if value}
    below = _BELOW[here.kind]
    inner = {
        name: document
        for name, value in getattr(entry, below).items()
        if (document := _exported(value, _inside(here, name), wanted))
    }
    if inner:
        exported[below] = inner
    return exported or None
