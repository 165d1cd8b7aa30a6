"""The rows of pairs, read and put side by side, on an engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic

import numpy as np
import pyarrow as pa

from singerlake.engine.base import Engine, R, Schema
from singerlake.lake import Table
from singerlake.log.schema_difference import Comparison
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import MISFITS, row_schema
from singerlake.rows.batches.steps import Pipeline, Step
from singerlake.rows.blocks import block_tasks
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.state.paired_rows import (
    MISFIT_COUNTS,
    PART,
    PARTS,
    MisfitStep,
    PartStep,
)
from singerlake.rows.state.rows_at import ASKED, IS_AFTER, PAIR, AskStep, RowsAt
from singerlake.rows.state.shape import Shape


@dataclass(frozen=True)
class BothRows(Generic[R]):
    """The way in which both rows of each pair are read, as the second state reads them.

    Attributes:
        asked: The positions, each where it is read.
        step: Reads them.
        schema: The columns of the shape, misfits, ``PAIR`` and ``IS_AFTER``.
    """

    engine: Engine[R]
    asked: R
    step: RowsAt
    tasks: int
    schema: pa.Schema

    @classmethod
    def of(
        cls,
        engine: Engine[R],
        table: Table,
        compared: Comparison,
        pairs: R,
        after: TableState,
        shape: Shape,
    ) -> BothRows[R]:
        """Share the reading out.

        Args:
            compared: The states.
            pairs: Their positions, as ``Differing`` has them.
            after: The second state; its columns may be read otherwise.
        """
        states = (compared.before.snapshot, compared.after.snapshot)
        blocks = max(states, key=lambda state: state.number).blocks
        tasks = block_tasks.split(blocks, engine.parts, block_tasks.TASK_BYTES) or [[]]
        reader = BlockReader.of(table.store, after, tasks, shape.columns, shape.key_names)
        # Each task is sent its own blocks with its rows.
        sent, reader = reader.tasks, replace(reader, tasks=[])
        ends = np.array([task[-1].number for task in tasks[:-1]], dtype=np.int64)
        asked = engine.exchange(engine.map(pairs, AskStep(ends), ASKED), len(tasks), "task", sent)
        schema = row_schema(shape.columns, (MISFITS,))
        for field in (pa.field(PAIR, pa.int64()), pa.field(IS_AFTER, pa.bool_())):
            schema = schema.append(field)
        return cls(engine, asked, RowsAt(reader), len(tasks), schema)

    def rows(self) -> R:
        """Read them."""
        return self.engine.map(self.asked, self.step, self.schema)

    def paired(self, step: Step, schema: Schema) -> R:
        """Give both rows of pairs to a step, of all pairs of a part at once.

        Args:
            step: Takes them, a ``PairStep`` first.
            schema: Of what it gives.
        """
        engine = self.engine
        if self.tasks == 1:
            return engine.map(self.asked, Pipeline((self.step, step)), schema)
        parts = 2 * self.tasks
        shared = engine.map(self.asked, Pipeline((self.step, PartStep(parts))), PARTS)
        return engine.map(engine.exchange(shared, parts, PART), step, schema)

    def misfits(self) -> dict[int, int]:
        """Count the values that do not fit, by the index of their column."""
        counts: dict[int, int] = {}
        step = Pipeline((self.step, MisfitStep()))
        for row in self.engine.collect(self.engine.map(self.asked, step, MISFIT_COUNTS)):
            counts[row["column"]] = counts.get(row["column"], 0) + row["values"]
        return dict(sorted(counts.items()))
