"""The text of a query: just enough of SQL's tokens to change names and leave all else as is.

What a query means is Spark's own parser's to say (``sql_plan.py``); this module only finds
where in the text the parts of a name begin and end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--(?:\\\n|[^\n])*)
  | (?P<comment>/\*)
  | (?P<string>[rR](?:'[^']*'|"[^"]*")|'(?:\\.|[^\\'])*'|"(?:\\.|[^\\"])*")
  | (?P<quoted>`(?:``|[^`])*`)
  | (?P<number>(?:\d+(?![A-Za-z_])(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[A-Za-z]{0,2}(?!\w))
  | (?P<word>\w+)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Token:
    """A piece of the text that is neither blank nor comment.

    Attributes:
        kind: ``string``, ``quoted`` (in backticks), ``number``, ``word`` or ``sign``.
        text: As written.
        start: Where it begins in the query.
    """

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where the next one can begin."""
        return self.start + len(self.text)

    @property
    def name(self) -> str | None:
        """What it names, if it can be part of a name."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        return self.text if self.kind == "word" else None


def tokens(sql: str) -> list[Token]:
    """Cut a query into tokens. Every text has tokens; Spark will refuse what is no SQL."""
    found = []
    place = 0
    while match := _TOKEN.match(sql, place):
        kind = str(match.lastgroup)
        if kind == "comment":
            place = _comment_end(sql, match.end())
            continue
        if kind != "space":
            found.append(Token(kind, match.group(), place))
        place = match.end()
    return found


def _comment_end(sql: str, place: int) -> int:
    """Comments nest."""
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(sql, place)):
        depth += 1 if edge.group() == "/*" else -1
        place = edge.end()
    return len(sql) if depth else place


def quote(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def edit(sql: str, changes: list[tuple[int, int, str]]) -> str:
    """Replace stretches of the text that do not overlap: (start, end, new text)."""
    pieces, place = [], 0
    for start, end, text in sorted(changes):
        pieces += [sql[place:start], text]
        place = end
    return "".join([*pieces, sql[place:]])


def quote_versions(sql: str) -> str:
    """Put the version of ``tap.stream.2`` in backticks: SQL takes ``.2`` for a number."""
    found = tokens(sql)
    changes = []
    for before, token in pairwise(found):
        is_version = re.fullmatch(r"\.\d+", token.text) is not None
        if is_version and before.name is not None and before.end == token.start:
            changes.append((token.start, token.end, f".{quote(token.text[1:])}"))
    return edit(sql, changes)


def name_at(found: list[Token], place: int) -> tuple[list[str], int]:
    """The parts of the dotted name that begins with one of the tokens.

    Returns:
        The parts, and the number of tokens they take; none where no name begins there.
    """
    parts: list[str] = []
    used = 0
    while place + used < len(found):
        name = found[place + used].name
        if name is None:
            break
        parts.append(name)
        used += 1
        if place + used + 1 >= len(found) or found[place + used].text != ".":
            return parts, used
        if found[place + used + 1].name is None:
            return parts, used
        used += 1
    return parts, used


def time_travel_end(found: list[Token], place: int) -> int:
    """Tokens that ``[FOR] VERSION|TIMESTAMP AS OF 'text'`` takes from a place on; 0 for none."""
    words = [token.text.upper() for token in found[place : place + 5]]
    lead = 1 if words[:1] == ["FOR"] else 0
    kinds = ("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME")
    if (
        words[lead : lead + 1]
        and words[lead] in kinds
        and words[lead + 1 : lead + 3] == ["AS", "OF"]
    ):
        return lead + 4
    return 0
