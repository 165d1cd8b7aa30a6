"""Update: set columns of rows, all of them, those of some keys, or those that SQL selects.

Values that are written out, for all rows or by key, need no SQL: they are a change of rows that
this process can make. A condition and other values are asked of DuckDB where that answers as Spark
does, and of Spark otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from singerlake.engine.choice import EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import UsageError
from singerlake.lake import Lake, Table
from singerlake.ops.change import plan as plans
from singerlake.ops.change.change import ChangeStep, change
from singerlake.ops.change.job import Changed
from singerlake.ops.change.literal_rows import LiteralRows, computed_values
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.change.selected_rows import change_selected
from singerlake.snapshot.from_blocks import reading


@dataclass(frozen=True)
class UpdateOptions:
    """The options of an update: the values, and the rows.

    Attributes:
        values: New values by column, as SQL.
        ids: The rows, as ``query --row-metadata`` gives their ids; all of them must be there.
        where: A condition in SQL instead; without either, all rows are meant.
        change: How the table is changed.
    """

    values: Mapping[str, str]
    ids: Sequence[str] = ()
    where: str | None = None
    change: ChangeOptions = field(default_factory=ChangeOptions)


def update(
    lake: Lake, table: Table, options: UpdateOptions, choice: EngineChoice | None = None
) -> Changed:
    """Set columns of rows of a table.

    Args:
        lake: The lake, whose other tables SQL may ask.

    Raises:
        UsageError: There is no such column, or it is of the key; or SQL is to be asked in this
            process.
        InvalidQueryError: A condition or a value is not valid SQL, or not of its column's type.
        RejectedRowsError: A row is not there, or its new value is not allowed.
        ConflictError: Others kept changing the rows, or the table is no longer at
            ``if_transaction``.
        ViolationsError: Rows would break a constraint.
    """
    choice = choice or EngineChoice()
    if options.ids and options.where is not None:
        raise UsageError(
            "--key and --where each select rows: use one of them; to combine keys with a "
            "condition, write both into --where"
        )
    head = table.snapshot()
    plans.plan(head, options.change)
    if options.where is None and not computed_values(head, options.values):
        every = Work() if options.ids else reading(head)
        rows = LiteralRows(table, options.values, options.ids or None, every)
        source = "--key" if options.ids else str(table.name)
        return change(table, [ChangeStep(Mode.UPDATE, rows, source)], options.change, choice)
    if options.ids:
        raise UsageError(
            "with --key, --set takes values that are written out and of their column's type, such "
            "as 17, 1.5, 'text', true, null or date'2026-11-20': for any other SQL, select rows "
            "with --where"
        )
    return change_selected(
        lake, table, Mode.UPDATE, options.where, options.values, options.change, choice
    )
