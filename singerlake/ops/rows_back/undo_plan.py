"""Undoing: one new transaction that takes back what some did, and leaves what came after.

Transactions with nothing in between are undone as one. For each row that they wrote there are
three values: before, at their end, and now. A row that is now as it was at their end goes back to
what it was before; one that was touched again since is a conflict. Several groups are undone from
the newest to the oldest, each on what the one before it leaves.

Plain data: what has to be read and written is in ``ops/undo.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from singerlake.errors import DamagedError, UsageError
from singerlake.format.log import Operation
from singerlake.log import conflicts, lifetimes
from singerlake.log.acknowledged import KEEP
from singerlake.log.commit import check_metadata
from singerlake.log.state_files import missing
from singerlake.log.table_state import TableState
from singerlake.overlay.alter import retyped_columns
from singerlake.storage.base import Store


class OnConflict(str, Enum):
    """The fate of rows that were touched again since."""

    FAIL = "fail"
    """Nothing is undone."""
    KEEP = "keep"
    """They stay as they are now."""
    UNDO = "undo"
    """They go back too, to what they were before the transactions that are undone."""

    @property
    def kept(self) -> str:
        """The side of a conflict that is kept, as the log entry records it."""
        return {self.KEEP: "ours", self.UNDO: "theirs"}[self]

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Group:
    """Transactions that are undone as one.

    Attributes:
        numbers: Their numbers, in order.
        before: The state before the first of them; None where there was no table.
        at: The state after the last.
        restores_schema: Whether the schema before them is in effect again.
    """

    numbers: Sequence[int]
    before: TableState | None
    at: TableState
    restores_schema: bool = False

    @property
    def blocks(self) -> tuple[int, int]:
        """The block after which theirs begin, and their last one."""
        return (self.before.last_block if self.before is not None else 0), self.at.last_block


@dataclass(frozen=True)
class UndoPlan:
    """The plan of an undo.

    Attributes:
        groups: From the oldest to the newest; at least one.
        schema_hash: The schema in effect afterwards.
        if_transaction: The transaction that the table must still be at when it is committed.
    """

    head: TableState
    groups: Sequence[Group]
    schema_hash: str
    if_transaction: int | None = None

    @property
    def numbers(self) -> list[int]:
        """All transactions that are undone, in order."""
        return [number for group in self.groups for number in group.numbers]

    @property
    def first_block(self) -> int:
        """The last block that none of them wrote, nor anything after them."""
        return self.groups[0].blocks[0]

    @property
    def after(self) -> TableState:
        """The table as it will be read: under the schema to come, by what people say now."""
        for group in self.groups:
            if group.restores_schema and group.before is not None:
                state = group.before.laid_over(self.head.overlay)
                return replace(state, blocks=self.head.blocks)
        return self.head

    @property
    def retyped(self) -> set[str]:
        """Columns whose values of then may not fit the type of now, by their names of now."""
        before = (group.before for group in self.groups if group.before is not None)
        return set[str]().union(*(retyped_columns(state, self.after) for state in before))

    @property
    def activates(self) -> bool:
        """Whether they removed rows by ACTIVATE_VERSION."""
        return any(
            block.activations
            for group in self.groups
            for block in self.head.blocks
            if group.blocks[0] < block.number <= group.blocks[1]
        )

    @property
    def schema_stays(self) -> bool:
        """Whether they brought the schema in effect, which others have written under since."""
        newest = self.groups[-1]
        brought = newest.at.schema_hash == self.schema_hash
        return (
            brought and newest.before is not None and newest.before.schema_hash != self.schema_hash
        )


def kept(metadata: Mapping[str, Any], comment: str | None) -> dict[str, Any]:
    """Return what is kept with the transaction of what a person says of it.

    Raises:
        UsageError: A name is one that an undo writes itself.
    """
    own = ("undone", "conflicts", "conflicts_kept", "violations", "misfits", KEEP)
    check_metadata(metadata, *own)
    return {**metadata} if comment is None else {**metadata, "comment": comment}


def plan(
    store: Store, head: TableState, numbers: Iterable[int], if_transaction: int | None = None
) -> UndoPlan:
    """Check what can be checked before any data is read.

    Args:
        numbers: The transactions to undo, in any order.
        if_transaction: The transaction that the table must still be at.

    Raises:
        UsageError: One of them changed no row, the key is another since, or a table without a key
            was written anew since; or the table has lost its log.
        NotFoundError: There is no such transaction, or a state that is needed was given up.
        ConflictError: The table is not at the transaction that it should be at.
        DamagedError: Files of the table are gone; all of them are named.
    """
    head.check_log()
    conflicts.check_transaction(head, if_transaction)
    wanted = sorted(set(numbers))
    if not wanted:
        raise UsageError(f"name the transactions of {head.table} to undo, by their numbers")
    for number in wanted:
        _check_can_be_undone(head, number)
    if gone := missing(store, head):
        raise DamagedError.of_lines(
            (
                f"{head.table} cannot be read completely: {len(gone)} of its files are missing or "
                "truncated:"
            ),
            *(f"  {file}" for file in gone),
        )
    groups = [_group(head, some) for some in _grouped(head, wanted)]
    schema_hash = head.schema_hash
    for index in reversed(range(len(groups))):
        group = groups[index]
        if group.before is None or _others_after(head, group, wanted):
            break
        if group.at.schema_hash != schema_hash:
            break
        if group.before.schema_hash != schema_hash:
            groups[index] = Group(group.numbers, group.before, group.at, restores_schema=True)
            schema_hash = group.before.schema_hash
    undo = UndoPlan(head, groups, schema_hash, if_transaction)
    _check_told_apart(undo)
    return undo


def _check_can_be_undone(head: TableState, number: int) -> None:
    summary = head.summary(number)
    if number < head.first:
        raise lifetimes.not_there_error(head.table, number, head.first)
    name = f"transaction {number} of {head.table} is {_a(summary.operation)}"
    if summary.operation in (Operation.DROP, Operation.UNDROP):
        raise UsageError(f"{name}: singerlake {summary.operation} has a command of its own to undo")
    if summary.operation == Operation.ALTER:
        raise UsageError(
            f"{name}, and an override of columns or key is undone by the opposite alter: "
            f"singerlake history {head.table} shows it"
        )
    if not summary.blocks and _schema_before(head, number) == summary.schema_hash:
        raise UsageError(f"{name}, which changed no row: there is nothing to undo")


def _a(operation: str) -> str:
    return f"an {operation}" if operation[:1] in "aeiou" else f"a {operation}"


def _schema_before(head: TableState, number: int) -> str:
    return head.summary(number - 1).schema_hash if number > head.first else ""


def _changes(head: TableState, number: int) -> bool:
    """Tell whether a transaction brought rows, or another schema."""
    summary = head.summary(number)
    return summary.blocks > 0 or _schema_before(head, number) != summary.schema_hash


def _grouped(head: TableState, wanted: Sequence[int]) -> list[list[int]]:
    groups: list[list[int]] = []
    for number in wanted:
        since = range(groups[-1][-1] + 1, number) if groups else range(0)
        if groups and not any(_changes(head, between) for between in since):
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


def _group(head: TableState, numbers: Sequence[int]) -> Group:
    before = head.at(numbers[0] - 1) if numbers[0] > head.first else None
    return Group(numbers, before, head.at(numbers[-1]))


def _others_after(head: TableState, group: Group, wanted: Sequence[int]) -> bool:
    """Tell whether transactions that stay have brought rows, or schemas, after a group."""
    later = range(group.numbers[-1] + 1, head.number + 1)
    return any(_changes(head, number) for number in later if number not in wanted)


def _check_told_apart(undo: UndoPlan) -> None:
    """Make sure that a row is the same row by the key of then and by that of now.

    Raises:
        UsageError: It is not.
    """
    head = undo.head
    before = undo.numbers[0] - 1
    instead = (
        f"revert the whole table instead: singerlake revert {head.table} --to-transaction {before}"
        if before >= head.first
        else f"drop the table and load it again instead: singerlake drop {head.table}"
    )
    for state in (one for group in undo.groups for one in (group.before, group.at)):
        if state is None:
            continue
        if bool(state.key) is not bool(head.key) or (
            head.key and state.key_reading != head.key_reading
        ):
            raise UsageError(
                f"the key of {head.table} has changed, or is read differently, since transaction "
                f"{state.number}, so its rows of that time cannot be identified; {instead}"
            )
    if head.key:
        return
    for block in head.blocks_after(undo.groups[0].numbers[0] - 1):
        within = any(
            first < block.number <= last for first, last in (g.blocks for g in undo.groups)
        )
        if block.activations and not within:
            by = head.transaction_of_block(block.number)
            raise UsageError(
                f"{head.table} has no key, and transaction {by} has written its rows again since: "
                f"which of them came from transaction {undo.numbers[0]} is no longer known; "
                f"{instead}"
            )
