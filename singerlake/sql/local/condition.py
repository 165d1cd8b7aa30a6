"""Conditions on the rows of one table, and new values, as statements that select these rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from singerlake.format import sql_tokens
from singerlake.format.overlay import Constraint
from singerlake.format.types import Columns
from singerlake.log.table_state import TableState
from singerlake.overlay.constraint_checks import no_such_column
from singerlake.sql.local import grammar
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.local.relation_rows import columns_of
from singerlake.sql.local.statement import answered
from singerlake.sql.local.text import parsed, plain
from singerlake.sql.local.values import NESTED, same, words

_BEFORE = "select * from t where ("
_PARTS = {"expressions", "from_", "where"}


def selecting(
    state: TableState, names: Sequence[str], where: str | None, values: Sequence[str] = ()
) -> str:
    """Return the statement that selects rows for which a condition is true.

    Args:
        state: The table at its transaction.
        names: The columns that it gives, as they are named.
        where: A condition that :func:`check_selection` has let through; None for all rows.
        values: Expressions that it has let through, which come behind the columns.
    """
    chosen = [*map(sql_tokens.quote, names)]
    chosen += [f"({value}\n) as value_{number}" for number, value in enumerate(values)]
    table = ".".join(map(sql_tokens.quote, (state.table.tap, state.table.stream)))
    at = f"{table} version as of '@{state.number}'"
    sql = f"select {', '.join(chosen)} from {at}"  # noqa: S608  # parsed, not run
    return sql if where is None else f"{sql} where ({where}\n)"


def check_selection(state: TableState, where: str | None, values: Mapping[str, str]) -> None:
    """Make sure that DuckDB answers a condition, and new values of rows, as Spark does.

    Args:
        state: The table; the SQL may name its columns, and those of row metadata.
        where: The condition.
        values: New values by column.

    Raises:
        OutsideError: One is outside of the set, or more than a condition or a value; or a value is
            not of its column's type.
        InvalidQueryError: One names a column that the table does not have.
    """
    columns: Columns = columns_of(state, row_metadata=True)
    if where is not None:
        _parsed(selecting(state, [columns[0][0]], where))
    for text in values.values():
        _check_value(text)
    sql = selecting(state, [columns[0][0]], where, [*values.values()])
    found = answered(sql, lambda relation: (state.table, columns, len(relation.parts)))
    items = found.items[1:]
    types = dict(state.columns)
    for name, (_, one) in zip(values, items, strict=True):
        if one.type.kind in NESTED or not same(one.type, types[name]) or one.aggregate:
            raise OutsideError(f"{words(one.type)} as a new value of {words(types[name])}")


def _check_value(text: str) -> None:
    """Make sure that a text is one expression."""
    tree = parsed(f"select ({text}\n) as v from t")  # noqa: S608  # parsed, not run
    brackets = tree.expressions[0].this if len(tree.expressions) == 1 else None
    more = {name for name, value in tree.args.items() if value} - {"expressions", "from_"}
    if type(brackets) is not exp.Paren or more:  # such as: 1) as a, (2
        raise OutsideError("something else than a value")


def condition_tree(sql: str) -> exp.Expr:
    """Read a condition by itself.

    Raises:
        OutsideError: It is outside of the set, or more than a condition.
    """
    whole = f"{_BEFORE}{sql}\n)"
    tree = _parsed(whole)
    grammar.check(whole, tree)
    condition: exp.Expr = tree.args["where"].this
    return condition


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
