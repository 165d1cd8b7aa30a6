"""The difference between a table's state and what is asked of its rows.

Cells are compared as typed values. Rows that are already as asked take no further part, so what
is written later is what changes, and nothing is written where nothing does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from singerlake.errors import ConflictError
from singerlake.format.names import TableName
from singerlake.ops.change.asked_rows import ChangeRequest
from singerlake.rows.batches.problems import FIRST, Problems, RowProblem
from singerlake.rows.changes.asked_rows import by_place
from singerlake.rows.changes.merge_terms import (
    DELETED,
    INSERTED,
    MERGED,
    STALE,
    UPDATED,
    WRONG,
    MergeSummary,
)
from singerlake.rows.changes.merging import MergeStep
from singerlake.rows.input.rows import special_names
from singerlake.rows.state.shape import Shape

SMALL = 20_000
"""Rows asked for that one task compares."""
_SUMMARY = msgspec.msgpack.Decoder(MergeSummary)


@dataclass(frozen=True)
class Delta:
    """The difference that a change makes to a table's rows.

    Attributes:
        merged: The rows that change, as ``merge_terms.MERGED`` has them.
        parts: In how many parts rows were compared.
    """

    merged: Any
    wanted: ChangeRequest
    summary: MergeSummary
    counts: dict[str, int]
    parts: int

    @property
    def anew(self) -> bool:
        """Whether there may be rows that are deleted and inserted again."""
        return len(self.wanted.modes) > 1

    @property
    def changes(self) -> int:
        """Rows that are others afterwards."""
        return sum(self.counts.get(status, 0) for status in (INSERTED, UPDATED, DELETED))

    @property
    def there(self) -> Any:
        """Rows that are there and change or go, packed in ``there``."""
        return self.wanted.engine.having(self.merged, "there")

    @property
    def new(self) -> Any:
        """Rows that are written as new records, packed in ``new``."""
        return self.wanted.engine.having(self.merged, "new")


def merged(wanted: ChangeRequest, present: Sequence[Any]) -> tuple[Any, int]:
    """Compare what is asked with what is there.

    Args:
        wanted: What is asked; its rows have been read.
        present: The state's rows that may be meant, packed, in the same parts.

    Returns:
        What changes, as ``merge_terms.MERGED`` has it; and in how many parts.
    """
    count = 1 if wanted.seen.named <= SMALL and not wanted.replaces else wanted.parts
    engine = wanted.engine
    parts = engine.exchange(engine.union(wanted.packed, *present), count, "part")
    return engine.map(parts, MergeStep(wanted.spec), MERGED), count


def summary_of(wanted: ChangeRequest, merged: Any) -> MergeSummary:
    """Compare, and fetch what has been found."""
    summary = MergeSummary()
    for row in wanted.engine.collect(wanted.engine.having(merged, "summary")):
        summary.merge(_SUMMARY.decode(row["summary"]))
    return summary


def repeated(summary: MergeSummary) -> Problems:
    """Return the rows that one part names twice."""
    return Problems(summary.repeated, [one.problem for one in summary.twice])


def problems_of(summary: MergeSummary, wanted: ChangeRequest) -> Problems:
    """Return what cannot be: the first, by place, and their number."""
    first = by_place([*wanted.seen.faults, *summary.faults])
    total = summary.counts.get(WRONG, 0) + wanted.seen.wrong
    return Problems(total, [one.problem for one in first])


def stale_problems(found: Delta, shape: Shape) -> Problems:
    """Return the rows that were read in another version than they have: the first, by place."""
    spec = found.wanted.spec
    problems = Problems(found.counts.get(STALE, 0))
    name = special_names(shape.names).row_version
    for one in found.summary.stale:
        reason = f"is not the version of row {one.row} now: it {_is_now(one.now)}"
        read = RowProblem(0, name, _versions(one.read), reason)
        line = None if one.line < 0 else one.line
        problems.first.append(read.at(spec.sources[one.source], line, one.row))
    return problems


def stale_error(found: Delta, table: TableName, shape: Shape) -> ConflictError | None:
    """Say which rows were read in another version than they have; None where none was."""
    count = found.counts.get(STALE, 0)
    if not count:
        return None
    spec = found.wanted.spec
    rows = "1 row" if count == 1 else f"{count:,} rows"
    lines = [
        f"{rows} of {table} changed since they were read; nothing was changed:"
        if count > 1
        else f"1 row of {table} changed since it was read; nothing was changed:"
    ]
    for one in found.summary.stale[:FIRST]:
        where = "" if one.line < 0 else f" ({spec.sources[one.source]}, line {one.line:,})"
        read = f"was row version {_versions(one.read)} when read, {_is_now(one.now)}"
        lines.append(f"  {spec.id_names} {one.row}: {read}{where}")
    if count > FIRST:
        lines.append(f"  and {count - FIRST:,} more")
    lines.append(
        "read the rows again and repeat the change; or overwrite their newer values with "
        "--overwrite (overwrite=True in Python)"
    )
    error = ConflictError("\n".join(lines))
    error.lines = tuple(lines)
    error.problems = stale_problems(found, shape)
    return error


def _versions(read: Sequence[int]) -> str:
    return ", ".join(map(str, read))


def _is_now(version: int | None) -> str:
    return "and is gone now" if version is None else f"and is row version {version} now"
