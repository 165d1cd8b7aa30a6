"""What a query asks for, by Spark's own parser, and whether it may.

A query may only read tables of the lake. Everything that the parser makes of the text is
held against a list of what is known to be harmless; what is not on it is refused, so that a
new kind of statement is refused until somebody has looked at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from singerlake.errors import InvalidQueryError
from singerlake.spark.failures import first_line

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
TABLE_FUNCTIONS = frozenset(
    """
    collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer
    range sql_keywords stack variant_explode variant_explode_outer
    """.split()  # noqa: SIM905
)
REFUSED_FUNCTIONS = frozenset(
    """
    from_avro from_protobuf input_file_block_length input_file_block_start input_file_name
    java_method reflect to_avro to_protobuf try_reflect
    """.split()  # noqa: SIM905
)
"""They call Java, read files, or show where the lake's files lie."""
_REFUSED_EXPRESSIONS = ("ExpressionWithUnresolvedIdentifier", "CallMethodViaReflection")


@dataclass(frozen=True)
class Relation:
    """A table that a query reads.

    Attributes:
        parts: Its name's parts.
        start: Where the name begins in the text.
        end: Where it ends.
        aliased: Whether an alias follows.
        version: What stands behind VERSION AS OF.
        timestamp: What stands behind TIMESTAMP AS OF.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    aliased: bool = False
    version: str | None = None
    timestamp: str | None = None


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
            f"this is no SQL that Spark understands: {first_line(error)}"
        ) from None
    found: dict[int, Relation] = {}
    for relation in _walk_plan(plan, False):
        found.setdefault(relation.start, relation)
    return [found[start] for start in sorted(found)]


def check_analyzed(plan: Any) -> None:
    """Look again at what the analysis made of the query, where no name is left to resolve.

    Not into views: in the session of a query there are none but the lake's tables, and to look
    at each of their columns from here took as long as to plan the query.
    """
    if _kind(plan) == "View":
        return
    for expression in _seq(plan.expressions()):
        for one in _tree(expression):
            if _kind(one) in _REFUSED_EXPRESSIONS:
                raise InvalidQueryError("a query may not call Java")
    for child in [*_seq(plan.children()), *_seq(plan.innerChildren())]:
        check_analyzed(child)


def _walk_plan(plan: Any, aliased: bool) -> Iterator[Relation]:
    kind = _kind(plan)
    if kind not in ALLOWED_PLANS:
        raise InvalidQueryError(
            f"only SELECT can be asked of a lake, and this has {_words(kind)} in it"
        )
    if kind == "UnresolvedRelation":
        yield _relation(plan, aliased)
        return
    if kind == "RelationTimeTravel":
        yield _travel(plan, aliased)
        return
    if kind == "UnresolvedTableValuedFunction":
        _check_function(_seq(plan.name()), TABLE_FUNCTIONS, frozenset())
    for child in _seq(plan.children()):
        yield from _walk_plan(child, kind == "SubqueryAlias")
    if kind == "UnresolvedWith":
        for child in _seq(plan.innerChildren()):
            yield from _walk_plan(child, True)
    expressions = list(_seq(plan.expressions()))
    if kind == "WithWindowDefinition":
        expressions += _seq(plan.windowDefinitions().values().toSeq())
    for expression in expressions:
        yield from _walk_expression(expression)


def _walk_expression(root: Any) -> Iterator[Relation]:
    for expression in _tree(root):
        kind = _kind(expression)
        if kind in _REFUSED_EXPRESSIONS:
            raise InvalidQueryError("a query must spell its names out: IDENTIFIER() is not known")
        if kind == "UnresolvedFunction":
            _check_function(_seq(expression.nameParts()), None, REFUSED_FUNCTIONS)
        elif kind == "UnresolvedGenerator":
            _check_function([expression.name().funcName()], None, REFUSED_FUNCTIONS)
        elif _holds_plan(expression):
            yield from _walk_plan(expression.plan(), False)


_PLAN_EXPRESSION = "org.apache.spark.sql.catalyst.expressions.PlanExpression"
_holding: dict[str, bool] = {}


def _holds_plan(expression: Any) -> bool:
    """Whether an expression is a subquery. Asked of Java once for each class."""
    java_class = expression.getClass()
    name = str(java_class.getName())
    if name not in _holding:
        parents = []
        while java_class is not None:
            parents.append(java_class.getName())
            java_class = java_class.getSuperclass()
        _holding[name] = _PLAN_EXPRESSION in parents
    return _holding[name]


def _check_function(
    parts: list[str], allowed: frozenset[str] | None, refused: frozenset[str]
) -> None:
    name = parts[-1].lower()
    if len(parts) > 1 or name in refused or (allowed is not None and name not in allowed):
        raise InvalidQueryError(f"a query may not call {'.'.join(parts)}()")


def _relation(node: Any, aliased: bool) -> Relation:
    origin = node.origin()
    start, stop = origin.startIndex(), origin.stopIndex()
    if start.isEmpty() or stop.isEmpty():
        raise InvalidQueryError("a table's name must be spelled out in the query")
    return Relation(tuple(_seq(node.multipartIdentifier())), start.get(), stop.get() + 1, aliased)


def _travel(node: Any, aliased: bool) -> Relation:
    if _kind(node.relation()) != "UnresolvedRelation":
        raise InvalidQueryError("AS OF can only follow the name of a table")
    plain = _relation(node.relation(), aliased)
    version, timestamp = node.version(), node.timestamp()
    text = None
    if timestamp.isDefined():
        literal = timestamp.get()
        if _kind(literal) != "Literal" or literal.dataType().typeName() != "string":
            raise InvalidQueryError(
                "write the time after TIMESTAMP AS OF as text: '2026-11-20T12:00:00Z'"
            )
        text = str(literal.value().toString())
    return Relation(
        plain.parts,
        plain.start,
        plain.end,
        aliased,
        str(version.get()) if version.isDefined() else None,
        text,
    )


def _tree(root: Any) -> Iterator[Any]:
    yield root
    for child in _seq(root.children()):
        yield from _tree(child)


def _seq(seq: Any) -> list[Any]:
    """A Scala sequence as a list."""
    return [seq.apply(place) for place in range(seq.size())]


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName()).rstrip("$")


def _words(kind: str) -> str:
    """``InsertIntoStatement`` as a person would say it."""
    words = "".join(f" {c}" if c.isupper() else c for c in kind).split()
    dropped = {"Command", "Statement", "Unresolved"}
    return " ".join(word for word in words if word not in dropped).upper() or kind
