"""The changes of a table, transaction by transaction, for readers that keep their place.

A transaction's rows are those of the blocks that it added, read as the head reads them; nothing
of the state before it is needed. The exception is a transaction with an ACTIVATE_VERSION, which
may remove rows that it does not name: the states before and after it are compared. Rows that were
erased are deletions as long as there is a notice of their keys.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw
from msgspec.json import encode
from numpy.typing import NDArray

from singerlake.engine.local import LocalEngine
from singerlake.errors import ConflictError, NotFoundError, UsageError
from singerlake.format import messages
from singerlake.format.laid import member_of
from singerlake.format.log import Block, Operation
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.log import log, notices, schema_difference
from singerlake.log.lease import ReaderLease
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
_LAST_ORDINAL = (1 << 31) - 1


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
    """How far a reader has come.

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
    """How much a batch should have at most. It has one transaction at least, and whole ones.

    Attributes:
        transactions: So many transactions with rows; None for any number.
        rows: So many rows; None for any number.
    """

    transactions: int | None = None
    rows: int | None = None


NO_LIMITS = Limits()


class ChangeFeed:
    """Follows a table. Between :meth:`parts` and :meth:`done` no vacuum deletes what a part reads.

    Args:
        table: The table.
        misfits: What becomes of values that do not fit: ``fail`` or ``null``.

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
        self._leases: list[tuple[int, ReaderLease]] = []

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
        """Look for new transactions, and return the number of the last one."""
        self._see(refresh(self._table.store, self.head))
        return self.head.number

    def next_place(self, start: Place, last: int, limits: Limits = NO_LIMITS) -> Place:
        """Return the place to which the next batch goes: ``start`` if there are no new rows.

        Args:
            start: The place after the batch before it.
            last: The last transaction that it may have.
            limits: How much it should have.

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
        """Share out the rows between two places, to be read while their files are protected.

        Raises:
            ConflictError: The columns have changed.
            NotFoundError: The log is another one, or has expired beyond the start.
        """
        if start == end:
            return []
        lease = ReaderLease(self._table.store, self.head).acquire()
        self._leases.append((end.transaction, lease))
        self._see(lease.snapshot)
        for place in (start, end):
            _check(self.head, place)
        return [*self._parts(start.transaction, end.transaction)]

    def done(self, end: Place) -> None:
        """End the protection of what was read up to a place."""
        for number, lease in self._leases:
            if number <= end.transaction:
                lease.release()
        self._leases = [one for one in self._leases if one[0] > end.transaction]

    def close(self) -> None:
        """End all protection. May be called again."""
        for _, lease in self._leases:
            lease.release()
        self._leases = []

    def _see(self, head: TableState) -> None:
        head.check_there()
        self.head = head
        if head.columns != self.columns:
            raise ConflictError(
                f"the columns of {head.table} have changed ({_difference(self.columns, head)}): "
                "start the query again; it resumes where it is, with the columns of now"
            )

    def _parts(self, start: int, end: int) -> Iterator[Part]:
        head = self.head
        common = _Common(self._table, head, self.columns, head.key, self._misfits)
        if not start and _begins_at_floor(head):
            start = head.floor
            yield StatePart(common, start)
        for one in head.transactions[start:end] if start else ():
            if one.operation == Operation.ERASE:
                yield ErasedPart(common, one.number)
        blocks = [b for b in head.blocks_after(start) if b.lowest_version <= _last(head, end)]
        compared = sorted({head.transaction_of_block(b.number) for b in blocks if b.activations})
        for number in compared:
            first = number == head.first or not head.summary(number - 1).last_block
            yield StatePart(common, number) if first else ComparedPart(common, number)
        yield from self._block_parts(common, start, end, blocks, compared)

    def _block_parts(
        self, common: _Common, start: int, end: int, blocks: list[Block], compared: list[int]
    ) -> Iterator[Part]:
        head = self.head
        some = head.transactions[start:end]
        numbers = np.array([one.number for one in some], dtype=np.int64)
        ends = np.array([one.last_block for one in some], dtype=np.int64)
        wanted = [b for b in blocks if b.rows and not _is_of(head, b, compared)]
        for task in block_tasks.split(wanted, 1, block_tasks.TASK_BYTES):
            names = [self.columns[index][0] for index in common.keys]
            reader = BlockReader.of(common.table.store, head, [task], self.columns, names)
            yield BlockPart(
                common.without_state(), reader, _last(head, start), numbers, ends, compared
            )


def _last(head: TableState, number: int) -> int:
    return head.summary(number).last_block if number else 0


def _is_of(head: TableState, block: Block, transactions: list[int]) -> bool:
    """Whether all rows of a block are of one of some transactions."""
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
    if not head.from_log:
        raise UsageError(
            f"{table} has lost its log: make it again with: singerlake rebuild {table}"
        )
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


def _difference(before: Columns, head: TableState) -> str:
    """Say how columns differ."""
    old, new = dict(before), dict(head.columns)
    said = {
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
        "of another type": [name for name in new if name in old and new[name] != old[name]],
    }
    words = [f"{word}: {', '.join(names)}" for word, names in said.items() if names]
    return "; ".join(words) or "their order"


@dataclass(frozen=True)
class _Common:
    """What all parts know.

    Attributes:
        table: The table.
        head: The table's head, as which rows are read; None where that was done already.
        columns: The head's columns.
        keys: Indexes of those of the key.
        misfits: What becomes of values that do not fit.
    """

    table: Table
    head: TableState | None
    columns: Columns
    keys: tuple[int, ...]
    misfits: str

    @property
    def known(self) -> TableState:
        """The head."""
        assert self.head is not None  # noqa: S101  # only parts without it are sent so
        return self.head

    @property
    def new(self) -> str:
        """What a row that is there is called."""
        return UPSERT if self.keys else INSERT

    def without_state(self) -> _Common:
        """Return the same for a part that needs no head: it may have very many blocks."""
        return _Common(self.table, None, self.columns, self.keys, self.misfits)

    def out(
        self,
        batch: pa.RecordBatch,
        deleted: pa.Array,
        transactions: NDArray[np.int64],
        sequence: NDArray[np.int64],
    ) -> pa.RecordBatch:
        """Return rows as they go out."""
        if self.misfits == FAIL:
            names = [name for name, _ in self.columns]
            check = MisfitCheck(self.table.name, names, keyed=bool(self.keys))
            (batch,) = check(iter([batch]))
        change = pc.if_else(deleted, DELETE, self.new)
        own = [batch.column(name) for name in aliases(self.columns)]
        names = [*(name for name, _ in self.columns), *column_names(self.columns)]
        arrays = [*own, change, pa.array(transactions), pa.array(sequence)]
        return pa.RecordBatch.from_arrays(arrays, names)


@dataclass(frozen=True)
class BlockPart:
    """Rows of some blocks, as they were written.

    Attributes:
        common: What all parts know.
        reader: Reads the blocks, as one task.
        after: The last block before the first transaction.
        numbers: The transactions.
        ends: The last block of each.
        compared: Transactions whose rows are in other parts.
    """

    common: _Common
    reader: BlockReader
    after: int
    numbers: NDArray[np.int64]
    ends: NDArray[np.int64]
    compared: Sequence[int]

    def rows(self) -> Batches:
        """Read them."""
        return combined(self._rows())

    def _rows(self) -> Iterator[pa.RecordBatch]:
        for batch in self.reader.rows(self.reader.task(0)):
            blocks = positions.blocks_of(positions.codes_in(batch))
            place = np.searchsorted(self.ends, blocks)
            wanted = (blocks > self.after) & (place < len(self.ends))
            if self.compared:
                numbers = self.numbers[np.minimum(place, len(self.ends) - 1)]
                wanted &= ~np.isin(numbers, self.compared)
            if not self.common.keys:  # a deletion without a key deletes nothing
                wanted &= ~batch.column(DELETED).to_numpy(zero_copy_only=False)
            if wanted.any():
                rows, numbers = batch.filter(pa.array(wanted)), self.numbers[place[wanted]]
                deleted = rows.column(DELETED)
                yield self.common.out(rows, deleted, numbers, positions.codes_in(rows))


@dataclass(frozen=True)
class StatePart:
    """All rows of a state: a reader that has none yet begins with it.

    Attributes:
        common: What all parts know.
        number: The state's transaction.
    """

    common: _Common
    number: int

    def rows(self) -> Batches:
        """Read them."""
        head, engine = self.common.known, LocalEngine()
        state = head.at(self.number)
        shape = Shape(self.common.columns, self.common.keys, survival(state.blocks))
        plan = from_blocks.planned(engine, self.common.table, state, shape=shape, reads_as=head)
        for batch in engine.batches(from_blocks.through(engine, plan, combined, "")):
            numbers = np.full(len(batch), self.number, dtype=np.int64)
            there = pa.array(np.zeros(len(batch), dtype=bool))
            yield self.common.out(batch, there, numbers, positions.codes_in(batch))


@dataclass(frozen=True)
class ComparedPart:
    """The rows of which a transaction changed the state, compared with the state before it.

    Attributes:
        common: What all parts know.
        number: The transaction.
    """

    common: _Common
    number: int

    def rows(self) -> Batches:
        """Compare the states, and read the rows that differ."""
        head, table, engine = self.common.known, self.common.table, LocalEngine()
        compared = schema_difference.plan(head, f"@{self.number - 1}", f"@{self.number}")
        pairs = differing(engine, table, compared).pairs
        both: BothRows[Any] = BothRows.of(engine, table, compared, pairs, head, shape_of(head))
        before, last = _last(head, self.number - 1), _last(head, self.number)
        for batch in engine.batches(both.rows()):
            codes = batch.column(PAIR).to_numpy()
            is_after = batch.column(IS_AFTER).to_numpy(zero_copy_only=False)
            # A pair without a row in the later state is called by the position of the earlier.
            gone = ~is_after & (positions.blocks_of(codes) <= before)
            wanted = is_after | gone
            if not wanted.any():
                continue
            rows, gone = batch.filter(pa.array(wanted)), gone[wanted]
            sequence = np.where(gone, positions.code(last, _LAST_ORDINAL), codes[wanted])
            numbers = np.full(len(rows), self.number, dtype=np.int64)
            yield self.common.out(rows, pa.array(gone), numbers, sequence)


@dataclass(frozen=True)
class ErasedPart:
    """Deletions of rows that were erased, as long as there is a notice of their keys.

    Attributes:
        common: What all parts know.
        number: The transaction of the erasure.
    """

    common: _Common
    number: int

    def rows(self) -> Batches:
        """Read the notice."""
        head, table = self.common.known, self.common.table
        (entry,) = log.sound_entries(table.store, table.name, [self.number])
        keys = notices.read(table.store, table.name, entry)
        schema_hash, overlay = head.summary(self.number).schema_hash, head.overlay_at(self.number)
        names = [self.common.columns[index][0] for index in self.common.keys]
        members = {member_of(head.overlay, name) for name in names}
        if keys is None or any({member_of(overlay, c) for c in key} != members for key in keys):
            keys = ()
            logger.warning(
                "%s: rows were erased (transaction %d), and there is no notice of their keys any "
                "more: delete them in the sink",
                *(table.name, self.number),
            )
        if not keys:
            return
        before, after = messages.around_record(table.name.stream, entry.time)
        lines = [messages.schema_line(table.name.stream, head.schema_of(schema_hash))]
        deleted = {messages.DELETED: Raw(b'"%b"' % entry.time.encode())}
        for key in keys:
            record = {member_of(overlay, column): value for column, value in key.items()}
            lines.append(b"".join((before, encode({**record, **deleted}), after)))
        text, last = b"".join(lines), _last(head, self.number)
        block = Block(last, f"{schema_hash}/notice", 0, 0, len(keys), len(text))
        reader = BlockReader.of(table.store, head, [[block]], self.common.columns, names)
        rows = decoding.read(text, reader.spec(block, proved=False))
        numbers = np.full(len(rows), self.number, dtype=np.int64)
        sequence = np.full(len(rows), positions.code(last, _LAST_ORDINAL), dtype=np.int64)
        yield self.common.out(rows, rows.column(DELETED), numbers, sequence)


Part = BlockPart | StatePart | ComparedPart | ErasedPart
