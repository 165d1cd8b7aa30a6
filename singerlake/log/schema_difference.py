"""The plan of a comparison: two states of a table, and how their schemas differ.

Plain data, from the log alone. Both states are read as the second of them reads its rows: with its
columns, their types, and its key. So a row that nobody wrote in between is never a change,
whatever became of the schema; what did is said once, and not of every row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from singerlake.errors import NotFoundError, UsageError
from singerlake.format.json_schema import resolved
from singerlake.format.log import FrozenVersion
from singerlake.format.overlaid import member_of
from singerlake.format.types import Columns, Type, descriptions_of, exact
from singerlake.log import versions
from singerlake.log.table_state import TableState


@dataclass(frozen=True)
class State:
    """One of the two states.

    Attributes:
        snapshot: The table at its transaction.
        version: The version that was named; None where a transaction was, or nothing.
        is_head: Whether nothing was named, so that it is the table's head.
    """

    snapshot: TableState
    version: FrozenVersion | None = None
    is_head: bool = False

    @property
    def number(self) -> int:
        """Its transaction."""
        return self.snapshot.number

    @property
    def columns(self) -> Columns:
        """Its columns."""
        return self.snapshot.columns

    @property
    def key(self) -> Columns:
        """The columns by which its rows are told apart."""
        columns = self.columns
        return tuple(columns[index] for index in self.snapshot.key)

    def __str__(self) -> str:
        at = f"transaction {self.number}"
        if self.version is None:
            return f"the head ({at})" if self.is_head else at
        label = f"{self.version.label}, " if self.version.label else ""
        return f"version {self.version.number} ({label}{at})"


@dataclass(frozen=True)
class SchemaChange:
    """One difference between the schemas of two states.

    Attributes:
        change: ``added``, ``removed``, ``renamed`` or ``retyped``, of a column; ``rules`` where
            its JSON Schema differs and its type does not, or, without a column, what the schema
            says of whole rows; ``description``; ``key``, of the table.
        column: Which; None where it is about the table.
        before: What was there: a type, a JSON Schema, a description, the key's columns; None for
            nothing.
    """

    change: str
    column: str | None
    before: str | None
    after: str | None

    def __str__(self) -> str:
        what = "the key" if self.change == "key" else "the rows"
        if self.column is not None:
            what = f"column {self.column!r}"
        if self.change == "added":
            return f"{what} was added ({self.after})"
        if self.change == "removed":
            return f"{what} was removed ({self.before})"
        if self.change == "renamed":
            return f"column {self.before!r} is called {self.after!r}"
        of = {"description": "the description of ", "rules": "the schema of "}
        nothing = "nothing" if self.change == "description" else "none"
        return (
            f"{of.get(self.change, '')}{what} changed from {self.before or nothing} to "
            f"{self.after or nothing}"
        )


class Matching(Enum):
    """The way in which a row of one state finds itself in the other."""

    KEY = "key"
    """By the key, which is the same in both."""
    LATER_KEY = "key of the second snapshot"
    """By the key of the second state, which the first had not, or of other types."""
    POSITION = "position"
    """By where it lies: the second state has no key."""


@dataclass(frozen=True)
class Comparison:
    """The two states to be compared.

    Attributes:
        before: The first state.
        after: The second, by which both are read.
        matching: How rows find each other.
    """

    before: State
    after: State
    schema: tuple[SchemaChange, ...]
    matching: Matching

    @property
    def same_state(self) -> bool:
        """Whether no row came in between and all are read alike, so that nothing can differ."""
        one, other = self.before.snapshot, self.after.snapshot
        return one.last_block == other.last_block and one.reads_like(other)

    @property
    def _other_key(self) -> bool:
        """Whether the keys differ by more than the rules that they are read by."""

        def reading(state: State) -> tuple[list[tuple[str, Type]], bytes]:
            key, how, _ = state.snapshot.key_reading
            return [(name, exact(type_, is_key=False)) for name, type_ in key], how

        return reading(self.before) != reading(self.after)

    def warn_of_rules(self) -> None:
        """Warn of versions that are read by other rules than those they were frozen under."""
        found = {
            one.version.number: one.version for one in (self.before, self.after) if one.version
        }
        for version in found.values():
            versions.warn_of_rules(version, self.after.snapshot.table)

    def notes(self) -> Iterator[str]:
        """Say what somebody who reads the result must know of how it came about."""
        table = self.after.snapshot.table
        if self.matching is Matching.LATER_KEY and self._other_key:
            key = ", ".join(name for name, _ in self.after.key)
            yield (
                f"the key differs: rows are matched by that of {self.after} ({key}); of rows of "
                f"{self.before} with the same key, the newest counts"
            )
        elif self.matching is Matching.POSITION:
            yield (
                f"{table} has no key at {self.after}: rows are matched by their position, or by an "
                "identical record; a record that was sent again with another value is a row "
                "removed and a row added"
            )


def plan(head: TableState, before: str, after: str | None = None) -> Comparison:
    """Find two states, and compare their schemas.

    Args:
        before: A version's number or label, or ``@17`` for the state at transaction 17.
        after: The same; the head by default.

    Raises:
        NotFoundError: There is no such version or transaction, or its state was given up.
        UsageError: The table's log is lost, or the first state lacks a column of the second's key.
    """
    head.check_log()
    one = _named(head, before)
    other = State(head, is_head=True) if after is None else _named(head, after)
    matching = _matching(one, other)
    return Comparison(one, other, tuple(_schema_changes(one, other)), matching)


def _named(head: TableState, name: str) -> State:
    try:
        version, snapshot = head.named(name)
    except NotFoundError as error:
        if name.isdecimal() and 1 <= int(name) <= head.number:
            raise NotFoundError(f"{error}; transaction {int(name)} is written @{name}") from None
        raise
    return State(snapshot, version)


def _matching(before: State, after: State) -> Matching:
    key = after.key
    if not key:
        return Matching.POSITION
    if before.snapshot.key_reading == after.snapshot.key_reading:
        return Matching.KEY
    # What its records have of the second's columns, whatever these were called then.
    read = after.snapshot.columns_of(before.snapshot.schema_hash)
    known = {name for name, _ in read.columns}
    for name, _ in key:
        if name not in known:
            table = after.snapshot.table
            raise UsageError(
                f"{table} at {before} has no column {name!r}, which is part of the key at {after}, "
                "so no row can be found by it: compare two snapshots that both have it "
                f"(singerlake history {table} shows when the schema changed)"
            )
    return Matching.LATER_KEY


def _by_member(state: State) -> dict[str, tuple[str, Type]]:
    """A state's columns by what the records call them, which no renaming changes."""
    overlay = state.snapshot.overlay
    return {member_of(overlay, name): (name, type_) for name, type_ in state.columns}


def _schema_changes(before: State, after: State) -> Iterator[SchemaChange]:
    old, new = _by_member(before), _by_member(after)
    old_rules, new_rules = _properties(before.snapshot), _properties(after.snapshot)
    for member, (name, type_) in new.items():
        if member not in old:
            yield SchemaChange("added", name, None, str(type_))
    for member, (name, type_) in old.items():
        if member not in new:
            yield SchemaChange("removed", name, str(type_), None)
            continue
        now, new_type = new[member]
        if name != now:
            yield SchemaChange("renamed", now, name, now)
        rules = _rules(old_rules, name), _rules(new_rules, now)
        if str(type_) != str(new_type):
            yield SchemaChange("retyped", now, str(type_), str(new_type))
        elif rules[0] != rules[1]:
            yield SchemaChange("rules", now, *rules)
    yield from _other_changes(
        before, after, {old[one][0]: new[one][0] for one in old if one in new}
    )


def _other_changes(before: State, after: State, names: Mapping[str, str]) -> Iterator[SchemaChange]:
    """Describe changes of the key and of descriptions, by the names of that time."""
    keys = [", ".join(name for name, _ in state.key) or None for state in (before, after)]
    if keys[0] != keys[1]:
        yield SchemaChange("key", None, *keys)
    old, new = (descriptions_of(state.snapshot.schema) for state in (before, after))
    for name, now in names.items():
        if old.get(name) != new.get(now):
            yield SchemaChange("description", now, old.get(name), new.get(now))


def _properties(snapshot: TableState) -> Mapping[str, Any]:
    schema = snapshot.schema.schema
    properties = resolved(schema, schema).get("properties")
    return properties if isinstance(properties, dict) else {}


def _rules(properties: Mapping[str, Any], name: str) -> str:
    """A property's JSON Schema in one spelling, without what it says for people."""
    spec = properties.get(name)
    if isinstance(spec, dict):
        spec = {word: value for word, value in spec.items() if word != "description"}
    return json.dumps(spec, ensure_ascii=False, sort_keys=True)
