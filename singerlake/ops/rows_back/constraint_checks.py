"""The constraints that rows which come back would break, on DuckDB or on Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.engine.base import Engine, Schema
from singerlake.engine.choice import EngineChoice
from singerlake.engine.local import LocalEngine
from singerlake.lake import Table
from singerlake.ops.rows_back.actions import found_in
from singerlake.ops.rows_back.checks import as_now, put_back
from singerlake.ops.rows_back.revert_plan import RevertPlan
from singerlake.ops.rows_back.undo_plan import UndoPlan
from singerlake.rows.batches.row_columns import PROVENANCE, row_schema
from singerlake.rows.batches.steps import Batches, Pipeline, Step
from singerlake.rows.batches.violations import Violation
from singerlake.rows.blocks.block_reader import combined
from singerlake.rows.changes.asked_rows import compared_keys
from singerlake.rows.state import keys
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot import building, content, from_blocks
from singerlake.snapshot.index import Index
from singerlake.sql.constraints import check_constraints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def broken_by_revert(
    choice: EngineChoice, engine: Engine[Any], table: Table, wanted: RevertPlan, old: Index
) -> list[Violation]:
    """Find the constraints of today that the rows of the old state do not keep."""
    after = wanted.after
    shape, asked = shape_of(after), after.overlay.constraints

    def here(_: list[str]) -> Batches:
        read = (combined, row_schema(shape.columns, PROVENANCE))
        return _here(engine).batches(as_now(engine, table, wanted, old, shape.columns, *read))

    def on_spark(spark: SparkSession) -> list[Violation]:
        from singerlake.ops.rows_back.sql_checks import old_rows
        from singerlake.sql import violations

        rows = old_rows(spark, table, wanted, old)
        return violations.check_constraints(rows, shape, asked)

    return check_constraints(choice, engine, shape, asked, here, on_spark)


def broken_by_undo(
    choice: EngineChoice, engine: Engine[Any], table: Table, wanted: UndoPlan, rows: Any
) -> list[Violation]:
    """Find the constraints that rows which come back do not keep.

    Args:
        rows: Positions of the rows that are written, as in ``actions.FOUND``.
    """
    after = wanted.after
    shape, asked = shape_of(after), after.overlay.constraints
    unique = any(one.kind == "unique" for one in asked.values())

    def here(_: list[str]) -> Batches:
        schema = row_schema(shape.columns, PROVENANCE)
        back = put_back(engine, table, wanted, rows, combined, schema)
        batches = _here(engine).batches(back)
        if not unique or not shape.keys:  # without a key, all rows are written anew
            return batches
        return _whole(_here(engine), table, wanted, rows, list(batches))

    def on_spark(spark: SparkSession) -> list[Violation]:
        from singerlake.ops.rows_back.sql_checks import rows_after
        from singerlake.sql import violations

        frame = rows_after(spark, table, wanted, rows, whole=unique)
        return violations.check_constraints(frame, shape, asked)

    return check_constraints(choice, engine, shape, asked, here, on_spark)


def _whole(
    engine: LocalEngine, table: Table, wanted: UndoPlan, rows: Any, back: list[pa.RecordBatch]
) -> Batches:
    """Give all rows of the table as it will be: what has to hold of all of them together."""
    shape = shape_of(wanted.after)
    now = building.ensure(engine, table, wanted.head)
    gone = [some.codes[some.deleted] for batch in engine.batches(rows) for some in found_in(batch)]
    step = _Others(np.concatenate([np.empty(0, np.int64), *gone]))
    plan = from_blocks.planned(engine, table, wanted.after, shape=replace(shape, keys=()))

    def places(place: Step, schema: Schema) -> Any:
        return content.places(engine, now, Pipeline((step, place)), schema)

    schema = row_schema(shape.columns, PROVENANCE)
    stay = from_blocks.at_places(engine, plan, places, combined, schema)
    yield from _without(engine.batches(stay), back, shape)
    yield from back


@dataclass
class _Others:
    """Gives the positions that are not among some."""

    codes: NDArray[np.int64]

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            codes = batch.column("codes").to_numpy()
            others = codes[np.isin(codes, self.codes, invert=True)]
            yield pa.RecordBatch.from_arrays([pa.array(others)], ["codes"])


def _without(rows: Batches, back: list[pa.RecordBatch], shape: Shape) -> Batches:
    """Leave out rows of whose key one comes back; a null is equal to none."""
    names = shape.key_aliases
    known = [compared_keys(pa.table(batch), names, shape.key_columns) for batch in back]
    count = sum(map(len, known))
    for batch in rows:
        own = compared_keys(pa.table(batch), names, shape.key_columns)
        codes = keys.numbered(pa.concat_tables([*known, own]))
        stays = np.isin(codes[count:], codes[:count], invert=True)
        for name in names:
            stays |= batch.column(name).is_null().to_numpy(zero_copy_only=False)
        yield batch.filter(pa.array(stays))


def _here(engine: Engine[Any]) -> LocalEngine:
    if not isinstance(engine, LocalEngine):
        raise TypeError("these rows are read in this process")
    return engine
