"""A change as programs make it: steps that are gathered, and carried out as one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET

from singerlake.engine.choice import EngineChoice
from singerlake.errors import UsageError
from singerlake.format.overlay import Constraint, Overlay
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops.change import plan as plans
from singerlake.ops.change.change import ChangeStep, change
from singerlake.ops.change.given_rows import captured
from singerlake.ops.change.job import Changed
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.change.row_set import GivenRows
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import OverlayChange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TableChange:
    """Several steps that are one change of a table; see ``Table.change``.

    Rows are a list of dictionaries, or a frame of pyarrow, pandas, polars or Spark, or any other
    that hands itself over as an Arrow stream. Columns go by their names; those that are not there
    are left as they are, as is in a dictionary what it does not mention. ``_row_id`` names a row,
    ``_row_version`` says in which version it was read, and ``_delete`` whether it is to go.

    Args:
        table: The table.
        options: How it is changed.
        choice: What may read rows, and write them.

    Attributes:
        result: What was done, once the context has been left without an error.
    """

    def __init__(
        self, table: Table, options: ChangeOptions, choice: EngineChoice | None = None
    ) -> None:
        self._table = table
        self._options = options
        self._choice = choice or EngineChoice()
        self._steps: list[ChangeStep] = []
        self._said: list[OverlayChange] = []
        self.result: Changed | None = None
        plans.plan(table.snapshot(), options)

    def add_column(
        self,
        name: str,
        schema: dict[str, Any],
        *,
        default: Any = None,
        initial: Any = UNSET,
        description: str | None = None,
    ) -> None:
        """Add a column, which rows of this change may name already.

        Args:
            name: What it is called.
            schema: The JSON Schema of its values.
            default: What new rows get, as JSON has it.
            initial: What rows show that are there; the default, if left out.
            description: What it means.

        Raises:
            UsageError: The change is over. What cannot be said is refused at the change's end.
        """
        more = {"default": default, "initial": initial, "description": description}
        self._say(partial(says.with_column, name=name, schema=schema, **more))

    def rename_column(self, name: str, new: str) -> None:
        """Call a column otherwise; rows of this change go by the new name.

        Raises:
            UsageError: As :meth:`add_column`.
        """
        self._say(partial(says.with_name, name=name, new=new))

    def drop_column(self, name: str) -> None:
        """Leave a column out of the table; records keep what they have of it.

        Raises:
            UsageError: As :meth:`add_column`.
        """
        self._say(partial(says.without_column, name=name))

    def restore_column(self, name: str) -> None:
        """Bring back a column of the tap's that was dropped.

        Raises:
            UsageError: As :meth:`add_column`.
        """
        self._say(partial(says.with_restored, name=name))

    def retype_column(self, name: str, schema: dict[str, Any] | None) -> None:
        """Give a column another type; rows of this change have values of it already.

        Args:
            name: The column.
            schema: The JSON Schema of its values; None makes it text.

        Raises:
            UsageError: As :meth:`add_column`. Where values of the outcome do not fit it, the
                change is refused at its end.
        """
        self._say(partial(says.with_type, name=name, schema=schema))

    def set_key(self, *columns: str) -> None:
        """Give the table a key, by which rows of this change are found already.

        Args:
            columns: Its columns; the rows that there are must have a value in each, and no two
                the same.

        Raises:
            UsageError: As :meth:`add_column`.
        """
        self._say(partial(says.with_key, names=columns))

    def add_constraint(
        self,
        name: str,
        kind: Literal["not-null", "unique", "enum", "range", "length", "pattern"],
        *columns: str,
        values: Sequence[Any] = (),
        minimum: float | None = None,
        maximum: float | None = None,
        pattern: str = "",
    ) -> None:
        """Ask something of all rows, which this change must leave so.

        Args:
            name: The constraint's name.
            kind: What it asks for.
            columns: Of which columns; of several together if it is ``unique``.
            values: Those that an ``enum`` allows.
            minimum: The least value of a ``range``, or of characters in a ``length``.
            maximum: The greatest.
            pattern: The regular expression of a ``pattern``, as JSON Schema has it.

        Raises:
            UsageError: As :meth:`add_column`.
        """
        one = Constraint(kind, [*columns], [*values], minimum, maximum, pattern)
        self._say(partial(says.with_constraint, name=name, constraint=one))

    def add_check(self, name: str, sql: str) -> None:
        """Ask a condition of all rows, which this change must leave so.

        Args:
            name: The constraint's name.
            sql: An expression of Spark SQL on one row; a row for which it is null keeps it.

        Raises:
            UsageError: As :meth:`add_column`.
        """

        def said(present: TableState) -> Overlay:
            from singerlake.sql.constraints import with_check

            return with_check(self._choice, present, name, sql)(present)

        self._say(said)

    def drop_constraint(self, name: str) -> None:
        """Ask it no more.

        Raises:
            UsageError: As :meth:`add_column`.
        """
        self._say(partial(says.without_constraint, name=name))

    def set_default(self, column: str, default: Any) -> None:
        """Set what new rows get that do not name a column.

        Raises:
            UsageError: As :meth:`add_column`.
        """
        self._say(partial(says.with_default, name=column, default=default))

    def describe_column(self, name: str, description: str) -> None:
        """Say what a column means.

        Raises:
            UsageError: As :meth:`add_column`.
        """
        self._say(partial(says.with_description, name=name, text=description))

    def upsert(self, rows: Any) -> None:
        """Change rows that are there, and insert the others.

        Raises:
            UsageError: They are no rows, or the change is over.
        """
        self._add(Mode.UPSERT, rows)

    def insert(self, rows: Any) -> None:
        """Insert rows, none of which may be there.

        Raises:
            UsageError: As :meth:`upsert`.
        """
        self._add(Mode.INSERT, rows)

    def update(self, rows: Any) -> None:
        """Change rows, all of which must be there.

        Raises:
            UsageError: As :meth:`upsert`.
        """
        self._add(Mode.UPDATE, rows)

    def replace(self, rows: Any) -> None:
        """Make the table's rows exactly these: others are deleted. It must be the only step.

        Raises:
            UsageError: As :meth:`upsert`.
        """
        self._add(Mode.REPLACE, rows)

    def delete(self, keys: Any) -> None:
        """Delete rows; one that is not there is counted, and no error.

        Args:
            keys: Rows, of which the key counts or ``_row_id``; or a list of keys: values of the
                key column, or tuples where it has several.

        Raises:
            UsageError: As :meth:`upsert`.
        """
        self._add(Mode.DELETE, keys)

    def _say(self, said: OverlayChange) -> None:
        self._check_open()
        self._said.append(said)

    def _check_open(self) -> None:
        if self.result is not None:
            raise UsageError(f"this change of {self._table.name} is over: begin another")

    def rows(self) -> DataFrame:
        """Give the ids and versions of the rows that were written, as a Spark frame.

        ``_row_id`` and ``_row_version`` are those of a query, to go on changing these rows by;
        ``_deleted`` tells which are gone. Nothing is read before the frame is.

        Raises:
            UsageError: The change is not over yet.
        """
        if self.result is None:
            raise UsageError(f"the change of {self._table.name} is not over yet")
        spark = self._session("a Spark frame")
        from singerlake.ops.change.sql.changed_rows import changed_rows

        return changed_rows(spark, self._table, self.result.transaction)

    def _session(self, what: str) -> SparkSession:
        session: SparkSession = self._choice.spark_engine(what).spark  # type: ignore[attr-defined]
        return session

    def _add(self, mode: Mode, rows: Any) -> None:
        self._check_open()
        self._steps.append(ChangeStep(mode, _given(rows), f"step {len(self._steps) + 1}"))

    def __enter__(self) -> TableChange:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            return
        said = self._overlay if self._said else None
        options = replace(self._options, said=said)
        self.result = change(self._table, self._steps, options, self._choice)

    def _overlay(self, present: TableState) -> Overlay:
        """All that is said of columns, each thing on top of what was said before."""
        for said in self._said:
            present = present.laid_over(said(present))
        return present.overlay


def _given(rows: Any) -> GivenRows:
    """Take rows of any kind."""
    if not type(rows).__module__.startswith("pyspark."):
        return captured(rows)
    from singerlake.ops.change.sql.frame_rows import FrameRows

    return FrameRows(rows)
