"""A statement's text, as a tree of sqlglot's, where sqlglot and Spark read it alike.

sqlglot reads several texts otherwise than Spark: a backslash in a string, ``'it''s'``, ``1_000``.
So the text is held against Spark's tokens first, and only plain ones are let through.
"""

from __future__ import annotations

import re
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from singerlake.format import sql_tokens
from singerlake.format.sql_tokens import Token
from singerlake.sql.local.outside import OutsideError

FUNCTIONS = frozenset(
    "COUNT SUM MIN MAX AVG UPPER LOWER TRIM CONCAT COALESCE".split()  # noqa: SIM905
)
"""By these names only: sqlglot takes MEAN for AVG, which Spark calls otherwise in an answer."""
_BEFORE_BRACKETS = frozenset(
    """
    SELECT DISTINCT FROM JOIN ON WHERE HAVING AND OR NOT IN BETWEEN LIKE BY AS EXISTS OVER FILTER
    USING TABLESAMPLE ROLLUP CUBE SETS WHEN THEN ELSE
    """.split()  # noqa: SIM905  # twenty words
)
"""Words before a bracket that are no functions."""
MOST_BYTES = 100_000
"""A longer statement is Spark's: to read its tree takes a stack that grows with it."""
_BETWEEN = re.compile(
    r"(?:[ \t\r\n]|--(?:\\\n|[^\r\n])*|/\*(?!\+)(?:(?!/\*|\*/).)*\*/)*", re.DOTALL
)
"""What both parsers pass over: Spark knows other blanks, and takes ``/*+`` for a hint."""
_SIGNS = frozenset("(),.*=<>!-+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+")
_POWER = re.compile(r"\d+[eE]\d+")
_COMPARES = frozenset("=<>!")
_PAIRS = frozenset(["<=", ">=", "<>", "!=", "=="])


def parsed(sql: str) -> exp.Select:
    """Read one SELECT.

    Raises:
        OutsideError: It is something else, or has a text that Spark may read otherwise.
    """
    text = plain(sql_tokens.quote_versions(sql))
    try:
        (tree,) = Spark().parse(text)
    except Exception:  # noqa: BLE001  # it also raises IndexError, for one, where SQL makes no sense
        raise OutsideError("SQL that only Spark's parser may understand") from None
    if type(tree) is not exp.Select:
        raise OutsideError("more than one SELECT, or something else")
    return tree


def plain(sql: str) -> str:
    """Return the text without comments and the last semicolon.

    Raises:
        OutsideError: It is long, or has a token that Spark may read otherwise.
    """
    if len(sql) > MOST_BYTES:
        raise OutsideError("very many words")
    found = sql_tokens.tokens(sql)
    ends, starts = [0, *(one.end for one in found)], [*(one.start for one in found), len(sql)]
    if not all(_BETWEEN.fullmatch(sql, *gap) for gap in zip(ends, starts, strict=True)):
        raise OutsideError("a hint, an open comment, or an unusual blank")
    while found and found[-1].text == ";":
        found.pop()
    if not found or found[0].text.upper() != "SELECT":
        raise OutsideError("something else than SELECT at its beginning")
    parts = [found[0].text]
    for before, token in pairwise(found):
        _check(before, token)
        parts += ["" if before.end == token.start else " ", token.text]
    return "".join(parts)


def _check(before: Token, token: Token) -> None:
    if token.kind == "sign":
        _check_sign(before, token)
    elif before.text == "!":
        raise OutsideError("the sign !")
    elif before.kind != "sign" and before.end == token.start:
        raise OutsideError(f"{before.text}{token.text} without a blank in it")
    elif token.kind == "word" and not (_WORD.fullmatch(token.text) or _POWER.fullmatch(token.text)):
        raise OutsideError(f"the name {token.text} without backticks")
    elif token.kind == "number" and not _NUMBER.fullmatch(token.text):
        raise OutsideError(f"the number {token.text}")
    elif token.kind == "string":
        _check_text(token)


def _check_sign(before: Token, token: Token) -> None:
    pair = f"{before.text}{'' if before.end == token.start else ' '}{token.text}"
    if token.text not in _SIGNS:
        raise OutsideError(f"the sign {token.text}")
    compares = before.text in _COMPARES and token.text in _COMPARES
    if (compares and pair not in _PAIRS) or (before.text == "!" and pair != "!="):
        raise OutsideError(f"the sign {pair}")
    if token.text == "(" and before.kind in ("word", "quoted"):
        name = before.text.upper()
        if name not in FUNCTIONS and name not in _BEFORE_BRACKETS:
            raise OutsideError(f"the function {before.text}()")


def _check_text(token: Token) -> None:
    if token.text[0] in "rR" or "\\" in token.text or "\0" in token.text:
        raise OutsideError("a string with a backslash")
