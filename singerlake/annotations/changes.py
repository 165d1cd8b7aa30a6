"""Changes of annotations: to the lake's file as it is spelled, and so that none is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from singerlake.annotations.fields import FIELDS, LISTS, MOST, Value, checked
from singerlake.annotations.subjects import Subject
from singerlake.errors import UsageError
from singerlake.format.annotations import JobRun
from singerlake.lake import Lake
from singerlake.log import lake_file
from singerlake.log.capabilities import open_for_writing


@dataclass(frozen=True)
class Change:
    """The new annotations of one subject; those that it does not mention stay.

    Attributes:
        values: By field; None and an empty list clear it.
        more: Texts beside those that a list has, by field, so that two who add one each both do.
    """

    subject: Subject
    values: Mapping[str, Value] = field(default_factory=dict)
    more: Mapping[str, Sequence[str]] = field(default_factory=dict)


def change_of(
    subject: Subject,
    values: Mapping[str, object],
    more: Mapping[str, Sequence[str]] | None = None,
) -> Change:
    """A change, once it is known that its fields can hold what is said.

    Raises:
        UsageError: A field cannot hold its value, or there is none of this name.
    """
    known = FIELDS[subject.kind]
    added = {name: list(texts) for name, texts in (more or {}).items() if texts}
    wrong = [name for name in (*values, *added) if name not in known]
    if wrong:
        raise UsageError(
            f"{wrong[0]} is not a field of a {subject.kind} ({subject}): there are "
            f"{', '.join(known)}"
        )
    about = str(subject)
    kept = {name: checked(name, value, about) for name, value in values.items()}
    return Change(
        subject, kept, {name: _texts(name, texts, about) for name, texts in added.items()}
    )


def _texts(name: str, texts: list[str], about: str) -> list[str]:
    found = checked(name, texts, about)
    assert isinstance(found, list)  # noqa: S101
    return found


def apply(present: dict[str, Any], changes: Sequence[Change]) -> bool:
    """Change the lake's file as it is spelled, members that nobody knows left as they are.

    Returns:
        Whether anything is otherwise now.

    Raises:
        UsageError: A list would have too many texts.
    """
    before = msgspec.json.encode(present)
    for change in changes:
        path = change.subject.keys()
        node = _reach(present, path)
        for name, value in change.values.items():
            if value:
                node[name] = value
            else:
                _clear(node, name)
        for name, texts in change.more.items():
            node[name] = list(dict.fromkeys([*(node.get(name) or []), *texts]))
            if len(node[name]) > MOST:
                raise UsageError(f"{name} of {change.subject}: at most {MOST} fit")
        _prune(present, path)
    return msgspec.json.encode(present) != before


def _reach(present: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    node = present
    for key in path:
        node = node.setdefault(key, {})
    return node


def _clear(node: dict[str, Any], name: str) -> None:
    """Take a member away; the lake's own stand there empty, for people to see what there is."""
    if name in node and node[name] is not None:
        if "format" in node:
            node[name] = [] if name in LISTS else None
        else:
            del node[name]


def _prune(present: dict[str, Any], path: Sequence[str]) -> None:
    """Take away what is empty on the way to a subject; a tap's entry says that the tap is there."""
    for end in range(len(path), 2, -1):
        parent = _reach(present, path[: end - 1])
        if not parent[path[end - 1]]:
            del parent[path[end - 1]]


def annotate(lake: Lake, changes: Sequence[Change]) -> bool:
    """Make changes in the lake's file, all or none.

    Returns:
        Whether anything is otherwise now; else nothing was written.

    Raises:
        ConflictError: On a store that ignores conditions, the lock was lost or not had in time.
    """
    open_for_writing(lake.store)
    done = False

    def change(present: dict[str, Any]) -> bool:
        nonlocal done
        done = apply(present, changes)
        return done

    lake_file.change(lake.store, change)
    if done:
        lake.file = lake_file.read_if_readable(lake.store)  # who asks this object next sees it
    return done


def record_run(lake: Lake, tap: str, run: JobRun, changes: Sequence[Change] = ()) -> None:
    """Note a tap's last run in the lake's file, and what its settings say, at once."""
    open_for_writing(lake.store)
    members = msgspec.to_builtins(run)

    def change(present: dict[str, Any]) -> bool:
        changed = apply(present, changes)
        entry = present.setdefault("taps", {}).setdefault(tap, {})
        last = entry.get("last_run")
        if last is not None and str(last.get("time", "")) > run.time:
            return changed  # another run ended later
        # Members of an earlier run that a newer release put there were about that run.
        entry["last_run"] = members
        return True

    lake_file.change(lake.store, change)
