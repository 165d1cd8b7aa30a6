"""The rows that a small table will have after a change, before anything is written, in Arrow.

DuckDB holds them against what the schema of new records cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.engine.local import LocalEngine
from singerlake.format.overlay import Constraint
from singerlake.log.table_state import TableState
from singerlake.ops.change.delta import Delta
from singerlake.ops.change.outcome_checks import OutcomeChecks, defaults_of
from singerlake.rows.batches.packing import Unpacked
from singerlake.rows.batches.problems import MOST
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL, TYPES, row_schema
from singerlake.rows.batches.steps import Batches
from singerlake.rows.batches.violations import Violation
from singerlake.rows.blocks import positions
from singerlake.rows.changes.merge_terms import (
    CHANGED,
    DELETED,
    POSITION_BLOCK,
    POSITION_ROW,
    STATUS,
    changed_schema,
)
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.input.rows import LINE, SOURCE
from singerlake.rows.input.rows import TYPES as GIVEN_TYPES
from singerlake.rows.state.shape import Shape
from singerlake.sql.local.constraints import ConstraintChecks


@dataclass
class LocalChecks(OutcomeChecks):
    """Checks of the rows that a change leaves, on DuckDB.

    Attributes:
        present: Gives the rows that there are, with provenance.
        state: The table as it will be read.
    """

    engine: LocalEngine
    found: Delta
    present: Callable[[], Batches]
    state: TableState
    shape: Shape

    def violations(  # noqa: D102
        self, constraints: Mapping[str, Constraint], *, changed: bool
    ) -> list[Violation]:
        rows = self._changed if changed else self._after
        return ConstraintChecks(self.shape, constraints).violations(rows)

    def broken_defaults(self, constraints: Mapping[str, Constraint]) -> Collection[str]:  # noqa: D102
        return broken_defaults(self.state, self.shape, constraints)

    def breaking(self, broken: Violation, one: Constraint) -> tuple[int, pa.Table]:  # noqa: D102
        checks = ConstraintChecks(self.shape, {broken.name: one})
        return checks.of_change(broken.name, self._after, MOST)

    def _changed(self, names: list[str]) -> Batches:
        for batch in self._after(names):
            yield batch.filter(batch.column(SOURCE).is_valid())

    def _after(self, _: list[str]) -> Batches:
        """Give the rows as they will be; those that are new have no position yet."""
        gone = np.sort(np.concatenate([self._codes(self._leaving), self._codes(self._new)]))
        at = self._codes(self._staying)
        order = np.argsort(at)
        for batch in self.present():
            codes = positions.codes_in(batch)
            stays = np.isin(codes, gone, invert=True)
            yield self._with_changes(batch.filter(pa.array(stays)), at[order], order)
        yield self._inserted()

    def _with_changes(
        self, batch: pa.RecordBatch, at: NDArray[np.int64], order: NDArray[np.int64]
    ) -> pa.RecordBatch:
        """Give rows with the cells that they get; those that change say where that was given."""
        codes = positions.codes_in(batch)
        places = np.searchsorted(at, codes)
        hit = np.zeros(len(codes), dtype=bool)
        inside = places < len(at)
        hit[inside] = at[places[inside]] == codes[inside]
        taken = np.where(hit, order[np.minimum(places, max(len(at) - 1, 0))] if len(at) else 0, 0)
        rows = self._staying.take(pa.array(taken, mask=~hit))
        columns = []
        for index, name in enumerate(self.shape.aliases):
            own = batch.column(name)
            if index in self._set:
                other = _contains(rows.column(CHANGED), index)
                own = pc.if_else(other, rows.column(name), own)
            columns.append(own)
        return self._batch(columns, [batch.column(BLOCK), batch.column(ORDINAL)], rows)

    def _inserted(self) -> pa.RecordBatch:
        rows, count = self._new, len(self._new)
        columns = []
        for index, (name, default) in enumerate(
            zip(self.shape.aliases, self._defaults, strict=True)
        ):
            value = pa.repeat(default[0], count)
            if index in self.shape.keys:
                value = rows.column(name)
            elif index in self._set:
                is_set = _contains(rows.column(CHANGED), index)
                value = pc.if_else(is_set, rows.column(name), value)
            columns.append(value)
        places = [pa.nulls(count, TYPES[name]) for name in (BLOCK, ORDINAL)]
        return self._batch(columns, places, rows)

    def _batch(
        self, columns: list[pa.Array], places: Sequence[pa.Array], rows: pa.RecordBatch
    ) -> pa.RecordBatch:
        where = [*places, rows.column(SOURCE), rows.column(LINE)]
        schema = pa.schema(
            [
                *row_schema(self.shape.columns, ()),
                *((name, TYPES[name]) for name in (BLOCK, ORDINAL)),
                *((name, GIVEN_TYPES[name]) for name in (SOURCE, LINE)),
            ]
        )
        return pa.RecordBatch.from_arrays([*columns, *where], schema=schema)

    @cached_property
    def _set(self) -> set[int]:
        """The indexes of the columns whose cells may change."""
        return set(self.found.wanted.spec.set_columns)

    @cached_property
    def _defaults(self) -> list[pa.Array]:
        return _defaults(self.state, self.shape)

    @cached_property
    def _there(self) -> pa.RecordBatch:
        return self._unpacked(self.found.there, "there")

    @cached_property
    def _leaving(self) -> pa.RecordBatch:
        return self._there.filter(pc.equal(self._there.column(STATUS), DELETED))

    @cached_property
    def _staying(self) -> pa.RecordBatch:
        return self._there.filter(pc.not_equal(self._there.column(STATUS), DELETED))

    @cached_property
    def _new(self) -> pa.RecordBatch:
        return self._unpacked(self.found.new, "new")

    def _unpacked(self, rows: object, column: str) -> pa.RecordBatch:
        schema = changed_schema(self.found.wanted.spec)
        step = Unpacked(column=column)
        found = self.engine.map(rows, step, "")  # type: ignore[arg-type]
        table = pa.Table.from_batches(self._like(found, schema), schema).combine_chunks()
        return table.to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], schema)

    def _like(self, rows: object, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for batch in self.engine.batches(rows):  # type: ignore[arg-type]
            yield batch.select(schema.names).cast(schema)

    @staticmethod
    def _codes(rows: pa.RecordBatch) -> NDArray[np.int64]:
        """Return the positions of the rows that are there."""
        there = rows.filter(rows.column(POSITION_BLOCK).is_valid())
        return positions.codes(
            there.column(POSITION_BLOCK).to_numpy(), there.column(POSITION_ROW).to_numpy()
        )


def broken_defaults(state: TableState, shape: Shape, asked: Mapping[str, Constraint]) -> list[str]:
    """Return the names of conditions that a row of nothing but defaults breaks.

    Args:
        state: The table as it will be read.
        asked: The conditions, by their names.
    """
    place = [pa.array([0], TYPES[name]) for name in (BLOCK, ORDINAL)]
    names = [*shape.aliases, BLOCK, ORDINAL]
    row = pa.RecordBatch.from_arrays([*_defaults(state, shape), *place], names)
    found = ConstraintChecks(shape, asked).violations(lambda _: iter([row]))
    return [one.name for one in found]


def _defaults(state: TableState, shape: Shape) -> list[pa.Array]:
    values = zip(defaults_of(state, shape), shape.columns, strict=True)
    return [pa.array([value], arrow_type(type_)) for value, (_, type_) in values]


def _contains(lists: pa.Array, index: int) -> pa.Array:
    """Tell which lists contain a number; a null one contains none."""
    parents = pc.list_parent_indices(lists)
    hits = parents.filter(pc.equal(pc.list_flatten(lists), index)).to_numpy()
    found = np.zeros(len(lists), dtype=bool)
    found[hits] = True
    return pa.array(found)
