"""What an overlay says in words, and in what two of them differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from singerlake.format.overlay import ColumnOverlay, Constraint, Overlay
from singerlake.format.types import type_of

_NOTHING = ColumnOverlay()


def differences(before: Overlay, after: Overlay) -> list[str]:
    """Say what an overlay says otherwise than the one before it, a few words a change."""
    return [*_added(before, after), *_columns(before, after), *_rules(before, after)]


def constraint_words(one: Constraint) -> str:
    """Say what a constraint asks for."""
    columns = ", ".join(one.columns)
    if one.kind in ("not-null", "unique"):
        return f"{columns} {one.kind.replace('-', ' ')}"
    if one.kind == "enum":
        return f"{columns} one of {', '.join(map(str, one.values))}"
    if one.kind == "pattern":
        return f"{columns} matching {one.pattern}"
    if one.kind == "check":
        return one.sql
    least = "" if one.minimum is None else f"at least {one.minimum:g}"
    most = "" if one.maximum is None else f"at most {one.maximum:g}"
    of = "length of " if one.kind == "length" else ""
    return f"{of}{columns} {' and '.join(filter(None, (least, most)))}"


def _name(overlay: Overlay, member: str) -> str:
    return overlay.columns.get(member, _NOTHING).name or member


def _added(before: Overlay, after: Overlay) -> Iterator[str]:
    for member in before.added.keys() - after.added.keys():
        yield f"dropped {_name(before, member)}"
    for member, added in after.added.items():
        name, old = _name(after, member), before.added.get(member)
        if old is None:
            yield f"added {name} ({type_of(added.schema)})"
        elif old.default != added.default:
            yield f"default of {name}: {_default(added.default)}"
        elif old.schema != added.schema:
            yield f"{name} is {type_of(added.schema)}"


def _columns(before: Overlay, after: Overlay) -> Iterator[str]:
    for member in dict.fromkeys([*before.columns, *after.columns]):
        old, new = (one.columns.get(member, _NOTHING) for one in (before, after))
        if member in before.added.keys() - after.added.keys():
            continue
        name = new.name or member
        if old.dropped != new.dropped:
            yield f"dropped {name}" if new.dropped else f"restored {name}"
        if old.name != new.name:
            yield f"renamed {old.name or member} to {name}"
        if old.type != new.type:
            yield f"{name} is {_type(new)}"
        if old.default != new.default:
            yield f"default of {name}: {_default(new.default)}"
        if old.description != new.description:
            yield f"described {name}"


def _default(value: Any) -> str:
    if value is msgspec.UNSET:
        return "the tap's"
    return msgspec.json.encode(value).decode()


def _type(column: ColumnOverlay) -> str:
    if column.type is None:
        return "the tap's"
    return "text" if column.type == "text" else str(type_of(column.type))


def _rules(before: Overlay, after: Overlay) -> Iterator[str]:
    if before.key != after.key:
        yield "the tap's key" if after.key is None else f"key {', '.join(after.key)}"
    for name, one in after.constraints.items():
        if before.constraints.get(name) != one:
            yield f"constraint {name}: {constraint_words(one)}"
    for name in before.constraints.keys() - after.constraints.keys():
        yield f"no constraint {name}"
