"""Conditions on the rows of one table, as the statements that select these rows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from singerlake.format import sql_tokens
from singerlake.format.overlay import Constraint
from singerlake.format.types import Columns
from singerlake.log.table_state import TableState
from singerlake.overlay.constraint_checks import no_such_column
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.local.relation_rows import columns_of
from singerlake.sql.local.statement import Statement
from singerlake.sql.local.text import parsed, plain

_BEFORE = "select * from t where ("
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
    tree: exp.Expr = _parsed(f"{_BEFORE}{sql}\n)").args["where"].this
    return tree


def constraint_of(names: Sequence[str], sql: str) -> Constraint:
    """Return a condition as the log keeps it: with its columns in backticks.

    Args:
        names: Those of the table's columns.

    Raises:
        OutsideError: It is outside of the set.
        InvalidQueryError: It names a column that the table does not have.
    """
    whole = f"{_BEFORE}{sql}\n)"
    if sql_tokens.quote_versions(whole) != whole:
        raise OutsideError("a member of a column")
    tree, found = condition_tree(sql), sql_tokens.tokens(whole)
    # The tokens of the text that was parsed are the same ones, at other places.
    starts = [token.start for token in sql_tokens.tokens(plain(whole))]
    places: dict[int, tuple[int, str]] = {}
    for column in tree.find_all(exp.Column):
        if type(column.this) is not exp.Identifier or len(column.parts) > 1:
            raise OutsideError("a member of a column")
        if column.name not in names:
            raise no_such_column(sql, column.name, names)
        token = found[starts.index(column.this.meta["start"])]
        places[token.start - len(_BEFORE)] = (token.end - len(_BEFORE), column.name)
    if not places:
        raise OutsideError("no column")
    edits = [(start, end, sql_tokens.quote(name)) for start, (end, name) in sorted(places.items())]
    columns = list(dict.fromkeys(name for _, (_, name) in sorted(places.items())))
    return Constraint("check", columns, sql=sql_tokens.edit(sql, edits))


def _parsed(sql: str) -> exp.Select:
    tree = parsed(sql)
    brackets = tree.args["where"].this if tree.args.get("where") else None
    more = {name for name, value in tree.args.items() if value} - _PARTS
    if type(brackets) is not exp.Paren or more:  # such as: 1) or (1
        raise OutsideError("something else than a condition")
    return tree
