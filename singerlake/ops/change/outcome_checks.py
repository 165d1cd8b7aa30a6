"""Checks of the rows that a change leaves: what no schema of new records says of them.

That a column is unique, for one, or a condition in SQL. What is said anew is asked of all rows,
and so is what they keep together. A condition that was there is asked of those that the change
touches: it is not to blame for others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

import msgspec
import pyarrow as pa

from singerlake.errors import InvalidQueryError, UsageError
from singerlake.format.json_schema import resolved
from singerlake.format.overlay import Constraint
from singerlake.format.types import Type
from singerlake.format.values import converter
from singerlake.log.table_state import TableState
from singerlake.ops.change.delta import Delta
from singerlake.ops.change.plan import ChangePlan
from singerlake.ops.change.present_rows import broken_error
from singerlake.overlay.constraint_checks import beyond_schemas
from singerlake.rows.batches.problems import Problems, RowProblem, merged
from singerlake.rows.batches.violations import Violation
from singerlake.rows.changes import row_ids
from singerlake.rows.state.shape import Shape
from singerlake.safe_text import visible


class OutcomeChecks(ABC):
    """The rows as they will be, and what an engine finds wrong with them."""

    @abstractmethod
    def violations(
        self, constraints: Mapping[str, Constraint], *, changed: bool
    ) -> list[Violation]:
        """Find the rows that break constraints.

        Args:
            constraints: By name.
            changed: Look at rows that the change touches alone.
        """

    @abstractmethod
    def broken_defaults(self, constraints: Mapping[str, Constraint]) -> Collection[str]:
        """Return the names of constraints that a row of nothing but defaults breaks."""

    @abstractmethod
    def breaking(self, broken: Violation, one: Constraint) -> tuple[int, pa.Table]:
        """Return how many rows of the change break a constraint, and the first of them.

        These have the numbers of their source and line, in how many rows their values are if the
        constraint is ``unique``, the key (or block and ordinal), and the constraint's columns.
        """


def check_outcome(checks: OutcomeChecks, found: Delta, wanted: ChangePlan, shape: Shape) -> None:
    """Make sure that a change leaves rows that keep what no schema asks of a record.

    Raises:
        InvalidQueryError: A condition that is said anew cannot be computed; nothing was changed.
        UsageError: Defaults that are said anew break a condition; nothing was changed.
        ViolationsError: Rows would not keep them; nothing was changed.
    """
    state, altered = wanted.state, wanted.altered
    constraints = state.overlay.constraints
    anew = {} if altered is None else {**altered.new_constraints, **altered.rechecked}
    if altered is not None and (asked := altered.checked_defaults):
        check_defaults(asked, checks.broken_defaults(asked))
    if not (found.changes or anew):
        return
    every = {n: one for n, one in constraints.items() if one.kind == "unique" or n in anew}
    types = dict(shape.columns)
    each = {n: one for n, one in constraints.items() if beyond_schemas(one, types)}
    each = {n: one for n, one in each.items() if n not in anew}
    broken = checks.violations(every, changed=False) if every else []
    broken += checks.violations(each, changed=True) if each else []
    if none := next((one for one in broken if one.why and one.name in anew), None):
        raise InvalidQueryError(none.untold)
    if broken:
        error = broken_error(state.table, broken)
        sources = found.wanted.sources
        error.problems = merged(
            _problems(checks, one, constraints[one.name], shape, sources) for one in broken
        )
        raise error


def check_defaults(asked: Mapping[str, Constraint], broken: Collection[str]) -> None:
    """Refuse defaults that break a condition: no row could do without the columns that it names.

    Args:
        asked: The conditions, by their names.
        broken: The names of those that a row of defaults breaks.

    Raises:
        UsageError: They do.
    """
    for name, one in asked.items():
        if name in broken:
            columns = ", ".join(one.columns)
            raise UsageError(
                f"the default of {columns} breaks {name} ({visible(one.sql)}), and nothing was "
                f"changed: a row without a value of {columns} could not be accepted; set another "
                "default, or drop the constraint"
            )


def defaults_of(state: TableState, shape: Shape) -> list[object]:
    """Return the values of new rows in columns that they do not name, as Arrow takes them."""
    schema = state.schema.schema
    properties = resolved(schema, schema).get("properties", {})
    return [_default(resolved(properties.get(n, {}), schema), type_) for n, type_ in shape.columns]


def _default(spec: Mapping[str, object], type_: Type) -> object:
    value = spec.get("default")
    return None if value is None else converter(type_, loose=True)(msgspec.json.encode(value))


def _problems(
    checks: OutcomeChecks,
    broken: Violation,
    one: Constraint,
    shape: Shape,
    sources: tuple[str, ...],
) -> Problems:
    """Name the rows of a change that break a constraint."""
    if broken.why:  # nobody knows which
        return Problems()
    total, rows = checks.breaking(broken, one)
    problems, types = Problems(total), dict(shape.columns)
    named = len(shape.keys) or 2
    for source, line, times, *cells in zip(*(c.to_pylist() for c in rows.columns), strict=True):
        values = zip(one.columns, cells[named:], strict=True)
        texts = [row_ids.value_text(v, types[name]) for name, v in values if v is not None]
        reason = (
            f"breaks {broken.name} ({broken.words})"
            if times is None
            else f"would be in {times:,} rows, and must be unique"
        )
        problem = RowProblem(0, ", ".join(one.columns), ", ".join(texts), reason)
        id_ = row_ids.id_text(cells[:named], shape.key_columns)
        problems.first.append(problem.at(sources[source], line, id_))
    return problems
