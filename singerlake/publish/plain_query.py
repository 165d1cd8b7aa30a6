"""Queries that take columns of one table as they are, told from their text.

These need no SQL: any engine reads the rows. What is not certain to be one is left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from singerlake.errors import InvalidQueryError
from singerlake.format.sql_tables import Reference, reference
from singerlake.format.sql_tokens import Token, quote_versions, tokens

_NO_COLUMN = frozenset(["all", "default", "distinct", "false", "from", "not", "null", "true"])
"""Words that mean something else where a column may stand, unless they are in backticks."""
_BARE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class PlainQuery:
    """A query that takes all rows of a table.

    Attributes:
        table: The table as the query names it.
        columns: The columns that it takes, each with the name that it gives it; None for all.
    """

    table: Reference
    columns: tuple[tuple[str, str], ...] | None = None


def plain_query(sql: str) -> PlainQuery | None:
    """Read a query; None unless it is ``select`` of ``*`` or columns, ``from`` a table."""
    text = quote_versions(sql)
    found = tokens(text)
    if not found or not _is(found[0], "select"):
        return None
    ends = [at for at, token in enumerate(found) if _is(token, "from")]
    if not ends or ends[0] == len(found) - 1:
        return None
    try:
        table = reference(text[found[ends[0]].end :])
    except InvalidQueryError:
        return None
    if len(table.parts) < 2:  # noqa: PLR2004  # tap.stream
        return None
    between = found[1 : ends[0]]
    if [token.text for token in between] == ["*"]:
        return PlainQuery(table)
    columns = [_column(one) for one in _pieces(between)]
    named = tuple(column for column in columns if column is not None)
    return PlainQuery(table, named) if len(named) == len(columns) else None


def _is(token: Token, word: str) -> bool:
    return token.kind == "word" and token.text.lower() == word


def _pieces(found: Sequence[Token]) -> Iterator[list[Token]]:
    piece: list[Token] = []
    for token in found:
        if token.text == "," and token.kind == "sign":
            yield piece
            piece = []
        else:
            piece.append(token)
    yield piece


def _column(piece: Sequence[Token]) -> tuple[str, str] | None:
    """Read ``name`` or ``name as other``."""
    if len(piece) == 1:
        name = _name(piece[0])
        return None if name is None else (name, name)
    if len(piece) == 3 and _is(piece[1], "as"):  # noqa: PLR2004
        name, other = _name(piece[0]), _name(piece[2])
        return None if name is None or other is None else (name, other)
    return None


def _name(token: Token) -> str | None:
    if token.kind == "quoted":
        return token.name
    bare = token.kind == "word" and _BARE.fullmatch(token.text)
    return token.text if bare and token.text.lower() not in _NO_COLUMN else None
