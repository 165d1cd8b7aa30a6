"""Tables looked at in this process, where what Spark's jobs made of them is the point.

Each job for a look takes a second, and a look by other code than the job's proves more. That Spark
finds the same is proved where it is the question: ``test_freeze.py`` for what a version says,
``test_small_revert.py`` for what a revert writes, ``test_verify.py`` for problems,
``test_state.py`` and ``test_model.py`` for rows.
"""

from __future__ import annotations

from typing import Any

from singerlake.engine.local import LocalEngine
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.ops.verify.problems import Problem
from singerlake.rows.state.fingerprint import Content
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import from_blocks as blocks_read
from singerlake.snapshot.content import state_content
from singerlake.snapshot.selection import selection
from tests.frozen import freeze_here as freeze
from tests.frozen import revert_here as revert
from tests.frozen import verify_here

__all__ = ["content", "freeze", "problems", "revert", "rows", "values"]


def content(table: Table, at: TableState | None = None) -> Content:
    """What a state comes down to, from its blocks; the head's by default."""
    return state_content(LocalEngine(), table, at or table.snapshot())


def problems(table: Table) -> list[Problem]:
    """What ``singerlake verify`` finds."""
    return verify_here(table).problems


def rows(table: Table, at: TableState | None = None) -> list[dict[str, Any]]:
    """The rows of a state from its blocks, under the names that people see."""
    head = at or table.snapshot()
    chosen = selection(table.name, shape_of(head), None, None, strict=False)
    read = chosen.rows(lambda columns: _picked(table, head, columns), set(range(len(head.columns))))
    return [row for batch in read for row in batch.to_pylist()]


def _picked(table: Table, head: TableState, columns: Any) -> Any:
    return (batch.select(list(columns)) for batch in blocks_read.local_rows(table, head))


def values(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    """A table's rows in order, as ``SELECT *`` gives them."""
    return sorted((tuple(row.values()) for row in rows(lake.find(name)[0])), key=repr)
