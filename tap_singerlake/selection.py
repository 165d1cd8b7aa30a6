"""The selection of tables by the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from singerlake.errors import NotFoundError, UsageError
from singerlake.format.lake_log import LakeVersion
from singerlake.format.names import POINTER_NAME, TableName
from singerlake.lake import Lake
from singerlake.log import lake_log
from singerlake.nearest import offer, underscored
from tap_singerlake import settings

_PINNED = re.compile(
    rf"(?P<stream>.+?)(?:\.(?P<number>[0-9]+)|(?P<pointer>@{POINTER_NAME}))", re.DOTALL
)


@dataclass(frozen=True)
class Choice:
    """A table to read.

    Attributes:
        version: Up to which table version, by number or label; None reads all of it.
    """

    table: TableName
    version: str | None


def choose(lake: Lake, config: Mapping[str, Any]) -> list[Choice]:
    """Find the tables to read.

    Raises:
        NotFoundError: The lake, the tap or a named stream is not there.
        UsageError: Two settings say the versions, two taps have a stream of one name, one stream
            is asked for at two versions, or at none in mode ``rows``.
    """
    tap_id = config.get("tap_id") or None
    tables = lake.tables(tap_id)
    if not tables and tap_id is not None:
        like = [tap for tap in lake.taps() if underscored(tap) == underscored(tap_id)]
        tables = lake.tables(like[0]) if len(like) == 1 else []
    if not tables:
        raise NotFoundError(_nothing(lake, tap_id))
    everything = settings.table_version(config)
    entries: Sequence[str] = config.get("streams") or []
    # Not by the pattern *, which may be a stream's name.
    pinned: dict[TableName, str | None] = {} if entries else dict.fromkeys(tables)
    for entry in entries:
        for table, version in _matches(entry, tables).items():
            before = pinned.setdefault(table, version)
            if version is not None and before not in (None, version):
                raise UsageError(
                    f"streams asks for {table.stream!r} at version {before} and at {version}: "
                    "keep one of them"
                )
            pinned[table] = version or before
    _check_names(list(pinned))
    choices = [Choice(table, version or everything) for table, version in sorted(pinned.items())]
    if (name := settings.lake_version(config)) is not None:
        if everything is not None:
            raise UsageError("table_version and lake_version exclude each other: set one")
        cut = lake.lake_version(name)
        if not entries:
            _check_complete(cut, tables, tap_id)
        choices = _at_lake_version(cut, choices, entries)
    if config.get("mode") == settings.ROWS:
        _check_versions(choices)
    return choices


def _check_complete(version: LakeVersion, tables: Sequence[TableName], tap_id: str | None) -> None:
    """Make sure that the lake still has the tables of a lake version, of all taps or of one.

    Raises:
        NotFoundError: One is gone, with all that was known of it.
    """
    taps = {table.tap for table in tables}
    said = [one.name for one in version.tables if tap_id is None or one.tap in taps]
    if gone := [table for table in said if table not in tables]:
        raise NotFoundError(
            f"{version} has {gone[0]}, which is missing from the lake; to read the lake version "
            "without it, name the others in streams"
        )


def _at_lake_version(
    version: LakeVersion, choices: Sequence[Choice], entries: Sequence[str]
) -> list[Choice]:
    """Read tables at their versions in a lake version.

    Those that it does not have are left out, unless somebody names them.

    Raises:
        NotFoundError: It does not have a table that is named, or none of those selected.
    """
    found = []
    for choice in choices:
        named = choice.table.stream in entries
        if choice.version is None and (named or version.table(choice.table) is not None):
            number = lake_log.version_of(version, choice.table)
            found.append(Choice(choice.table, number))
        elif choice.version is not None:
            found.append(choice)
    if not found:
        raise NotFoundError(f"{version} has none of the streams that are selected")
    return found


def _matches(entry: str, tables: Sequence[TableName]) -> dict[TableName, str | None]:
    """Find the tables that one entry of ``streams`` means, with the version it pins.

    As in a table reference, ``orders.2`` is version 2 of ``orders`` where that stream exists,
    and the stream ``orders.2`` where it does not; ``orders@current`` is read alike. A name goes
    before a pattern, so that a stream whose name has a star in it can be named. Last, a name is
    taken as SQL has it, with underscores in the place of dashes, and with its tap in front or
    without.
    """
    readings: list[tuple[str, str | None]] = [(entry, None)]
    if pinned := _PINNED.fullmatch(entry):
        readings.insert(0, (pinned["stream"], pinned["number"] or pinned["pointer"]))
    for text, pin in readings:
        if matched := {table: pin for table in tables if table.stream == text}:
            return matched
    for text, pin in reversed(readings):
        if matched := {table: pin for table in tables if fnmatchcase(table.stream, text)}:
            return matched
    for text, pin in readings:
        like = [table for table in tables if _is_alike(text, table)]
        if len(like) > 1:
            raise UsageError(f"streams: {entry!r} could mean {' or '.join(map(str, like))}")
        if like:
            return {like[0]: pin}
    streams = sorted({table.stream for table in tables})
    hint = offer(entry, streams)
    raise NotFoundError(f"no stream matches {entry!r} of the setting streams: {hint}")


def _is_alike(text: str, table: TableName) -> bool:
    tap, dot, stream = text.partition(".")
    whole = dot and (underscored(tap), underscored(stream))
    return underscored(text) == underscored(table.stream) or whole == (
        underscored(table.tap),
        underscored(table.stream),
    )


def _check_versions(choices: Sequence[Choice]) -> None:
    """Rows are known of versions only: that of the head may change with each sync."""
    without = [choice.table for choice in choices if choice.version is None]
    if without:
        raise UsageError(
            "mode rows needs a version, and none is specified for "
            f"{', '.join(map(str, without[:10]))}: set table_version or lake_version, or name it "
            f"in streams (orders.2); create one with: singerlake freeze {without[0]}"
        )


def _check_names(tables: Sequence[TableName]) -> None:
    """Two tables of one stream name would be one stream downstream, and share a bookmark."""
    owners: dict[str, str] = {}
    for table in tables:
        other = owners.setdefault(table.stream, table.tap)
        if other != table.tap:
            raise UsageError(
                f"the taps {other!r} and {table.tap!r} both have a stream {table.stream!r}: choose "
                "one with the setting tap_id"
            )


def _nothing(lake: Lake, tap_id: str | None) -> str:
    taps = lake.taps()
    if tap_id is None or not taps:
        return f"the lake at {lake.store.uri} has no tables yet: sync into it first"
    return (
        f"the lake at {lake.store.uri} has no tap {tap_id!r}: {offer(tap_id, taps)} (setting "
        "tap_id)"
    )
