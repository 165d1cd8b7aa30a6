"""The steps of a change put together: for each key what all of them ask of its row.

A row that one step inserts the next may change, and of a row that is deleted and inserted again
nothing stays.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.rows.batches.packing import one_array
from singerlake.rows.batches.problems import MOST, Problem
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.changes import row_ids
from singerlake.rows.changes.asked_rows import GIVEN, GONE, READ, Placed, by_place
from singerlake.rows.changes.merge_terms import (
    Mask,
    MergeSpec,
    MergeSummary,
    Numbers,
    bools,
    ints,
)
from singerlake.rows.given.rows import LINE, OMITTED, SOURCE

MUST, MUST_NOT, MAY = 1, 0, -1
CLASHES = (
    "",
    "is to be updated, and an earlier part of the change deletes it",
    "is to be inserted, and an earlier part of the change does so already",
)
"""What is said of steps that contradict each other."""


class Composed:
    """What is asked, by the numbers of keys.

    Args:
        spec: What the change asks for.
        asked: The rows.
        numbers: The number of each one's key.
        count: How many numbers there are.

    Attributes:
        asked_for: Whether any row asks for the key.
        last: The last row of each that does.
        gone: Whether it shall not be there.
        cleared: Whether some step deletes it.
        need: Whether it must be there, must not, or may be.
        sources: For each column that may change, the row whose cell it gets; -1 for none.
        stale: Whether it was read in another version than it has.
        read: Whether it says in which version it was read.
        clashes: How steps contradict each other, as an index of :data:`CLASHES`.
    """

    def __init__(self, spec: MergeSpec, asked: pa.Table, numbers: Numbers, count: int) -> None:
        self._spec = spec
        self._asked = asked
        self._numbers = numbers
        self.asked_for: Mask = np.zeros(count, dtype=bool)
        self.last: Numbers = np.full(count, -1, dtype=np.int64)
        self.gone: Mask = np.zeros(count, dtype=bool)
        self.cleared: Mask = np.zeros(count, dtype=bool)
        self.need: Numbers = np.full(count, MAY, dtype=np.int64)
        self.stale: Mask = np.zeros(count, dtype=bool)
        self.read: Mask = np.zeros(count, dtype=bool)
        self.sources = {i: np.full(count, -1, dtype=np.int64) for i in spec.set_columns}
        self.clashes: Numbers = np.zeros(count, dtype=np.int64)
        self._given = ints(asked.column(GIVEN))
        self._steps: Numbers = np.array(spec.steps, dtype=np.int64)[self._given]

    def first(self, numbers: Numbers, most: int) -> list[int]:
        """Return the first of some keys, by where their last rows are given."""
        rows = self.last[numbers]
        lines = ints(pc.fill_null(self._asked.column(LINE), -1))[rows]
        order = np.lexsort((lines, ints(self._asked.column(SOURCE))[rows]))
        found: list[int] = numbers[order[:most]].tolist()
        return found

    def place(self, row: int) -> tuple[int, int]:
        """Return the number of a row's source, and its line; -1 where it has none."""
        return _place(self._asked, row)

    def row_id(self, row: int) -> str:
        """Return the id of the row that is meant."""
        return _row_id(self._spec, self._asked, row)

    def versions_read(self, number: int) -> list[int]:
        """Return the versions in which a row was read."""
        rows = np.flatnonzero(self._numbers == number)
        rows = rows[np.argsort(self._steps[rows], kind="stable")]
        found = self._asked.column(READ).take(pa.array(rows)).to_pylist()
        return list(dict.fromkeys(version for version in found if version is not None))

    def run(self, now: Numbers) -> None:
        """Put the steps together.

        Args:
            now: The version that each row has; -1 where it is not there.
        """
        gone = bools(self._asked.column(GONE))
        sets = self._sets(self._asked)
        read = self._asked.column(READ)
        is_read = bools(read.is_valid())
        versions = ints(pc.fill_null(read, 0))
        for step in np.unique(self._steps).tolist():
            rows = np.flatnonzero(self._steps == step)
            numbers, goes = self._numbers[rows], gone[rows]
            need = {None: MAY, True: MUST, False: MUST_NOT}[self._spec.needs[step]]
            self._take(rows, numbers, goes, need)
            for index, source in self.sources.items():
                source[numbers[goes]] = -1
                is_set = sets[index][rows] & ~goes
                source[numbers[is_set]] = rows[is_set]
            told = is_read[rows]
            self.read[numbers[told]] = True
            self.stale[numbers[told]] |= versions[rows[told]] != now[numbers[told]]

    def _take(self, rows: Numbers, numbers: Numbers, goes: Mask, need: int) -> None:
        before, stays = self.asked_for[numbers], ~goes
        wrong = before & stays & (self.gone[numbers] if need == MUST else ~self.gone[numbers])
        if need != MAY:
            new = numbers[wrong & (self.clashes[numbers] == 0)]
            self.clashes[new] = 1 if need == MUST else 2
        first = stays & ~before
        self.need[numbers[first]] = need
        self.cleared[numbers[goes]] = True
        self.gone[numbers] = goes
        self.last[numbers] = rows
        self.asked_for[numbers] = True

    def _sets(self, asked: pa.Table) -> dict[int, Mask]:
        """Which rows set which column."""
        named = [set(indexes) for indexes in self._spec.sets]
        sets = {i: np.array([i in one for one in named])[self._given] for i in self.sources}
        omitted = one_array(asked.column(OMITTED))
        if omitted.null_count < len(omitted):
            rows = pc.list_parent_indices(omitted).to_numpy()
            left_out = pc.list_flatten(omitted).to_numpy()
            for index, is_set in sets.items():
                is_set[rows[left_out == index]] = False
        return sets


def column(table: pa.Table, index: int) -> pa.Array:
    """Return the cells of a table's column."""
    return one_array(table.column(alias(index)))


def note_repeated(
    spec: MergeSpec, asked: pa.Table, numbers: Numbers, summary: MergeSummary
) -> Numbers:
    """Note keys that one step names twice, and return the rows that name them again."""
    steps = np.array(spec.steps, dtype=np.int64)[ints(asked.column(GIVEN))]
    again: list[Numbers] = [np.zeros(0, dtype=np.int64)]
    for step in np.unique(steps):
        rows = np.flatnonzero(steps == step)
        rows = rows[np.argsort(numbers[rows], kind="stable")]
        is_first = np.diff(numbers[rows], prepend=-1) != 0
        if is_first.all():
            continue
        again.append(rows[~is_first])
        starts = np.flatnonzero(is_first)
        ends = np.append(starts[1:], len(rows))
        twice = np.flatnonzero(ends - starts > 1)
        summary.repeated += len(twice)
        for one in twice[:MOST].tolist():
            same = rows[starts[one] : ends[one]].tolist()
            summary.twice.append(_repeated(spec, asked, same))
    summary.twice = by_place(summary.twice)
    return np.concatenate(again)


def _repeated(spec: MergeSpec, asked: pa.Table, rows: list[int]) -> Placed:
    places = sorted(_place(asked, row) for row in rows)
    (first, first_line), (last, last_line) = places[0], places[-1]
    where = "another row" if first_line < 0 else f"line {first_line:,}"
    where += "" if spec.sources[last] == spec.sources[first] else f" of {spec.sources[first]}"
    often = "" if len(rows) == 2 else f", and {len(rows):,} times in all"  # noqa: PLR2004
    id_ = _row_id(spec, asked, rows[0])
    reason = f"is already in {where}{often}"
    line = None if last_line < 0 else last_line
    problem = Problem(spec.sources[last], line, spec.id_names, id_, reason)
    return Placed(last, last_line, id_, problem)


def _place(asked: pa.Table, row: int) -> tuple[int, int]:
    line = asked.column(LINE)[row].as_py()
    return asked.column(SOURCE)[row].as_py(), -1 if line is None else line


def _row_id(spec: MergeSpec, asked: pa.Table, row: int) -> str:
    values = [asked.column(name)[row].as_py() for name in spec.join]
    return row_ids.id_text(values, spec.key_columns)
