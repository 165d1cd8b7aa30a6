"""The common part of reverts and undos: their engine, and the checks of rows."""

from __future__ import annotations

from typing import Protocol

from singerlake.engine.choice import EngineChoice
from singerlake.engine.work import Work
from singerlake.log.table_state import TableState
from singerlake.snapshot.from_blocks import needed_blocks


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


def asked_in_sql(choice: EngineChoice, wanted: RowsBackPlan) -> str | None:
    """Say what only Spark can check of rows that come back, if anything."""
    after = wanted.after
    if not after.overlay.constraints:
        return None
    from singerlake.sql.constraints import asked_of_spark  # late: few tables have constraints

    return asked_of_spark(choice, after, after.overlay.constraints)
