"""The check that a query answers row by row, by the plan that Spark's analysis made of it.

Changed rows can then go through the query alone, and yield the changes of its answer. The lists
here name the nodes that are known to turn one row of one table into at most one row of the answer.
All others are not rowwise, so that a new kind of plan is not until it has been reviewed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from singerlake.errors import InvalidQueryError
from singerlake.sql import functions, not_rowwise, plan, plan_columns

_TABLE = "View"
_SAME_COLUMNS = frozenset({"Filter", "SubqueryAlias"})
_OF_SEVERAL = {
    "Aggregate": not_rowwise.AGGREGATES,
    "Deduplicate": not_rowwise.DUPLICATES,
    "Distinct": not_rowwise.DUPLICATES,
    "Except": not_rowwise.SEVERAL,
    "Generate": "it makes several rows from one",
    "GlobalLimit": not_rowwise.LIMITS,
    "Intersect": not_rowwise.SEVERAL,
    "Join": not_rowwise.SEVERAL,
    "LateralJoin": not_rowwise.SEVERAL,
    "LocalLimit": not_rowwise.LIMITS,
    "Offset": not_rowwise.LIMITS,
    "Sort": not_rowwise.SORTS,
    "Tail": not_rowwise.LIMITS,
    "Union": not_rowwise.SEVERAL,
    "Window": "a row's values depend on other rows",
    "WithCTE": "it has a WITH",
}
_AGGREGATE = "org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction"


def obstacle(analyzed: Any) -> str | None:
    """Return why a query is not rowwise, as words that follow it; None if it is.

    Args:
        analyzed: Spark's plan of it, in which the lake's tables are views.
    """
    node = analyzed
    while (kind := plan.kind_of(node)) != _TABLE:
        if kind not in _SAME_COLUMNS and kind != "Project":
            return _OF_SEVERAL.get(kind, f"it has {kind} in its plan")
        if any(plan.holds_plan(one) for one in _expressions(node)):
            return "it contains another query"
        node = node.children().apply(0)
    return None


def takes_all_rows(analyzed: Any) -> bool:
    """Tell whether a rowwise query leaves no row out.

    Args:
        analyzed: Its plan; :func:`obstacle` gave None for it.
    """
    return all(plan.kind_of(node) != "Filter" for node in _nodes(analyzed))


def origins(analyzed: Any) -> list[str | None]:
    """Return for each column of a rowwise query the table's column that it is, unchanged.

    None stands for one that is computed.

    Args:
        analyzed: Its plan; :func:`obstacle` gave None for it.
    """
    known = _origins(analyzed)
    return [known.get(id_) for id_, _ in plan_columns.attributes(analyzed.output())]


def _origins(node: Any) -> dict[int, str]:
    """Return the table's columns in a node's answer, by the ids that Spark gave them."""
    kind = plan.kind_of(node)
    if kind == _TABLE:
        return dict(plan_columns.attributes(node.output()))
    below = _origins(node.children().apply(0))
    if kind in _SAME_COLUMNS:
        return below
    found = {id_: below[id_] for id_, _ in plan_columns.attributes(node.output()) if id_ in below}
    for column in plan_columns.computed(node):
        inner = column.child() if plan.kind_of(column) == "Alias" else column
        if plan.kind_of(inner) == "AttributeReference" and _id_of(inner) in below:
            found[_id_of(column)] = below[_id_of(inner)]
    return found


def _id_of(column: Any) -> int:
    return int(column.exprId().id())


def check_deterministic(analyzed: Any, what: str) -> None:
    """Make sure that a query always gives the same rows for the same tables.

    An aggregate that depends on the order of rows is let pass: it may differ in what the table
    leaves open, and such a query is computed as a whole and compared.

    Args:
        what: Its name in the message.

    Raises:
        InvalidQueryError: It calls a function that answers otherwise each time; names it.
    """
    if (name := uncertain(analyzed)) is not None:
        raise InvalidQueryError(
            f"{what} calls {name}, which gives another value each time it is asked, so rows that "
            "did not change would have to be computed anew: leave it out, or say "
            "incremental: false"
        )


def uncertain(analyzed: Any) -> str | None:
    """Return the part of a query that is not deterministic, as SQL calls it; None if all is."""
    for node in _nodes(analyzed):
        if plan.kind_of(node) == "Sample":
            return "TABLESAMPLE"
        for one in _expressions(node):
            if plan.kind_of(one) in functions.OF_THE_MOMENT or _answers_otherwise(one):
                return f"{one.prettyName()}()"
    return None


def unrepeatable(analyzed: Any) -> str | None:
    """Return what of a query may give other rows when it is run again; None if nothing is known."""
    if (name := uncertain(analyzed)) is not None:
        return f"{name}, which gives another value each time"
    return order_dependent(analyzed)


_LIMITS = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Tail"})
_SAME_ORDER = _LIMITS | {"Filter", "Project", "SubqueryAlias"}
_EXACT = frozenset(
    """
    BitAndAgg BitOrAgg BitXorAgg BoolAnd BoolOr Count CountIf HyperLogLogPlusPlus Max Median Min
    Percentile
    """.split()  # noqa: SIM905
)
"""Aggregates that give the same value in whatever order the rows come."""
_SUMS = frozenset({"Average", "Sum"})
"""The same, unless they add doubles."""
_RANKS = frozenset({"CumeDist", "DenseRank", "NTile", "PercentRank", "Rank", "RowNumber"})
"""Functions of windows that go by the ORDER BY of the window."""


def order_dependent(analyzed: Any) -> str | None:
    """Return the part of a query whose value may depend on the order in which rows come, in words.

    None if there is none. Ties of an ORDER BY are not looked for.
    """
    for node in _nodes(analyzed):
        if plan.kind_of(node) in _LIMITS and not _is_sorted(node):
            return "LIMIT without ORDER BY"
        for one in _expressions(node):
            kind = plan.kind_of(one)
            if not plan.is_a(one, _AGGREGATE) or kind in _EXACT | _RANKS:
                continue
            if kind not in _SUMS:
                return f"{one.prettyName()}(), whose value may depend on the order of rows"
            if str(one.children().apply(0).dataType().typeName()) in ("double", "float"):
                return (
                    f"{one.prettyName()}() of doubles, whose last digits depend on the order of "
                    "rows (cast its argument to a decimal)"
                )
    return None


def _is_sorted(node: Any) -> bool:
    while (kind := plan.kind_of(node)) in _SAME_ORDER:
        node = node.children().apply(0)
    return kind == "Sort"


def _answers_otherwise(expression: Any) -> bool:
    """Tell whether an expression itself, and not one within it, is not deterministic."""
    if plan.holds_plan(expression) or expression.deterministic():
        return False
    if not all(child.deterministic() for child in plan_columns.items(expression.children())):
        return False
    return not plan.is_a(expression, _AGGREGATE)


def _expressions(node: Any) -> Iterator[Any]:
    for root in plan_columns.computed(node):
        yield from plan.tree(root)


def _nodes(node: Any) -> Iterator[Any]:
    """Yield the nodes of a plan and of the queries within it, but not the parts of a table."""
    yield node
    if plan.kind_of(node) == _TABLE:
        return
    for expression in _expressions(node):
        if plan.holds_plan(expression):
            yield from _nodes(expression.plan())
    for child in [*plan_columns.items(node.children()), *plan_columns.items(node.innerChildren())]:
        yield from _nodes(child)
