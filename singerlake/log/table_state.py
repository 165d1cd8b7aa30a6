"""A table as of one transaction: the log folded, without reading a row."""

from __future__ import annotations

import functools
import logging
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from singerlake.errors import DamagedError, NotFoundError, UsageError
from singerlake.format import times
from singerlake.format.log import Block, FileList, FrozenVersion, SchemaEntry
from singerlake.format.metadata import DroppedFile, TransactionSummary
from singerlake.format.names import TableName
from singerlake.format.overlaid import (
    BlockColumns,
    block_columns,
    laid,
    reading_of,
    retyped_of,
    table_columns,
    texts_of,
    with_texts,
)
from singerlake.format.overlay import Overlay
from singerlake.format.sealed import PLAIN
from singerlake.format.types import RULES, Columns, is_exact, key_positions
from singerlake.format.version_notes import BlockedKeys
from singerlake.log import lazy_history, lifetimes, versions
from singerlake.log.lifetimes import Drops

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableState:
    """The state of a table's log after one transaction.

    It never changes: ``folding`` makes another one of it and later entries.

    Attributes:
        transactions: One summary each, in order; the last is the head.
        schemas: Every schema the table has had, by hash, in order of appearance.
        blocks: Every block there is, in order of number, each where it lies now.
        frozen: Every table version, in order of number.
        deleted_versions: Those that were frozen and deleted, in order of number.
        floor: The history floor: of the transactions before it only frozen ones can be read.
        dropped: Files that were named once and are no more, by path, until they are deleted.
        pending_deletes: Files that vacuums were about to delete, with the transaction that said so:
            by one that is not done, or said since the checkpoint. A writer must not commit one.
        pending_lists: The same of files that rows name, as lists, each with that transaction.
        vacuumed: The last transaction that ended a vacuum, of those read since the checkpoint.
        checkpoint: The transaction up to which the manifest on the store is folded.
        checkpoint_due: Transactions and blocks there must ever have been for the next; else 0.
        checkpoint_etag: That manifest's etag, where it is known.
        format: The format's number of the last entry.
        chain: That entry's chain id; empty where a manifest of format 1 does not tell it.
        anchored: Whether it was looked, since the manifest was read, that the log's end is there.
        doubtful: Why nothing may be committed on top of it: the log's end is lost, and files of
            a writer that seems to live may belong to it. Empty where nothing speaks against it.
        from_log: False where log and manifest are lost and blocks were found among the files.
        overlays: What people said of the table, by the transaction from which it holds.
        given_up: Of a table as of an earlier transaction: the history floor of its head.
        rules: The number of the rules of types by which it is read: those that a version was frozen
            under, where it is read as that version; else the present ones.
        drops: The times in which the table was dropped, in order.
        restorable: The blocks that an undrop would bring back; None where it can bring none.
        earlier_versions: Versions of tables that were dropped, which nobody can read.
        erased_at: The last transaction that erased rows, also as of an earlier one; 0 for none.
        blocked: The keys that no row may come with now; None where there are none.
        past: Reads what was before the head, where that was left out.
    """

    table: TableName
    transactions: Sequence[TransactionSummary] = field(default_factory=list)
    schemas: Mapping[str, SchemaEntry] = field(default_factory=dict)
    blocks: Sequence[Block] = field(default_factory=list)
    frozen: Sequence[FrozenVersion] = field(default_factory=list)
    deleted_versions: Sequence[FrozenVersion] = field(default_factory=list)
    floor: int = 0
    given_up: int = 0
    dropped: Mapping[str, DroppedFile] = field(default_factory=dict)
    pending_deletes: Mapping[str, int] = field(default_factory=dict)
    pending_lists: Sequence[tuple[int, FileList]] = field(default_factory=list)
    vacuumed: int = 0
    checkpoint: int = 0
    checkpoint_due: int = field(default=0, compare=False)
    checkpoint_etag: str | None = field(default=None, compare=False)
    format: int = 1
    chain: str = ""
    anchored: bool = field(default=False, compare=False)
    doubtful: str = field(default="", compare=False)
    from_log: bool = True
    overlays: Mapping[int, Overlay] = field(default_factory=dict)
    rules: int = RULES
    drops: Drops = ()
    restorable: Sequence[Block] | None = None
    earlier_versions: Sequence[FrozenVersion] = field(default_factory=list)
    erased_at: int = 0
    blocked: BlockedKeys | None = None
    past: lazy_history.LazyHistory | None = field(default=None, compare=False)

    @property
    def number(self) -> int:
        """Number of the last transaction; 0 where there is none."""
        return self.transactions[-1].number if self.transactions else 0

    @property
    def commit(self) -> str:
        """Commit id of the last transaction."""
        return self.transactions[-1].commit if self.transactions else ""

    @property
    def last_block(self) -> int:
        """Number of the last block there ever was; 0 where there was none."""
        return self.transactions[-1].last_block if self.transactions else 0

    @property
    def named_files(self) -> set[str]:
        """Paths of all files that its log speaks of: in use, dropped, or about to be deleted."""
        used = {path for block in self.blocks for path in block.paths}
        return used | self.dropped.keys() | self.pending_deletes.keys()

    @property
    def dropped_at(self) -> int:
        """The transaction that dropped the table; 0 where it is there."""
        return lifetimes.dropped_at(self.drops)

    @property
    def first(self) -> int:
        """The first transaction of this table, where others of its name were dropped before."""
        return lifetimes.first(self.drops)

    @property
    def own_transactions(self) -> Sequence[TransactionSummary]:
        """The transactions of this table: all, unless others of its name were dropped before."""
        return self.transactions[self.first - 1 :]

    @property
    def last_version(self) -> int:
        """The number of the last version there ever was; 0 where there was none."""
        return max((version.number for version in versions.known(self)), default=0)

    def check_there(self) -> None:
        """Make sure that the table is not dropped.

        Raises:
            DroppedError: It is.
        """
        if self.dropped_at:
            at, possible = self.summary(self.dropped_at), self.restorable is not None
            raise lifetimes.dropped_error(self.table, at.number, at.time, possible=possible)

    def check_log(self) -> None:
        """Make sure that there is a log, for an operation that reads or continues it.

        Raises:
            UsageError: Log and manifest are lost.
        """
        if not self.from_log:
            raise UsageError(
                f"{self.table} has lost its log: rebuild it with: singerlake rebuild {self.table}"
            )

    @property
    def schema_hash(self) -> str:
        """The schema in effect; empty where the table has none yet."""
        return self.transactions[-1].schema_hash if self.transactions else ""

    @property
    def schema(self) -> SchemaEntry:
        """The schema in effect: the tap's, with what people said laid over it.

        Raises:
            DamagedError: The log names a schema that it never spelled out.
        """
        return laid(self.tap_schema, self.overlay)

    @property
    def tap_schema(self) -> SchemaEntry:
        """The schema in effect as the tap sent it.

        Raises:
            DamagedError: The log names a schema that it never spelled out.
        """
        return self.schema_of(self.schema_hash)

    @functools.cached_property  # asked for half a dozen times by whoever reads a state
    def columns(self) -> Columns:
        """The table's columns, in order, as people see them.

        Raises:
            DamagedError: The log names a schema that it never spelled out.
        """
        return table_columns(self.tap_schema, self.overlay, self.rules)

    def columns_of(self, schema_hash: str) -> BlockColumns:
        """Return what the records under a schema have of the table's columns.

        Raises:
            DamagedError: The log never spelled it out.
        """
        return block_columns(self.schema_of(schema_hash), self.overlay, self.rules)

    @property
    def key(self) -> tuple[int, ...]:
        """Indexes of the key's columns; none for a keyless table.

        Raises:
            DamagedError: The schema in effect lacks one of them.
        """
        return key_positions(self.schema, self.columns, self.table)

    @property
    def rounds_keys(self) -> bool:
        """Whether its key has a column that some keys do not fit, for it would round them."""
        return any(is_exact(self.columns[index][1]) for index in self.key)

    @property
    def overlay(self) -> Overlay:
        """The schema overrides of this table that are in effect."""
        return self.overlay_at(self.number)

    def overlay_at(self, number: int) -> Overlay:
        """Return the overlay as of a transaction, of the table that was there by then."""
        begun = lifetimes.first(lifetimes.as_of(self.drops, number))
        last = max((n for n in self.overlays if begun <= n <= number), default=0)
        return self.overlays[last] if last else Overlay()

    @property
    def retyped(self) -> frozenset[str]:
        """Columns that are text, whatever the schemas say, by the names that people see."""
        return retyped_of(self.overlay)

    def reads_like(self, other: TableState) -> bool:
        """Tell whether a row is read as the same columns here and there."""
        mine, theirs = ((one.schema_hash, one.overlay, one.rules) for one in (self, other))
        return mine == theirs

    def laid_over(self, overlay: Overlay) -> TableState:
        """Return the same state, its columns read by another overlay."""
        return replace(lazy_history.whole(self), overlays={**self.overlays, self.number: overlay})

    def with_text(self, columns: Iterable[str]) -> TableState:
        """Return the same state, some of its columns read as text."""
        return self.laid_over(with_texts(self.overlay, columns))

    def as_read_by(self, later: TableState) -> TableState:
        """Return the same state, with those columns as text too that a later overlay makes text.

        Keys that fit their own type are one key as texts where they are one as values, and the
        others can be read at all.
        """
        return self.laid_over(texts_of(self.overlay, later.overlay))

    @property
    def key_reading(self) -> tuple[Columns, bytes, int]:
        """Its key's columns, and how they are read: equal where rows have the same keys.

        That is by what people said of them, and by which rules.

        Raises:
            DamagedError: The schema in effect lacks one of them.
        """
        columns = self.columns
        key = tuple(columns[index] for index in self.key)
        return key, reading_of(self.overlay, (name for name, _ in key)), self.rules

    def schema_of(self, schema_hash: str) -> SchemaEntry:
        """Return a schema by its hash.

        Raises:
            DamagedError: The log never spelled it out.
        """
        entry = self.schemas.get(schema_hash)
        if entry is None:
            raise DamagedError(
                f"the log of {self.table} names the schema {schema_hash!r} but does not hold it"
            )
        if not isinstance(entry.schema.get("properties", {}), dict):
            raise DamagedError(
                f"the schema {schema_hash!r} in the log of {self.table} has properties that are "
                "not an object"
            )
        return entry

    def summary(self, number: int) -> TransactionSummary:
        """Return one transaction's summary.

        Raises:
            NotFoundError: There is no such transaction.
        """
        if not 1 <= number <= len(self.transactions):
            raise NotFoundError(
                f"{self.table} has no transaction {number}: "
                + (f"its last is {self.number}" if self.number else "it has none yet")
            )
        return self.transactions[number - 1]

    def readable(self, number: int) -> bool:
        """Tell whether no vacuum has dropped rows that the state at a transaction needs.

        So it is from the history floor on, at frozen versions and those deleted since it, and
        wherever rows are as at one of those. A dropped table has no states, unless it comes back.
        """
        last_block = self.summary(number).last_block
        if not lifetimes.was_there(self.drops, number):
            return False
        if not self.floor or last_block >= self.summary(self.floor).last_block:
            return True
        # As of an earlier transaction, too: a version may have been deleted since.
        protecting = versions.protecting(self, max(self.floor, self.given_up))
        return any(self.summary(v.transaction).last_block == last_block for v in protecting)

    def at(self, number: int) -> TableState:
        """Return the table as of an earlier transaction, read by the rules of today.

        Raises:
            NotFoundError: There is no such transaction, or its state was given up.
        """
        if number != self.number and not self.readable(number):
            if not lifetimes.was_there(self.drops, number):
                self.check_there()
                raise lifetimes.not_there_error(self.table, number, self.first)
            raise lifetimes.given_up_error(self.table, number, self.floor)
        return self.filed(number)

    def filed(self, number: int) -> TableState:
        """Return the table as of a transaction, for callers that need no rows out of its blocks.

        Of a state that was given up the blocks are not all there any more.

        Raises:
            NotFoundError: There is no such transaction.
        """
        if number == self.number:
            return self.by_rules(RULES)
        last_block = self.summary(number).last_block
        count = bisect_right(self.blocks, last_block, key=lambda block: block.number)
        return replace(
            lazy_history.whole(self),
            transactions=self.transactions[:number],
            blocks=self.blocks[:count],
            frozen=[v for v in self.frozen if v.transaction <= number],
            deleted_versions=[v for v in self.deleted_versions if v.transaction <= number],
            floor=min(self.floor, number),
            given_up=max(self.floor, self.given_up),
            dropped={p: file for p, file in self.dropped.items() if file.transaction <= number},
            checkpoint=min(self.checkpoint, number),
            checkpoint_etag=None,
            format=PLAIN,  # only the log tells those of its own last entry
            chain="",
            overlays={n: overlay for n, overlay in self.overlays.items() if n <= number},
            drops=lifetimes.as_of(self.drops, number),
            restorable=None,
            rules=RULES,
        )

    def by_rules(self, rules: int) -> TableState:
        """Return the same state, read by other rules of types."""
        return self if rules == self.rules else replace(lazy_history.whole(self), rules=rules)

    def frozen_as(self, version: FrozenVersion) -> TableState:
        """Return the table as a version means it: as of its transaction, read by its rules.

        Raises:
            NotFoundError: Its state was given up.
        """
        return self.at(version.transaction).by_rules(version.types)

    def earliest_equal(self) -> TableState:
        """Return the table at the earliest transaction with the same rows, read in the same way.

        A freeze, for one, adds an entry to the log and nothing to the state.
        """
        here = self.summary(number := self.number)
        while number > self.first and number not in self.overlays:
            before = self.summary(number - 1)
            if (before.last_block, before.schema_hash) != (here.last_block, here.schema_hash):
                break
            number -= 1
        return self.at(number).by_rules(self.rules)

    def at_time(self, text: str) -> TableState:
        """Return the table as of the last transaction committed at or before a time.

        Raises:
            UsageError: The text is no time.
            NotFoundError: The table is younger than it, or its state then was given up.
        """
        return self.at(self.transaction_at(text))

    def transaction_at(self, text: str) -> int:
        """Return the last transaction committed at or before a time.

        Raises:
            UsageError: The text is no time.
            NotFoundError: The table is younger than it.
        """
        instant = times.parse(text)
        if instant is None:
            raise UsageError(f"{text!r} is not a time: write it as 2026-11-20T12:00:00Z")
        stamp = times.iso(instant)
        number = max((t.number for t in self.transactions if t.time <= stamp), default=0)
        if number == 0:
            first = self.transactions[0].time if self.transactions else "never"
            raise NotFoundError(f"{self.table} has no transaction by {stamp}: its first is {first}")
        if later := [t for t in self.transactions[: number - 1] if t.time > stamp]:
            logger.warning(
                "the times of %s are out of order, as after a change of a clock: transaction %d "
                "has the time %s, and transaction %d, which is taken, has %s",
                *(self.table, later[0].number, later[0].time),
                *(number, self.summary(number).time),
            )
        return number

    def version(self, name: str) -> FrozenVersion:
        """Return a table version by its number, its label, or a pointer, as ``@current``.

        Raises:
            NotFoundError: There is none of this name, or it was deleted.
        """
        return versions.find(self, name)

    def named(self, name: str) -> tuple[FrozenVersion | None, TableState]:
        """Return the table as of a version's number, its label, a pointer or a transaction.

        Args:
            name: ``2``, ``monday``, ``@current`` or ``@17``.

        Returns:
            The version, if one was named, and the table as of its transaction.

        Raises:
            NotFoundError: There is no such version, pointer or transaction.
        """
        version, number = self.transaction_named(name)
        return version, self.at(number) if version is None else self.frozen_as(version)

    def transaction_named(self, name: str) -> tuple[FrozenVersion | None, int]:
        """Return what :meth:`named` does, with the transaction alone: its rows may be given up.

        Raises:
            NotFoundError: There is no such version or transaction.
        """
        if re.fullmatch(r"@[0-9]{1,18}", name):
            return None, self.summary(int(name[1:])).number
        version = self.version(name)
        return version, version.transaction

    def transaction_of_block(self, number: int) -> int:
        """Return the transaction that added a block, by its number as it was then."""
        ends = self.transactions
        return ends[bisect_right(ends, number - 1, key=lambda t: t.last_block)].number

    def blocks_after(self, transaction: int) -> Sequence[Block]:
        """Return the blocks that hold what later transactions than this one added.

        Where a vacuum has put blocks from before and after it together, earlier rows too.
        """
        if transaction <= 0:
            return self.blocks
        last = self.summary(transaction).last_block
        return self.blocks[bisect_right(self.blocks, last, key=lambda block: block.number) :]
