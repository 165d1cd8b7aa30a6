"""Whether the rows that are to replace all others are the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.changes.delta import Delta
from singerlake.engine.base import Engine
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.records.changes.merge_terms import CHANGED
from singerlake.records.rows.packing import Unpacked
from singerlake.records.rows.row_columns import MISFITS, aliases
from singerlake.records.rows.steps import Batches, Pipeline
from singerlake.records.state.fingerprint import SUMMED, Content, Proof, Sums
from singerlake.snapshot.from_blocks import planned, through
from singerlake.transactions.snapshot import Snapshot

_SUMMED = f"{SUMMED}, unlike long"


def are_the_same(engine: Engine[Any], table: Table, state: Snapshot, found: Delta) -> bool:
    """Tell whether new rows, which name all columns, are those that a table without a key has.

    Args:
        engine: Reads the rows.
        table: The table.
        state: As it is read after the change.
        found: The new rows, as many as there are.
    """
    columns = found.wanted.spec.columns
    step = Pipeline((Unpacked(column="new"), _Sum(columns)))
    new = _total(engine, engine.map(found.new, step, _SUMMED))
    if new is None:
        return False
    plan = planned(engine, table, state, shown=True)
    return new == _total(engine, through(engine, plan, _Sum(columns), _SUMMED))


def _total(engine: Engine[Any], summed: Any) -> Content | None:
    """What rows come down to; None if some are like no row of the other side."""
    sums, unlike = Sums((Proof.VALUES,)), 0
    for row in engine.collect(summed):
        sums.add(row)
        unlike += row["unlike"]
    return None if unlike else sums.content()


@dataclass
class _Sum:
    """Sums up the values of rows, and counts those that are like no row of the other side.

    New rows are if they leave a column out, which may have a default. Present ones are if a value
    does not fit, which only reads as null.

    Attributes:
        columns: The table's.
    """

    columns: Columns

    def __call__(self, batches: Batches) -> Batches:
        """Give one row a part."""
        sums, unlike = Sums((Proof.VALUES,)), 0
        names = aliases(len(self.columns))
        for batch in batches:
            if CHANGED in batch.schema.names:
                said = pc.list_value_length(batch.column(CHANGED))
                unlike += pc.sum(pc.less(said, len(names))).as_py() or 0
            else:
                misfits = batch.column(MISFITS)
                unlike += len(misfits) - misfits.null_count
            if not unlike:  # of a value that a lake cannot hold there may be no text
                sums.take(batch.select(names), self.columns)
        yield sums.batch().append_column("unlike", pa.array([unlike], pa.int64()))
