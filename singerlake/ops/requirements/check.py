"""Check requirements of a snapshot, all of them, before it gets a version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

from singerlake.annotations.requirement import CHANGES, Requirement
from singerlake.engine.base import Engine
from singerlake.engine.choice import EngineChoice
from singerlake.errors import RequirementsError, UsageError
from singerlake.format import times
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.format.types import Type
from singerlake.lake import Lake, Table
from singerlake.log.schema_difference import plan as compared
from singerlake.log.table_state import TableState
from singerlake.nearest import offer
from singerlake.ops.diff.diff import Counts
from singerlake.ops.diff.table import DiffOptions, diff
from singerlake.ops.requirements import measures
from singerlake.ops.requirements.measures import ORDERED, SUMMED, ColumnMeasure
from singerlake.quantities import count, span
from singerlake.safe_text import visible
from singerlake.snapshot import building, content
from singerlake.snapshot.index import Index

_COLUMN_PASS = ("nulls", "min", "max", "sum")
_COUNTS = dict(zip(CHANGES, ("added", "changed", "removed", "unchanged"), strict=True))
"""What a diff calls each of them."""
_LONGEST = 100
"""Characters of a text that a message shows."""


@dataclass(frozen=True)
class Unmet:
    """A requirement that a snapshot does not meet.

    Attributes:
        found: The measured value, in words.
    """

    requirement: str
    found: str

    def __str__(self) -> str:
        return f"  {self.requirement}: {self.found}"


@dataclass(frozen=True)
class Subject:
    """A snapshot that is checked.

    Attributes:
        head: The table's head, which knows its versions.
        at: The table at the snapshot's transaction.
        rows: The number of its rows.
        choice: The engines that may compare the snapshot with the version before.
    """

    table: Table
    head: TableState
    at: TableState
    built: Index
    rows: int
    engine: Engine[Any]
    choice: EngineChoice

    @cached_property
    def before(self) -> FrozenVersion | None:
        """The newest version of an earlier snapshot; None if there is none."""
        first = self.at.earliest_equal().number
        earlier = (one for one in reversed(self.head.frozen) if one.transaction < first)
        return next(earlier, None)

    @cached_property
    def changes(self) -> Counts | None:
        """The difference of the snapshot to the version before; None without such a version."""
        if self.before is None:
            return None
        options = DiffOptions(str(self.before.number), f"@{self.at.number}")
        with diff(self.table, options, self.choice) as found:
            return found.counts()

    def column(self, wanted: Requirement) -> tuple[int, Type]:
        """Return a column's place and type.

        Raises:
            UsageError: There is no such column, or its values have no order or no sum.
        """
        name, shape = wanted.column or "", self.built.shape
        if name not in shape.names:
            raise UsageError(
                f"the requirement {wanted.text!r} names a column that {self.table.name} does not "
                f"have: {offer(name, shape.names)}"
            )
        index = shape.names.index(name)
        type_ = shape.columns[index][1]
        kinds = {"sum": SUMMED, "min": ORDERED, "max": ORDERED}.get(wanted.measure)
        if kinds is not None and type_.kind not in kinds:
            raise UsageError(
                f"the requirement {wanted.text!r} needs a column that has a {wanted.measure}: "
                f"{name} of {self.table.name} is {type_}"
            )
        return index, type_


def requirements_error(found: Mapping[str, Sequence[Unmet]]) -> RequirementsError:
    """Make the error that lists unmet requirements, by the snapshot that does not meet them."""
    lines = (line for where, unmet in found.items() for line in (f"{where}:", *map(str, unmet)))
    failed = sum(map(len, found.values()))
    verb = "is" if failed == 1 else "are"
    return RequirementsError.of_lines(
        f"{count(failed, 'requirement')} {verb} not met, and nothing was frozen:",
        *lines,
        "correct the rows or the requirement, then freeze again",
    )


def check_snapshot(
    engine: Engine[Any],
    table: Table,
    head: TableState,
    at: TableState,
    requirements: Sequence[Requirement],
    choice: EngineChoice,
) -> list[Unmet]:
    """Find the requirements that a snapshot does not meet.

    Args:
        engine: Reads its rows.
        table: The table, under a lease.
        head: The table's head, which knows its versions.
        at: The table at the snapshot's transaction.
        requirements: Those to check.
        choice: The engines that may compare the snapshot with its predecessor, and run statements.

    Raises:
        UsageError: One names a column that is not there, or compares values of different types.
        InvalidQueryError: A statement is not a SELECT, or names what is not there.
    """
    built = building.ensure(engine, table, at, shown=True)
    rows = content.count_rows(engine, built)
    unmet = [*_unmet(Subject(table, head, at, built, rows, engine, choice), requirements)]
    unmet += unmet_in_sql(table, requirements, {table.name: at.number}, choice)
    return unmet


def _unmet(subject: Subject, requirements: Sequence[Requirement]) -> Iterator[Unmet]:
    """Find the requirements that a snapshot does not meet, except those in SQL."""
    values = _column_values(subject, requirements)
    for one in requirements:
        if one.measure == "sql" or (one.measure in CHANGES and subject.before is None):
            continue
        if one.measure == "schema":
            yield from _schema(subject, one)
            continue
        value = values[one] if one in values else _of_rows(subject, one)
        base = _base(subject, one)
        if one.percent:
            share = Decimal(100) * value / base if base else Decimal(0 if not value else 100)
            if not one.met_by(share):
                of = f"{value:,} of {count(base, 'row')}"
                yield Unmet(one.text, f"found {_shown(round(share, 2))} % ({of})")
        elif value is None:
            yield Unmet(one.text, "found no value")
        elif not one.met_by(value):
            yield Unmet(one.text, f"found {_shown(value)}")


def unmet_in_sql(
    table: Table,
    requirements: Sequence[Requirement],
    heads: Mapping[TableName, int],
    choice: EngineChoice,
) -> Iterator[Unmet]:
    """Find the statements that return a row.

    Args:
        table: Any table of the lake.
        requirements: Those in SQL are checked.
        heads: The transactions at which tables are read that a statement names without a version.
        choice: What may run them.

    Raises:
        UsageError: Only this process may be used, and it cannot run a statement.
        InvalidQueryError: A statement is not a SELECT, or names what is not there.
    """
    from singerlake.sql.answers import answer

    for one in requirements:
        if one.measure == "sql":
            with answer(Lake(table.store), str(one.bound), choice, heads=heads) as found:
                rows = found.glimpse(1)
            if rows:
                yield Unmet(one.text, "the statement returns a row, and must return none")


def _schema(subject: Subject, one: Requirement) -> Iterator[Unmet]:
    if subject.before is None:
        return
    found = compared(subject.head, str(subject.before.number), f"@{subject.at.number}").schema
    changes = [str(change) for change in found if change.change != "description"]
    if changes:
        yield Unmet(one.text, "; ".join(changes))


def _of_rows(subject: Subject, one: Requirement) -> Any:
    if one.measure == "rows":
        return subject.rows
    if one.measure == "freshness":
        return _age(subject.at)
    if one.measure == "distinct":
        index, type_ = subject.column(one)
        return measures.distinct(subject.engine, subject.built, one.column or "", type_, index)
    counts = subject.changes
    return None if counts is None else getattr(counts, _COUNTS[one.measure])


def _base(subject: Subject, one: Requirement) -> int:
    """Return how many rows a percentage is of."""
    if one.measure in CHANGES and subject.before is not None:
        return subject.before.rows
    return subject.rows


def _age(at: TableState) -> timedelta:
    """Return how long ago the newest record of a snapshot was committed."""
    number = at.number
    while number > 1 and at.summary(number - 1).last_block == at.summary(number).last_block:
        number -= 1
    committed = times.parse(at.summary(number).time)
    return times.now() - committed if committed is not None else timedelta.max


def _column_values(subject: Subject, requirements: Sequence[Requirement]) -> dict[Requirement, Any]:
    """Measure columns in one pass over the rows."""
    wanted = [one for one in requirements if one.measure in _COLUMN_PASS]
    asked = [ColumnMeasure(one.measure, *subject.column(one)) for one in wanted]
    found = measures.measured(subject.engine, subject.built, asked)
    return dict(zip(wanted, found, strict=True))


def _shown(value: Any) -> str:
    if isinstance(value, timedelta):
        return span(value.total_seconds())
    if isinstance(value, datetime):
        return times.iso(value)
    if isinstance(value, date):
        return str(value)
    if isinstance(value, str):
        return repr(visible(value[:_LONGEST]))
    return f"{value:,}"
