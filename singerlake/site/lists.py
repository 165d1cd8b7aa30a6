"""Lists on pages: what is in them, and where they go on when they are long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from singerlake.format.names import TableName
from singerlake.site import paths, words
from singerlake.site.pages import (
    Column,
    Edge,
    HomePage,
    ShownAnnotations,
    TablePage,
    TableSummary,
    TapPage,
    Version,
)
from singerlake.storage.opening import remote_place

T = TypeVar("T")
PAGE_BYTES = 70_000
"""About what the rows of a list may take before the next page is begun."""
FIRST_BYTES = 120_000
"""About what all that a table's or the home page says may take: lists get what the rest leaves."""
LEAST_BYTES = 5_000
MOST_EDGES = 50
"""Tables that a page names at either end of its lineage; of more it says how many."""
ROW_BYTES = 400
"""The markup of a row."""


def lake_title(uri: str) -> str:
    """A lake's name: the last part of where it lies."""
    parts = [part for part in remote_place(uri).split("/") if part]
    return parts[-1] if parts else "lake"


def short(summary: TableSummary) -> TableSummary:
    """A table as its name and address alone."""
    return TableSummary(name=summary.name, stream=summary.stream, path=summary.path)


def without_tables(tap: TapPage) -> TapPage:
    """A tap without its tables."""
    return msgspec.structs.replace(tap, tables=[])


def without_lists(page: TablePage) -> TablePage:
    """A table without what its versions' pages do not show."""
    return msgspec.structs.replace(
        page,
        columns=[],
        transactions=[],
        changes=[],
        versions=[],
        pointers=[],
        uses=[],
        sources=[],
    )


def with_edges(page: TablePage, uses: list[Edge]) -> TablePage:
    """A table with what was made of it, both ends of its lineage cut to what a page can show."""
    uses = sorted(uses, key=lambda edge: edge.table)
    return msgspec.structs.replace(
        page,
        uses=uses[:MOST_EDGES],
        more_uses=max(0, len(uses) - MOST_EDGES),
        sources=page.sources[:MOST_EDGES],
        more_sources=max(0, len(page.sources) - MOST_EDGES),
    )


def attention(home: HomePage) -> Iterator[tuple[str, str, str]]:
    """List what needs a look: the text, the page, and why."""
    for tap in home.taps:
        if tap.run is not None and tap.run.outcome != "succeeded":
            yield tap.name, tap.path, f"the last run {tap.run.outcome}"
        if tap.said.deprecated:
            yield tap.name, tap.path, "is deprecated"
        all_stale = len(tap.tables) > 1 and tap.stale == len(tap.tables)
        if all_stale:
            yield tap.name, tap.path, f"is stale, with all of its {tap.stale:,} tables"
        for table in tap.tables:
            if table.error:
                yield table.name, table.path, "cannot be read"
            if table.stale and not all_stale:
                yield table.name, table.path, f"is stale: expected every {table.said.freshness}"
            if table.said.deprecated and not tap.said.deprecated:
                yield table.name, table.path, "is deprecated"


def weight(item: object) -> int:
    """About how many bytes an item's texts take on a page: ``&`` is five there."""
    # All at once, as fast as can be: of a large lake a million columns are weighed.
    text = msgspec.json.encode(item).decode().replace('\\"', "&").replace('"', "")
    return len(words.html(text).encode(errors="replace"))


def row_weight(name: str, about: ShownAnnotations) -> int:
    """Estimate the size of a tap or a table in a list, which shows the beginnings of texts."""
    begins = [text[:200] for text in (about.description, about.owner, about.classification) if text]
    return weight([name[:120], *begins, *(tag[:60] for tag in about.tags[:30])])


def paged(
    items: Sequence[T], weight: Callable[[T], int], first: int = PAGE_BYTES
) -> Iterator[list[T]]:
    """Items in parts that fit a page.

    Args:
        weight: The bytes that an item takes, without its row's markup.
        first: What the first page has left for them.
    """
    part: list[T] = []
    total = 0
    most = min(PAGE_BYTES, max(LEAST_BYTES, first))
    for item in items:
        cost = weight(item) + ROW_BYTES
        if part and total + cost > most:
            yield part
            part, total, most = [], 0, PAGE_BYTES
        part.append(item)
        total += cost
    if part:
        yield part


def of_table(
    page: TablePage, name: TableName
) -> tuple[list[list[Column]], list[list[tuple[Version, str]]]]:
    """A table's columns and versions, newest first with their pages' paths, in parts for pages."""
    rows = len(page.transactions) + len(page.sources) + len(page.uses)
    about = [page.changes, page.transactions, page.pointers, page.sources, page.uses]
    own = weight([*about, page.commands, words.cut(page.query or "", 4000)]) + lead_weight(
        page.summary.said
    )
    room = FIRST_BYTES - own - rows * ROW_BYTES
    columns = list(paged(page.columns, weight, room * 2 // 3))
    used = sum(weight(one) + ROW_BYTES for one in columns[0]) if columns else 0
    shown = [(v, paths.version(name, v.number)) for v in reversed(page.versions)]
    return columns, list(paged(shown, weight, room - used))


def of_tap(tap: TapPage) -> list[list[TableSummary]]:
    """A tap's tables in parts for pages."""
    room = FIRST_BYTES - lead_weight(tap.said)
    return list(paged(tap.tables, lambda one: row_weight(one.stream, one.said) + 200, room))


def of_home(home: HomePage, shown: Sequence[tuple[str, str, str]]) -> list[list[TapPage]]:
    """The lake's taps in parts for pages; ``shown`` is what needs attention."""
    own = weight([shown, home.recent]) + lead_weight(home.said)
    room = FIRST_BYTES - own - ROW_BYTES * (len(shown) + len(home.recent))
    return list(paged(home.taps, lambda one: row_weight(one.name, one.said) + 500, room))


def lead_weight(about: ShownAnnotations) -> int:
    """Estimate the size of a page's lead, which the page cuts."""
    texts = [
        about.description,
        about.deprecated,
        about.job_status,
        about.documentation,
        about.job_url,
    ]
    return weight([text[:2000] for text in texts if text])


def numbered(word: str, count: int, path: Callable[..., str], *about: Any) -> list[tuple[str, str]]:
    """Links to all pages of a list that has several."""
    if count < 2:  # noqa: PLR2004
        return []
    links = []
    for number in range(1, count + 1):
        first = number == 1 and path in (paths.columns, paths.versions)
        target = paths.table(*about) if first else path(*about, number)
        links.append((f"{word}, page {number}", target))
    return links
