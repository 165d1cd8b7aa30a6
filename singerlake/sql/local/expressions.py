"""The expressions of the set: their parts, their types, and their SQL for DuckDB.

``WRITERS`` is the allow-list: a node of sqlglot's that is not in it, or has a part that its writer
does not name, is outside. docs/reference/sql.md lists the same, and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from singerlake.format.types import BOOLEAN, DIGITS, INTEGER, NUMBER, STRING, Kind, Type
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.local.values import NESTED, TEXTS, is_literal, literal, same, words

SUM_GUARD, MEAN_GUARD = 9.2e18, 9.0e15
"""Spark adds up in 64 bits, and means in doubles: so far, no sum in between is beyond what these
hold exactly, whatever the order is in which rows are added."""
BEYOND = "singerlake: the order of rows may decide"
"""The error that DuckDB raises for an aggregate that may be another on Spark."""

Place = tuple[int, int]
"""A column: the number of the relation, and of the column in it."""


@dataclass(frozen=True)
class Written:
    """An expression for DuckDB.

    Attributes:
        name: Spark's name for it if it has no alias; None if it needs a name.
        bare: The columns outside of aggregates.
        inside: The columns within them.
        aggregate: Whether there is one in it.
        column: The column, if it is one and nothing else.
        nullable: Whether Spark's analysis says that it may be null.
        may_give_up: Whether some values put it outside of the set.
        arithmetic: Whether it may overflow, which is an error on Spark if the value is computed.
    """

    sql: str
    type: Type
    name: str | None = None
    bare: frozenset[Place] = frozenset()
    inside: frozenset[Place] = frozenset()
    aggregate: bool = False
    column: Place | None = None
    nullable: bool = True
    may_give_up: bool = False
    arithmetic: bool = False

    def over(self, sql: str, *others: Written) -> Written:
        """Return a condition that is made of this one and others."""
        return made_of((self, *others), sql, BOOLEAN)


def made_of(parts: Sequence[Written], sql: str, type_: Type) -> Written:
    """Return an expression that is made of others, and null if one of them is."""
    return Written(
        sql,
        type_,
        bare=frozenset().union(*(one.bare for one in parts)),
        inside=frozenset().union(*(one.inside for one in parts)),
        aggregate=any(one.aggregate for one in parts),
        nullable=any(one.nullable for one in parts),
        may_give_up=any(one.may_give_up for one in parts),
        arithmetic=any(one.arithmetic for one in parts),
    )


@dataclass
class Writer:
    """A writer of expressions for DuckDB.

    Attributes:
        resolve: Finds the column that a node names.
        texts: The strings of the statement, which are parameters.
    """

    resolve: Callable[[exp.Column], Written]
    texts: list[str] = field(default_factory=list)

    def write(self, node: exp.Expr) -> Written:
        """Write an expression.

        Raises:
            OutsideError: It is outside of the set.
        """
        kind = type(node)
        if kind not in WRITERS:
            raise OutsideError(called(node))
        return WRITERS[kind](self, node)

    def condition(self, node: exp.Expr) -> Written:
        """Write an expression that is true, false or null."""
        found = self.write(node)
        if found.type.kind is not Kind.BOOLEAN:
            raise OutsideError(f"{words(found.type)} as a condition")
        return found

    def operand(self, node: exp.Expr) -> Written | None:
        """Write a side of a comparison: a column, an aggregate, a function; None for a literal."""
        node = bare(node)
        if is_literal(node):
            return None
        if type(node) not in (exp.Column, *AGGREGATES, *FUNCTIONS):
            raise OutsideError(f"{called(node)} as a side of a comparison")
        found = self.write(node)
        if found.may_give_up and not found.aggregate:
            # Conditions are in the set or not, whatever the rows are.
            raise OutsideError(f"a condition on {called(node)}")
        if found.type.kind in NESTED:
            raise OutsideError(f"a comparison of {words(found.type)}")
        return found

    def against(self, node: exp.Expr, other: Written) -> tuple[str, list[Written]]:
        """Write the other side of a comparison, and return what it contains besides literals."""
        found = self.operand(node)
        if found is None:
            return literal(bare(node), other.type, self.texts), []
        if not same(found.type, other.type):
            raise OutsideError(f"a comparison of {words(other.type)} with {words(found.type)}")
        if found.type.kind is Kind.NUMBER:
            raise OutsideError("a comparison of two doubles that are not written out")
        return found.sql, [found]

    def value(self, node: exp.Expr, like: Type) -> Written:
        """Write a value that is computed with.

        Args:
            like: The type that it has if it is a literal.
        """
        node = bare(node)
        if not is_literal(node):
            return self.write(node)
        if like.kind in (Kind.DATE, Kind.TIMESTAMP) and type(node) is not exp.Cast:
            raise OutsideError(f"{words(like)} with a literal that does not begin with its type")
        return Written(literal(node, like, self.texts), like, nullable=False)

    def values(self, nodes: Sequence[exp.Expr]) -> list[Written]:
        """Write values of which one is chosen; one that is no literal says their type."""
        known = [None if is_literal(bare(one)) else self.write(one) for one in nodes]
        types = [one.type for one in known if one is not None]
        like = types[0] if types else _literal_type(bare(nodes[0]))
        if like.kind in NESTED or not all(same(one, like) for one in types):
            raise OutsideError(f"a choice between {' and '.join(map(words, types))}")
        both = zip(known, nodes, strict=True)
        return [self.value(node, like) if one is None else one for one, node in both]

    def subject(self, node: exp.Expr) -> Written:
        """Write the subject of a predicate, which must not be a literal."""
        found = self.operand(node)
        if found is None:
            raise OutsideError("a literal before a predicate")
        return found


def called(node: exp.Expr) -> str:
    """Return what messages call a node."""
    if isinstance(node, exp.Anonymous):
        return f"the function {node.name}()"
    if isinstance(node, exp.Func) and not isinstance(node, (exp.Case, exp.Cast, exp.Exists)):
        return f"the function {node.sql_name().lower()}()"
    return type(node).__name__.upper()


def only(node: exp.Expr, *names: str) -> exp.Expr:
    """Return a node; refuse it if it has a part besides those named.

    Raises:
        OutsideError: It has one.
    """
    for name, value in node.args.items():
        if name not in names and value not in (None, False, []):
            raise OutsideError(f"{called(node)} with {name.strip('_').upper()}")
    return node


def _column(writer: Writer, node: exp.Expr) -> Written:
    assert isinstance(node, exp.Column)  # noqa: S101  # by the table of writers
    return writer.resolve(node)


def _paren(writer: Writer, node: exp.Expr) -> Written:
    inner = writer.write(only(node, "this").this)
    return replace(inner, sql=f"({inner.sql})")


def _both(sign: str) -> Callable[[Writer, exp.Expr], Written]:
    def write(writer: Writer, node: exp.Expr) -> Written:
        only(node, "this", "expression")
        left, right = writer.condition(node.this), writer.condition(node.expression)
        return left.over(f"({left.sql} {sign} {right.sql})", right)

    return write


def _not(writer: Writer, node: exp.Expr) -> Written:
    inner = writer.condition(only(node, "this").this)
    return inner.over(f"(NOT {inner.sql})")


def _compared(sign: str) -> Callable[[Writer, exp.Expr], Written]:
    turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(sign, sign)

    def write(writer: Writer, node: exp.Expr) -> Written:
        only(node, "this", "expression")
        sides, by = (node.this, node.expression), sign
        left = writer.operand(sides[0])
        if left is None:
            sides, by = (sides[1], sides[0]), turned
            left = writer.subject(sides[0])
        right, more = writer.against(sides[1], left)
        return left.over(f"({left.sql} {by} {right})", *more)

    return write


def _between(writer: Writer, node: exp.Expr) -> Written:
    only(node, "this", "low", "high")
    left = writer.subject(node.this)
    low, more = writer.against(node.args["low"], left)
    high, others = writer.against(node.args["high"], left)
    return left.over(f"({left.sql} BETWEEN {low} AND {high})", *more, *others)


def _in(writer: Writer, node: exp.Expr) -> Written:
    only(node, "this", "expressions")
    left = writer.subject(node.this)
    items = [writer.against(one, left) for one in node.expressions]
    if not items:
        raise OutsideError("IN of nothing")
    return left.over(
        f"({left.sql} IN ({', '.join(sql for sql, _ in items)}))",
        *(one for _, more in items for one in more),
    )


def _like(writer: Writer, node: exp.Expr) -> Written:
    only(node, "this", "expression", "negate")
    left, pattern = writer.subject(node.this), node.expression
    if left.type.kind not in TEXTS or not isinstance(pattern, exp.Literal):
        raise OutsideError("LIKE of something else than a string column and a written out pattern")
    sign = "NOT LIKE" if node.args.get("negate") else "LIKE"
    return left.over(f"({left.sql} {sign} {literal(pattern, left.type, writer.texts)})")


def _is(writer: Writer, node: exp.Expr) -> Written:
    only(node, "this", "expression")
    if type(node.expression) is not exp.Null:
        raise OutsideError("IS of something else than NULL")
    left = writer.subject(node.this)
    return replace(left.over(f"({left.sql} IS NULL)"), nullable=False)


def _literal_type(node: exp.Expr) -> Type:
    """Return the type of a literal that stands alone, if a column may have it."""
    if isinstance(node, exp.Boolean):
        return BOOLEAN
    if isinstance(node, exp.Literal) and node.is_string:
        return STRING
    raise OutsideError("a number whose type no column decides")


def bare(node: exp.Expr) -> exp.Expr:
    """Return what is in brackets."""
    while isinstance(node, exp.Paren):
        node = only(node, "this").this
    return node


def _arithmetic(sign: str) -> Callable[[Writer, exp.Expr], Written]:
    """Write arithmetic of whole numbers and decimals, which is exact or an error."""

    def write(writer: Writer, node: exp.Expr) -> Written:
        only(node, "this", "expression")
        nodes = [bare(node.this), bare(node.expression)]
        known = [None if is_literal(one) else writer.write(one) for one in nodes]
        types = [one.type for one in known if one is not None]
        if not types or any(one.kind not in (Kind.INTEGER, Kind.DECIMAL) for one in types):
            raise OutsideError(f"arithmetic of {' and '.join(map(words, types)) or 'literals'}")
        # A decimal is multiplied by whole numbers alone: it keeps its decimal places.
        like = INTEGER if sign == "*" else types[0]
        both = zip(known, nodes, strict=True)
        parts = [writer.value(side, like) if one is None else one for one, side in both]
        decimals = [one.type for one in parts if one.type.kind is Kind.DECIMAL]
        alike = len(decimals) < len(parts) if sign == "*" else same(parts[0].type, parts[1].type)
        if not alike:
            raise OutsideError(f"{words(parts[0].type)} {sign} {words(parts[1].type)}")
        sides = [_wide(one) if decimals else one.sql for one in parts]
        type_ = decimals[0] if decimals else INTEGER
        made = made_of(parts, f"({sides[0]} {sign} {sides[1]})", type_)
        if type_ == INTEGER and sign != "-":
            _check_order(node)
        return replace(made, arithmetic=True, may_give_up=True)

    return write


def _check_order(node: exp.Expr) -> None:
    """Make sure that Spark computes a chain of sums, or of products, in the order of the text.

    It puts the literals of a chain together, and what is left may overflow then: ``0 * n * n``.

    Raises:
        OutsideError: It may not.
    """
    parts, chain = [], [node]
    while chain:
        one = bare(chain.pop())
        if type(one) is type(node):
            chain += [one.this, one.expression]
        else:
            parts.append(is_literal(one))
    if any(parts) and parts.count(False) > 1:
        raise OutsideError("literals in a chain of several columns")


def _wide(written: Written) -> str:
    """Write a factor or summand of a decimal, in as many digits as that has."""
    if written.type.kind is Kind.INTEGER:
        return f"CAST({written.sql} AS DECIMAL({DIGITS},0))"
    return written.sql


def _text(writer: Writer, node: exp.Expr) -> Written:
    found = writer.value(node, STRING)
    if found.type.kind not in TEXTS:
        raise OutsideError(f"a function of strings with {words(found.type)}")
    return found


def _cased(word: str) -> Callable[[Writer, exp.Expr], Written]:
    """Write upper or lower: beyond ASCII, each engine has its own tables."""

    def write(writer: Writer, node: exp.Expr) -> Written:
        text = _text(writer, only(node, "this").this)
        beyond = f"strlen({text.sql}) <> length({text.sql})"
        sql = f"CASE WHEN {beyond} THEN error('{BEYOND}') ELSE {word}({text.sql}) END"
        return replace(made_of((text,), sql, STRING), may_give_up=True)

    return write


def _trim(writer: Writer, node: exp.Expr) -> Written:
    text = _text(writer, only(node, "this").this)
    return made_of((text,), f"trim({text.sql}, ' ')", STRING)


def _concat(writer: Writer, node: exp.Expr) -> Written:
    only(node, "expressions", "safe")
    texts = [_text(writer, one) for one in node.expressions]
    return made_of(texts, f"({' || '.join(one.sql for one in texts)})", STRING)


def _coalesce(writer: Writer, node: exp.Expr) -> Written:
    only(node, "this", "expressions")
    found = writer.values([node.this, *node.expressions])
    sql = f"coalesce({', '.join(one.sql for one in found)})"
    nullable = all(one.nullable for one in found)
    return replace(made_of(found, sql, found[0].type), nullable=nullable)


def _case(writer: Writer, node: exp.Expr) -> Written:
    only(node, "ifs", "default")
    ifs, default = node.args["ifs"], node.args.get("default")
    for one in ifs:
        only(one, "this", "true")
    conditions = [writer.condition(one.this) for one in ifs]
    found = writer.values([*(one.args["true"] for one in ifs), *([default] if default else [])])
    branches = zip(conditions, found, strict=False)
    text = " ".join(f"WHEN {when.sql} THEN {then.sql}" for when, then in branches)
    otherwise = f" ELSE {found[-1].sql}" if default else ""
    made = made_of([*conditions, *found], f"CASE {text}{otherwise} END", found[0].type)
    return replace(made, nullable=not default or any(one.nullable for one in found))


def _count(writer: Writer, node: exp.Expr) -> Written:
    only(node, "this", "big_int")
    of = node.this
    if type(of) is exp.Star or (isinstance(of, exp.Literal) and str(of.this) == "1"):
        only(of, "this", "is_string")
        return Written("count(*)", INTEGER, "count(1)", aggregate=True, nullable=False)
    distinct = type(of) is exp.Distinct
    if distinct:
        only(of, "expressions")
        if len(of.expressions) != 1:
            raise OutsideError("COUNT of several columns")
        of = of.expressions[0]
    column = _argument(writer, node, of)
    if distinct:
        grouped(column, "COUNT DISTINCT")
    word = "DISTINCT " if distinct else ""
    name = f"count({word}{column.name})"
    counted = _aggregate(f"count({word}{column.sql})", INTEGER, name, column)
    return replace(counted, nullable=False)


def _extreme(word: str) -> Callable[[Writer, exp.Expr], Written]:
    def write(writer: Writer, node: exp.Expr) -> Written:
        column = _argument(writer, node, only(node, "this").this)
        value = f"{word}({column.sql})"
        if column.type.kind is Kind.NUMBER:
            # 0.0 and -0.0 are equal, and Spark gives the one that it finds first.
            signs = f"{value} = 0 AND bool_or({column.sql} = 0 AND signbit({column.sql}))"
            value = f"CASE WHEN {signs} THEN error('{BEYOND}') ELSE {value} END"
        return _aggregate(value, column.type, f"{word}({column.name})", column)

    return write


def _sum(writer: Writer, node: exp.Expr) -> Written:
    column = _argument(writer, node, only(node, "this").this)
    sql, name, type_ = column.sql, f"sum({column.name})", column.type
    if type_.kind is Kind.INTEGER:
        value = guarded(sql, SUM_GUARD, f"CAST(sum({sql}) AS BIGINT)")
        return _aggregate(value, type_, name, column)
    if type_.kind is Kind.DECIMAL:
        most = float(f"9.9e{DIGITS - 1 - type_.scale}")
        return _aggregate(guarded(sql, most, f"sum({sql})"), type_, name, column)
    raise OutsideError(f"SUM of {words(type_)}")


def _avg(writer: Writer, node: exp.Expr) -> Written:
    column = _argument(writer, node, only(node, "this").this)
    if column.type.kind is not Kind.INTEGER:
        raise OutsideError(f"AVG of {words(column.type)}")
    sql = column.sql
    mean = guarded(sql, MEAN_GUARD, f"CAST(sum({sql}) AS DOUBLE) / count({sql})")
    return _aggregate(mean, NUMBER, f"avg({column.name})", column)


def guarded(column: str, most: float, value: str) -> str:
    """Write an aggregate that fails if the sum may be too large for Spark."""
    amount = f"sum(abs(CAST({column} AS DOUBLE)))"
    much = f"{amount} > CAST('{most!r}' AS DOUBLE)"
    return f"CASE WHEN {much} THEN error('{BEYOND}') ELSE {value} END"


def grouped(written: Written, what: str) -> None:
    """Make sure that both engines find and show equal values of a column alike.

    Raises:
        OutsideError: They may not be: a double may be -0.0.
    """
    if written.type.kind in (Kind.NUMBER, *NESTED):
        raise OutsideError(f"{what} of {words(written.type)}")


def _argument(writer: Writer, node: exp.Expr, of: exp.Expr) -> Written:
    if type(of) is not exp.Column:
        raise OutsideError(f"{called(node)} of something else than a column")
    column = writer.write(of)
    if column.type.kind in NESTED:
        raise OutsideError(f"{called(node)} of {words(column.type)}")
    return column


def _aggregate(sql: str, type_: Type, name: str, column: Written) -> Written:
    fails = BEYOND in sql
    return Written(sql, type_, name, inside=column.bare, aggregate=True, may_give_up=fails)


FUNCTIONS = (exp.Upper, exp.Lower, exp.Trim, exp.Concat, exp.Coalesce, exp.Case)
AGGREGATES = (exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg)
WRITERS: dict[type[exp.Expr], Callable[[Writer, exp.Expr], Written]] = {
    exp.Column: _column,
    exp.Paren: _paren,
    exp.And: _both("AND"),
    exp.Or: _both("OR"),
    exp.Not: _not,
    exp.EQ: _compared("="),
    exp.NEQ: _compared("<>"),
    exp.LT: _compared("<"),
    exp.LTE: _compared("<="),
    exp.GT: _compared(">"),
    exp.GTE: _compared(">="),
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.Is: _is,
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.Upper: _cased("upper"),
    exp.Lower: _cased("lower"),
    exp.Trim: _trim,
    exp.Concat: _concat,
    exp.Coalesce: _coalesce,
    exp.Case: _case,
    exp.Count: _count,
    exp.Sum: _sum,
    exp.Min: _extreme("min"),
    exp.Max: _extreme("max"),
    exp.Avg: _avg,
}
"""What may be in a condition or a select list."""
