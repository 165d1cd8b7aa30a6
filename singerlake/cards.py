"""Small tables in HTML by which notebooks show objects; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice

MOST = 100
"""Lines of a table that are shown; the others are counted."""
_CELL = ' style="text-align:left"'


def card(
    title: str,
    facts: Mapping[str, object],
    head: Sequence[str] = (),
    lines: Iterable[Sequence[object]] = (),
) -> str:
    """Return an object as HTML: a title, what is known of it, and a table.

    Args:
        title: What it is.
        facts: Values by their names; those that are None or empty are left out.
        head: The names of the table's columns.
    """
    known = "".join(
        f"<tr><th{_CELL}>{_text(name)}</th><td{_CELL}>{_text(value)}</td></tr>"
        for name, value in facts.items()
        if value not in (None, "")
    )
    parts = [f"<div><strong>{_text(title)}</strong>"]
    if known:
        parts.append(f"<table><tbody>{known}</tbody></table>")
    if head:
        parts.append(_table(head, lines))
    return "".join([*parts, "</div>"])


def _table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    names = "".join(f"<th{_CELL}>{_text(name)}</th>" for name in head)
    rest = iter(lines)
    shown = "".join(
        "<tr>" + "".join(f"<td{_CELL}>{_text(cell)}</td>" for cell in line) + "</tr>"
        for line in islice(rest, MOST)
    )
    more = sum(1 for _ in rest)
    foot = f"<p>and {more:,} more</p>" if more else ""
    return f"<table><thead><tr>{names}</tr></thead><tbody>{shown}</tbody></table>{foot}"


def _text(value: object) -> str:
    if value is None:
        return ""
    return escape(f"{value:,}" if isinstance(value, int) else str(value))
