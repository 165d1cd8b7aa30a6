"""Diff of two lake versions: how many rows of each table differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from singerlake.engine.choice import EngineChoice
from singerlake.format.lake_log import LakeTable, LakeVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.diff.diff import Counts
from singerlake.ops.diff.table import DiffOptions, diff
from singerlake.ops.verify.lake import what_became
from singerlake.rows.blocks.misfits import FAIL


@dataclass
class TableDifference:
    """A table of two lake versions.

    Attributes:
        before: What the first says of it; None where that does not have it.
        after: The same of the second.
        counts: How many rows differ, where the two versions are of different rows.
        gone: Why rows of one of them cannot be read any more, where they would have to be.
    """

    table: TableName
    before: LakeTable | None
    after: LakeTable | None
    counts: Counts | None = None
    gone: str | None = None

    @property
    def must_be_compared(self) -> bool:
        """Whether only a look at the rows tells; the fingerprints tell of those that are equal."""
        one, other = self.before, self.after
        if one is None or other is None or one.version == other.version:
            return False
        return (one.fingerprint, one.record_fingerprint) != (
            other.fingerprint,
            other.record_fingerprint,
        )

    @property
    def rows(self) -> int:
        """The number of rows of the two states together."""
        return sum(state.rows for state in (self.before, self.after) if state is not None)

    def numbers(self) -> Sequence[int | None]:
        """Rows added, changed, removed and unchanged; None where that cannot be told."""
        if self.gone is not None:
            return [None] * 4
        if self.counts is not None:
            counts = self.counts
            return counts.added, counts.changed, counts.removed, counts.unchanged
        if self.before is None:
            return (self.after.rows if self.after else 0), 0, 0, 0
        return (0, 0, 0, self.after.rows) if self.after else (0, 0, self.before.rows, 0)


@dataclass(frozen=True)
class LakeDifference:
    """Two lake versions, and all tables of either, by name.

    Attributes:
        before: The first.
        after: The second.
        tables: What differs of each table; not counted yet where :attr:`todo` has it.
    """

    before: LakeVersion
    after: LakeVersion
    tables: Sequence[TableDifference]

    @property
    def todo(self) -> list[TableDifference]:
        """The tables whose rows have to be read."""
        return [one for one in self.tables if one.must_be_compared and one.gone is None]


def plan(lake: Lake, before: str, after: str) -> LakeDifference:
    """Find two lake versions, and what the log alone says of their tables.

    Args:
        before: The first, by number or label.
        after: The second.

    Raises:
        NotFoundError: There is no such lake version.
    """
    first, second = lake.lake_version(before), lake.lake_version(after)
    known = [{one.name: one for one in version.tables} for version in (first, second)]
    tables = [
        TableDifference(name, known[0].get(name), known[1].get(name))
        for name in sorted({*known[0], *known[1]})
    ]
    for one in tables:
        if one.must_be_compared:
            states = (state for state in (one.before, one.after) if state is not None)
            gone = (what_became(lake.store, state) for state in states)
            one.gone = next((words for words in gone if words is not None), None)
    return LakeDifference(first, second, tables)


def diff_lake(
    lake: Lake,
    wanted: LakeDifference,
    choice: EngineChoice | None = None,
    *,
    on_type_mismatch: str = FAIL,
    each: Callable[[Sequence[TableDifference]], Iterable[TableDifference]] = iter,
) -> None:
    """Count the rows that differ, table by table.

    Args:
        wanted: What :func:`plan` found; it gets the counts.
        on_type_mismatch: As in :class:`DiffOptions`.
        each: Goes through the tables that are compared; each one before it is.

    Raises:
        SingerlakeError: As :func:`diff` raises it.
    """
    for one in each(wanted.todo):
        assert one.before is not None and one.after is not None  # noqa: S101, PT018
        options = DiffOptions(str(one.before.version), str(one.after.version), on_type_mismatch)
        with diff(lake.table(one.table), options, choice) as found:
            one.counts = found.counts()
