"""The search index: small, and a script, for pages from a disk may not fetch anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from singerlake.site.pages import TablePage

MAX_BYTES = 4_900_000
"""A larger index would be slow to load: descriptions then go first, columns inside others next, all
columns, and at last tables."""
_WORDS = 80
_BEGIN, _END = b"window.singerlakeIndex=", b";\n"


@dataclass(frozen=True)
class _Table:
    """A table as it can be found; its columns by number, with those at the top also alone."""

    tap: int
    stream: str
    columns: list[int]
    top: list[int]
    words: str
    path: str


class Index:
    """Gathers what can be found.

    A column's name is written once for all tables that have it: most share most of them.
    """

    def __init__(self) -> None:
        self._taps: dict[str, int] = {}
        self._columns: dict[str, int] = {}
        self._tables: list[_Table] = []

    def add(self, page: TablePage) -> None:
        """Let a table be found by its name, its columns and what is said of it."""
        summary = page.summary
        tap = self._taps.setdefault(page.tap, len(self._taps))
        names = dict.fromkeys(column.name for column in page.columns)
        numbers = [self._columns.setdefault(name, len(self._columns)) for name in names]
        own = dict.fromkeys(column.name for column in page.columns if column.depth == 0)
        top = [self._columns[name] for name in own] if len(own) < len(names) else numbers
        about = summary.said
        words = " ".join(filter(None, [about.owner, *about.tags, about.description]))
        table = _Table(tap, summary.stream, numbers, top, words[:_WORDS], summary.path)
        self._tables.append(table)

    def script(self) -> bytes:
        """The index as a script that the search loads; never larger than MAX_BYTES."""
        tables = self._tables
        for words, columns in ((True, "all"), (False, "all"), (False, "top"), (False, "none")):
            data = self._encoded(tables, words=words, columns=columns)
            if len(data) <= MAX_BYTES:
                return data
        while tables and len(data) > MAX_BYTES:
            tables = tables[: min(len(tables) - 1, len(tables) * MAX_BYTES // len(data))]
            data = self._encoded(tables, words=False, columns="none")
        return data

    def _encoded(self, tables: Sequence[_Table], *, words: bool, columns: str) -> bytes:
        """The tables with the columns' numbers; a path only where the name does not tell it."""
        rows = []
        taps: dict[int, str] = {}
        used: dict[int, int] = {}
        for table in tables:
            above, _, folder = table.path.partition("/tables/")
            taps.setdefault(table.tap, above)
            shown = {"all": table.columns, "top": table.top, "none": []}[columns]
            numbers = [used.setdefault(number, len(used)) for number in shown]
            plain = folder == f"{table.stream}/index"
            text = table.words if words else ""
            rows.append([table.tap, table.stream, numbers, text, 0 if plain else folder])
        names = list(self._columns)
        index = {
            "taps": [[name, taps.get(number, "")] for name, number in self._taps.items()],
            "columns": [names[number] for number in used],
            "tables": rows,
        }
        return _BEGIN + msgspec.json.encode(index) + _END
