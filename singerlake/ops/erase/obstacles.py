"""Obstacles of an erasure: found before anything is written, with the way out of each.

An erasure takes rows out of the table's own data. Tables that were computed from it, refused
lines, and words of people in the log are refused by name, where they have them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from singerlake.errors import DataError, StoreError, UsageError
from singerlake.format.log import Entry
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log import bookmarks, lake_log
from singerlake.log.table_state import TableState
from singerlake.ops.erase import derived
from singerlake.ops.erase.dead_letters import DeadLetters
from singerlake.ops.erase.reading import CopySource
from singerlake.ops.erase.scan import Scanner
from singerlake.ops.erase.sought import Key, KeyNames
from singerlake.storage.base import READERS, KeyMissingError, Listed, StoredCopy

_ALIKE = "that names one of these rows, or something spelled the same"


@dataclass(frozen=True)
class Obstacle:
    """Something else than the table's own data that has, or may have, rows that are to go.

    Attributes:
        what: It, in words that name no row.
        do: What to do first.
    """

    what: str
    do: str


def refuse(tables: Sequence[TableName], found: Sequence[Obstacle]) -> None:
    """Refuse an erasure because of obstacles.

    Raises:
        UsageError: There are some; each is named, with what to do first.
    """
    if found:
        lines = (
            f"rows of {', '.join(map(str, tables))} cannot be erased yet; nothing was changed:",
            *(f"  {one.what}: {one.do}" for one in found),
        )
        error = UsageError("\n".join(lines))
        error.lines = lines
        raise error


def of_rows(
    lake: Lake,
    table: Table,
    snapshot: TableState,
    ids: Sequence[str] | None,
    *,
    words: bool,
    others: Sequence[TableName] | None = None,
) -> list[Obstacle]:
    """Look for rows elsewhere than in the table's own data.

    Args:
        snapshot: Its head.
        ids: The rows' ids; None where they are too many to be looked for.
        words: Whether words that people wrote, and a tap's state, are looked through, too.
        others: The tables in which rows are looked for; those :func:`related` by default.
    """
    others = related(lake, table.name) if others is None else others
    found: list[Obstacle] = []
    if ids is None:
        found += [
            Obstacle(
                f"{name} may contain these rows, which are too many to search for", _way_out(name)
            )
            for name in others
        ]
    elif ids and others:
        found += _with_rows(lake, snapshot, ids, others)
    if words and ids:
        letters = DeadLetters(lake, table.name).all
        found += _with_words(table, ids)
        for name in letters:
            found += _with_words(lake.table(name), ids, of=f" of {name}")
        found += _with_words_of_lake(lake, [table.name, *letters], ids)
    return found


def check_reason(reason: str, ids: Sequence[str]) -> None:
    """Make sure that the reason, which stays in the log, does not name a row that is to go.

    Raises:
        UsageError: It does.
    """
    if _names(reason, [_pattern(_parts(one)) for one in ids]):
        raise UsageError(
            "the reason names a row to erase, and the log keeps it forever: leave that out "
            "(nothing was changed)"
        )


def left_in(
    lake: Lake, snapshot: TableState, ids: Sequence[str], others: Sequence[TableName]
) -> list[TableName]:
    """Return those of some tables that have rows of another one.

    Args:
        snapshot: The head of the table that the rows are of; it has a key.
        others: The tables that are looked through.
    """
    return _holding(lake, snapshot, ids, others) if ids and snapshot.key else []


def related(lake: Lake, table: TableName) -> list[TableName]:
    """The tables that may have rows of a table: of refused lines, or computed from it or these."""
    refused = {*DeadLetters(lake, table).all}
    known = {*lake.tables()} - refused - {table}
    return sorted(refused | derived.made_from(lake, {table, *refused}, known))


def _way_out(name: TableName) -> str:
    return (
        f"erase them in the same run (--table '{name} where …'), or drop it and let a vacuum "
        f"delete it (singerlake drop {name}; singerlake vacuum {name} --retain 0s "
        "--no-retention-guard)"
    )


def _with_rows(
    lake: Lake, snapshot: TableState, ids: Sequence[str], others: Sequence[TableName]
) -> list[Obstacle]:
    if not snapshot.key:
        return [
            Obstacle(
                f"{name} may contain these rows, which have no key to search for", _way_out(name)
            )
            for name in others
        ]
    return [
        Obstacle(f"{name} contains these rows, or may contain them", _way_out(name))
        for name in _holding(lake, snapshot, ids, others)
    ]


def _holding(
    lake: Lake, snapshot: TableState, ids: Sequence[str], others: Sequence[TableName]
) -> list[TableName]:
    """The tables in which some object has a row of some keys, or cannot be read."""
    keys = KeyNames.of(snapshot)
    scanner = Scanner([Key(f"row {n}", one, keys) for n, one in enumerate(ids, 1)], only_own=False)
    found: list[TableName] = []
    with ThreadPoolExecutor(READERS, "look") as pool:
        for name in others:
            objects = [*_objects(lake, name)]

            def look(item: Listed) -> bool:
                source = CopySource(lake.store, StoredCopy(item.key, item.size))
                try:
                    return bool(scanner.look(source).counts)
                except KeyMissingError:
                    return False
                except (DataError, StoreError):
                    return True  # nobody knows that it has none

            if any(pool.map(look, objects)):
                found.append(name)
    return found


def _objects(lake: Lake, name: TableName) -> Iterator[Listed]:
    """List the objects of a table that may have rows."""
    for item in lake.store.list(name.folder):
        if not item.key.startswith(name.log) and item.key not in (name.manifest, name.head_file):
            yield item
    yield from lake.store.list(name.indexes)


def _with_words(table: Table, ids: Sequence[str], of: str = "") -> list[Obstacle]:
    """The log entries with words that name one of the rows.

    Args:
        of: What is said of whose entries they are.
    """
    patterns = [_pattern(_parts(one)) for one in ids]
    scalars = {part for one in ids for part in _parts(one)}
    entries = [
        entry.number
        for entry in table.entries()
        if any(_names(text, patterns) for text in _words(entry)) or _state_names(entry, scalars)
    ]
    if not entries:
        return []
    listed = ", ".join(map(str, entries[:10])) + ("…" if len(entries) > 10 else "")  # noqa: PLR2004
    return [
        Obstacle(
            f"text in log entries{of} {_ALIKE}: {listed}",
            "check them with singerlake history; log entries are not changed, so either drop the "
            "table, or erase anyway with --allow-text-mentions",
        )
    ]


def _with_words_of_lake(
    lake: Lake, tables: Sequence[TableName], ids: Sequence[str]
) -> list[Obstacle]:
    """Lake versions of some tables, and what the lake's file says of these, with such words.

    Args:
        tables: The table whose rows go, and its dead-letter tables.
    """
    patterns = [_pattern(_parts(one)) for one in ids]
    versions = [
        str(one.number)
        for one in lake_log.look(lake.store)[0]
        if any(member.name in tables for member in one.tables)
        and any(_names(text, patterns) for text in (one.label, one.comment) if text)
    ]
    found: list[Obstacle] = []
    if versions:
        found.append(
            Obstacle(
                f"text in lake versions {_ALIKE}: {', '.join(versions)}",
                "check them with singerlake versions; they are not changed, so erase anyway with "
                "--allow-text-mentions",
            )
        )
    if kept := _bookmarks_with(lake, tables[0], {part for one in ids for part in _parts(one)}):
        found.append(
            Obstacle(
                f"text in bookmarks {_ALIKE}: {', '.join(kept)}",
                "run these pipelines first, delete the bookmarks with singerlake bookmark delete, "
                "or erase anyway with --allow-text-mentions",
            )
        )
    annotations = lake.annotations(strict=True)
    return found + [
        Obstacle(
            f"text in annotations of {table} {_ALIKE}",
            "change them with singerlake annotate, or erase anyway with --allow-text-mentions",
        )
        for table in tables
        if any(_names(text, patterns) for text in _texts(to_builtins(annotations.table(table))))
    ]


def _parts(text: str) -> list[str]:
    """The values of a key, out of a row's id."""
    try:
        parts = json.loads(text)
    except ValueError:
        return [text]
    return [str(part) for part in parts] if isinstance(parts, list) else [text]


def _pattern(parts: Sequence[str]) -> list[re.Pattern[str]]:
    return [re.compile(rf"(?<!\w){re.escape(part)}(?!\w)") for part in parts if part.strip()]


def _names(text: str, patterns: Sequence[Sequence[re.Pattern[str]]]) -> bool:
    return any(own and all(one.search(text) for one in own) for own in patterns)


def _words(entry: Entry) -> Iterator[str]:
    """Return the texts that people and runs wrote into an entry, except a tap's state."""
    own = {name: value for name, value in entry.metadata.items() if name != "tap_state"}
    yield from _texts(own)
    if entry.overlay is not None:  # names, descriptions, defaults, constraints
        yield from _texts(to_builtins(entry.overlay))
    if entry.version is not None:
        words = (entry.version.label, entry.version.comment, *entry.version.requirements)
        yield from filter(None, words)
    for said in (entry.deletion, entry.erasure):
        if said is not None:
            yield said.reason


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield str(name)
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _bookmarks_with(lake: Lake, table: TableName, parts: set[str]) -> list[str]:
    """Return the pipelines whose bookmarks in the lake have a value of a key."""
    return [
        one.id
        for one in bookmarks.all_of(lake.store)
        if one.tap in ("", table.tap)
        and any(_has_scalar(bytes(text).decode(), parts) for text in (one.completed, one.partial))
    ]


def _state_names(entry: Entry, parts: set[str]) -> bool:
    """Tell whether a tap's state has a value of a key: a bookmark may be one."""
    text = entry.metadata.get("tap_state")
    return isinstance(text, str) and _has_scalar(text, parts)


def _has_scalar(text: str, parts: set[str]) -> bool:
    try:
        state = json.loads(text)
    except ValueError:
        return any(part in text for part in parts)
    return any(str(one) in parts for one in _scalars(state))


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _scalars(one)
    elif isinstance(value, list):
        for one in value:
            yield from _scalars(one)
    else:
        yield value
