"""The tables that a query names, and its text with views in their stead."""

from __future__ import annotations

from collections.abc import Callable

from singerlake.errors import InvalidQueryError
from singerlake.format import sql_tokens
from singerlake.format.names import TableName
from singerlake.format.sql_tables import find
from singerlake.format.sql_tokens import Token
from singerlake.sql.tables import Relation

Change = tuple[int, int, str]


def with_views(
    text: str, relations: list[Relation], known: list[TableName], view: Callable[[Relation], str]
) -> str:
    """Put views in the place of the tables that a query names, so that Spark finds them.

    Args:
        view: Gives the name of the view that holds what a relation means.

    Raises:
        NotFoundError: The lake has no such table.
        InvalidQueryError: A name could mean several tables, or is not spelled out.
    """
    query = sql_tokens.tokens(text)
    by_start = {token.start: index for index, token in enumerate(query)}
    changes: list[Change] = []
    prefixes: list[tuple[str, ...]] = []
    for relation in relations:
        if len(relation.parts) == 1:
            continue  # the name of a WITH; if not, Spark will not find it
        first = by_start.get(relation.start, -1)
        parts, used = sql_tokens.name_at(query, first) if first >= 0 else ([], 0)
        if tuple(parts) != relation.parts:
            raise InvalidQueryError("a table's name must be spelled out in the query")
        end = first + used
        if relation.version is not None or relation.timestamp is not None:
            end += sql_tokens.time_travel_end(query, end)
        name = sql_tokens.quote(view(relation))
        if not relation.aliased and _may_have_alias(query, first, end):
            own = _without_version(relation.parts, known)
            name += f" AS {sql_tokens.quote(own[-1])}"
            prefixes.append(own)
        changes.append((relation.start, query[end - 1].end, name))
    return sql_tokens.edit(text, changes + _qualifiers(query, changes, prefixes))


def _may_have_alias(query: list[Token], first: int, end: int) -> bool:
    """Tell whether an alias may follow: not in ``TABLE x``, nor before ``x TABLESAMPLE (…)``."""
    before = query[first - 1].text.upper() if first else ""
    after = query[end].text.upper() if end < len(query) else ""
    return before != "TABLE" and after != "TABLESAMPLE"


def _without_version(parts: tuple[str, ...], known: list[TableName]) -> tuple[str, ...]:
    _, version = find(parts, known)
    return parts if version is None else parts[:-1]


def _qualifiers(
    query: list[Token], changes: list[Change], prefixes: list[tuple[str, ...]]
) -> list[Change]:
    """Shorten ``tap.stream.column`` to ``stream.column``: a view's name has one part."""
    shorter: list[Change] = []
    following = 0
    while following < len(query):
        first = following
        parts, used = sql_tokens.name_at(query, first)
        following += max(1, used)
        start = query[first].start
        if not parts or any(begin <= start < end for begin, end, _ in changes):
            continue
        starred = following < len(query) and query[following].text == "."
        for prefix in prefixes:
            size = len(prefix)
            longer = len(parts) > size or (len(parts) == size and starred)
            if longer and [p.casefold() for p in parts[:size]] == [p.casefold() for p in prefix]:
                last = query[first + 2 * size - 2]
                shorter.append((start, last.end, sql_tokens.quote(prefix[-1])))
                break
    return shorter
