"""A table as of one transaction: the log folded, without reading a row."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from singerlake.errors import DamagedError, NotFoundError
from singerlake.format import times
from singerlake.format.log import VACUUM, Block, Entry, FrozenVersion, Overlay, SchemaEntry
from singerlake.format.metadata import DroppedFile, TransactionSummary
from singerlake.format.names import TableName
from singerlake.format.sealed import PLAIN
from singerlake.format.types import RULES
from singerlake.transactions import chain


@dataclass
class Snapshot:
    """The state of a table's log after one transaction.

    It does not move under its holder: a later transaction makes another snapshot.

    Attributes:
        table: Whose.
        transactions: One summary each, in order; the last is the head.
        schemas: Every schema the table has had, by hash, in order of appearance.
        blocks: Every block there is, in order of number, each where it lies now.
        frozen: Every table version, in order of number.
        floor: The history floor: of the transactions before it only frozen ones can be read.
        dropped: Files that were named once and are no more, by path, until they are deleted.
        doomed: Files that vacuums were about to delete, with the transaction that said so:
            by one that is not done, or said since the checkpoint. A writer must not commit one.
        vacuumed: The last transaction that said that a vacuum is done, of those read since
            the checkpoint; the manifest need not keep what was doomed before.
        checkpoint: The transaction up to which the manifest on the store is folded.
        checkpoint_etag: That manifest's etag, where it is known.
        format: The format's number of the last entry.
        chain: That entry's chain id; empty where a manifest of format 1 does not tell it.
        anchored: Whether it was looked, since the manifest was read, that the log's end is there.
        doubtful: Why nothing may be committed on top of it: the log's end is lost, and files of
            a writer that seems to live may belong to it. Empty where nothing speaks against it.
        from_log: False where the log and the manifest are lost and the blocks were found
            by looking at the files.
        overlays: What people said of the columns, by the transaction from which it holds.
        earlier_rules: The states that were frozen under earlier rules of types, by last block
            and schema, with the number of the rules: they are read by these for ever.
    """

    table: TableName
    transactions: list[TransactionSummary] = field(default_factory=list)
    schemas: dict[str, SchemaEntry] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    frozen: list[FrozenVersion] = field(default_factory=list)
    floor: int = 0
    dropped: dict[str, DroppedFile] = field(default_factory=dict)
    doomed: dict[str, int] = field(default_factory=dict)
    vacuumed: int = 0
    checkpoint: int = 0
    checkpoint_etag: str | None = field(default=None, compare=False)
    format: int = 1
    chain: str = ""
    anchored: bool = field(default=False, compare=False)
    doubtful: str = field(default="", compare=False)
    from_log: bool = True
    overlays: dict[int, Overlay] = field(default_factory=dict)
    earlier_rules: dict[tuple[int, str], int] = field(default_factory=dict)

    @property
    def head(self) -> int:
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
        return {block.file for block in self.blocks} | self.dropped.keys() | self.doomed.keys()

    @property
    def schema_hash(self) -> str:
        """The schema in effect; empty where the table has none yet."""
        return self.transactions[-1].schema_hash if self.transactions else ""

    @property
    def schema(self) -> SchemaEntry:
        """The schema in effect.

        Raises:
            DamagedError: The log names a schema that it never spelled out.
        """
        return self.schema_of(self.schema_hash)

    @property
    def overlay(self) -> Overlay:
        """What people said of the columns, as it is in effect."""
        return self.overlays[max(self.overlays)] if self.overlays else Overlay()

    @property
    def retyped(self) -> frozenset[str]:
        """Columns that are text, whatever the schemas say."""
        return frozenset(self.overlay.columns)

    @property
    def rules(self) -> int:
        """The number of the rules that make columns of the schemas."""
        return self.earlier_rules.get((self.last_block, self.schema_hash), RULES)

    def reads_like(self, other: Snapshot) -> bool:
        """Whether a row is read as the same columns here and there."""
        mine, theirs = ((one.schema_hash, one.overlay, one.rules) for one in (self, other))
        return mine == theirs

    def laid_over(self, overlay: Overlay) -> Snapshot:
        """The same state, its columns read by another overlay."""
        return replace(self, overlays={**self.overlays, self.head: overlay})

    def schema_of(self, schema_hash: str) -> SchemaEntry:
        """A schema by its hash.

        Raises:
            DamagedError: The log never spelled it out.
        """
        found = self.schemas.get(schema_hash)
        if found is None:
            raise DamagedError(
                f"the log of {self.table} names the schema {schema_hash!r} but does not hold it"
            )
        if not isinstance(found.schema.get("properties", {}), dict):
            raise DamagedError(
                f"the schema {schema_hash!r} in the log of {self.table} has properties that are "
                "no object"
            )
        return found

    def summary(self, number: int) -> TransactionSummary:
        """One transaction's summary.

        Raises:
            NotFoundError: There is no such transaction.
        """
        if not 1 <= number <= len(self.transactions):
            raise NotFoundError(
                f"{self.table} has no transaction {number}: "
                + (f"its last is {self.head}" if self.head else "it has none yet")
            )
        return self.transactions[number - 1]

    def readable(self, number: int) -> bool:
        """Whether no vacuum has dropped rows that the state at a transaction needs.

        So it is from the history floor on, at frozen versions, and wherever the rows are the
        same as at one of those.
        """
        last_block = self.summary(number).last_block
        if not self.floor or last_block >= self.summary(self.floor).last_block:
            return True
        return any(self.summary(v.transaction).last_block == last_block for v in self.frozen)

    def at(self, number: int) -> Snapshot:
        """The table as of an earlier transaction.

        Raises:
            NotFoundError: There is no such transaction, or its state was given up.
        """
        if number != self.head and not self.readable(number):
            raise NotFoundError(
                f"the state of {self.table} at transaction {number} was given up when its history "
                f"was dropped: what can be read is its frozen versions, and transaction "
                f"{self.floor} and later"
            )
        return self.filed(number)

    def filed(self, number: int) -> Snapshot:
        """The table as of a transaction, for who needs no rows out of its blocks.

        Of a state that was given up the blocks are not all there any more.

        Raises:
            NotFoundError: There is no such transaction.
        """
        if number == self.head:
            return self
        last_block = self.summary(number).last_block
        count = bisect_right(self.blocks, last_block, key=lambda block: block.number)
        return replace(
            self,
            transactions=self.transactions[:number],
            blocks=self.blocks[:count],
            frozen=[v for v in self.frozen if v.transaction <= number],
            floor=min(self.floor, number),
            dropped={p: file for p, file in self.dropped.items() if file.transaction <= number},
            checkpoint=min(self.checkpoint, number),
            checkpoint_etag=None,
            # Those of its own last entry; only the log tells them.
            format=PLAIN,
            chain="",
            overlays={n: overlay for n, overlay in self.overlays.items() if n <= number},
        )

    def settled(self) -> Snapshot:
        """The table at the earliest transaction with the same rows, read in the same way.

        A freeze, for one, adds an entry to the log and nothing to the state.
        """
        number = self.head
        here = self.summary(number)
        while number > 1 and number not in self.overlays:
            before = self.summary(number - 1)
            if (before.last_block, before.schema_hash) != (here.last_block, here.schema_hash):
                break
            number -= 1
        return self.at(number)

    def at_time(self, text: str) -> Snapshot:
        """The table as of the last transaction committed at or before a time.

        Raises:
            NotFoundError: The text is no time, or the table is younger than it.
        """
        instant = times.parse(text)
        if instant is None:
            raise NotFoundError(f"{text!r} is not a time: write it as 2026-11-20T12:00:00Z")
        stamp = times.iso(instant)
        number = max((t.number for t in self.transactions if t.time <= stamp), default=0)
        if number == 0:
            first = self.transactions[0].time if self.transactions else "never"
            raise NotFoundError(f"{self.table} has no transaction by {stamp}: its first is {first}")
        return self.at(number)

    def version(self, name: str) -> FrozenVersion:
        """A table version by its number or its label.

        Raises:
            NotFoundError: There is none of this name.
        """
        for version in self.frozen:
            if name in (str(version.number), version.label):
                return version
        known = ", ".join(
            str(v.number) + (f" ({v.label})" if v.label else "") for v in self.frozen[-10:]
        )
        raise NotFoundError(
            f"{self.table} has no version {name!r}: "
            + (f"it has {known}" if known else f"freeze one with: singerlake freeze {self.table}")
        )

    def named(self, name: str) -> tuple[FrozenVersion | None, Snapshot]:
        """The table as of what a person names: a version's number or label, or ``@17``.

        Returns:
            The version, if one was named, and the table as of its transaction.

        Raises:
            NotFoundError: There is no such version or transaction.
        """
        if re.fullmatch(r"@[0-9]{1,18}", name):
            return None, self.at(self.summary(int(name[1:])).number)
        version = self.version(name)
        return version, self.at(version.transaction)

    def transaction_of_block(self, number: int) -> int:
        """The transaction that added a block, by its number as it was then."""
        ends = self.transactions
        return ends[bisect_right(ends, number - 1, key=lambda t: t.last_block)].number

    def blocks_after(self, transaction: int) -> list[Block]:
        """The blocks that hold what later transactions than this one added.

        Where a vacuum has put blocks from before and after it together, earlier rows too.
        """
        if transaction <= 0:
            return self.blocks
        last = self.summary(transaction).last_block
        return self.blocks[bisect_right(self.blocks, last, key=lambda block: block.number) :]

    def applied(self, entries: Iterable[Entry]) -> Snapshot:
        """The snapshot after some more transactions; this one stays as it is.

        Raises:
            DamagedError: An entry does not continue this log.
        """
        after = self
        for entry in entries:
            if after is self:  # a look that finds nothing new costs nothing, however long the log
                after = self._copy()
            after._fold(entry)
        return after

    def _copy(self) -> Snapshot:
        folded: dict[str, dict[Any, Any] | list[Any]] = {
            one.name: value.copy()
            for one in fields(self)
            if isinstance(value := getattr(self, one.name), dict | list)
        }
        return replace(self, **folded)  # type: ignore[arg-type]

    def _fold(self, entry: Entry) -> None:
        chain.check_next(self.table, self.head, entry)
        if entry.hash:  # one that was only put together, of what is left of a log, has none
            chain.check_link(self.table, self.format, self.chain, entry)
            self.format = entry.format
        last = self._check_blocks(entry)
        self.blocks.extend(entry.blocks)
        self.schemas.update(entry.schemas)
        if entry.version is not None:
            self.add_version(entry.version)
        last = max(last, entry.last_block)
        self.transactions.append(chain.summarize(entry, last, self.schema_hash))
        if entry.moved or entry.removed:
            self._move(entry)
        self.floor = max(self.floor, entry.floor)
        if entry.overlay is not None:
            self.overlays[entry.number] = entry.overlay
        for file in entry.deletes:
            self.doomed[file] = entry.number
        if entry.operation == VACUUM:
            self.vacuumed = entry.number
        for file in entry.deleted:
            self.dropped.pop(file, None)
        self.chain, self.anchored, self.doubtful = entry.chain, True, ""

    def _check_blocks(self, entry: Entry) -> int:
        """Make sure that its blocks go on from those there are; gives the last one's number."""
        last = self.last_block
        for block in entry.blocks:
            # Only an entry that a rebuild wrote after a vacuum may leave numbers out.
            if block.number != last + 1 and not (entry.last_block and block.number > last):
                raise DamagedError(
                    f"transaction {entry.number} of {self.table} adds block {block.number} "
                    f"where {last + 1} comes next"
                )
            last = block.number
            chain.check_path(self.table, entry, block)
            self.dropped.pop(block.file, None)  # format 1 used names again
        return last

    def add_version(self, version: FrozenVersion) -> None:
        """Take up a version, and the rules that its state is read by from now on."""
        self.frozen.append(version)
        if version.types != RULES and 1 <= version.transaction <= self.head:
            state = self.summary(version.transaction)
            self.earlier_rules[state.last_block, state.schema_hash] = version.types

    def _move(self, entry: Entry) -> None:
        """Fold in where blocks lie now, and which are no more."""
        moved = {block.number: block for block in entry.moved}
        for block in entry.moved:
            chain.check_path(self.table, entry, block)
        before: dict[str, int] = {}
        for block in self.blocks:
            before[block.file] = before.get(block.file, 0) + block.length
        ranges = iter(sorted(entry.removed))
        first, last = next(ranges, (0, 0))
        kept: list[Block] = []
        for block in self.blocks:
            while last and block.number > last:
                first, last = next(ranges, (0, 0))
            if not first <= block.number <= last:
                kept.append(moved.pop(block.number, block))
        if moved:
            raise DamagedError(
                f"transaction {entry.number} of {self.table} moves block {min(moved)}, "
                "which is not there"
            )
        self.blocks = kept
        for file in {block.file for block in entry.moved}:
            self.dropped.pop(file, None)  # a rebuilt entry may have named it before
        after = {block.file for block in kept}
        for file in sorted(before.keys() - after):
            self.dropped[file] = DroppedFile(file, entry.number, entry.time, before[file])
