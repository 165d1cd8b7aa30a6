"""Tables that were computed from a table, by what their own logs say."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from singerlake.errors import InvalidNameError, SingerlakeError
from singerlake.format import names
from singerlake.format.names import TableName
from singerlake.lake import Lake


def made_from(
    lake: Lake, origins: Collection[TableName], tables: Iterable[TableName]
) -> set[TableName]:
    """Return those of some tables that were ever computed from others, or from such as were.

    One whose log cannot be read counts as such: nobody knows that it was not.

    Args:
        origins: The tables from which they may be; they count, too.
        tables: Those that are asked about.
    """
    sources: dict[TableName, set[TableName] | None] = {}
    return {one for one in tables if _descends(lake, one, origins, sources, set())}


def _descends(
    lake: Lake,
    one: TableName,
    origins: Collection[TableName],
    sources: dict[TableName, set[TableName] | None],
    seen: set[TableName],
) -> bool:
    if one in origins:
        return True
    if one in seen:
        return False
    seen.add(one)
    if one not in sources:
        sources[one] = _sources(lake, one)
    above = sources[one]
    return above is None or any(_descends(lake, other, origins, sources, seen) for other in above)


def _sources(lake: Lake, table: TableName) -> set[TableName] | None:
    """The tables that a log's entries name as what its rows were computed of."""
    named: set[str] = set()
    try:
        for entry in lake.table(table).entries():
            for source in entry.metadata.get("sources") or ():
                if isinstance(source, dict) and isinstance(source.get("table"), str):
                    named.add(source["table"])
    except SingerlakeError:
        return None
    found = set()
    for text in named:
        try:
            found.add(names.parse_ref(text).table)
        except InvalidNameError:
            continue
    return found
