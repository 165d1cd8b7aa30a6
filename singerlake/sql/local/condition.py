"""Conditions on the rows of one table, as the statements that select these rows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from singerlake.format import sql_tokens
from singerlake.format.types import Columns
from singerlake.log.table_state import TableState
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.local.relation_rows import columns_of
from singerlake.sql.local.statement import Statement
from singerlake.sql.local.text import parsed

_PARTS = {"expressions", "from_", "where"}


def selecting(state: TableState, names: Sequence[str], where: str) -> str:
    """Return the statement that selects columns of the rows for which a condition is true.

    Args:
        state: The table at its transaction.
        names: The columns, as they are named.
        where: A condition that :func:`check_condition` has let through.
    """
    columns = ", ".join(map(sql_tokens.quote, names))
    table = ".".join(map(sql_tokens.quote, (state.table.tap, state.table.stream)))
    at = f"{table} version as of '@{state.number}'"
    return f"select {columns} from {at} where ({where}\n)"  # noqa: S608  # parsed, not run


def check_condition(state: TableState, where: str) -> None:
    """Make sure that DuckDB answers a condition on the rows of a table as Spark does.

    Args:
        state: The table; the condition may name its columns, and those of row metadata.

    Raises:
        OutsideError: It is outside of the set, or more than a condition.
        InvalidQueryError: It names a column that the table does not have.
    """
    columns: Columns = columns_of(state, row_metadata=True)
    tree = _parsed(selecting(state, [columns[0][0]], where))
    Statement(tree, lambda relation: (state.table, columns, len(relation.parts))).answered()


def condition_tree(sql: str) -> exp.Expr:
    """Read a condition by itself.

    Raises:
        OutsideError: It is outside of the set, or more than a condition.
    """
    tree: exp.Expr = _parsed(f"select * from t where ({sql}\n)").args["where"].this  # noqa: S608
    return tree


def _parsed(sql: str) -> exp.Select:
    tree = parsed(sql)
    brackets = tree.args["where"].this if tree.args.get("where") else None
    more = {name for name, value in tree.args.items() if value} - _PARTS
    if type(brackets) is not exp.Paren or more:  # such as: 1) or (1
        raise OutsideError("something else than a condition")
    return tree
