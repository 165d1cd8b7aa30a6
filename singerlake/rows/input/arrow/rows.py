"""Rows of any Arrow batches as rows of a table: columns by their names, each value exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from singerlake.errors import UsageError
from singerlake.format.types import BOOLEAN, INTEGER, STRING, Columns, Type
from singerlake.nearest import offer
from singerlake.quantities import repeated
from singerlake.rows.batches.problems import Problem, Problems, kept
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.batches.steps import Batches
from singerlake.rows.input.arrow.cells import cells_of
from singerlake.rows.input.arrow.schemas import check_fits
from singerlake.rows.input.rows import (
    DELETED,
    LINE,
    ROW_ID,
    ROW_VERSION,
    SOURCE,
    TYPES,
    given_batch,
    given_schema,
    problems_batch,
    special_names,
)


@dataclass
class ArrowRows:
    """Reads batches as ``input.rows.given_schema`` has them.

    A batch has the columns of ``names`` in order, under any names, and then each row's line.

    Attributes:
        names: What the batch's columns are called.
        source: What messages call the place that the rows come from.
    """

    columns: Columns
    names: Sequence[str]
    source: str

    @property
    def indexes(self) -> tuple[int, ...]:
        """The indexes of the table's columns that are named, rising."""
        return tuple(i for i, (name, _) in enumerate(self.columns) if name in self.names)

    def check(self, types: Sequence[pa.DataType]) -> None:
        """Make sure that the table can take such columns at all.

        Raises:
            UsageError: It cannot; names the column.
        """
        own = dict(self.columns)
        special = special_names(own)
        if twice := repeated(self.names):
            raise UsageError(f"{self.source} has the column {twice[0]!r} twice")
        for name, type_ in zip(self.names, types, strict=True):
            if name in own:
                check_fits(type_, own[name], name)
            elif name not in special:
                offered = offer(name, [*own], "it has none", besides=special)
                raise UsageError(
                    f"{self.source} has a column {name!r}, and the table has none: {offered}"
                )

    def __call__(self, batches: Batches) -> Batches:
        """Read batches."""
        schema = given_schema(self.columns, self.indexes)
        problems = Problems()
        for batch in batches:
            yield self._read(batch, schema, problems)
        if problems.total:
            yield problems_batch(schema, problems)

    def _read(self, batch: pa.RecordBatch, schema: pa.Schema, problems: Problems) -> pa.RecordBatch:
        special = special_names(name for name, _ in self.columns)
        places = {name: place for place, name in enumerate(self.names)}
        lines = batch.column(len(self.names)).cast(TYPES[LINE])

        def cells(name: str, type_: Type) -> pa.Array:
            array, misfits = cells_of(batch.column(places[name]), type_)
            for row, value, reason in misfits:
                place = lines[row].as_py()
                problems.add(Problem(self.source, place, name, kept(value), reason))
            return array

        known = {SOURCE: pa.array([0] * batch.num_rows, TYPES[SOURCE]), LINE: lines}
        says = ((ROW_ID, special.row_id, STRING), (ROW_VERSION, special.row_version, INTEGER))
        for column, name, type_ in (*says, (DELETED, special.delete, BOOLEAN)):
            if name in places:
                known[column] = cells(name, type_)
        return given_batch(schema, [cells(*self.columns[i]) for i in self.indexes], known)


def aliased(types: Sequence[pa.DataType]) -> pa.Schema:
    """Return the schema of a batch for :class:`ArrowRows`."""
    fields = [pa.field(alias(n), type_) for n, type_ in enumerate(types)]
    return pa.schema([*fields, pa.field(LINE, TYPES[LINE])])
