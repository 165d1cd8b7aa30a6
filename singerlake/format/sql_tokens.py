"""The text of a query: just enough of SQL's tokens to change names and leave all else as is.

What a query means is for Spark's own parser to decide (``sql/plan.py``); this module only
finds where in the text the parts of a name begin and end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--(?:\\\n|[^\r\n])*)
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
        """The place where the next one can begin."""
        return self.start + len(self.text)

    @property
    def name(self) -> str | None:
        """The object that it names, if it can be part of a name."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        return self.text if self.kind == "word" else None


def tokens(sql: str) -> list[Token]:
    """Cut a query into tokens. Every text has tokens; Spark will refuse what is no SQL."""
    result = []
    start = 0
    while match := _TOKEN.match(sql, start):
        kind = str(match.lastgroup)
        if kind == "comment":
            start = _comment_end(sql, match.end())
            continue
        if kind != "space":
            result.append(Token(kind, match.group(), start))
        start = match.end()
    return result


def _comment_end(sql: str, start: int) -> int:
    """Comments nest."""
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(sql, start)):
        depth += 1 if edge.group() == "/*" else -1
        start = edge.end()
    return len(sql) if depth else start


@dataclass(frozen=True)
class Statement:
    """One of several statements in a text.

    Attributes:
        text: Without the semicolon, and what is blank or comment around it.
        line: Of the text, where it begins; the first is 1.
    """

    text: str
    line: int


def statements(sql: str) -> list[Statement]:
    """Take a text apart at semicolons, but not at those in quotes and comments.

    Returns:
        None for what is blank or comment alone.
    """
    parts: list[list[Token]] = [[]]
    for token in tokens(sql):
        if token.text == ";":
            parts.append([])
        else:
            parts[-1].append(token)
    return [
        Statement(sql[part[0].start : part[-1].end], 1 + sql.count("\n", 0, part[0].start))
        for part in parts
        if part
    ]


def quote(name: str) -> str:
    """Put a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def absolutely_below(name: str, bound: int) -> str:
    """Return the condition that a column's numbers are nearer to 0 than a bound."""
    return f"abs({quote(name)}) < {bound}"


def renamed(sql: str, names: Mapping[str, str]) -> str:
    """Call columns of a constraint's condition otherwise, of which each is in backticks.

    Args:
        names: What columns shall be called, by what they are called.
    """
    found = tokens(sql)
    own = (
        token
        for before, token in zip([None, *found], found, strict=False)
        if token.kind == "quoted" and token.name in names and (before is None or before.text != ".")
    )
    return edit(sql, [(one.start, one.end, quote(names[one.name or ""])) for one in own])


def may_be_variable(sql: str, name: str) -> bool:
    """Tell whether a name may be that of a variable of a lambda in a condition.

    A column of that name within the lambda would be taken for it, in backticks or not.

    Args:
        sql: The condition, in which no variable is in backticks.
    """
    found = tokens(sql)
    arrows = (a.text == "-" and b.text == ">" and a.end == b.start for a, b in pairwise(found))
    return any(arrows) and any(
        token.kind == "word" and token.text.casefold() == name.casefold() for token in found
    )


def edit(sql: str, changes: list[tuple[int, int, str]]) -> str:
    """Replace stretches of the text that do not overlap: (start, end, new text)."""
    pieces, copied = [], 0
    for start, end, text in sorted(changes):
        pieces += [sql[copied:start], text]
        copied = end
    return "".join([*pieces, sql[copied:]])


def quote_versions(sql: str) -> str:
    """Put the version of ``tap.stream.2`` in backticks: SQL takes ``.2`` for a number."""
    changes = []
    for before, token in pairwise(tokens(sql)):
        is_version = re.fullmatch(r"\.\d+", token.text) is not None
        if is_version and before.name is not None and before.end == token.start:
            changes.append((token.start, token.end, f".{quote(token.text[1:])}"))
    return edit(sql, changes)


def name_at(query: list[Token], first: int) -> tuple[list[str], int]:
    """Read the dotted name that begins with one of the tokens.

    Returns:
        The parts, and the number of tokens they take; none where no name begins there.
    """
    parts: list[str] = []
    used = 0
    while first + used < len(query):
        name = query[first + used].name
        if name is None:
            break
        parts.append(name)
        used += 1
        if first + used + 1 >= len(query) or query[first + used].text != ".":
            return parts, used
        if query[first + used + 1].name is None:
            return parts, used
        used += 1
    return parts, used


def time_travel_end(query: list[Token], first: int) -> int:
    """Count the tokens of ``[FOR] VERSION|TIMESTAMP AS OF 'text'`` from one of them on."""
    words = [token.text.upper() for token in query[first : first + 5]]
    lead = 1 if words[:1] == ["FOR"] else 0
    kinds = ("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME")
    if (
        words[lead : lead + 1]
        and words[lead] in kinds
        and words[lead + 1 : lead + 3] == ["AS", "OF"]
    ):
        return lead + 4
    return 0
