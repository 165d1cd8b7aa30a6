"""The grammar of the set: what Spark's parser reads, and sqlglot reads alike.

sqlglot reads far more than Spark does, such as ``limit 1, 2``, clauses in any order, or a comma too
many, and passes over words without a word. What it has read is the statement only if the text has
this grammar, which is a part of Spark's, and if each name and literal of the text is in the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from sqlglot import exp

from singerlake.format import sql_tokens
from singerlake.format.sql_tokens import Token
from singerlake.sql.local.outside import OutsideError, shallow
from singerlake.sql.local.text import FUNCTIONS

_KEYWORDS = frozenset(
    """
    SELECT DISTINCT ALL FROM WHERE GROUP BY HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET FETCH
    JOIN INNER CROSS LEFT RIGHT FULL OUTER SEMI ANTI NATURAL LATERAL USING ON AS
    AND OR NOT IN BETWEEN LIKE ILIKE RLIKE REGEXP IS ISNULL NOTNULL NULL TRUE FALSE EXISTS ANY SOME
    CASE WHEN THEN ELSE END ASC DESC NULLS INTERVAL CAST WINDOW OVER FILTER QUALIFY TABLESAMPLE
    PIVOT UNPIVOT UNION EXCEPT INTERSECT MINUS SETMINUS WITH VALUES ROLLUP CUBE GROUPING SETS DIV
    """.split()  # noqa: SIM905
)
"""Words that name nothing unless they are in backticks."""
_TRAVELS = frozenset(["VERSION", "TIMESTAMP", "FOR", "SYSTEM_VERSION", "SYSTEM_TIME"])
"""Words that may stand behind a table, and are then no alias of it."""
_COMPARISONS = ("<=", ">=", "<>", "!=", "==", "=", "<", ">")


def check(sql: str, tree: exp.Select) -> None:
    """Make sure that Spark parses a text, and that the tree leaves nothing of it out.

    Args:
        sql: One SELECT, which ``text.parsed`` has let through.
        tree: As that has given it.

    Raises:
        OutsideError: It has something that Spark reads otherwise, or not at all.
    """
    reader = _Reader(sql)
    with shallow():
        reader.statement()
    names = Counter(one.name for one in tree.find_all(exp.Identifier))
    literals = sum(1 for _ in tree.find_all(exp.Literal))
    if names != reader.names or literals != reader.literals:
        raise OutsideError("a word that Spark's parser may understand otherwise")


class _Reader:
    """Reads a statement by recursive descent: a method for each rule.

    Attributes:
        names: The names that it has read, with how often.
        literals: The number of literals that it has read.
    """

    def __init__(self, sql: str) -> None:
        self._tokens = sql_tokens.tokens(sql_tokens.quote_versions(sql))
        while self._tokens and self._tokens[-1].text == ";":
            self._tokens.pop()
        self._at = 0
        self.names: Counter[str] = Counter()
        self.literals = 0

    def statement(self) -> None:
        self._need("SELECT")
        self._word("DISTINCT")
        self._list(self._item)
        self._need("FROM")
        self._relation()
        if not self._joins():
            while self._sign(","):
                self._relation()
        if self._word("WHERE"):
            self._condition()
        if self._word("GROUP") and self._need("BY") and not self._word("ALL"):
            self._list(self._condition)
        if self._word("HAVING"):
            self._condition()
        self._ends()

    def _ends(self) -> None:
        if self._word("ORDER") and self._need("BY"):
            self._list(self._sort)
        for word in ("LIMIT", "OFFSET"):
            if self._word(word):
                self._number()
        if self._at < len(self._tokens):
            self._fail()

    def _item(self) -> None:
        if self._sign("*") or self._starred():
            return
        self._condition()
        if self._word("AS"):
            self._name(any_word=True)
        elif self._is_name():
            self._name()

    def _starred(self) -> bool:
        """Read ``name.*``."""
        parts, used = sql_tokens.name_at(self._tokens, self._at)
        rest = [token.text for token in self._tokens[self._at + used : self._at + used + 2]]
        if not parts or rest != [".", "*"]:
            return False
        self._dotted()
        return self._sign(".") and self._sign("*")

    def _relation(self) -> None:
        self._dotted()
        if self._word("FOR") and self._text().upper() not in ("VERSION", "TIMESTAMP"):
            self._fail()
        if self._word("VERSION", "TIMESTAMP") and self._need("AS"):
            self._need("OF")
            if not (self._is_string() or self._text().isdecimal()):
                self._fail()
            self._literal()
        if self._word("AS") or self._is_name(besides=_TRAVELS):
            self._name()

    def _joins(self) -> bool:
        """Read joins; tell whether there is one."""
        start = self._at
        while self._join():
            self._relation()
            if self._word("ON"):
                self._condition()
        return self._at > start

    def _join(self) -> bool:
        """Read the words of a join up to JOIN."""
        if self._word("INNER", "CROSS"):
            return self._need("JOIN")
        if self._word("LEFT", "RIGHT", "FULL"):
            self._word("OUTER")
            return self._need("JOIN")
        return self._word("JOIN")

    def _sort(self) -> None:
        self._condition()
        self._word("ASC", "DESC")
        if self._word("NULLS") and not self._word("FIRST", "LAST"):
            self._fail()

    def _condition(self) -> None:
        """Read an expression, from its weakest operator on."""
        while True:
            while self._word("NOT"):
                pass
            self._predicate()
            if not (self._word("AND", "OR")):
                return

    def _predicate(self) -> None:
        self._sum()
        if self._word("IS"):
            self._word("NOT")
            self._need("NULL")
        elif self._compares():
            self._sum()
        else:
            negated = self._word("NOT")
            if self._word("BETWEEN"):
                self._sum()
                self._need("AND")
                self._sum()
            elif self._word("IN"):
                self._brackets(lambda: self._list(self._condition))
            elif self._word("LIKE"):
                self._sum()
            elif negated:
                self._fail()

    def _compares(self) -> bool:
        return any(map(self._sign, _COMPARISONS))

    def _sum(self) -> None:
        while True:
            self._value()
            if not any(map(self._sign, "+-*")):  # which binds more matters to nobody here
                return

    def _value(self) -> None:
        self._sign("-")
        token = self._next()
        if token is None:
            self._fail()
        elif token.kind == "sign":
            self._brackets(self._condition)
        elif token.kind in ("string", "number") or token.text[0].isdigit():
            self._literal()
        elif self._word("TRUE", "FALSE", "NULL"):
            pass
        elif self._word("CASE"):
            self._case()
        elif token.kind == "word" and self._text(1) == "(":
            self._function()
        elif token.text.upper() in ("DATE", "TIMESTAMP") and self._is_string(1):
            self._at += 1
            self._literal()
        else:
            self._dotted()

    def _case(self) -> None:
        self._need("WHEN")
        while True:
            self._condition()
            self._need("THEN")
            self._condition()
            if not self._word("WHEN"):
                break
        if self._word("ELSE"):
            self._condition()
        self._need("END")

    def _function(self) -> None:
        if not self._word(*FUNCTIONS):
            self._fail()
        self._brackets(self._arguments)

    def _arguments(self) -> None:
        if self._sign("*"):
            return
        self._word("DISTINCT")
        self._list(self._condition)

    def _dotted(self) -> None:
        self._name()
        while self._text() == "." and self._text(1) != "*":
            self._at += 1
            self._name(any_word=True)

    def _name(self, *, any_word: bool = False) -> None:
        """Read a name; behind a dot and AS, a keyword is one."""
        token = self._next()
        word = any_word and token is not None and token.name is not None
        if not (word or self._is_name()):
            self._fail()
        self.names[str(self._tokens[self._at].name)] += 1
        self._at += 1

    def _literal(self) -> None:
        if self._is_string():
            self._at += 1
            self.literals += 1
        else:
            self._number()

    def _number(self) -> None:
        token = self._next()
        if token is None or not (token.kind == "number" or token.text[0].isdigit()):
            self._fail()
        self._at += 1
        self.literals += 1

    # The tokens.

    def _list(self, rule: Callable[[], None]) -> None:
        rule()
        while self._sign(","):
            rule()

    def _brackets(self, rule: Callable[[], None]) -> None:
        if not self._sign("("):
            self._fail()
        rule()
        if not self._sign(")"):
            self._fail()

    def _next(self, ahead: int = 0) -> Token | None:
        at = self._at + ahead
        return self._tokens[at] if 0 <= at < len(self._tokens) else None

    def _text(self, ahead: int = 0) -> str:
        token = self._next(ahead)
        return "" if token is None else token.text

    def _is_string(self, ahead: int = 0) -> bool:
        token = self._next(ahead)
        return token is not None and token.kind == "string"

    def _is_name(self, besides: frozenset[str] = frozenset()) -> bool:
        token = self._next()
        if token is None or token.name is None or token.text[0].isdigit():
            return False
        word = token.text.upper()
        return token.kind == "quoted" or not (word in _KEYWORDS or word in besides)

    def _word(self, *words: str) -> bool:
        """Read one of some words, if it comes next."""
        token = self._next()
        if token is None or token.kind != "word" or token.text.upper() not in words:
            return False
        self._at += 1
        return True

    def _need(self, word: str) -> bool:
        if not self._word(word):
            self._fail()
        return True

    def _sign(self, signs: str) -> bool:
        """Read a sign of one or two characters, if it comes next."""
        if [self._text(ahead) for ahead in range(len(signs))] != [*signs]:
            return False
        self._at += len(signs)
        return True

    def _fail(self) -> None:
        raise OutsideError(f"{_called(self._next())} after {_called(self._next(-1))}")


def _called(token: Token | None) -> str:
    """Return what messages call a token; strings may hold anything."""
    if token is None:
        return "nothing"
    return "a string" if token.kind == "string" else token.text
