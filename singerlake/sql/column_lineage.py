"""The columns of the lake's tables from which a query's columns come, by Spark's plan of it.

Values count, and not what decides about rows: a column that only a filter or a join condition asks
is no origin. So what a window is ordered by is one, for the window's value depends on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from singerlake.format.names import TableName
from singerlake.log.table_state import TableState
from singerlake.sql import plan, plan_columns

_TABLE = "View"


@dataclass(frozen=True)
class Origins:
    """The origins of a query's columns.

    Attributes:
        frame: The query as it was planned.
        tables: The states of tables that it reads, by their views' names.
    """

    frame: DataFrame
    tables: Mapping[str, TableState]

    def columns(self) -> dict[str, list[tuple[TableName, str]]]:
        """Map each column's name to the tables' columns that its values are made of, in order."""
        analyzed = self.frame._jdf.queryExecution().analyzed()
        edges: defaultdict[int, set[int]] = defaultdict(set)
        leaves: dict[int, tuple[TableName, str]] = {}
        rows: dict[int, list[int]] = {}
        for node in _nodes(analyzed):
            if plan.kind_of(node) == _TABLE:
                table = self.tables[str(node.desc().identifier().table())].table
                for id_, name in plan_columns.attributes(node.output()):
                    leaves[id_] = (table, name)
                continue
            if plan.kind_of(node) == "CTERelationDef":
                rows[int(node.id())] = _output(node.child())
            for made, of in _made(node):
                edges[made] |= of
        _join_references(analyzed, rows, edges)
        return {
            name: sorted(_leaves(id_, edges, leaves))
            for id_, name in plan_columns.attributes(analyzed.output())
        }


def _made(node: Any) -> Iterator[tuple[int, set[int]]]:
    """Return the values that a node makes, each with the columns it is made of."""
    for root in plan_columns.computed(node):
        for one in plan.tree(root):
            if plan.kind_of(one) == "Alias":
                yield _id_of(one), _asked(one)
    kind, children = plan.kind_of(node), plan_columns.items(node.children())
    if kind == "Generate":
        asked = _asked(node.generator())
        yield from (
            (_id_of(column), asked) for column in plan_columns.items(node.generatorOutput())
        )
    elif kind == "Expand":
        for projection in plan_columns.items(node.projections()):
            for made, expression in zip(_output(node), plan_columns.items(projection), strict=True):
                yield made, _asked(expression)
    elif kind in ("Union", "Intersect", "Except"):
        for child in children:
            yield from ((m, {of}) for m, of in zip(_output(node), _output(child), strict=True))


def _asked(expression: Any) -> set[int]:
    """Return the values that an expression reads, including those of a query within it."""
    found = set()
    for one in plan.tree(expression):
        if plan.kind_of(one) == "AttributeReference":
            found.add(_id_of(one))
        elif plan.holds_plan(one):
            found.update(_output(one.plan()))
    return found


def _join_references(
    analyzed: Any, rows: Mapping[int, list[int]], edges: defaultdict[int, set[int]]
) -> None:
    """Join the names that each reading of a WITH has for the same columns."""
    for node in _nodes(analyzed):
        if plan.kind_of(node) == "CTERelationRef":
            for made, of in zip(_output(node), rows.get(int(node.cteId()), ()), strict=False):
                edges[made].add(of)


def _leaves(
    column: int, edges: Mapping[int, set[int]], leaves: Mapping[int, tuple[TableName, str]]
) -> set[tuple[TableName, str]]:
    found, seen, waiting = set(), {column}, [column]
    while waiting:
        one = waiting.pop()
        if one in leaves:
            found.add(leaves[one])
        more = edges.get(one, set()) - seen
        seen |= more
        waiting += more
    return found


def _nodes(node: Any) -> Iterator[Any]:
    """Yield the nodes of a plan and of the queries within it, but not the parts of a table."""
    yield node
    if plan.kind_of(node) == _TABLE:
        return
    for root in plan_columns.computed(node):
        for one in plan.tree(root):
            if plan.holds_plan(one):
                yield from _nodes(one.plan())
    for child in [*plan_columns.items(node.children()), *plan_columns.items(node.innerChildren())]:
        yield from _nodes(child)


def _output(node: Any) -> list[int]:
    return [id_ for id_, _ in plan_columns.attributes(node.output())]


def _id_of(column: Any) -> int:
    return int(column.exprId().id())
