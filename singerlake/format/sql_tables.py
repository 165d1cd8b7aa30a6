"""The tables that a query reads, found in its text: for plans that are made before Spark starts.

What a query means is for Spark's own parser to decide, and it does so again before a row is read.
Here the words suffice behind which a table may stand: FROM, JOIN, TABLE, and a comma in a list
of tables. ``tests/sql/test_sql_tables.py`` holds both to each other. Where rows of VALUES have no
name, a column behind them, ``values 1, a.b``, is taken for a table: that there is none is an error,
so nothing that is read is missed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import pairwise

from singerlake.errors import InvalidQueryError, NotFoundError
from singerlake.format import names
from singerlake.format.names import TableName
from singerlake.format.sql_tokens import (
    Token,
    name_at,
    quote,
    quote_versions,
    time_travel_end,
    tokens,
)
from singerlake.nearest import offer

_BARE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NUMBER = re.compile(r"[0-9]+")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ENDS_TABLES = frozenset(
    """
    WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET WINDOW UNION EXCEPT MINUS
    INTERSECT SELECT
    """.split()  # noqa: SIM905  # fourteen words
)
_BEFORE_TABLE = frozenset(["", "(", ")", "UNION", "ALL", "EXCEPT", "MINUS", "INTERSECT"])
_NO_TABLE = frozenset(["SELECT", "WITH", "FROM", "VALUES", "LATERAL", "AS"])


@dataclass(frozen=True)
class Reference:
    """A table as a query names it.

    Attributes:
        parts: Its name's parts; a version may be the last.
        version: What stands behind VERSION AS OF.
        timestamp: What stands behind TIMESTAMP AS OF.
    """

    parts: tuple[str, ...]
    version: str | None = None
    timestamp: str | None = None

    def __str__(self) -> str:
        spelled = [part if _BARE.fullmatch(part) else quote(part) for part in self.parts]
        if len(spelled) > 2 and _NUMBER.fullmatch(self.parts[-1]):  # noqa: PLR2004
            spelled[-1] = self.parts[-1]
        name = ".".join(spelled)
        for kind, value in (("VERSION", self.version), ("TIMESTAMP", self.timestamp)):
            if value is not None:
                return f"{name} {kind} AS OF {_literal(value)}"
        return name


def table_references(sql: str) -> list[Reference]:
    """Find the tables that a query reads, each once, in order of appearance.

    Names of one part are left out that the query itself gives to something, with WITH.
    """
    found = tokens(quote_versions(sql))
    scan = _Scan(found)
    scan.run()
    own = _own_names(found)
    return [
        one
        for one in dict.fromkeys(scan.references)
        if len(one.parts) > 1 or one.parts[0].casefold() not in own
    ]


def reference(text: str) -> Reference:
    """Read one table as SQL names it; undoes ``str`` of a :class:`Reference`.

    Raises:
        InvalidQueryError: It is something else.
    """
    found = tokens(quote_versions(text))
    one, used = _reference_at(found, 0)
    if not used or used < len(found):
        raise InvalidQueryError(f"{text!r} is not a table: write it as tap.stream")
    return one


def find(parts: tuple[str, ...], known: Collection[TableName]) -> tuple[TableName, str | None]:
    """Find the table, and the version if any, that a name in SQL means.

    A part matches as it is, or with each character that SQL cannot have in a bare name
    written as an underscore, in any case.

    Raises:
        NotFoundError: The lake has no such table.
        InvalidQueryError: It could mean several.
    """
    if len(parts) > 1:
        tap, rest = parts[0], list(parts[1:])
        shorter = _match(tap, ".".join(rest[:-1]), known) if len(rest) > 1 else None
        whole = _match(tap, ".".join(rest), known)
        if shorter and (rest[-1].isdecimal() or rest[-1].startswith("@") or not whole):
            return shorter, rest[-1]
        if whole:
            return whole, None
    written = ".".join(parts)
    tap, dot, stream = written.partition(".")
    if len(parts) == 1 and dot and (meant := _match(tap, stream, known)):  # all in two backticks
        spelled = Reference((meant.tap, meant.stream))
        raise NotFoundError(f"the lake has no table {quote(written)}: write it as {spelled}")
    raise NotFoundError(
        f"the lake has no table {written}: {offer(written, map(str, known), 'it is empty')}"
        + ("; write a table as tap.stream" if len(parts) == 1 else "")
    )


def _match(tap: str, stream: str, known: Collection[TableName]) -> TableName | None:
    near = names.alike(TableName(tap, stream), known)
    if len(near) > 1:
        raise InvalidQueryError(
            f"{tap}.{stream} could mean {' or '.join(map(str, near))}: write it in backticks"
        )
    return near[0] if near else None


@dataclass
class _Level:
    """The state of the parser between two brackets.

    Attributes:
        query: Whether it is one, or a list of tables; else FROM means something else.
        tables: Whether a comma separates tables.
        expecting: Whether a table may stand here.
    """

    query: bool = False
    tables: bool = False
    expecting: bool = False


@dataclass
class _Scan:
    """One pass over a query's tokens."""

    found: list[Token]
    references: list[Reference] = field(default_factory=list)
    levels: list[_Level] = field(default_factory=lambda: [_Level(query=True)])
    at: int = 0

    def run(self) -> None:
        """Take one token after the other."""
        while self.at < len(self.found):
            token = self.found[self.at]
            if token.text == "(" and token.kind == "sign":
                self._open()
            elif token.text == ")" and token.kind == "sign":
                if len(self.levels) > 1:
                    self.levels.pop()
            elif self.levels[-1].expecting and self._take_table():
                pass
            elif token.kind == "sign":
                self._sign(token)
            else:
                self._keyword(token)
            self.at += 1

    def _word(self, offset: int) -> str:
        """A token's text in capitals, where it may be a keyword; empty outside of the text."""
        index = self.at + offset
        if not 0 <= index < len(self.found) or self.found[index].kind == "quoted":
            return "" if not 0 <= index < len(self.found) else "`"
        return self.found[index].text.upper()

    def _open(self) -> None:
        outer, first = self.levels[-1], self._word(1)
        relation, outer.expecting = outer.expecting, False
        trims = self._word(-1) == "TRIM"
        query = relation or first in ("SELECT", "WITH", "TABLE") or (first == "FROM" and not trims)
        self.levels.append(_Level(query, tables=relation, expecting=relation))

    def _take_table(self) -> bool:
        """Take the table that may stand here; False where a keyword stands here instead."""
        level = self.levels[-1]
        one, used = _reference_at(self.found, self.at)
        bare = self.found[self.at].kind == "word" and used == 1
        if bare and self._word(0) == "LATERAL":
            return True
        level.expecting = False
        if not used or (bare and self._word(0) in _NO_TABLE):
            return False
        if self._word(used) != "(":  # else it is a function that makes a table
            self.references.append(one)
        self.at += used - 1
        return True

    def _sign(self, token: Token) -> None:
        level = self.levels[-1]
        if token.text == "," and level.tables:
            level.expecting = True
        elif token.text == "|" and self._word(1) == ">":
            level.query, level.tables = True, False

    def _keyword(self, token: Token) -> None:
        level = self.levels[-1]
        before, after = self._word(-1), self._word(1)
        if token.kind != "word" or "." in (before, after):
            return
        word = token.text.upper()
        if word in ("SELECT", "WITH"):
            level.query = True
        if not level.query:
            return
        if word in _ENDS_TABLES or (word == "LATERAL" and after == "VIEW"):
            level.tables = False
        elif word == "FROM":
            compares = before == "DISTINCT" and self._word(-2) in ("IS", "NOT")
            level.tables = level.tables or not compares
            level.expecting = not compares
        elif word == "JOIN" or (word == "TABLE" and before in _BEFORE_TABLE):
            level.expecting = True


def _reference_at(found: list[Token], first: int) -> tuple[Reference, int]:
    """Read the table that begins with one of the tokens, and count those that it takes."""
    parts, used = name_at(found, first)
    travel = time_travel_end(found, first + used) if used else 0
    end = first + used + travel
    if not travel or end > len(found):
        return Reference(tuple(parts)), used
    value = _unquoted(found[end - 1])
    # AS OF and the value come last; what is before them says of what.
    if "VERSION" in found[end - 4].text.upper():
        return Reference(tuple(parts), version=value), used + travel
    return Reference(tuple(parts), timestamp=value), used + travel


def _own_names(found: list[Token]) -> set[str]:
    """Names that may be those of a query's own parts: what follows WITH, or a comma."""
    own = set()
    for before, token in pairwise(found):
        if before.text.upper() in ("WITH", "RECURSIVE", ",") and token.name is not None:
            own.add(token.name.casefold())
    return own


def _unquoted(token: Token) -> str:
    if token.kind != "string":
        return token.text
    if token.text[0] in "rR":
        return token.text[2:-1]
    return _ESCAPE.sub(r"\1", token.text[1:-1])


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
