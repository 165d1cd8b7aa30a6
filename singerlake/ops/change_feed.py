"""The changes of a table, transaction by transaction, for readers that keep their place.

A transaction's rows are those of the blocks that it added, read as the head reads them; nothing
of the state before it is needed. The exception is a transaction with an ACTIVATE_VERSION, which
may remove rows that it does not name: the states before and after it are compared. Rows that were
erased are deletions as long as there is a notice of their keys.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw
from msgspec.json import encode
from numpy.typing import NDArray

from singerlake.engine.local import LocalEngine
from singerlake.errors import ConflictError, NotFoundError
from singerlake.format import messages
from singerlake.format.log import Block, Operation
from singerlake.format.overlaid import member_of
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.log import log, notices, schema_difference
from singerlake.log.log import refresh
from singerlake.log.table_state import TableState
from singerlake.ops.diff.both_rows import BothRows
from singerlake.ops.diff.pairs import differing
from singerlake.rows.batches.row_columns import DELETED, aliases
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks, decoding, positions
from singerlake.rows.blocks.block_reader import BlockReader, combined
from singerlake.rows.blocks.misfits import FAIL
from singerlake.rows.state.activations import survival
from singerlake.rows.state.misfit_steps import MisfitCheck
from singerlake.rows.state.rows_at import IS_AFTER, PAIR
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot import from_blocks

logger = logging.getLogger(__name__)
UPSERT, INSERT, DELETE = "upsert", "insert", "delete"


def column_names(columns: Columns) -> tuple[str, str, str]:
    """Return the names of the three columns that follow the table's own.

    They are ``_change_type``, ``_transaction`` and ``_sequence``, with more underscores in front
    if the table has such a column itself, in any case.
    """
    taken = {name.casefold() for name, _ in columns}

    def free(name: str) -> str:
        return free(f"_{name}") if name in taken else name

    return free("_change_type"), free("_transaction"), free("_sequence")


@dataclass(frozen=True)
class Place:
    """A reader's progress.

    Attributes:
        transaction: The last transaction that it has read; 0 for none.
        commit: That transaction's commit id, which proves that it is the same log.
    """

    transaction: int = 0
    commit: str = ""

    @classmethod
    def at(cls, head: TableState, number: int) -> Place:
        """Return the place after a transaction."""
        return cls(number, head.summary(number).commit) if number else cls()


@dataclass(frozen=True)
class Limits:
    """The most that a batch should have. It has one transaction at least, and whole ones.

    Attributes:
        transactions: So many transactions with rows; None for any number.
        rows: So many rows; None for any number.
    """

    transactions: int | None = None
    rows: int | None = None


NO_LIMITS = Limits()


class ChangeFeed:
    """The changes of a table by its log. The parts read the rows, each under a lease of its own.

    Args:
        misfits: The treatment of values that do not fit: ``fail`` or ``null``.

    Raises:
        NotFoundError: There is no such table.
    """

    def __init__(self, table: Table, misfits: str = FAIL) -> None:
        self._table = table
        self._misfits = misfits
        self.head = table.snapshot()
        """The table as it was seen last."""
        self.columns = self.head.columns
        """The columns with which all rows are read."""

    def since(self, state: str) -> Place:
        """Return the place after a state.

        Args:
            state: A version's number or label, or ``@17`` for transaction 17.

        Raises:
            NotFoundError: There is no such state, or later transactions have expired.
        """
        place = Place.at(self.head, self.head.named(state)[1].number)
        _check(self.head, place)
        return place

    def latest(self) -> int:
        """Look for new transactions, and return the number of the last one.

        Raises:
            ConflictError: The columns have changed.
            DroppedError: The table was dropped.
        """
        self.head = refresh(self._table.store, self.head)
        _check_columns(self.head, self.columns)
        return self.head.number

    def next_place(self, start: Place, last: int, limits: Limits = NO_LIMITS) -> Place:
        """Return the place to which the next batch goes: ``start`` if there are no new rows.

        Args:
            start: The place after the batch before it.
            last: The last transaction that it may have.

        Raises:
            NotFoundError: The log is another one, or has expired beyond the start.
        """
        _check(self.head, start)
        end = transactions = rows = 0
        for number, some in _units(self.head, start.transaction):
            transactions, rows = transactions + 1, rows + some
            if number > last or (end and _exceed(limits, transactions, rows)):
                break
            end = number
        return Place.at(self.head, end) if end else start

    def parts(self, start: Place, end: Place) -> list[Part]:
        """Share out the rows between two places.

        Raises:
            ConflictError: The columns have changed.
            NotFoundError: The log is another one, or has expired beyond the start.
        """
        self.latest()
        for place in (start, end):
            _check(self.head, place)
        return [] if start == end else [*self._parts(start, end.transaction)]

    def _parts(self, start: Place, end: int) -> Iterator[Part]:
        head, after = self.head, start.transaction
        source = Source(self._table, self.columns, start, self._misfits)
        if not after and _begins_at_floor(head):
            after = head.floor
            yield StatePart(source, after)
        for one in head.transactions[after:end] if start.transaction else ():
            if one.operation == Operation.ERASE:
                yield ErasedPart(source, one.number)
        blocks = _blocks(head, _last(head, after), _last(head, end))
        compared = sorted({head.transaction_of_block(b.number) for b in blocks if b.activations})
        for number in compared:
            first = number == head.first or not _last(head, number - 1)
            yield StatePart(source, number) if first else ComparedPart(source, number)
        begin = _last(head, after)
        wanted = [b for b in blocks if b.rows and not _is_of(head, b, compared)]
        for task in block_tasks.split(wanted, 1, block_tasks.TASK_BYTES):
            yield BlockPart(source, begin, last := min(task[-1].number, _last(head, end)), compared)
            begin = last


def _last(head: TableState, number: int) -> int:
    return head.summary(number).last_block if number else 0


def _blocks(head: TableState, after: int, last: int) -> list[Block]:
    """Return the blocks that may hold rows of some blocks, as these were written."""
    later = head.blocks[bisect_right(head.blocks, after, key=lambda block: block.number) :]
    return [block for block in later if block.lowest_version <= last]


def _is_of(head: TableState, block: Block, transactions: list[int]) -> bool:
    """Tell whether all rows of a block are of one of some transactions."""
    number = head.transaction_of_block(block.number)
    return number in transactions and head.transaction_of_block(block.lowest_version) == number


def _begins_at_floor(head: TableState) -> bool:
    return head.floor >= head.first and _last(head, head.floor) > 0


def _units(head: TableState, start: int) -> Iterator[tuple[int, int]]:
    """Yield the transactions after a place that brought or erased rows, and how many they brought.

    If history has expired, the state at the history floor stands for all transactions up to it.
    """
    if not start:
        start = head.first - 1
        if _begins_at_floor(head):
            start = head.floor
            yield start, head.summary(start).rows
    before = _last(head, start)
    for one in head.transactions[start:]:
        if one.last_block > before or one.operation == Operation.ERASE:
            yield one.number, one.rows
        before = one.last_block


def _exceed(limits: Limits, transactions: int, rows: int) -> bool:
    return (limits.transactions is not None and transactions > limits.transactions) or (
        limits.rows is not None and rows > limits.rows
    )


def _check(head: TableState, place: Place) -> None:
    """Make sure that all changes after a place are in the log.

    Raises:
        UsageError: The table's log is lost.
        NotFoundError: The place is of another log, or changes after it have expired.
    """
    table, number = head.table, place.transaction
    head.check_log()
    if not number:
        return
    anew = "start a new query with a new checkpoint"
    if number > head.number:
        raise NotFoundError(
            f"the checkpoint is of transaction {number} of {table}, and its log ends with "
            f"{head.number}: {anew}"
        )
    if head.summary(number).commit != place.commit:
        raise NotFoundError(
            f"transaction {number} of {table} is not the one that the checkpoint was made for: "
            f"this is another table, or its log was rebuilt; {anew}"
        )
    if number < head.first:
        raise NotFoundError(
            f"{table} was dropped after transaction {number}, and another table of this name "
            f"begins with transaction {head.first}: {anew}"
        )
    if head.floor and _last(head, number) < _last(head, head.floor):
        raise NotFoundError(
            f"changes of {table} after transaction {number}, where the query is, have expired: "
            f"history begins with transaction {head.floor}; {anew}, which begins with all rows of "
            "that transaction"
        )
    if head.summary(number).schema_hash and head.filed(number).key_reading != head.key_reading:
        raise NotFoundError(f"{table} has another key than at transaction {number}: {anew}")


def _check_columns(head: TableState, columns: Columns) -> None:
    """Make sure that the table is there, with the columns that it had.

    Raises:
        ConflictError: It has others.
        DroppedError: It was dropped.
    """
    head.check_there()
    if head.columns != columns:
        raise ConflictError(
            f"the columns of {head.table} have changed ({_difference(columns, head.columns)}): "
            "start the query again; it resumes where it is, with the new columns"
        )


def _difference(before: Columns, after: Columns) -> str:
    """Describe how columns differ."""
    old, new = dict(before), dict(after)
    said = {
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
        "of another type": [name for name in new if name in old and new[name] != old[name]],
    }
    words = [f"{word}: {', '.join(names)}" for word, names in said.items() if names]
    return "; ".join(words) or "their order"


@dataclass(frozen=True)
class Source:
    """The origin of rows, which all parts share.

    Attributes:
        start: The place at which the batch begins.
        misfits: The treatment of values that do not fit.
    """

    table: Table
    columns: Columns
    start: Place
    misfits: str

    @contextmanager
    def head(self) -> Iterator[TableState]:
        """Protect the table's files, and return its head.

        Raises:
            ConflictError: The columns have changed.
            NotFoundError: The log is another one, or has expired beyond the start.
        """
        with self.table.lease() as lease:
            _check(lease.snapshot, self.start)
            _check_columns(lease.snapshot, self.columns)
            yield lease.snapshot

    def reader(self, head: TableState, blocks: list[Block]) -> BlockReader:
        """Return a reader of some blocks, as one task."""
        names = [self.columns[index][0] for index in head.key]
        return BlockReader.of(self.table.store, head, [blocks], self.columns, names)

    def out(
        self,
        head: TableState,
        batch: pa.RecordBatch,
        deleted: pa.Array,
        transactions: NDArray[np.int64] | int,
        sequence: NDArray[np.int64],
    ) -> pa.RecordBatch:
        """Return rows as readers get them."""
        if self.misfits == FAIL:
            names = [name for name, _ in self.columns]
            check = MisfitCheck(self.table.name, names, keyed=bool(head.key))
            (batch,) = check(iter([batch]))
        change = pc.if_else(deleted, DELETE, UPSERT if head.key else INSERT)
        numbers = np.broadcast_to(np.asarray(transactions, dtype=np.int64), len(batch))
        own = [batch.column(name) for name in aliases(self.columns)]
        names = [*(name for name, _ in self.columns), *column_names(self.columns)]
        arrays = [*own, change, pa.array(numbers), pa.array(sequence)]
        return pa.RecordBatch.from_arrays(arrays, names)


@dataclass(frozen=True)
class BlockPart:
    """Rows of some blocks, as they were written.

    Attributes:
        after: The block before the first, by the numbers that rows had when they were written.
        compared: Transactions whose rows are in other parts.
    """

    source: Source
    after: int
    last: int
    compared: Sequence[int]

    def rows(self) -> Batches:
        """Read them."""
        with self.source.head() as head:
            yield from combined(self._rows(head))

    def _rows(self, head: TableState) -> Iterator[pa.RecordBatch]:
        first, last = (head.transaction_of_block(n) for n in (self.after + 1, self.last))
        ends = np.array([_last(head, number) for number in range(first, last + 1)], dtype=np.int64)
        reader = self.source.reader(head, _blocks(head, self.after, self.last))
        for batch in reader.rows(reader.task(0)):
            blocks = positions.blocks_of(positions.codes_in(batch))
            # A block that a vacuum put together may hold others' rows.
            wanted = (blocks > self.after) & (blocks <= self.last)
            numbers = first + np.searchsorted(ends, blocks)
            wanted &= ~np.isin(numbers, self.compared)
            if not head.key:  # a deletion without a key deletes nothing
                wanted &= ~batch.column(DELETED).to_numpy(zero_copy_only=False)
            if wanted.any():
                rows = batch.filter(pa.array(wanted))
                codes, deleted = positions.codes_in(rows), rows.column(DELETED)
                yield self.source.out(head, rows, deleted, numbers[wanted], codes)


@dataclass(frozen=True)
class StatePart:
    """All rows of a state: a reader that has none yet begins with it."""

    source: Source
    number: int

    def rows(self) -> Batches:
        """Read them."""
        engine, table = LocalEngine(), self.source.table
        with self.source.head() as head:
            state = head.at(self.number)
            shape = Shape(self.source.columns, head.key, survival(state.blocks))
            plan = from_blocks.planned(engine, table, state, shape=shape, reads_as=head)
            for batch in engine.batches(from_blocks.through(engine, plan, combined, "")):
                there = pa.array(np.zeros(len(batch), dtype=bool))
                codes = positions.codes_in(batch)
                yield self.source.out(head, batch, there, self.number, codes)


@dataclass(frozen=True)
class ComparedPart:
    """The rows of which a transaction changed the state, compared with the state before it."""

    source: Source
    number: int

    def rows(self) -> Batches:
        """Compare the states, and read the rows that differ."""
        engine, table = LocalEngine(), self.source.table
        with self.source.head() as head:
            compared = schema_difference.plan(head, f"@{self.number - 1}", f"@{self.number}")
            pairs = differing(engine, table, compared).pairs
            both: BothRows[Any] = BothRows.of(engine, table, compared, pairs, head, shape_of(head))
            for batch in engine.batches(both.rows()):
                yield self._rows(head, batch)

    def _rows(self, head: TableState, batch: pa.RecordBatch) -> pa.RecordBatch:
        codes = batch.column(PAIR).to_numpy()
        is_after = batch.column(IS_AFTER).to_numpy(zero_copy_only=False)
        # A pair without a row in the later state is called by the position of the earlier.
        gone = ~is_after & (positions.blocks_of(codes) <= _last(head, self.number - 1))
        codes = np.where(gone, _end(head, self.number), codes)
        wanted = is_after | gone
        rows, deleted = batch.filter(pa.array(wanted)), pa.array(gone[wanted])
        return self.source.out(head, rows, deleted, self.number, codes[wanted])


@dataclass(frozen=True)
class ErasedPart:
    """Deletions of rows that were erased, as long as there is a notice of their keys.

    Attributes:
        number: The transaction of the erasure.
    """

    source: Source
    number: int

    def rows(self) -> Batches:
        """Read the notice."""
        table = self.source.table
        with self.source.head() as head:
            (entry,) = log.sound_entries(table.store, table.name, [self.number])
            keys = notices.read(table.store, table.name, entry)
            then = head.overlay_at(self.number)
            key = {member_of(head.overlay, self.source.columns[index][0]) for index in head.key}
            if keys is None or any({member_of(then, name) for name in one} != key for one in keys):
                logger.warning(
                    "%s: rows were erased (transaction %d), and there is no notice of their keys "
                    "any more: delete them in the sink",
                    *(table.name, self.number),
                )
            elif keys:
                records = [{member_of(then, name): one[name] for name in one} for one in keys]
                yield self._rows(head, entry.time, records)

    def _rows(self, head: TableState, time: str, records: list[dict[str, Raw]]) -> pa.RecordBatch:
        """Read records of keys alone as deletions that a block would have."""
        stream, schema_hash = head.table.stream, head.summary(self.number).schema_hash
        before, after = messages.around_record(stream, time)
        deleted = {messages.DELETED: Raw(b'"%b"' % time.encode())}
        lines = [b"".join((before, encode({**one, **deleted}), after)) for one in records]
        text = b"".join((messages.schema_line(stream, head.schema_of(schema_hash)), *lines))
        last = _last(head, self.number)
        block = Block(last, f"{schema_hash}/notice", 0, 0, len(records), len(text))
        spec = self.source.reader(head, [block]).spec(block, proved=False)
        rows = decoding.read(text, spec)
        sequence = np.full(len(rows), _end(head, self.number), dtype=np.int64)
        return self.source.out(head, rows, rows.column(DELETED), self.number, sequence)


Part = BlockPart | StatePart | ComparedPart | ErasedPart


def _end(head: TableState, number: int) -> int:
    """Return a sequence number behind those of all rows up to a transaction."""
    return positions.code(_last(head, number), (1 << 31) - 1)
