"""What becomes of each row that is asked for, once it is known what there is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.rows.batches.packing import one_array
from singerlake.rows.batches.problems import MOST, RowProblem
from singerlake.rows.batches.row_columns import BLOCK, MISFITS, ORDINAL, alias
from singerlake.rows.changes.asked_rows import Placed, by_place, differ
from singerlake.rows.changes.composing import CLASHES, MUST, MUST_NOT, Composed, column
from singerlake.rows.changes.merge_terms import (
    ABSENT,
    CHANGED,
    DELETED,
    INSERTED,
    POSITION_BLOCK,
    POSITION_ROW,
    STALE,
    STATUS,
    UNCHANGED,
    UPDATED,
    WRONG,
    Mask,
    MergeSpec,
    MergeSummary,
    Numbers,
    StaleRow,
    bools,
    ints,
)
from singerlake.rows.changes.row_ids import AT_BLOCK
from singerlake.rows.given.rows import LINE, ROW_ID, SOURCE

_FAULTS = (
    *CLASHES,
    "is in the table already, but --mode insert only inserts",
    "is not in the table, but --mode update only updates",
    "is no longer in the table",
)
_IS_THERE, _IS_NOT, _GONE = range(len(CLASHES), len(_FAULTS))


class Judge:
    """Judges one part.

    Args:
        spec: What the change asks for.
        asked: The rows that are asked for.
        present: Those that are there.
        composed: What is asked, by the numbers of keys.
        at: The present row of each key; -1 for none.
        now: Its version; -1 for none.
    """

    def __init__(
        self,
        spec: MergeSpec,
        asked: pa.Table,
        present: pa.Table,
        composed: Composed,
        at: Numbers,
        now: Numbers,
    ) -> None:
        self._spec = spec
        self._asked = asked
        self._present = present
        self._composed = composed
        self._at = at
        self._now = now
        self._there: Mask = at >= 0
        self._anew: Mask = composed.cleared & ~composed.gone
        self._changes = {index: self._changed(index) for index in spec.set_columns}

    def tables(self, summary: MergeSummary) -> Iterator[tuple[bool, pa.Table]]:
        """Give rows that are there and change, and new ones; and note all else."""
        composed, there, anew = self._composed, self._there, self._anew
        faults = self._faults()
        wrong = faults > 0
        stale = composed.stale & ~wrong if not self._spec.blind else np.zeros_like(wrong)
        left = composed.asked_for & ~wrong & ~stale
        stays = left & ~composed.gone
        changed = np.logical_or.reduce([anew, *self._changes.values()])
        statuses = {
            WRONG: wrong,
            STALE: stale,
            DELETED: left & composed.gone & there,
            ABSENT: left & composed.gone & ~there,
            INSERTED: stays & ~there,
            UPDATED: stays & there & changed,
            UNCHANGED: stays & there & ~changed,
        }
        if self._spec.replaces:
            statuses[DELETED] = statuses[DELETED] | (there & ~composed.asked_for)
        again = statuses[UPDATED] & anew
        if not self._spec.keys:  # only the old row goes by the id: the other is a new row
            statuses[DELETED] = statuses[DELETED] | again
            statuses[UPDATED] = statuses[UPDATED] & ~again
            statuses[INSERTED] = statuses[INSERTED] | again
        self._note(statuses, faults, summary)
        kept = statuses[UPDATED] & ~again
        old = [(UPDATED, kept), (DELETED, statuses[DELETED])]
        if rows := self._table(summary, old, there=True):
            yield True, rows
        new = [(INSERTED, statuses[INSERTED]), (UPDATED, statuses[UPDATED] & again)]
        if rows := self._table(summary, new, there=False):
            yield False, rows

    def _changed(self, index: int) -> Mask:
        """Which rows have another cell in a column afterwards."""
        source = self._composed.sources[index]
        changed: Mask = source >= 0
        compared = np.flatnonzero(changed & self._there & ~self._anew)
        if not len(compared):
            return changed
        mine = column(self._asked, index).take(pa.array(source[compared]))
        theirs = column(self._present, index).take(pa.array(self._at[compared]))
        other = bools(differ(mine, theirs, self._spec.columns[index][1].kind))
        # A value that does not fit reads as null, and is another than any that is asked for.
        changed[compared] = other | self._misfits(index, self._at[compared])
        return changed

    def _misfits(self, index: int, rows: Numbers) -> Mask:
        misfits = one_array(self._present.column(MISFITS))
        if misfits.null_count == len(misfits):
            return np.zeros(len(rows), dtype=bool)
        found = misfits.take(pa.array(rows)).to_pylist()
        return np.array([any(at == index for at, _ in one or ()) for one in found], dtype=bool)

    def _faults(self) -> Numbers:
        """What rows need of the state and do not find, as indexes of :data:`_FAULTS`."""
        composed, there = self._composed, self._there
        faults: Numbers = composed.clashes.copy()
        faults[(faults == 0) & (composed.need == MUST_NOT) & there] = _IS_THERE
        faults[(faults == 0) & (composed.need == MUST) & ~there] = _IS_NOT
        if not self._spec.keys:
            # An id names a row that was there, so whoever gives one wants that row and no other.
            # Of one that was read in some version it is said in which.
            named = np.flatnonzero(composed.asked_for)
            meant = np.zeros_like(there)
            meant[named] = bools(self._asked.column(AT_BLOCK).is_valid())[composed.last[named]]
            read = np.zeros_like(there) if self._spec.blind else composed.read
            faults[(faults == 0) & meant & ~there & ~composed.gone & ~read] = _GONE
        faults[~composed.asked_for] = 0
        return faults

    def _note(self, statuses: dict[str, Mask], faults: Numbers, summary: MergeSummary) -> None:
        for status, rows in statuses.items():
            if count := int(np.count_nonzero(rows)):
                summary.counts[status] = summary.counts.get(status, 0) + count
        composed = self._composed
        for number in composed.first(np.flatnonzero(faults), MOST):
            fault, row = int(faults[number]), int(composed.last[number])
            source, line = composed.place(row)
            id_ = composed.row_id(row)
            name = "_row_id" if fault == _GONE else self._spec.id_names
            clash = fault < len(CLASHES)
            told = (None, None) if clash else (name, id_)
            problem = RowProblem(0, told[0], told[1], _FAULTS[fault])
            at = problem.at(self._spec.sources[source], None if line < 0 else line, id_)
            summary.faults.append(Placed(source, line, id_, at))
        summary.faults = by_place(summary.faults)
        for number in composed.first(np.flatnonzero(statuses[STALE]), MOST):
            row = int(composed.last[number])
            now = int(self._now[number]) if self._there[number] else None
            read = composed.versions_read(number)
            place, id_ = composed.place(row), composed.row_id(row)
            summary.stale.append(StaleRow(*place, id_, read, now))

    def _table(
        self, summary: MergeSummary, rows: list[tuple[str, Mask]], *, there: bool
    ) -> pa.Table | None:
        numbers = np.concatenate([np.flatnonzero(mask) for _, mask in rows])
        if not len(numbers):
            return None
        lengths = [np.count_nonzero(mask) for _, mask in rows]
        names = [pa.repeat(pa.scalar(s), n) for (s, _), n in zip(rows, lengths, strict=True)]
        kept = np.ones(len(numbers), dtype=bool)
        if there:
            kept[lengths[0] :] = False
        arrays = {
            STATUS: pa.concat_arrays(names),
            **self._positions(numbers, summary, there=there),
            CHANGED: self._indexes(numbers, kept),
            **self._cells(numbers, kept),
            **self._places(numbers),
        }
        return pa.table(arrays)

    def _positions(
        self, numbers: Numbers, summary: MergeSummary, *, there: bool
    ) -> dict[str, pa.Array]:
        if not there:
            nothing = {POSITION_BLOCK: pa.int64(), POSITION_ROW: pa.int32()}
            return {name: pa.nulls(len(numbers), type_) for name, type_ in nothing.items()}
        at = self._at[numbers]
        blocks = ints(self._present.column(BLOCK))[at]
        for block, count in zip(*np.unique(blocks, return_counts=True), strict=True):
            summary.blocks[int(block)] = summary.blocks.get(int(block), 0) + int(count)
        rows = one_array(self._present.column(ORDINAL)).take(pa.array(at))
        return {POSITION_BLOCK: pa.array(blocks), POSITION_ROW: rows}

    def _indexes(self, numbers: Numbers, kept: Mask) -> pa.Array:
        """The columns whose cells are others afterwards, as lists."""
        indexes = np.array(self._spec.set_columns, dtype=np.int32)
        masks = [self._changes[index][numbers] & kept for index in self._spec.set_columns]
        matrix = np.stack(masks, axis=1) if masks else np.zeros((len(numbers), 0), dtype=bool)
        values = indexes[np.nonzero(matrix)[1]]
        ends = np.concatenate(([0], np.cumsum(matrix.sum(axis=1)))).astype(np.int32)
        return pa.ListArray.from_arrays(
            pa.array(ends), pa.array(values, pa.int32()), mask=pa.array(~kept)
        )

    def _cells(self, numbers: Numbers, kept: Mask) -> dict[str, pa.Array]:
        """What rows are found by, and their new cells."""
        spec, last = self._spec, self._composed.last[numbers]
        cells: dict[str, pa.Array] = {}
        for place, name in enumerate(spec.join):
            mine = self._taken(self._asked, name, last)
            other = name if spec.keys else (BLOCK, ORDINAL)[place]
            # Also of a row that nobody asked for and that goes.
            theirs = self._taken(self._present, other, np.where(last < 0, self._at[numbers], -1))
            cells[name] = pc.coalesce(mine, theirs)
        for index in spec.set_columns:
            source = np.where(kept, self._composed.sources[index][numbers], -1)
            cells[alias(index)] = self._taken(self._asked, alias(index), source)
        return cells

    def _places(self, numbers: Numbers) -> dict[str, pa.Array]:
        """Where rows were given; and the ids of those that have no line."""
        last = self._composed.last[numbers]
        lines = self._taken(self._asked, LINE, last)
        sources = self._taken(self._asked, SOURCE, last)
        ids: list[str | None] = [None] * len(numbers)
        unlined = bools(lines.is_null()) & (last >= 0)
        for row in np.flatnonzero(unlined).tolist():
            ids[row] = self._composed.row_id(int(last[row]))
        return {SOURCE: sources, LINE: lines, ROW_ID: pa.array(ids, pa.string())}

    @staticmethod
    def _taken(table: pa.Table, name: str, rows: Numbers) -> pa.Array:
        """Cells of some rows of a table; null for -1."""
        return one_array(table.column(name)).take(pa.array(rows, mask=rows < 0))
