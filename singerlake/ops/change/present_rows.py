"""The rows that a change begins with: those that there are, as they will be read.

Rows that a change may mean go on as packed Arrow tables. An index is read by row groups if its
files are on this machine, and a row group without a row that is asked for is left after its keys.

If the same change gives the table another key, no index has the rows so: which rows there are, the
former key decides, and they are read again by their positions. Rows that were replaced or deleted
under the former key may come back under the new one; then all rows of the table are written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import pyarrow.parquet as pq

from singerlake.engine.base import Engine, Schema
from singerlake.errors import SingerlakeError, ViolationsError
from singerlake.format.names import TableName
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops.change.asked_rows import Asked
from singerlake.ops.change.delta import Delta
from singerlake.ops.change.plan import ChangePlan
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL, aliases
from singerlake.rows.batches.steps import Pipeline, Step
from singerlake.rows.batches.violations import Violation
from singerlake.rows.blocks.misfits import ColumnMisfits
from singerlake.rows.blocks.positions import each_code
from singerlake.rows.changes.asked_rows import SHARED
from singerlake.rows.changes.present_rows import IndexScan, PresentStep
from singerlake.rows.state.misfit_steps import COUNTED, MisfitCounter, merged
from singerlake.rows.state.shape import Shape
from singerlake.snapshot import building, content
from singerlake.snapshot import index as indexes
from singerlake.snapshot.from_blocks import at_places, planned, through
from singerlake.snapshot.index import Index
from singerlake.snapshot.key_violations import folds_alike, key_violations


class PresentRows:
    """The rows that there are.

    Args:
        engine: Reads them.
        table: The table.
        wanted: The plan.
        shape: The table's, as it is read after the change.
    """

    def __init__(self, engine: Engine[Any], table: Table, wanted: ChangePlan, shape: Shape) -> None:
        self.engine = engine
        self.table = table
        self.wanted = wanted
        self.shape = shape
        self._all_go = False

    @property
    def new_key(self) -> bool:
        """Whether rows are told apart otherwise from then on."""
        return self.wanted.altered is not None and not self.wanted.altered.same_key

    @cached_property
    def written_again(self) -> bool:
        """Whether all rows must be, because others would come back under a new key."""
        if self._all_go or not self.new_key:
            return self._all_go
        return not folds_alike(self.engine, self.table, self.wanted.state, self.places)

    def meant(self, asked: Asked) -> list[Any]:
        """Share out the rows that may be meant, as ``asked_rows.SHARED`` has them.

        Args:
            asked: What is asked; its rows have been read.
        """
        step = self._present_step(asked)
        if self.new_key:
            return [] if self._all_go else [self.read(self.shape.columns, step, SHARED)]
        engine, table, state = self.engine, self.table, self.wanted.state
        # An index is filed by what the log says of columns, and the log may not say this yet.
        index = None if self.wanted.overlay is not None else _index(engine, table, state)
        if index is None:
            plan = planned(engine, table, state)
            return [through(engine, plan, step, SHARED, asked=step.asked)]
        both = [index] if index.below is None else [index.below, index]
        return [
            _of_index(engine, one, replace(step, layer=one.below is not None))
            for one in both
            if one.parts
        ]

    def _present_step(self, asked: Asked) -> PresentStep:
        spec = asked.spec
        return PresentStep(
            columns=spec.columns,
            keys=spec.keys,
            cells=tuple(spec.set_columns),
            asked=None if asked.replaces else asked.seen.keys,
            parts=asked.parts,
        )

    def places(self, step: Step, schema: Schema) -> Any:
        """Give the positions of all rows to a step, as ``positions.each_code`` does.

        Args:
            step: Takes them.
            schema: Of what it gives.
        """
        engine, table, state = self.engine, self.table, self.wanted.state
        if self._all_go:
            return engine.map(engine.source([]), step, schema)
        both = Pipeline((each_code, step))
        if self.wanted.overlay is not None and not self.new_key:
            return through(engine, planned(engine, table, state), both, schema)
        now = building.ensure(engine, table, self.wanted.head if self.new_key else state)
        return content.of_index(engine, now, (BLOCK, ORDINAL), both, schema)

    def read(self, columns: Columns, step: Step, schema: Schema) -> Any:
        """Give the rows that there are to a step, as they will be read under a new key.

        Args:
            columns: Those wanted.
            step: Takes rows with provenance.
            schema: Of what it gives.
        """
        engine, table, state = self.engine, self.table, self.wanted.state
        shape = Shape(columns, (), self.shape.survival)
        return at_places(
            engine, planned(engine, table, state, shape=shape), self.places, step, schema
        )

    def check_key(self, *, replaced: bool) -> None:
        """Refuse a new key that the rows cannot have; without one there is nothing to check.

        Args:
            replaced: Whether others take their place. Then none of the rows is found by such a
                key, and all go.

        Raises:
            ViolationsError: Rows lack a value of it, or have the same.
        """
        if not self.new_key:
            return
        table, columns = self.wanted.head.table, self.shape.key_columns
        rows = sum(block.rows for block in self.wanted.head.blocks)
        read = partial(self.read, columns)
        found = key_violations(self.engine, read, columns, aliases(columns), rows)
        if not found:
            return
        if replaced:
            self._all_go = True
            return
        raise ViolationsError.of_lines(
            f"{table} cannot have the key {', '.join(self.shape.key_names)}, and nothing was "
            "changed:",
            *found.lines(),
            "correct these rows in a change before this one, or add columns that make it unique",
        )

    def check_outcome(self, found: Delta) -> None:
        """Refuse rows whose values do not fit the types that their columns get.

        Without SQL, rows are not given in the same change.

        Args:
            found: What changes.

        Raises:
            SingerlakeError: They do not.
        """
        altered = self.wanted.altered
        if altered is None or not altered.asks_values:
            return
        if found.changes:
            raise TypeError("a change of rows and types is checked in SQL")
        bad = [one for one in self._misfits() if one.column in altered.retyped]
        if bad:
            raise misfits_error(self.wanted.head.table, bad)
        broken = content.too_many_digits(self.engine, self._as_after, self.shape, altered.digits)
        if broken:
            raise broken_error(self.wanted.head.table, broken)

    def _misfits(self) -> list[ColumnMisfits]:
        if not (altered := self.wanted.altered) or not altered.retyped:
            return []
        counts = self._as_after(MisfitCounter.of(self.shape), COUNTED)
        return merged(self.engine.collect(counts), self.shape)

    def _as_after(self, step: Step, schema: Schema) -> Any:
        """Give the rows that there are to a step, as they will be read."""
        if self.new_key:
            return self.read(self.shape.columns, step, schema)
        plan = planned(self.engine, self.table, self.wanted.state)
        return through(self.engine, plan, step, schema)

    def check_version(self, after: TableState) -> None:
        """Refuse to freeze rows that break a constraint, of which there is none here.

        Args:
            after: The table after the change.

        Raises:
            ViolationsError: They do.
        """


def misfits_error(table: TableName, found: Sequence[ColumnMisfits]) -> SingerlakeError:
    """Return the error of values that do not fit the types which their columns get."""
    return ViolationsError.of_lines(
        f"{table} would have values that do not fit their new type; nothing was changed:",
        *(line for one in found for line in one.lines()),
        "give these rows other values in the same change, or give the column a type that fits all",
    )


def broken_error(table: TableName, found: Sequence[Violation]) -> SingerlakeError:
    """Return the error of rows that would break what is asked of them."""
    return ViolationsError.of_lines(
        f"rows of {table} would violate a constraint; nothing was changed:",
        *(line for one in found for line in one.lines()),
        "give these rows other values, or drop the constraint first",
    )


def _index(engine: Engine[Any], table: Table, state: TableState) -> Index | None:
    """The index to read, which may have to be made; None if a look at all keys costs less.

    That is so in a small table, and in one that had no index so far. Where one change follows
    another, an index is made all the same: the changes after it cost what they change.
    """
    if (index := indexes.sound(table, state.earliest_equal())) is not None:
        return index.with_keys()
    if state.key:
        rows = sum(block.rows for block in state.blocks)
        alone = state.summary(state.number).operation != "change"
        if rows < building.LEAST_ROWS or (alone and building.layered_on(table, state) is None):
            return None
    return building.ensure(engine, table, state)


def _of_index(engine: Engine[Any], index: Index, step: PresentStep) -> Any:
    """The rows of an index's own files."""
    paths = [index.table.store.local_path(part.key) for part in index.parts]
    if not engine.here or None in paths:
        read = Pipeline((index.reader(), step))
        return engine.map(engine.source([b""] * len(paths)), read, SHARED)
    groups = [
        (str(path), group)
        for path in paths
        for group in range(pq.read_metadata(str(path)).num_row_groups)
    ]
    tasks = _shared_out(groups, engine.parts)
    scan = IndexScan(tasks, [*index.shape.aliases, *index.own_columns], step)
    return engine.map(engine.source([b""] * len(tasks)), scan, SHARED)


def _shared_out(groups: Sequence[tuple[str, int]], most: int) -> list[Sequence[tuple[str, int]]]:
    """Share row groups out to tasks, neighbours to the same one."""
    share = -(-len(groups) // most)
    return [groups[start : start + share] for start in range(0, len(groups), share)]
