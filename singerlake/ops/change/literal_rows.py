"""Rows that get values which are written out: those of some keys, or all rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.engine.base import Engine
from singerlake.engine.work import Work
from singerlake.errors import ConflictError, UsageError
from singerlake.format.assignments import literal
from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.nearest import offer
from singerlake.ops.change.row_set import GivenRows, RowSet, sent, unpacked
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL, aliases
from singerlake.rows.batches.steps import Batches
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.input.rows import (
    LINE,
    ROW_ID,
    ROW_VERSION,
    SOURCE,
    TYPES,
    given_batch,
    given_schema,
)
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot.from_blocks import planned, through


def computed_values(present: TableState, values: Mapping[str, str]) -> dict[str, str]:
    """Return the new values that are not written out, so that SQL has to be asked for them.

    Args:
        present: The table. A column that it does not have makes no difference.
        values: New values by column, as SQL.
    """
    types = dict(present.columns)
    return {
        name: text
        for name, text in values.items()
        if name in types and not literal(text, types[name])
    }


def set_index(shape: Shape, table: TableName, name: str) -> int:
    """Return the index of a column that is to get new values.

    Raises:
        UsageError: There is no such column, or it is of the key.
    """
    if name not in shape.names:
        offered = offer(name, shape.names, "it has none")
        raise UsageError(f"{table} has no column {name!r}: {offered}")
    index = shape.names.index(name)
    if index in shape.keys:
        raise UsageError(
            f"{name!r} is part of the key of {table}, which identifies the row: delete the old row "
            "and insert a new one"
        )
    return index


@dataclass
class LiteralRows(GivenRows):
    """Rows that get new values.

    Attributes:
        values: New values by column, as literals of SQL.
        ids: Which rows, as ``query --row-metadata`` gives their ids; None for all rows.
        weight: What it takes to read them.
    """

    table: Table
    values: Mapping[str, str]
    ids: Sequence[str] | None = None
    weight: Work = field(default_factory=Work)

    @property
    def work(self) -> Work:
        """The work of reading them."""
        return self.weight

    def row_set(self, engine: Engine[Any], present: TableState, source: str) -> RowSet:
        """Name the rows, and their new values; see :meth:`GivenRows.row_set`.

        Raises:
            ConflictError: A column has got another type, which does not hold its value as it is.
        """
        shape = shape_of(present)
        cells = set_cells(shape, present, self.values)
        if self.ids is not None:
            return self._of_ids(engine, shape, cells, self.ids, source)
        # The rows of a table with a key are named by it, the others by their positions.
        read = Shape(
            shape.key_columns or shape.columns[:1],
            tuple(range(len(shape.keys))),
            shape.survival,
            apart=shape.apart,
        )
        plan = planned(engine, self.table, present, shape=read)
        step = SetCells.of(shape, cells)
        return RowSet(through(engine, plan, step, step.schema), step.indexes, (source,))

    @staticmethod
    def _of_ids(
        engine: Engine[Any],
        shape: Shape,
        cells: Mapping[int, pa.Scalar],
        ids: Sequence[str],
        source: str,
    ) -> RowSet:
        indexes, count = tuple(sorted(cells)), len(ids)
        known = {
            SOURCE: pa.repeat(pa.scalar(0, TYPES[SOURCE]), count),
            LINE: pa.array(range(1, count + 1), TYPES[LINE]),
            ROW_ID: pa.array(ids, TYPES[ROW_ID]),
        }
        values = [pa.repeat(cells[index], count) for index in indexes]
        batch = given_batch(given_schema(shape.columns, indexes), values, known)
        rows = sent(engine, pa.Table.from_batches([batch]))
        return RowSet(rows, indexes, (source,), unpacked)


def set_cells(shape: Shape, present: TableState, values: Mapping[str, str]) -> dict[int, pa.Scalar]:
    """Return new values by the indexes of their columns.

    Args:
        values: New values by column, as literals of SQL.

    Raises:
        UsageError: There is no such column, or it is of the key.
        ConflictError: A column has got another type, which does not hold its value as it is.
    """
    cells = {}
    for name, text in values.items():
        index = set_index(shape, present.table, name)
        type_ = shape.columns[index][1]
        if (found := literal(text, type_)) is None:
            raise ConflictError(
                f"the column {name!r} of {present.table} was retyped in the meantime: nothing was "
                "changed; run it again"
            )
        cells[index] = pa.scalar(found.value, arrow_type(type_))
    return cells


@dataclass
class SetCells:
    """Gives the rows of a table as rows that set columns, with the versions that they have.

    Attributes:
        schema: Of what it gives.
        indexes: Of the columns that are named, rising: the key's, and those that are set.
        keys: Of the key's; as many columns come in first.
        cells: The new values that are the same for all rows, by column.
        computed: Of the columns whose new values come with the rows.
    """

    schema: pa.Schema
    indexes: tuple[int, ...]
    keys: Sequence[int]
    cells: Mapping[int, pa.Scalar]
    computed: Sequence[int] = ()

    @classmethod
    def of(
        cls, shape: Shape, cells: Mapping[int, pa.Scalar], computed: Sequence[int] = ()
    ) -> SetCells:
        """Make one for the rows of a table of a shape."""
        indexes = tuple(sorted((*shape.keys, *cells, *computed)))
        return cls(given_schema(shape.columns, indexes), indexes, shape.keys, cells, computed)

    def __call__(self, batches: Batches) -> Batches:
        """Take rows with provenance."""
        for batch in batches:
            keys = list(map(batch.column, aliases(len(self.keys))))
            ids = None
            if not keys:
                place = (batch.column(name).cast(pa.string()) for name in (BLOCK, ORDINAL))
                ids = pc.binary_join_element_wise(*place, ":")
            yield self.batch(keys, ids, batch.column(BLOCK))

    def batch(
        self,
        keys: Sequence[pa.Array],
        ids: pa.Array | None,
        versions: pa.Array,
        computed: Sequence[pa.Array] = (),
    ) -> pa.RecordBatch:
        """Make a batch of rows.

        Args:
            keys: The columns of their key.
            ids: Their ids, in a table without a key.
            versions: Those in which they were read.
            computed: Their new values that are not the same for all.
        """
        count, own = len(versions), dict(zip(self.keys, keys, strict=True))
        own |= dict(zip(self.computed, computed, strict=True))
        known = {
            SOURCE: pa.repeat(pa.scalar(0, TYPES[SOURCE]), count),
            LINE: pa.nulls(count, TYPES[LINE]),
            ROW_VERSION: versions,
        }
        if ids is not None:
            known[ROW_ID] = ids
        cells = [
            own[index] if index in own else pa.repeat(self.cells[index], count)
            for index in self.indexes
        ]
        return given_batch(self.schema, cells, known)
