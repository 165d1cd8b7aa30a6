"""Differences between two states of a table: counted, and row by row."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.engine.base import Engine, R
from singerlake.engine.local import Parts
from singerlake.engine.ordering import Indices, by_columns, in_order
from singerlake.errors import DamagedError
from singerlake.lake import Table
from singerlake.log.lease import ReaderLease
from singerlake.log.schema_difference import Comparison, plan
from singerlake.ops.diff.both_rows import BothRows
from singerlake.ops.diff.pairs import differing
from singerlake.quantities import count
from singerlake.rows.batches.steps import BATCH_ROWS, Batches, Pipeline
from singerlake.rows.blocks.misfits import AS_TEXT, FAIL
from singerlake.rows.columns.weights import ROW_BYTES, too_heavy
from singerlake.rows.state.paired_rows import (
    ADDED,
    AFTER,
    BEFORE,
    CHANGE,
    CHANGED,
    COUNTED,
    KEY,
    MISFIT,
    NAMES,
    REMOVED,
    RESPELLED,
    ROW_ID,
    WEIGHT,
    CountStep,
    FlatStep,
    PairStep,
)
from singerlake.rows.state.rows_at import PAIR
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot.result import LocalResult, Result

_WORDS = ("comparing keys", "reading rows that differ", "comparing rows")
_KINDS = (ADDED, CHANGED, REMOVED, RESPELLED)
D = TypeVar("D", bound="Diff")  # type: ignore[type-arg]


@dataclass(frozen=True)
class Counts:
    """The numbers of rows and cells that differ.

    Attributes:
        added: Rows that only the second state has.
        changed: Rows of which a cell differs.
        removed: Rows that only the first state has.
        unchanged: All others.
        respelled: Those of the unchanged whose record is other bytes than it was, though every
            column reads as before: ``1.10`` and ``1.1``, or a member that is in no column.
        cells: Of the changed rows, how many cells of a column differ; by column, in order.
    """

    added: int
    changed: int
    removed: int
    unchanged: int
    respelled: int
    cells: Mapping[str, int]


class Diff(Generic[R]):
    """The difference between two states of a table. Rows are computed when they are taken.

    While it is held, no vacuum deletes what it reads; :meth:`close` ends that.

    Args:
        engine: Finds and reads the rows.
        table: The table.
        compared: The states.
        lease: Held while this is.
        misfits: What becomes of values that do not fit, in rows that differ.

    Attributes:
        compared: The states, how their schemas differ, and how rows find each other.
        misfits: How many values of a column were replaced because they do not fit it, of the rows
            that differ.
    """

    def __init__(
        self,
        engine: Engine[R],
        table: Table,
        compared: Comparison,
        lease: ReaderLease,
        misfits: str = FAIL,
    ) -> None:
        self.compared = compared
        self.misfits: Mapping[str, int] = {}
        self._engine = engine
        self._stack = ExitStack()
        after = compared.after.snapshot
        with engine.stages(*_WORDS):
            self._found = differing(engine, table, compared)
            both = partial(BothRows.of, engine, table, compared, self._found.pairs)
            if misfits != FAIL:
                # Those of the rows that are read; an index knows only those of a whole state.
                names = shape_of(after).names
                counted = both(after, shape_of(after)).misfits()
                self.misfits = {names[place]: count for place, count in counted.items()}
        if misfits == AS_TEXT:
            # What is text now fits; what does not all the same must not become null.
            after, misfits = after.with_text(self.misfits), FAIL
        self._shape = shape = shape_of(after)
        self._both = both(after, shape)
        self._pair_step = partial(
            PairStep, shape.columns, shape.keys, table.name, reads_misfits=misfits != FAIL
        )
        step = self._pair_step()
        self._rows = self._both.paired(step, step.schema)
        self._is_kept = False
        self._stack.callback(lease.release)
        self._close = weakref.finalize(self, self._stack.close)

    def __enter__(self: D) -> D:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """Show what is compared. Nothing is counted."""
        before, after = self.compared.before, self.compared.after
        name = self.compared.after.snapshot.table
        columns = count(len(self.names), "column")
        return f"Diff({name}: {before} → {after}, {self._matched()}, {columns})"

    def _repr_html_(self) -> str:
        """Show what is compared in a notebook. Nothing is counted."""
        from singerlake.cards import card

        facts = {
            "before": str(self.compared.before),
            "after": str(self.compared.after),
            "rows": self._matched(),
        }
        changes = [(str(change),) for change in self.compared.schema]
        name = self.compared.after.snapshot.table
        return card(f"Diff of {name}", facts, ("change of the schema",) if changes else (), changes)

    def _matched(self) -> str:
        return f"matched by {', '.join(self.key)}" if self.key else "matched by their records"

    def close(self) -> None:
        """Give up what was kept: nothing more is read. May be called again."""
        self._close()

    def keep(self) -> None:
        """Keep the rows that differ, once they were computed, until this is closed."""
        self._rows = self._stack.enter_context(self._engine.keep(self._rows))
        self._is_kept = True

    @property
    def names(self) -> list[str]:
        """The columns that are compared: the second state's."""
        return self._shape.names

    @property
    def key(self) -> list[str]:
        """The columns by which rows are told apart; empty where it is by position."""
        return self._shape.key_names

    @abstractmethod
    def rows(self, most: int | None = None) -> Result:
        """Give the rows that differ, or the first of them, in order of their keys or positions.

        Columns: ``change`` (``added``, ``changed`` or ``removed``); ``key``, an object of the
        key's columns, or without a key ``row_id`` (``block:ordinal``); ``changed``, the names of
        the columns that differ, null unless the row is in both states; and ``before`` and
        ``after``, objects of all columns, null where the row is not in that state.
        """

    @abstractmethod
    def flat_rows(self, most: int | None = None) -> Result:
        """Give the same without objects: ``key.id``, ``before.total``, ``after.total``.

        Key columns are there once.
        """

    def counts(self) -> Counts:
        """Count rows and cells that differ.

        Raises:
            DamagedError: A block cannot be read, or a value that differs does not fit.
        """
        count = CountStep(self.names)
        engine = self._engine
        with engine.stages(*_WORDS):
            if self._is_kept:
                counted = engine.map(self._rows, count, COUNTED)
            else:
                step = Pipeline((self._pair_step(cells=False), count))
                counted = self._both.paired(step, COUNTED)
            kinds: Counter[str] = Counter()
            cells = np.zeros(len(self.names), dtype=np.int64)
            for row in engine.collect(counted):
                kinds.update({kind: row[kind] for kind in _KINDS})
                cells += np.frombuffer(row["cells"], dtype=np.int64)
            there = kinds[REMOVED] if self._found.in_first else kinds[ADDED]
            same = self._found.count() - kinds[CHANGED] - there
        return Counts(
            added=kinds[ADDED],
            changed=kinds[CHANGED],
            removed=kinds[REMOVED],
            unchanged=same,
            respelled=kinds[RESPELLED],
            cells={n: c for n, c in zip(self.names, cells.tolist(), strict=True) if c},
        )


class LocalDiff(Diff[Parts]):
    """The difference, found and read in this process."""

    def rows(self, most: int | None = None) -> LocalResult:  # noqa: D102
        identity = KEY if self._shape.keys else ROW_ID
        fields = self._pair_step().schema
        schema = pa.schema([fields.field(n) for n in (CHANGE, identity, NAMES, BEFORE, AFTER)])
        return LocalResult(schema, partial(self._ordered, schema, most))

    def flat_rows(self, most: int | None = None) -> LocalResult:  # noqa: D102
        step = FlatStep(self._shape.columns, self._shape.keys)
        rows = self.rows(most)
        return LocalResult(step.schema, lambda: step(rows.computed()))

    def _ordered(self, schema: pa.Schema, most: int | None) -> Batches:
        batches = (batch for part in self._rows for batch in _checked(part()))
        for rows in in_order(batches, self._order):
            some = rows if most is None else rows.slice(0, most)
            yield from some.select(schema.names).combine_chunks().to_batches(BATCH_ROWS)
            if most is not None:
                most -= len(some)
                if not most:
                    break

    def _order(self, rows: pa.Table) -> Indices:
        if self._shape.keys:
            return by_columns(rows.select([KEY]).flatten().columns)
        return by_columns(rows.select([PAIR]).columns)


def _checked(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Leave out rows that read as before.

    Raises:
        DamagedError: A value does not fit.
        InvalidQueryError: A row is too heavy.
    """
    for batch in batches:
        rows = batch.filter(pc.not_equal(batch.column(CHANGE), RESPELLED))
        for misfit in rows.column(MISFIT).drop_null():
            raise DamagedError(misfit.as_py())
        if (most := pc.max(rows.column(WEIGHT)).as_py() or 0) > ROW_BYTES:
            raise too_heavy(most)
        yield rows


def under_lease(
    table: Table,
    before: str,
    after: str | None,
    begin: Callable[[Comparison, ReaderLease], D],
) -> D:
    """Begin a comparison under a lease, which ends with it.

    Args:
        before: The first state, as ``difference.plan`` takes it.
        after: The second; None for the head.
    """
    lease = table.lease().acquire()
    try:
        compared = plan(lease.snapshot, before, after)
        compared.warn_of_rules()
        return begin(compared, lease)
    except BaseException:
        lease.release()
        raise
