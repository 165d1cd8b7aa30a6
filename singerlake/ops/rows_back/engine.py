"""The common part of reverts and undos: their engine, and the checks of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from singerlake.engine.base import Engine
from singerlake.engine.work import Work
from singerlake.log.table_state import TableState
from singerlake.rows.batches.violations import Violation
from singerlake.snapshot.from_blocks import needed_blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RowsBackPlan(Protocol):
    """The part of a plan about rows that come back."""

    @property
    def after(self) -> TableState:
        """The rows as they will be read."""


def work(head: TableState, old: TableState | None, last: int) -> Work:
    """Estimate the reading of an old state, and of all that came since.

    Args:
        old: The state; None if there was no table yet.
    """
    since = [block for block in head.blocks if block.number > last]
    known = {block.number for block in since}
    needed = needed_blocks(old) if old is not None else ()
    before = (block for block in needed if block.number not in known)
    return Work.of([*since, *before], len((old or head).columns))


def asked_in_sql(wanted: RowsBackPlan) -> str | None:
    """Say what rows that come back have to be checked for in SQL, if anything."""
    after = wanted.after
    return f"the constraints of {after.table}" if after.overlay.constraints else None


def broken(
    engine: Engine[Any],
    wanted: RowsBackPlan,
    find: Callable[[SparkSession], Sequence[Violation]],
) -> Sequence[Violation]:
    """Have Spark find the constraints that rows which come back do not keep.

    Args:
        engine: Spark, if there are constraints.
    """
    if asked_in_sql(wanted) is None:
        return []
    from singerlake.engine.spark.engine import SparkEngine
    from singerlake.engine.spark.jvm.failures import plain_errors

    if not isinstance(engine, SparkEngine):
        raise TypeError("constraints are checked by Spark")
    with plain_errors():
        return find(engine.spark)
