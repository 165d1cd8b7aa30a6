"""A snapshot whose past was not read: enough to add rows to a table, however long its log.

The transactions, blocks and versions of such a snapshot are there like those of any other; whoever
asks for them has them read then, from the manifest and the log, as of the snapshot's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, overload

from singerlake.format.log import Entry, Operation
from singerlake.format.metadata import DroppedFile, TransactionSummary
from singerlake.log import chain

if TYPE_CHECKING:
    from singerlake.log.table_state import TableState

T = TypeVar("T")
_OF_ROWS = {
    *("format", "number", "commit", "salt", "operation", "stream", "time", "writer", "software"),
    *("schema_hash", "schemas", "blocks", "metadata", "metrics", "previous", "hash"),
}
_SAYS_MORE = sorted(set(Entry.__struct_fields__) - _OF_ROWS)
"""Members of an entry that does more than add blocks; those of later releases, too."""


class LazyHistory:
    """The past of a table, which a snapshot leaves out.

    Args:
        read: Reads the table as of where the past begins to be known, with some entries after it.
        entries: The entries that were folded in since.
    """

    def __init__(
        self, read: Callable[[Sequence[Entry]], TableState], entries: tuple[Entry, ...] = ()
    ) -> None:
        self._read = read
        self._entries = entries

    @cached_property
    def whole(self) -> TableState:
        """The same snapshot, with its past.

        Raises:
            DamagedError: Neither manifest nor log tells it any more.
        """
        return self._read(self._entries)

    @property
    def is_read(self) -> bool:
        """Whether somebody has asked for it."""
        return "whole" in self.__dict__

    def with_entry(self, entry: Entry) -> LazyHistory:
        """Return the past of the snapshot after one more entry."""
        return LazyHistory(self._read, (*self._entries, entry))


class _Unread(Sequence[T]):
    """Some part of a snapshot's past; its length and its last item may be known."""

    def __init__(
        self, past: LazyHistory, name: str, count: int | None = None, last: T | None = None
    ) -> None:
        self._past, self._name, self._count, self._last = past, name, count, last

    @property
    def _items(self) -> Sequence[T]:
        items: Sequence[T] = getattr(self._past.whole, self._name)
        return items

    def __len__(self) -> int:
        return len(self._items) if self._count is None else self._count

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if self._last is not None and self._count and index in (-1, self._count - 1):
            return self._last
        return self._items[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as a list's


class _UnreadFiles(Mapping[str, DroppedFile]):
    """The files that wait to be deleted."""

    def __init__(self, past: LazyHistory) -> None:
        self._past = past

    def __getitem__(self, path: str) -> DroppedFile:
        return self._past.whole.dropped[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._past.whole.dropped)

    def __len__(self) -> int:
        return len(self._past.whole.dropped)


def without_past(snapshot: TableState, past: LazyHistory, last: TransactionSummary) -> TableState:
    """Return a snapshot whose past is only read when it is asked for.

    Args:
        snapshot: Has all that a head file tells.
    """
    return replace(
        snapshot,
        transactions=_Unread(past, "transactions", last.number, last),
        blocks=_Unread(past, "blocks"),
        frozen=_Unread(past, "frozen"),
        deleted_versions=_Unread(past, "deleted_versions"),
        earlier_versions=_Unread(past, "earlier_versions"),
        dropped=_UnreadFiles(past),
        past=past,
    )


def whole(snapshot: TableState) -> TableState:
    """Return a snapshot with its past.

    Raises:
        DamagedError: It was left out, and neither manifest nor log tells it any more.
    """
    return snapshot if snapshot.past is None else snapshot.past.whole


def only_adds(entry: Entry) -> bool:
    """Tell whether an entry can be folded in without knowing what came before it."""
    if entry.operation != Operation.SYNC or not entry.hash:
        return False
    return not any(getattr(entry, member) for member in _SAYS_MORE)


def with_added(snapshot: TableState, past: LazyHistory, entry: Entry) -> TableState:
    """Return a snapshot without its past after an entry that :func:`only_adds`.

    Raises:
        DamagedError: It does not continue this log.
    """
    table, head = snapshot.table, snapshot.transactions[-1]
    chain.check_next(table, head.number, entry)
    chain.check_link(table, snapshot.format, snapshot.chain, entry)
    last_block = chain.check_blocks(table, entry, head.last_block)
    after = replace(
        snapshot,
        schemas={**snapshot.schemas, **entry.schemas},
        format=entry.format,
        chain=entry.chain,
        anchored=True,
        doubtful="",
    )
    summary = chain.summarize(entry, last_block, head.schema_hash)
    return without_past(after, past.with_entry(entry), summary)
