"""Diff: what differs between two states of a table, counted and row by row.

Both states are read with the second's columns, types and key. Only rows that may differ are read:
which these are is told by their keys, positions and digests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from singerlake.engine.base import Engine
from singerlake.engine.choice import EngineChoice
from singerlake.engine.local import LocalEngine
from singerlake.engine.work import Work
from singerlake.lake import Table
from singerlake.log.lease import ReaderLease
from singerlake.log.schema_difference import Comparison, plan
from singerlake.ops.diff.diff import Diff, LocalDiff, under_lease
from singerlake.rows.blocks.misfits import FAIL, check_choice
from singerlake.snapshot.from_blocks import needed_blocks

WHAT = "comparing two snapshots of a table"


@dataclass(frozen=True)
class DiffOptions:
    """What to compare, and how.

    Attributes:
        before: A version's number or label, or ``@17`` for the state at transaction 17.
        after: The same; the head by default.
        on_type_mismatch: What becomes of values that do not fit their columns, in rows that differ:
            ``fail`` makes it an error to read one, ``null`` reads it as null, and ``text`` makes
            text of its column.
    """

    before: str
    after: str | None = None
    on_type_mismatch: str = FAIL


def diff(
    table: Table,
    options: DiffOptions,
    choice: EngineChoice | None = None,
    *,
    wanted: Comparison | None = None,
) -> Diff[Any]:
    """Find what differs between two states of a table.

    Args:
        table: The table.
        options: What to compare.
        choice: What may read its rows.
        wanted: What ``difference.plan`` found just now.

    Returns:
        How the schemas differ, counts, and rows, which are computed when they are taken. While it
        is held, no vacuum deletes what it reads.

    Raises:
        NotFoundError: There is no such version or transaction, or its state was given up.
        UsageError: The table's log is lost, or the first state lacks a column of the second's key.
        DamagedError: A block that is needed cannot be read, or a key does not fit.
        RuntimeMissingError: Spark is needed, and it or Java is not installed.
    """
    choice = choice or EngineChoice()
    check_choice(options.on_type_mismatch)
    wanted = wanted or plan(table.snapshot(), options.before, options.after)
    # Java starts before a lease is asked for, and not for what is refused.
    engine = _engine_for(choice, wanted)
    begin = partial(_begin, table, options, choice, engine)
    return under_lease(table, options.before, options.after, begin)


def _begin(
    table: Table,
    options: DiffOptions,
    choice: EngineChoice,
    started: Engine[Any],
    compared: Comparison,
    lease: ReaderLease,
) -> Diff[Any]:
    # Another time: the table may have grown since it was looked at.
    engine = _engine_for(choice, compared, started)
    if isinstance(engine, LocalEngine):
        return LocalDiff(engine, table, compared, lease, options.on_type_mismatch)
    from singerlake.ops.diff.frame import FrameDiff

    return FrameDiff(engine, table, compared, lease, options.on_type_mismatch)


def _engine_for(
    choice: EngineChoice, wanted: Comparison, started: Engine[Any] | None = None
) -> Engine[Any]:
    states = (wanted.before.snapshot, wanted.after.snapshot)
    earlier, later = sorted(states, key=lambda state: state.number)
    blocks = {block.number: block for block in needed_blocks(earlier)}
    blocks |= {block.number: block for block in later.blocks_after(earlier.number)}
    work = Work.of(blocks.values(), len(wanted.after.columns))
    return choice.engine_for(work, WHAT, started=started)
