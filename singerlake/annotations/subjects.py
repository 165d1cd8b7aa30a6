"""What an annotation is about: the lake, a tap, a table, or a column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from singerlake.annotations import columns
from singerlake.errors import NotFoundError, UsageError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.nearest import bare, offer

_QUOTED = re.compile(r"`([^`]+)`(?:\.(.+))?", re.DOTALL)
_VERSION = re.compile(r"@?[0-9]+")


@dataclass(frozen=True)
class Subject:
    """The lake, or something in it.

    Attributes:
        tap: None for the lake itself.
        stream: None for the lake, or the whole tap.
        column: The names that lead to a column; empty for the table itself.
    """

    tap: str | None = None
    stream: str | None = None
    column: columns.Path = ()

    @property
    def kind(self) -> str:
        """``lake``, ``tap``, ``table`` or ``column``."""
        if self.tap is None:
            return "lake"
        if self.stream is None:
            return "tap"
        return "column" if self.column else "table"

    def __str__(self) -> str:
        parts = [part for part in (self.tap, self.stream, *self.column) if part is not None]
        return ".".join(parts) or "the lake"

    def keys(self) -> list[str]:
        """The members of the lake's file that lead to it."""
        keys = []
        if self.tap is not None:
            keys += ["taps", self.tap]
        if self.stream is not None:
            keys += ["tables", self.stream]
        for name in self.column:
            keys += ["columns", name]
        return keys


LAKE = Subject()


def find(lake: Lake, text: str) -> Subject:
    """The subject that a person's ``tap``, ``tap.stream`` or ``tap.stream.column`` means.

    Raises:
        NotFoundError: The lake has none of this name.
        UsageError: It is a version, which says what it says for ever.
    """
    written_tap, dot, rest = text.partition(".")
    tap = _tap(lake, written_tap)
    if not dot:
        return Subject(tap)
    streams = [table.stream for table in lake.tables(tap)]
    candidates = _candidates(rest, streams)
    for stream, column in candidates:
        if not column:
            return Subject(tap, stream)
        schema = columns.schema_of(lake.table(TableName(tap, stream)).snapshot())
        if path := columns.resolve(schema, column):
            return Subject(tap, stream, path)
    if not candidates:
        raise NotFoundError(
            f"the lake at {lake.store.uri} has no table {text}: "
            + offer(text, [str(TableName(tap, stream)) for stream in streams], "it is empty")
        )
    stream, column = candidates[0]
    if _VERSION.fullmatch(column):
        raise UsageError(
            f"{text} is a version, and cannot be annotated: use `singerlake freeze --comment`, or "
            "annotate the table"
        )
    schema = columns.schema_of(lake.table(TableName(tap, stream)).snapshot())
    raise NotFoundError(unknown_column(TableName(tap, stream), column, columns.top_level(schema)))


def unknown_column(table: TableName, column: str, known: Sequence[str]) -> str:
    """What to say of a column that a table does not have."""
    return f"{table} has no column {column[:200]!r}: " + offer(column, known, "its schema has none")


def _tap(lake: Lake, text: str) -> str:
    """The tap that is meant, with underscores in the place of dashes or without."""
    taps = lake.taps()
    like = [text] if text in taps else [tap for tap in taps if bare(tap) == bare(text)]
    if len(like) == 1:
        return like[0]
    known = offer(text, taps, "it is empty")
    raise NotFoundError(f"the lake at {lake.store.uri} has no tap {text!r}: {known}")


def _candidates(rest: str, streams: Sequence[str]) -> list[tuple[str, str]]:
    """Streams that a text may begin with, and what follows, the longest first."""
    candidates = [(s, rest[len(s) + 1 :]) for s in streams if rest == s or rest.startswith(f"{s}.")]
    candidates.sort(key=lambda pair: -len(pair[0]))
    if (quoted := _QUOTED.fullmatch(rest)) and quoted[1] in streams:
        candidates.insert(0, (quoted[1], quoted[2] or ""))
    return candidates


def check_known(lake: Lake, subjects: Sequence[Subject]) -> None:
    """Make sure that the lake has what many annotations are about; each table is read once.

    Raises:
        NotFoundError: It has not; all that is missing is named.
    """
    present = _Present(lake)
    missing = list(dict.fromkeys(filter(None, map(present.lacks, subjects))))
    if missing:
        more = f", and {len(missing) - 10} more" if len(missing) > 10 else ""  # noqa: PLR2004
        raise NotFoundError(
            f"the lake at {lake.store.uri} has {', '.join(missing[:10])}{more}: nothing was changed"
        )


class _Present:
    """What a lake has; each tap is listed and each table read once."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._taps = set(lake.taps())
        self._streams: dict[str, set[str]] = {}
        self._schemas: dict[TableName, dict[str, Any]] = {}

    def lacks(self, subject: Subject) -> str | None:
        """What is not there of a subject; None where it is."""
        if subject.tap is None:
            return None
        if subject.tap not in self._taps:
            return f"no tap {subject.tap}"
        if subject.tap not in self._streams:
            tables = self._lake.tables(subject.tap)
            self._streams[subject.tap] = {table.stream for table in tables}
        if subject.stream is None:
            return None
        table = TableName(subject.tap, subject.stream)
        if subject.stream not in self._streams[subject.tap]:
            return f"no table {table}"
        if subject.column and not _has(self._schema(table), subject.column):
            return f"no column {subject}"
        return None

    def _schema(self, table: TableName) -> dict[str, Any]:
        if table not in self._schemas:
            snapshot = self._lake.table(table).snapshot()
            self._schemas[table] = columns.schema_of(snapshot).schema
        return self._schemas[table]


def _has(schema: dict[str, Any], path: columns.Path) -> bool:
    spec: Any = schema
    for name in path:
        inner = columns.properties(spec, schema)
        if name not in inner:
            return False
        spec = inner[name]
    return True
