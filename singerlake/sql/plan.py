"""The relations that a query reads, by Spark's own parser, and the check that it may.

A query may only read tables of the lake. Everything that the parser makes of the text is
held against a list of what is known to be harmless; what is not on it is refused, so that a
new kind of statement is refused until somebody has looked at it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from singerlake.engine.spark.jvm.failures import first_line
from singerlake.errors import InvalidQueryError
from singerlake.rows.columns.weights import ROW_BYTES
from singerlake.sql import functions
from singerlake.sql.plan_columns import computed, items
from singerlake.sql.tables import Relation

ALLOWED_PLANS = frozenset(
    """
    Aggregate Deduplicate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin
    LocalLimit LocalRelation Offset OneRowRelation PipeOperator Pivot Project RebalancePartitions
    RelationTimeTravel Repartition RepartitionByExpression ResolvedInlineTable Sample Sort
    SubqueryAlias Tail Union Unpivot UnresolvedHaving UnresolvedHint UnresolvedInlineTable
    UnresolvedRelation UnresolvedSubqueryColumnAliases UnresolvedTVFAliases
    UnresolvedTableValuedFunction UnresolvedWith Window WithWindowDefinition
    """.split()  # noqa: SIM905  # a list of forty lines reads worse
)
_DDL = re.compile(r"\s*[\w`]")
"""How a schema begins in SQL; in JSON, which Spark reads as well, it is a bracket or a quote."""
_OPTIONS = frozenset(map(str.lower, functions.OPTIONS))
_REFUSED_OPTIONS = {name.lower(): why for name, why in functions.REFUSED_OPTIONS.items()}
_WHOLE = ("byte", "short", "integer", "long")
_LENGTHS = {*functions.LENGTH_INDEXES, "sequence"}
_LEAST_BYTES = {"sequence": 4, "array_repeat": 4}
"""What one member of an array takes, at least; a character takes one."""
_UNRESOLVED_NAMES = "ExpressionWithUnresolvedIdentifier"
_CALL = "UnresolvedFunction"


def relations(spark: SparkSession, sql: str) -> list[Relation]:
    """Parse a query, make sure that it only reads, and find what it reads.

    Raises:
        InvalidQueryError: It does not parse, or is or holds anything but SELECT.
    """
    session: Any = spark._jsparkSession
    try:
        plan = session.sessionState().sqlParser().parsePlan(sql)
    except (ParseException, AnalysisException) as error:
        raise InvalidQueryError(
            f"this is not SQL that Spark understands: {first_line(error)}"
        ) from None
    by_start: dict[int, Relation] = {}
    for relation in _walk_plan(plan, False):
        by_start.setdefault(relation.start, relation)
    return [by_start[start] for start in sorted(by_start)]


def check_expression(spark: SparkSession, text: str) -> None:
    """Make sure that a text is one expression of SQL, so that it stays one within a query.

    :func:`relations` then checks the query as a whole.

    Raises:
        InvalidQueryError: It is none.
    """
    _expression(spark, text)


def check_row_expression(spark: SparkSession, text: str) -> Any:
    """Make sure that a text is one expression of SQL that reads no table, and parse it.

    Raises:
        InvalidQueryError: It is none, or does what a query may not.
    """
    expression = _expression(spark, text)
    for one in tree(expression):
        if holds_plan(one) or kind_of(one) in ("UnresolvedStar", "WindowExpression"):
            raise InvalidQueryError(f"{text!r} asks more than one row: here it may not")
    for _ in _walk_expression(expression):
        pass
    return expression


def _expression(spark: SparkSession, text: str) -> Any:
    session: Any = spark._jsparkSession
    try:
        return session.sessionState().sqlParser().parseExpression(text)
    except (ParseException, AnalysisException) as error:
        raise InvalidQueryError(f"{text!r} is no expression of SQL: {first_line(error)}") from None


def check_analyzed(plan: Any) -> None:
    """Check the analyzed query again, in which no name is left to resolve.

    Not into views: in the session of a query there are none but the lake's tables, and to look
    at each of their columns from here took as long as to plan the query.
    """
    if kind_of(plan) == "View":
        return
    for expression in computed(plan):
        check_resolved(expression)
    for child in [*items(plan.children()), *items(plan.innerChildren())]:
        check_analyzed(child)


def check_resolved(expression: Any) -> None:
    """Check an expression again in which no name is left to resolve.

    Raises:
        InvalidQueryError: It calls what a query may not.
    """
    for one in tree(expression):
        if (reason := functions.REFUSED_EXPRESSIONS.get(kind_of(one))) is not None:
            raise InvalidQueryError(f"a query may not call {one.prettyName()}(): {reason}")


def _walk_plan(plan: Any, aliased: bool) -> Iterator[Relation]:
    kind = kind_of(plan)
    if kind not in ALLOWED_PLANS:
        raise InvalidQueryError(
            f"a lake takes no SQL but SELECT, and this has {_words(kind)} in it"
        )
    if kind == "UnresolvedRelation":
        yield _relation(plan, aliased)
        return
    if kind == "RelationTimeTravel":
        yield _travel(plan, aliased)
        return
    if kind == "UnresolvedTableValuedFunction":
        _check_function(items(plan.name()), functions.TABLE_FUNCTIONS)
    named = kind == "SubqueryAlias" or (aliased and kind == "UnresolvedSubqueryColumnAliases")
    for child in items(plan.children()):
        yield from _walk_plan(child, named)
    if kind == "UnresolvedWith":
        for child in items(plan.innerChildren()):
            yield from _walk_plan(child, True)
    expressions = list(items(plan.expressions()))
    if kind == "WithWindowDefinition":
        expressions += items(plan.windowDefinitions().values().toSeq())
    for expression in expressions:
        yield from _walk_expression(expression)


def _walk_expression(root: Any) -> Iterator[Relation]:
    for expression in tree(root):
        kind = _class_of(expression)
        if kind.name == _UNRESOLVED_NAMES:
            raise InvalidQueryError("a query must spell its names out: IDENTIFIER() is not known")
        if kind.name == _CALL:
            _check_call(items(expression.nameParts()), items(expression.arguments()))
        elif kind.name == "UnresolvedGenerator":
            _check_call([expression.name().funcName()], items(expression.children()))
        elif _PLAN_EXPRESSION in kind.parents:
            yield from _walk_plan(expression.plan(), False)


_PLAN_EXPRESSION = "org.apache.spark.sql.catalyst.expressions.PlanExpression"


class _Class(NamedTuple):
    """A class of Java's.

    Attributes:
        name: Spark's name of its nodes.
        parents: The full names of it and of all above it.
    """

    name: str
    parents: frozenset[str]


_classes: dict[str, _Class] = {}


def holds_plan(expression: Any) -> bool:
    """Tell whether an expression is a subquery."""
    return is_a(expression, _PLAN_EXPRESSION)


def is_a(node: Any, parent: str) -> bool:
    """Tell whether a node is of a class of Java's, or below it."""
    return parent in _class_of(node).parents


def _class_of(node: Any) -> _Class:
    """Find a node's class; Java is asked for more than its name only once."""
    java_class = node.getClass()
    full = str(java_class.getName())
    if full not in _classes:
        name = str(java_class.getSimpleName()).rstrip("$")
        parents = []
        while java_class is not None:
            parents.append(str(java_class.getName()))
            java_class = java_class.getSuperclass()
        _classes[full] = _Class(name, frozenset(parents))
    return _classes[full]


def _check_function(parts: list[str], allowed: frozenset[str]) -> None:
    name = parts[-1].lower()
    if len(parts) == 1 and name in allowed:
        return
    reason = functions.REFUSED.get(name)
    if reason is None and len(parts) > 1:
        reason = "functions go by one name"
    raise InvalidQueryError(
        f"a query may not call {'.'.join(parts)}(): "
        + (reason or "it is not on the list of Spark's functions that read nothing but the lake")
    )


def _check_call(parts: list[str], arguments: list[Any]) -> None:
    """Make sure that a function may be called, with the schema and the options it is given."""
    _check_function(parts, functions.ALLOWED)
    name = parts[-1].lower()
    if name in _LENGTHS:
        _check_length(name, arguments)
    schema = functions.SCHEMA_INDEXES.get(name)
    options = functions.OPTION_INDEXES.get(name)
    if schema is None and options is None:
        return
    for index, argument in enumerate(arguments):
        if kind_of(argument) == "NamedArgumentExpression":
            raise InvalidQueryError(f"give {name}() its arguments in order, without their names")
        if index == schema:
            _check_schema(name, argument)
        elif options is not None and index >= options:
            _check_options(name, argument)


def _check_length(function: str, arguments: list[Any]) -> None:
    """Refuse a literal length that makes a value too long for a row."""
    numbers = [_whole_number(argument) for argument in arguments]
    length = None
    if (index := functions.LENGTH_INDEXES.get(function)) is not None:
        length = numbers[index] if index < len(numbers) else None
    elif function == "sequence":
        start, stop, step = (*numbers, None, None, None)[:3]
        if start is not None and stop is not None and (step or len(numbers) == 2):  # noqa: PLR2004
            length = abs(stop - start) // abs(step or 1) + 1
    if length is not None and length * _LEAST_BYTES.get(function, 1) > ROW_BYTES:
        raise InvalidQueryError(
            f"{function}() is asked for {length:,} at once, and a row of the answer may take "
            f"{ROW_BYTES:,} bytes: make many rows instead of one long value, with range() or "
            "explode()"
        )


def _whole_number(expression: Any) -> int | None:
    """Return a whole number that is written out in the query; None for all else."""
    if kind_of(expression) == "UnaryMinus":
        number = _whole_number(expression.child())
        return None if number is None else -number
    if kind_of(expression) != "Literal" or expression.dataType().typeName() not in _WHOLE:
        return None
    value = expression.value()
    return None if value is None else int(value)


def _check_schema(function: str, argument: Any) -> None:
    """Make sure that a schema is text in SQL's form, or a function's result from an example."""
    if _is_call(argument) and _called(argument) in functions.SCHEMA_MAKERS:
        return
    text = _text(argument)
    if text is None or not _DDL.match(text):
        raise InvalidQueryError(
            f"write the schema for {function}() out as text: 'id int, name string'"
        )


def _check_options(function: str, argument: Any) -> None:
    """Make sure that options are written out, and known."""
    texts: list[str | None] = [None]
    if _is_call(argument) and _called(argument) == "map":
        texts = [_text(one) for one in items(argument.arguments())]
    if None in texts:
        raise InvalidQueryError(
            f"write the options of {function}() out as texts: map('mode', 'FAILFAST')"
        )
    for option in map(str, texts[::2]):
        if option.lower() in _OPTIONS:
            continue
        reason = _REFUSED_OPTIONS.get(option.lower(), "it is not one that is known")
        raise InvalidQueryError(f"{function}() may not be given the option {option!r}: {reason}")


def _is_call(expression: Any) -> bool:
    return kind_of(expression) == _CALL


def _called(call: Any) -> str:
    """Return the function that is called; its name is checked at the call itself."""
    return ".".join(items(call.nameParts())).lower()


def _text(expression: Any) -> str | None:
    """Return a text that is written out in the query; None for all else."""
    if kind_of(expression) != "Literal" or expression.dataType().typeName() != "string":
        return None
    value = expression.value()
    return None if value is None else str(value.toString())


def _relation(node: Any, aliased: bool) -> Relation:
    origin = node.origin()
    start, stop = origin.startIndex(), origin.stopIndex()
    if start.isEmpty() or stop.isEmpty():
        raise InvalidQueryError("a table's name must be spelled out in the query")
    return Relation(tuple(items(node.multipartIdentifier())), start.get(), stop.get() + 1, aliased)


def _travel(node: Any, aliased: bool) -> Relation:
    if kind_of(node.relation()) != "UnresolvedRelation":
        raise InvalidQueryError("AS OF can only follow the name of a table")
    plain = _relation(node.relation(), aliased)
    version, timestamp = node.version(), node.timestamp()
    text = None
    if timestamp.isDefined():
        text = _text(timestamp.get())
        if text is None:
            raise InvalidQueryError(
                "write the time after TIMESTAMP AS OF as text: '2026-11-20T12:00:00Z'"
            )
    return Relation(
        plain.parts,
        plain.start,
        plain.end,
        aliased,
        str(version.get()) if version.isDefined() else None,
        text,
    )


def tree(root: Any) -> Iterator[Any]:
    """Yield an expression of Spark's, and all in it."""
    yield root
    for child in items(root.children()):
        yield from tree(child)


def kind_of(node: Any) -> str:
    """Return Spark's name of a node of a plan or an expression."""
    return _class_of(node).name


def _words(kind: str) -> str:
    """Spell ``InsertIntoStatement`` as a person would."""
    words = "".join(f" {c}" if c.isupper() else c for c in kind).split()
    dropped = {"Command", "Statement", "Unresolved"}
    return " ".join(word for word in words if word not in dropped).upper() or kind
