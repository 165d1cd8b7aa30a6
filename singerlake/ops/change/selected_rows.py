"""Rows that a condition selects, for update and delete: asked of DuckDB or of Spark.

SQL that DuckDB answers as Spark does is asked in this process, if the change runs there.
Either way, rows come by their keys and with their versions, and are asked again if others changed
the same rows in the meantime.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from singerlake.engine.base import Engine
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.engine.local import LocalEngine
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.ops.change.change import ChangeStep, change
from singerlake.ops.change.job import Changed
from singerlake.ops.change.literal_rows import SetCells, computed_values, set_cells, set_index
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.change.row_set import GivenRows, RowSet, sent, unpacked
from singerlake.rows.input.rows import special_names
from singerlake.rows.state.shape import shape_of
from singerlake.sql import answers


@dataclass
class SelectedRows(GivenRows):
    """Rows that SQL selects; to be used as a context, because Spark reads them under leases.

    Attributes:
        lake: The lake, whose other tables SQL may ask on Spark.
        table: The table that is changed.
        where: Which rows; all of them for None.
        values: New values by column, as SQL; none to select rows alone.
        of_spark: What only Spark can read of them; None if DuckDB may be asked.
    """

    lake: Lake
    table: Table
    where: str | None
    values: Mapping[str, str] = field(default_factory=dict)
    of_spark: str | None = None
    _held: ExitStack = field(default_factory=ExitStack)

    def row_set(self, engine: Engine[Any], present: TableState, source: str) -> RowSet:
        """Select the rows of a table as it is; see :meth:`GivenRows.row_set`.

        Raises:
            OutsideError: DuckDB cannot tell which rows are meant as Spark does.
            InvalidQueryError: The condition or a value is not valid SQL.
        """
        if isinstance(engine, LocalEngine):
            return self._here(engine, present, source)
        from singerlake.ops.change.sql.selected_rows import Selection  # late: it imports PySpark

        self._held.close()
        selection = Selection(self.lake, self.table, self.where, self.values)
        return self._held.enter_context(selection).row_set(engine, present, source)

    def _here(self, engine: LocalEngine, present: TableState, source: str) -> RowSet:
        from singerlake.sql.local.condition import check_selection, selecting
        from singerlake.sql.local.query import query

        shape = shape_of(present)
        computed = computed_values(present, self.values)
        check_selection(present, self.where, computed)  # columns may have other types by now
        written = {name: one for name, one in self.values.items() if name not in computed}
        places = [set_index(shape, present.table, name) for name in computed]
        step = SetCells.of(shape, set_cells(shape, present, written), places)
        special = special_names(shape.names)
        names = [*(shape.key_names or [special.row_id]), special.row_version]
        sql = selecting(present, names, self.where, [*computed.values()])
        with query(self.lake, sql, EngineChoice(LOCAL), row_metadata=True) as found:
            own = len(names) - 1
            batches = [
                step.batch(
                    keys=columns[:own] if shape.keys else [],
                    ids=None if shape.keys else columns[0],
                    versions=columns[own],
                    computed=columns[own + 1 :],
                )
                for columns in (batch.columns for batch in found.batches())
            ]
        rows = sent(engine, pa.Table.from_batches(batches, step.schema))
        return RowSet(rows, step.indexes, (source,), unpacked)

    def __enter__(self) -> SelectedRows:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()


def change_selected(
    lake: Lake,
    table: Table,
    mode: Mode,
    where: str | None,
    values: Mapping[str, str] | None = None,
    options: ChangeOptions | None = None,
    choice: EngineChoice | None = None,
) -> Changed:
    """Update or delete the rows that a condition selects.

    Args:
        lake: The lake, whose other tables SQL may ask.
        where: The condition; all rows for None.
        values: New values by column, as SQL.

    Raises:
        UsageError: Only this process may be used, and DuckDB does not answer the SQL as Spark does.
        SingerlakeError: As :func:`change` raises it, or the SQL is not valid.
    """
    choice, values = choice or EngineChoice(), values or {}

    def asked(of_spark: str | None) -> Changed:
        with SelectedRows(lake, table, where, values, of_spark) as rows:
            return change(table, [ChangeStep(mode, rows, str(table.name))], options, choice)

    def here() -> Changed:
        from singerlake.sql.local.condition import check_selection

        head = table.snapshot()
        for name in values:
            set_index(shape_of(head), table.name, name)
        check_selection(head, where, computed_values(head, values))
        return asked(None)

    return answers.first_here(choice, "a change", here, asked)
