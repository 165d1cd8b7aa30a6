"""Whether a query answers row by row, told from the plan that Spark's analysis made of it.

Where it does, rows that changed can go through it alone, and what comes out is what changed of its
answer. What is on the lists here is known to take one row of one table to at most one row of the
answer; all else is not rowwise, so that a new kind of plan is not until somebody has looked at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from singerlake.errors import InvalidQueryError
from singerlake.sql import functions, plan, plan_columns

_TABLE = "View"
_SAME_COLUMNS = frozenset({"Filter", "SubqueryAlias"})
_OF_SEVERAL = {
    "Aggregate": "it puts rows together",
    "Deduplicate": "it puts rows together",
    "Distinct": "it puts rows together",
    "Except": "it reads more than one table",
    "Generate": "it makes several rows of one",
    "GlobalLimit": "it takes only so many rows",
    "Intersect": "it reads more than one table",
    "Join": "it reads more than one table",
    "LateralJoin": "it reads more than one table",
    "LocalLimit": "it takes only so many rows",
    "Offset": "it takes only so many rows",
    "Sort": "it sorts them",
    "Tail": "it takes only so many rows",
    "Union": "it reads more than one table",
    "Window": "a row's values depend on other rows",
    "WithCTE": "it has a WITH",
}
_AGGREGATE = "org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction"


def obstacle(analyzed: Any) -> str | None:
    """Tell why a query is not rowwise, as words that follow it; None where it is.

    Args:
        analyzed: Spark's plan of it, in which the lake's tables are views.
    """
    node = analyzed
    while (kind := plan.kind_of(node)) != _TABLE:
        if kind not in _SAME_COLUMNS and kind != "Project":
            return _OF_SEVERAL.get(kind, f"it has {kind} in its plan")
        if any(plan.holds_plan(one) for one in _expressions(node)):
            return "it has another query in it"
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
    """The table's columns by the ids that Spark gave them, in a node's answer."""
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
    """Make sure that a query gives the same rows whenever it is asked of the same tables.

    An aggregate that depends on the order of rows is let pass: it may differ in what the table
    leaves open, and such a query is computed as a whole and compared.

    Args:
        analyzed: Spark's plan of it.
        what: What the message calls it.

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
    """Return what of a query gives other values each time, as SQL calls it; None for nothing."""
    for node in _nodes(analyzed):
        if plan.kind_of(node) == "Sample":
            return "TABLESAMPLE"
        for one in _expressions(node):
            if plan.kind_of(one) in functions.OF_THE_MOMENT or _answers_otherwise(one):
                return f"{one.prettyName()}()"
    return None


def _answers_otherwise(expression: Any) -> bool:
    """Whether an expression itself is not deterministic, and not just one that it holds."""
    if plan.holds_plan(expression) or expression.deterministic():
        return False
    if not all(child.deterministic() for child in plan_columns.items(expression.children())):
        return False
    return not plan.is_a(expression, _AGGREGATE)


def _expressions(node: Any) -> Iterator[Any]:
    for root in plan_columns.computed(node):
        yield from plan.tree(root)


def _nodes(node: Any) -> Iterator[Any]:
    """A plan's nodes and those of the queries within it, but not what a table consists of."""
    yield node
    if plan.kind_of(node) == _TABLE:
        return
    for expression in _expressions(node):
        if plan.holds_plan(expression):
            yield from _nodes(expression.plan())
    for child in [*plan_columns.items(node.children()), *plan_columns.items(node.innerChildren())]:
        yield from _nodes(child)
