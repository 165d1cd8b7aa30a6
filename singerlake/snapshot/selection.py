"""What somebody wants of a state's rows: some columns, and those rows that a filter keeps.

A filter is an expression of Arrow's over the columns that people see. Only the columns that it
and the result need are read. A value that does not fit its column is an error where the filter
or the result reads it, and nowhere else, as in a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.errors import InvalidQueryError
from singerlake.format.names import TableName
from singerlake.nearest import offer
from singerlake.rows.batches.row_columns import BLOCK, MISFITS, alias
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks.block_reader import combined
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.state.misfit_steps import MisfitCheck
from singerlake.rows.state.shape import Shape

Read = Callable[[Sequence[str]], Batches]
"""Reads columns of a state, by what they are called inside."""
Keep = Callable[[pa.Table], pa.Table]
"""Keeps rows of a table, whose columns have their own names; one more may follow them."""


@dataclass(frozen=True)
class Selection:
    """Columns and rows of a table.

    Attributes:
        table: The table's name, for errors.
        shape: Its columns.
        wanted: Indexes of the columns wanted, in the order wanted.
        keep: Which rows; None for all.
        used: Indexes of the columns that the filter reads.
        strict: Whether it is an error to read a value that does not fit; else it is null.
    """

    table: TableName
    shape: Shape
    wanted: tuple[int, ...]
    keep: Keep | None = None
    used: frozenset[int] = frozenset()
    strict: bool = True

    @property
    def schema(self) -> pa.Schema:
        """The schema of what comes out."""
        whole = arrow_schema(self.shape)
        return pa.schema([whole.field(index) for index in self.wanted])

    def rows(self, read: Read, misfits: set[int]) -> Batches:
        """Read, filter and name the rows.

        Args:
            read: Reads columns of the state.
            misfits: Indexes of the columns that may have values which do not fit.

        Raises:
            DamagedError: A value that is read does not fit its column.
        """
        needed = sorted({*self.wanted, *self.used})
        doubtful = self.strict and not misfits.isdisjoint(needed)
        columns = [alias(index) for index in needed]
        # Without any column, Arrow would lose count of the rows.
        batches = read([*columns, MISFITS if doubtful else BLOCK])
        batches = self._checked(batches, misfits & self.used if doubtful else set())
        batches = self._filtered(batches, needed)
        batches = self._checked(batches, misfits & set(self.wanted) if doubtful else set())
        names = [alias(index) for index in self.wanted]
        schema = self.schema
        for batch in combined(one.select(names) for one in batches):
            yield batch.rename_columns(schema.names).cast(schema)

    def _checked(self, batches: Batches, columns: set[int]) -> Batches:
        if not columns:
            return batches
        names, keyed = self.shape.names, bool(self.shape.keys)
        return MisfitCheck(self.table, names, keyed=keyed, columns=frozenset(columns))(batches)

    def _filtered(self, batches: Batches, needed: list[int]) -> Iterator[pa.RecordBatch]:
        if self.keep is None:
            yield from batches
            return
        names = [self.shape.names[index] for index in needed]
        last = "_"
        while last in names:
            last += "_"
        for batch in batches:
            named = pa.Table.from_batches([batch]).rename_columns([*names, last])
            for kept in self.keep(named).to_batches():
                yield kept.rename_columns(batch.schema.names)


def arrow_schema(shape: Shape) -> pa.Schema:
    """Return a table's schema as people see it."""
    return pa.schema([pa.field(name, arrow_type(type_)) for name, type_ in shape.columns])


def selection(
    table: TableName,
    shape: Shape,
    columns: Sequence[str] | None,
    row_filter: pc.Expression | None,
    *,
    strict: bool,
) -> Selection:
    """Check what somebody asks for.

    Raises:
        InvalidQueryError: There is no such column, or the filter is none of Arrow's, or makes no
            sense of the table.
    """
    places = {name: index for index, name in enumerate(shape.names)}
    if row_filter is not None and not isinstance(row_filter, pc.Expression):
        raise InvalidQueryError(
            f"filter={row_filter!r} is not an Arrow expression: write "
            'pyarrow.compute.field("id") > 3, or use SQL with singerlake.spark.query()'
        )
    if isinstance(columns, str):
        raise InvalidQueryError(f"columns={columns!r} is not a list of names: write [{columns!r}]")
    for name in columns or ():
        if name not in places:
            hint = offer(name, list(places), "it has none")
            raise InvalidQueryError(f"{table} has no column {name!r}: {hint}")
    wanted = tuple(places.values()) if columns is None else tuple(places[name] for name in columns)
    used = frozenset[int]() if row_filter is None else _used(table, row_filter, arrow_schema(shape))
    keep = None if row_filter is None else partial(_filtered, row_filter=row_filter)
    return Selection(table, shape, wanted, keep, used, strict)


def _filtered(rows: pa.Table, row_filter: pc.Expression) -> pa.Table:
    return rows.filter(row_filter)


def _used(table: TableName, row_filter: pc.Expression, schema: pa.Schema) -> frozenset[int]:
    """Find the columns that a filter reads: those without which Arrow cannot make sense of it."""
    try:
        schema.empty_table().filter(row_filter)
    except (pa.ArrowException, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidQueryError(f"the filter does not fit {table}: {reason}") from error
    if "FieldPath(" in str(row_filter):  # by number, which would mean another column then
        return frozenset(range(len(schema)))
    return frozenset(_read_by(row_filter, schema, list(range(len(schema)))))


def _read_by(row_filter: pc.Expression, schema: pa.Schema, among: list[int]) -> Iterator[int]:
    """Which of some columns a filter reads, by halves: few of a wide table are."""
    without = pa.schema([field for i, field in enumerate(schema) if i not in set(among)])
    try:
        without.empty_table().filter(row_filter)
    except pa.ArrowException:
        half = len(among) // 2
        if not half:
            yield from among
            return
        yield from _read_by(row_filter, schema, among[:half])
        yield from _read_by(row_filter, schema, among[half:])
