"""A SELECT of the set, rewritten for DuckDB over the columns of the tables that it reads.

Relations are called ``t0``, ``t1``, … and their columns ``c0``, ``c1``, … as rows inside are, so
that names of any characters and in any case mean what they mean on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from singerlake.errors import InvalidQueryError, SingerlakeError
from singerlake.format.names import TableName
from singerlake.format.sql_tokens import quote
from singerlake.format.types import Columns
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.batches.steps import Batches
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.sql import not_rowwise
from singerlake.sql.local import duck, grammar
from singerlake.sql.local.expressions import (
    AGGREGATES,
    BEYOND,
    Place,
    Writer,
    Written,
    called,
    grouped,
    only,
)
from singerlake.sql.local.outside import OutsideError, shallow
from singerlake.sql.local.text import parsed
from singerlake.sql.local.values import NESTED, words
from singerlake.sql.tables import Relation, columns_offered

SELECT_PARTS = (
    *("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset"),
    "distinct",
)
_JOINS = {
    ("", ""): "JOIN",
    ("", "INNER"): "JOIN",
    ("", "CROSS"): "CROSS JOIN",
    ("LEFT", ""): "LEFT JOIN",
    ("LEFT", "OUTER"): "LEFT JOIN",
    ("RIGHT", ""): "RIGHT JOIN",
    ("RIGHT", "OUTER"): "RIGHT JOIN",
    ("FULL", ""): "FULL JOIN",
    ("FULL", "OUTER"): "FULL JOIN",
}
NUMBER = "number"
"""The column of a relation that numbers its rows, if a statement gives these numbers."""
Find: TypeAlias = Callable[[Relation], "tuple[TableName, Columns, int]"]
_VALUES = frozenset(
    """
    current_date current_time current_timestamp current_user session_user user localtimestamp
    current_catalog current_database current_schema current_timezone grouping__id
    """.split()  # noqa: SIM905
)
"""Functions that Spark calls without brackets, if no column has their name."""
MOST = range(1 << 31)
"""What Spark takes behind LIMIT and OFFSET."""


@dataclass(frozen=True)
class Read:
    """A table in FROM.

    Attributes:
        name: The name that may qualify its columns.
        prefix: The name in full, which may qualify them too; empty if there is an alias.
    """

    table: TableName
    columns: Columns
    name: str
    prefix: tuple[str, ...] = ()

    def qualified_by(self, parts: tuple[str, ...]) -> bool:
        """Tell whether a column with these parts before its name may be one of this table."""
        if len(parts) == 1:
            return parts[0] == self.name
        return [one.casefold() for one in parts] == [one.casefold() for one in self.prefix]


@dataclass(frozen=True)
class Answered:
    """A statement that DuckDB answers.

    Attributes:
        chosen: Its select list.
        rest: What follows that.
        items: What it gives, by their names.
        used: For each relation, the indexes of the columns that are read.
        obstacle: Why it does not answer row by row, as words that follow it; None if it does.
        filtered: Whether it may leave rows out.
        takes_any_rows: Whether it may give one or the other rows.
        numbered: Whether it gives the number of the row as well, from the relation's column
            ``NUMBER``.
    """

    chosen: str
    rest: str
    texts: list[str]
    items: list[tuple[str, Written]]
    used: list[list[int]]
    obstacle: str | None
    filtered: bool
    takes_any_rows: bool
    numbered: bool = False

    @property
    def sql(self) -> str:
        """The statement in DuckDB's SQL."""
        number = f", t0.{NUMBER}" if self.numbered else ""
        return f"SELECT {self.chosen}{number} {self.rest}"

    @property
    def schema(self) -> pa.Schema:
        """The columns that it gives, as Spark has them."""
        fields = [pa.field(name, arrow_type(one.type), one.nullable) for name, one in self.items]
        return pa.schema([*fields, pa.field(NUMBER, pa.int64())] if self.numbered else fields)

    def rows(self, relations: Sequence[duck.Opened]) -> Batches:
        """Have DuckDB answer it; see :func:`duck.answered`."""
        return duck.answered(self.sql, self.texts, self.schema, relations)

    @property
    def may_give_up(self) -> bool:
        """Tell whether some values, which nobody has seen yet, can put it outside of the set."""
        return any(one.may_give_up for _, one in self.items) or BEYOND in self.rest


def answered(sql: str, find: Find) -> Answered:
    """Write a statement for DuckDB.

    Args:
        sql: One SELECT.
        find: See :class:`Statement`.

    Raises:
        OutsideError: It is outside of the set.
        InvalidQueryError: It names a column that no table has.
    """
    tree = parsed(sql)
    try:
        with shallow():
            found = Statement(tree, find).answered()
    except SingerlakeError:
        grammar.check(sql, tree)  # what Spark does not parse has another error
        raise
    grammar.check(sql, tree)  # the last: what is outside of the set has better names before
    return found


@dataclass
class Statement:
    """A SELECT that is rewritten.

    Attributes:
        tree: As sqlglot has read it.
        find: Finds what a relation means: its table and the columns it has, and the number of
            parts that its name has without a version.
    """

    tree: exp.Select
    find: Find
    relations: list[Read] = field(default_factory=list)
    used: set[Place] = field(default_factory=set)
    grouped: bool = False
    keys: frozenset[Place] = frozenset()

    def __post_init__(self) -> None:
        self.writer = Writer(self._resolved)

    def answered(self) -> Answered:
        """Write the statement.

        Raises:
            OutsideError: It is outside of the set.
            InvalidQueryError: It names a column that no table has.
        """
        only(self.tree, *SELECT_PARTS)
        source = self._from()
        where = self._clause("where")
        if where is not None and where.aggregate:
            raise OutsideError("an aggregate in WHERE")
        items = self._items()
        self._group(items)
        having = self._clause("having")
        self._check_groups(items, having)
        self._check_arithmetic([one for _, one in items])
        distinct = self.tree.args.get("distinct")
        if distinct is not None:
            only(distinct)
            for _, one in items:
                grouped(one, "DISTINCT")
        listed = ", ".join(f"{one.sql} AS r{number}" for number, (_, one) in enumerate(items))
        chosen = f"DISTINCT {listed}" if distinct else listed
        parts = [source]
        parts += [f"WHERE {where.sql}"] if where is not None else []
        keys = sorted(self.keys)
        parts += [f"GROUP BY {', '.join(map(_column, keys))}"] if keys else []
        parts += [f"HAVING {having.sql}"] if having is not None else []
        parts += self._ends(items, distinct=distinct is not None)
        by_relation: list[list[int]] = [[] for _ in self.relations]
        for number, index in sorted(self.used):
            by_relation[number].append(index)
        return Answered(
            chosen,
            " ".join(parts),
            self.writer.texts,
            items,
            by_relation,
            self._obstacle(),
            where is not None,
            self._limited() and not self.tree.args.get("order"),
        )

    def _limited(self) -> bool:
        return bool(self.tree.args.get("limit") or self.tree.args.get("offset"))

    def _obstacle(self) -> str | None:
        """Explain why the statement is not rowwise, as Spark's plan of it has its parts."""
        args = self.tree.args
        reasons = (
            (self._limited(), not_rowwise.LIMITS),
            (args.get("order"), not_rowwise.SORTS),
            (args.get("distinct"), not_rowwise.DUPLICATES),
            (self.grouped, not_rowwise.AGGREGATES),
            (args.get("joins"), not_rowwise.SEVERAL),
        )
        return next((why for there, why in reasons if there), None)

    def _from(self) -> str:
        first = self.tree.args.get("from_")
        if first is None:
            raise OutsideError("a SELECT without FROM")
        text = f"FROM {self._relation(only(first, 'this').this)}"
        for join in self.tree.args.get("joins") or ():
            only(join, "this", "side", "kind", "on")
            side, kind = (str(join.args.get(name) or "").upper() for name in ("side", "kind"))
            if (side, kind) not in _JOINS:
                raise OutsideError(f"{side} {kind} JOIN".strip())
            text += f" {_JOINS[side, kind]} {self._relation(join.this)}"
            on = join.args.get("on")
            if (on is None) is not (kind == "CROSS"):
                raise OutsideError("a join without ON")
            if on is not None:
                condition = self.writer.condition(on)
                if condition.aggregate:
                    raise OutsideError("an aggregate in ON")
                text += f" ON {condition.sql}"
        return text

    def _relation(self, node: exp.Expr) -> str:
        if type(node) is not exp.Table:
            raise OutsideError(f"{called(node)} in FROM")
        only(node, "this", "db", "catalog", "alias", "version")
        parts = node.parts
        if not all(type(part) is exp.Identifier for part in parts):
            raise OutsideError("a function in FROM")
        names = tuple(part.name for part in parts)
        given = node.args.get("alias")
        if given is not None:
            only(given, "this")
        table, columns, plain = self.find(_travelled(names, node.args.get("version")))
        name = names[plain - 1] if given is None else given.name
        read = Read(table, columns, name, names[:plain] if given is None else ())
        if any(one.name.casefold() == name.casefold() for one in self.relations):
            raise OutsideError(f"two tables called {name}")
        self.relations.append(read)
        return f"t{len(self.relations) - 1}"

    def _resolved(self, node: exp.Column) -> Written:
        if type(node.this) is not exp.Identifier:
            raise OutsideError("* where a column may stand")
        *before, name = (part.name for part in node.parts)
        qualifier = tuple(before)
        tables = [
            number
            for number, one in enumerate(self.relations)
            if not qualifier or one.qualified_by(qualifier)
        ]
        if not tables:
            raise OutsideError("a member of a column, or a column of a table that is not named")
        places = [
            (number, index)
            for number in tables
            for index, (own, _) in enumerate(self.relations[number].columns)
            if own == name
        ]
        if not places:
            raise self._missing(qualifier, name)
        if len(places) > 1:
            raise OutsideError(f"the name {name}, which several tables have")
        (place,) = places
        self.used.add(place)
        type_ = self.relations[place[0]].columns[place[1]][1]
        return Written(_column(place), type_, name, bare=frozenset(places), column=place)

    def _missing(self, qualifier: tuple[str, ...], name: str) -> Exception:
        if name.casefold() in _VALUES:
            return OutsideError(f"the function {name}")
        aliases = [one.alias for one in self.tree.expressions if isinstance(one, exp.Alias)]
        if name in aliases:
            return OutsideError("a column of the answer in a place where it is not known")
        spelled = ".".join(map(quote, (*qualifier, name)))
        columns = {one.table: [own for own, _ in one.columns] for one in self.relations}
        return InvalidQueryError(
            f"there is no column {spelled}: {columns_offered(spelled, columns)}"
        )

    def _clause(self, name: str) -> Written | None:
        clause = self.tree.args.get(name)
        if clause is None:
            return None
        return self.writer.condition(only(clause, "this").this)

    def _items(self) -> list[tuple[str, Written]]:
        """Write the select list: names and expressions."""
        items: list[tuple[str, Written]] = []
        for node in self.tree.expressions:
            if isinstance(node, exp.Alias):
                only(node, "this", "alias")
                items.append((node.alias, self.writer.write(node.this)))
            elif _is_star(node):
                items += self._starred(node)
            else:
                one = self.writer.write(node)
                if one.name is None:
                    raise OutsideError("an expression in the select list without AS")
                items.append((one.name, one))
        return items

    def _starred(self, node: exp.Expr) -> list[tuple[str, Written]]:
        qualifier: tuple[str, ...] = ()
        if isinstance(node, exp.Column):
            only(node.this)
            *before, _ = node.parts
            qualifier = tuple(part.name for part in before)
        else:
            only(node)
        found = []
        for number, one in enumerate(self.relations):
            if qualifier and not one.qualified_by(qualifier):
                continue
            for index, (name, type_) in enumerate(one.columns):
                place = (number, index)
                self.used.add(place)
                bare = frozenset((place,))
                found.append((name, Written(_column(place), type_, name, bare=bare, column=place)))
        if not found:
            raise OutsideError("* of a table that is not named, or has no columns")
        return found

    def _group(self, items: list[tuple[str, Written]]) -> None:
        """Find the columns that rows are grouped by."""
        group = self.tree.args.get("group")
        if group is None:
            return
        only(group, "expressions", "all")
        self.grouped = True
        if group.args.get("all"):
            if any(own.casefold() == "all" for one in self.relations for own, _ in one.columns):
                raise OutsideError("GROUP BY ALL, with a column of that name")
            keys = [one for _, one in items if not one.aggregate]
        else:
            keys = [self._key(node, items) for node in group.expressions]
        if not keys:
            raise OutsideError("GROUP BY of nothing")
        for one in keys:
            if one.column is None:
                raise OutsideError("GROUP BY of something else than a column")
            grouped(one, "GROUP BY")
        self.keys = frozenset(one.column for one in keys if one.column is not None)

    def _key(self, node: exp.Expr, items: list[tuple[str, Written]]) -> Written:
        if isinstance(node, exp.Literal):
            return items[_ordinal(node, len(items))][1]
        if type(node) is not exp.Column:
            raise OutsideError(f"GROUP BY of {called(node)}")
        if len(node.parts) == 1 and not self._has(node.name):
            named = [one for name, one in items if name == node.name]
            if len(named) == 1:
                return named[0]
        return self.writer.write(node)

    def _has(self, name: str) -> bool:
        return any(own == name for one in self.relations for own, _ in one.columns)

    def _check_groups(self, items: list[tuple[str, Written]], having: Written | None) -> None:
        """Make sure that only keys stand outside of aggregates."""
        every = [one for _, one in items] + ([] if having is None else [having])
        self.grouped = self.grouped or any(one.aggregate for one in every)
        if having is not None and not self.grouped:
            raise OutsideError("HAVING without a group")
        for one in every if self.grouped else ():
            self._check_keyed(one)
            if one.type.kind in NESTED:
                raise OutsideError(f"{words(one.type)} in groups")

    def _check_arithmetic(self, items: Sequence[Written]) -> None:
        """Make sure that arithmetic, which may overflow, is done for all rows or for none."""
        some = self._limited() or self.tree.args.get("having") is not None
        if some and any(one.arithmetic for one in items):
            raise OutsideError("arithmetic, with LIMIT or HAVING")

    def _check_keyed(self, written: Written) -> None:
        if not written.bare <= self.keys:
            raise OutsideError("a column that is neither in GROUP BY nor in an aggregate")

    def _ends(self, items: list[tuple[str, Written]], *, distinct: bool) -> list[str]:
        """Write ORDER BY, LIMIT and OFFSET."""
        parts = []
        if (order := self.tree.args.get("order")) is not None:
            only(order, "expressions")
            keys = [self._ordered(one, items, distinct=distinct) for one in order.expressions]
            parts.append(f"ORDER BY {', '.join(keys)}")
        for name in ("limit", "offset"):
            if (clause := self.tree.args.get(name)) is not None:
                number = only(clause, "expression").expression
                if type(number) is not exp.Literal or number.is_string:
                    raise OutsideError(f"{name.upper()} of something else than a number")
                if not str(number.this).isdecimal() or int(number.this) not in MOST:
                    raise OutsideError(f"{name.upper()} {number.this}")
                parts.append(f"{name.upper()} {int(number.this)}")
        return parts

    def _ordered(self, node: exp.Expr, items: list[tuple[str, Written]], *, distinct: bool) -> str:
        only(node, "this", "desc", "nulls_first")
        key = self._order_key(node.this, items, distinct=distinct)
        if key.type.kind in NESTED:
            raise OutsideError(f"ORDER BY of {words(key.type)}")
        if self.grouped:
            self._check_keyed(key)
        elif key.aggregate:
            raise OutsideError("an aggregate in ORDER BY without a group")
        way = "DESC" if node.args.get("desc") else "ASC"
        return f"{key.sql} {way} NULLS {'FIRST' if node.args.get('nulls_first') else 'LAST'}"

    def _order_key(
        self, node: exp.Expr, items: list[tuple[str, Written]], *, distinct: bool
    ) -> Written:
        if isinstance(node, exp.Literal):
            return items[_ordinal(node, len(items))][1]
        names = [name for name, _ in items]
        if isinstance(node, AGGREGATES):
            # Spark looks for its column in the answer first, and then fails.
            hidden = any(one.name in names for one in node.find_all(exp.Column))
            if hidden or distinct or self.tree.args.get("having") is not None:
                raise OutsideError("an aggregate in ORDER BY, which has no name of the answer")
        elif type(node) is not exp.Column:
            raise OutsideError(f"ORDER BY of {called(node)}")
        elif len(node.parts) == 1 and node.name in names:
            named = {one.sql: one for name, one in items if name == node.name}
            if len(named) > 1:
                raise OutsideError(f"the name {node.name}, which several columns have")
            return next(iter(named.values()))
        elif distinct:
            raise OutsideError("ORDER BY of something that is not selected, with DISTINCT")
        return self.writer.write(node)


def _travelled(names: tuple[str, ...], version: exp.Expr | None) -> Relation:
    if version is None:
        return Relation(names, 0, 0)
    only(version, "this", "kind", "expression")
    value = version.expression
    if version.args.get("kind") != "AS OF" or type(value) is not exp.Literal:
        raise OutsideError("a version that is not written out")
    if str(version.this).upper() == "VERSION":
        return Relation(names, 0, 0, version=str(value.this))
    if not value.is_string:
        raise OutsideError("a time that is not written as text")
    return Relation(names, 0, 0, timestamp=str(value.this))


def _is_star(node: exp.Expr) -> bool:
    return type(node) is exp.Star or (type(node) is exp.Column and type(node.this) is exp.Star)


def _ordinal(node: exp.Expr, most: int) -> int:
    text = str(node.this)
    if node.args.get("is_string") or not text.isdecimal() or not 1 <= int(text) <= most:
        raise OutsideError(f"the position {text}")
    return int(text) - 1


def _column(place: Place) -> str:
    number, index = place
    return f"t{number}.{alias(index)}"
