"""Constraints of a table, held against rows by DuckDB as ``sql/violations.py`` has Spark do it.

All of them are conditions on the columns of one relation, ``t0``, and so go by the rules of any
condition: what is not in the set, or is about a column of another type, is outside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, TypeAlias

import pyarrow as pa
from sqlglot import exp

from singerlake.format.constraint_types import NUMBERS, TEXTS, edge
from singerlake.format.overlay import Constraint
from singerlake.format.overlay_words import constraint_words
from singerlake.format.types import DIGITS, INTEGER, Columns, Kind, Type
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL, TYPES, alias
from singerlake.rows.batches.steps import Batches
from singerlake.rows.batches.violations import FIRST, Violation, repeated, shown, shown_columns
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.input.rows import LINE, SOURCE
from singerlake.rows.input.rows import TYPES as GIVEN_TYPES
from singerlake.rows.state.shape import Shape
from singerlake.rows.validation.pattern_step import PatternStep
from singerlake.sql.local import duck
from singerlake.sql.local.condition import condition_tree
from singerlake.sql.local.expressions import Writer, Written, grouped
from singerlake.sql.local.outside import OutsideError, shallow
from singerlake.sql.local.relation_rows import clock_type, clocks
from singerlake.sql.local.values import number, time, words

_POSITION = (f"t0.{BLOCK}", f"CAST(t0.{ORDINAL} AS BIGINT)")
_DIGITS = re.compile(r"-?\d+(\.\d+)?", re.ASCII)

Rows: TypeAlias = Callable[[list[str]], Batches]
"""Gives at least some columns of rows, with block and ordinal, as they are called inside. A value
that does not fit its column is null."""


def check_in_set(shape: Shape, constraints: Mapping[str, Constraint]) -> None:
    """Make sure that DuckDB checks constraints as Spark does.

    Raises:
        OutsideError: It does not; the message names the constraint.
    """
    checks = ConstraintChecks(shape, constraints)
    for name in checks.asked:
        try:
            checks.write(name)
        except OutsideError as error:
            raise OutsideError(f"{error.construct} in the constraint {name}") from None


@dataclass(frozen=True)
class ConstraintChecks:
    """The checks of constraints on rows of a shape.

    Attributes:
        constraints: By name. One that names a column which is not there is passed over.
    """

    shape: Shape
    constraints: Mapping[str, Constraint]

    @cached_property
    def asked(self) -> dict[str, Constraint]:
        """The constraints whose columns are there."""
        names = set(self.shape.names)
        return {
            name: one
            for name, one in self.constraints.items()
            if one.columns and names.issuperset(one.columns)
        }

    @cached_property
    def read(self) -> list[int]:
        """The indexes of the columns that are read."""
        named = (self._index(column) for one in self.asked.values() for column in one.columns)
        return sorted({*self.shape.keys, *named})

    @cached_property
    def patterns(self) -> list[tuple[int, str]]:
        """Columns that are held against patterns, by their indexes, each pair once."""
        found = (
            (self._index(column), one.pattern)
            for one in self.asked.values()
            if one.kind == "pattern"
            for column in one.columns
        )
        return list(dict.fromkeys(found))

    def violations(self, rows: Rows) -> list[Violation]:
        """Find the rows that violate the constraints.

        Args:
            rows: Gives the rows, each time from the beginning.

        Raises:
            OutsideError: DuckDB cannot check them as Spark does.
        """
        single = {name: one for name, one in self.asked.items() if one.kind != "unique"}
        totals = self._totals(single, rows) if single else {}
        found = [
            Violation(name, constraint_words(one), total, self._first(name, rows), total)
            for name, one in single.items()
            if (total := totals[name])
        ]
        repeats = (
            self._repeated(name, one, rows)
            for name, one in self.asked.items()
            if one.kind == "unique"
        )
        return [*found, *(one for one in repeats if one.rows)]

    def meeting(self, name: str, rows: Rows) -> pa.Table:
        """Return block, ordinal and key of the rows for which a condition is true.

        Args:
            name: The condition's, a ``check``.
            rows: Gives the rows.
        """
        writer, types = Writer(self._resolved), dict(self.shape.columns)
        condition = self._condition(writer, self.asked[name])
        keys = self.shape.key_names
        parts = [f"SELECT {', '.join([*_POSITION, *map(self._column, keys)])}"]
        parts.append(f"FROM t0 WHERE {condition}")
        given = (("block", INTEGER), ("ordinal", INTEGER), *((n, types[n]) for n in keys))
        return self._answered(" ".join(parts), writer.texts, given, rows)

    def of_change(self, name: str, rows: Rows, most: int) -> tuple[int, pa.Table]:
        """Count the rows of a change that break a constraint, and return the first of them.

        Args:
            rows: Gives all rows as they will be, with source and line, which are null in rows that
                stay; block and ordinal are null in new ones.
            most: How many rows are returned.

        Returns:
            Source and line, in how many rows the values are if it is ``unique``, the key (or block
            and ordinal), and the constraint's columns.
        """
        one, writer, types = self.asked[name], Writer(self._resolved), dict(self.shape.columns)
        columns = [*self.shape.key_names, *one.columns]
        own = [*([] if self.shape.keys else _POSITION), *map(self._column, columns)]
        named = list(map(self._column, one.columns))
        if one.kind == "unique":
            times = f"count(*) OVER (PARTITION BY {', '.join(named)})"
            broken = " AND ".join(f"{column} IS NOT NULL" for column in named)
        else:
            times, broken = "CAST(NULL AS BIGINT)", self._broken(writer, one)
        cells = [f"{cell} AS v{number}" for number, cell in enumerate(own)]
        inner = [f"SELECT CAST(t0.{SOURCE} AS BIGINT) AS s, t0.{LINE} AS l, {times} AS n,"]
        inner += [", ".join(cells), f"FROM t0 WHERE {broken}"]
        wanted = "s IS NOT NULL" + (" AND n > 1" if one.kind == "unique" else "")
        order = [f"CAST(v{number} AS VARCHAR)" for number in range(len(self.shape.keys) or 2)]
        parts = ["SELECT CAST(count(*) OVER () AS BIGINT), *", f"FROM ({' '.join(inner)})"]
        parts.append(f"WHERE {wanted} ORDER BY s, l NULLS FIRST, {', '.join(order)}")
        given = [("total", INTEGER), ("source", INTEGER), ("line", INTEGER), ("n", INTEGER)]
        given += [] if self.shape.keys else [("block", INTEGER), ("ordinal", INTEGER)]
        given += [(column, types[column]) for column in columns]
        sql = f"{' '.join(parts)} LIMIT {most}"
        found = self._answered(sql, writer.texts, tuple(given), rows, placed=True)
        total = found.column(0)[0].as_py() if len(found) else 0
        return total, found.select(range(1, len(given)))

    def write(self, name: str) -> tuple[str, list[str]]:
        """Write what shows the rows that break a constraint, and the strings in it."""
        one = self.asked[name]
        if one.kind == "unique":
            return self._repeats(one), []
        writer = Writer(self._resolved)
        columns = shown_columns(self.shape.key_names, one)
        chosen = [*_POSITION, *map(self._column, columns)]
        parts = [f"SELECT {', '.join(chosen)}", f"FROM t0 WHERE {self._broken(writer, one)}"]
        order = f"t0.{BLOCK} NULLS FIRST, t0.{ORDINAL} NULLS FIRST"
        parts.append(f"ORDER BY {order} LIMIT {FIRST}")
        return " ".join(parts), writer.texts

    def _totals(self, asked: Mapping[str, Constraint], rows: Rows) -> dict[str, int]:
        writer = Writer(self._resolved)
        counts = [
            f"CAST(count(*) FILTER (WHERE {self._broken(writer, one)}) AS BIGINT)"
            for one in asked.values()
        ]
        columns = tuple((name, INTEGER) for name in asked)
        sql = " ".join([f"SELECT {', '.join(counts)}", "FROM t0"])
        (found,) = self._answered(sql, writer.texts, columns, rows).to_pylist()
        return {name: int(found[name]) for name in asked}

    def _first(self, name: str, rows: Rows) -> list[str]:
        sql, texts = self.write(name)
        columns = shown_columns(self.shape.key_names, self.asked[name])
        types = dict(self.shape.columns)
        given = (("block", INTEGER), ("ordinal", INTEGER), *((n, types[n]) for n in columns))
        found = self._answered(sql, texts, given, rows)
        return shown(found, columns, keyed=bool(self.shape.keys))

    def _repeats(self, one: Constraint) -> str:
        columns = [self._column(name) for name in one.columns]
        for name in one.columns:
            grouped(self._written(name), "UNIQUE")
        there = " AND ".join(f"{column} IS NOT NULL" for column in columns)
        chosen = ", ".join(columns)
        groups = [f"(SELECT count(*) AS n, {chosen}", f"FROM t0 WHERE {there}"]
        groups.append(f"GROUP BY {chosen} HAVING count(*) > 1)")
        own = ", ".join(alias(self._index(name)) for name in one.columns)
        totals = "CAST(sum(n) OVER () AS BIGINT), CAST(count(*) OVER () AS BIGINT)"
        parts = [f"SELECT {totals}, CAST(n AS BIGINT), {own} FROM", *groups]
        parts.append(f"ORDER BY n DESC, {own} LIMIT {FIRST}")
        return " ".join(parts)

    def _repeated(self, name: str, one: Constraint, rows: Rows) -> Violation:
        types = dict(self.shape.columns)
        counts = [(column, INTEGER) for column in ("rows", "groups", "n")]
        given = (*counts, *((column, types[column]) for column in one.columns))
        found = self._answered(self._repeats(one), [], given, rows)
        total, groups = (found.column(n)[0].as_py() if len(found) else 0 for n in range(2))
        first = repeated(found.select(range(2, len(given))), one.columns)
        return Violation(name, constraint_words(one), total, first, groups)

    def _answered(
        self, sql: str, texts: list[str], columns: Columns, rows: Rows, *, placed: bool = False
    ) -> pa.Table:
        schema = pa.schema([(name, arrow_type(type_)) for name, type_ in columns])
        relation = partial(self._opened, rows, placed=placed)
        return pa.Table.from_batches(duck.answered(sql, texts, schema, [relation]), schema)

    def _opened(self, rows: Rows, *, placed: bool) -> tuple[pa.Schema, Batches]:
        fields = [
            *((alias(index), clock_type(self.shape.columns[index][1])) for index in self.read),
            *((name, TYPES[name]) for name in (BLOCK, ORDINAL)),
            *((name, GIVEN_TYPES[name]) for name in ((SOURCE, LINE) if placed else ())),
        ]
        broken = [(f"broken{place}", pa.bool_()) for place in range(len(self.patterns))]
        names = [name for name, _ in fields]
        wanted: Batches = (batch.select(names) for batch in rows(names))
        if broken:
            places = [(self.read.index(index), pattern) for index, pattern in self.patterns]
            wanted = PatternStep(places)(wanted)
        schema = pa.schema([*fields, *broken])
        return schema, clocks((batch.columns for batch in wanted), schema)

    def _broken(self, writer: Writer, one: Constraint) -> str:
        """Write whether a row breaks a constraint, which is never null."""
        if one.kind == "check":
            return f"(NOT coalesce({self._condition(writer, one)}, true))"
        parts = [self._breaks(writer, name, one) for name in one.columns]
        return f"coalesce({' OR '.join(parts)}, false)"

    def _condition(self, writer: Writer, one: Constraint) -> str:
        with shallow():
            condition = writer.condition(condition_tree(one.sql))
        if condition.aggregate:
            raise OutsideError("an aggregate")
        return condition.sql

    def _breaks(self, writer: Writer, name: str, one: Constraint) -> str:
        """Write whether a value breaks a constraint that is about each column by itself."""
        column, type_ = self._column(name), dict(self.shape.columns)[name]
        if one.kind == "pattern":
            return f"t0.broken{self.patterns.index((self._index(name), one.pattern))}"
        if one.kind == "not-null":
            return f"({column} IS NULL)"
        if one.kind == "enum":
            values = ", ".join(_listed(value, type_, writer.texts) for value in one.values)
            return f"({column} NOT IN ({values}))"
        if one.kind == "length":
            if type_.kind not in TEXTS:
                return f"({column} IS NOT NULL)"
            column, type_ = f"CAST(length({column}) AS BIGINT)", INTEGER
        elif type_.kind not in NUMBERS:
            raise OutsideError(f"a range of {words(type_)}")
        ends = ((one.minimum, True), (one.maximum, False))
        beyond = [_beyond(column, type_, end, least=low) for end, low in ends if end is not None]
        return f"({column} IS NOT NULL AND ({' OR '.join(beyond)}))"

    def _resolved(self, node: exp.Column) -> Written:
        if type(node.this) is not exp.Identifier or len(node.parts) > 1:
            raise OutsideError("a member of a column")
        if node.name not in self.shape.names:
            raise OutsideError(f"the column {node.name}, which is not there")
        return self._written(node.name)

    def _written(self, name: str) -> Written:
        place, type_ = (0, self._index(name)), dict(self.shape.columns)[name]
        return Written(self._column(name), type_, name, bare=frozenset((place,)), column=place)

    def _column(self, name: str) -> str:
        return f"t0.{alias(self._index(name))}"

    def _index(self, name: str) -> int:
        return self.shape.names.index(name)


def _beyond(column: str, type_: Type, bound: float, *, least: bool) -> str:
    """Write whether numbers are below a minimum, or above a maximum."""
    nearest = edge(type_, bound, least=least)
    if isinstance(nearest, bool):
        return "true" if nearest else "false"
    if isinstance(nearest, Decimal):
        exact = f"DECIMAL({DIGITS},{type_.scale})" if type_.kind is Kind.DECIMAL else "HUGEINT"
        value = f"CAST('{nearest:f}' AS {exact})"
    else:
        value = f"CAST('{nearest!r}' AS DOUBLE)"
    return f"{column} {'<' if least else '>'} {value}"


def _listed(value: Any, type_: Type, texts: list[str]) -> str:
    """Write a value of an enum in the type of its column.

    Raises:
        OutsideError: Spark would cast it.
    """
    kind = type_.kind
    if kind in TEXTS and value is not None:
        texts.append(value if isinstance(value, str) else json.dumps(value))
        return f"${len(texts)}"
    if kind is Kind.BOOLEAN and isinstance(value, bool):
        return "true" if value else "false"
    if kind in (Kind.DATE, Kind.TIMESTAMP) and isinstance(value, str):
        return time(value, kind)
    if kind in NUMBERS and isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(json.dumps(value), type_)
    if kind is Kind.DECIMAL and isinstance(value, str) and _DIGITS.fullmatch(value):
        return number(value, type_)
    raise OutsideError(f"a list of {words(type_)} with {json.dumps(value)}")
