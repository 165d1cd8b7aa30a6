"""The lists of a large manifest, kept packed: most of their items are never asked for, or once.

A table of 200,000 transactions has a manifest of 85 MB, of which objects take three times as much.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar, overload

import msgspec
from isal import isal_zlib

from singerlake.errors import DamagedError
from singerlake.format.sealed import UNREADABLE

T = TypeVar("T", bound=msgspec.Struct)
_CHUNK_BYTES = 48 << 10
"""Some 250 items: with many more in each piece, Python's collector looks at them several times."""
_KEPT = 16
"""Chunks kept unpacked: as many as a search for one item among very many goes through."""


def with_lists_unread(kind: type[msgspec.Struct], lists: Sequence[str]) -> type[msgspec.Struct]:
    """Return a struct that is read like another, but for some lists, which stay as they are."""
    fields: list[tuple[str, Any, Any]] = []
    for one in msgspec.structs.fields(kind):
        if one.name in lists:
            default = msgspec.field(name=one.encode_name, default=msgspec.Raw(b"[]"))
            fields.append((one.name, msgspec.Raw, default))
        elif one.required:
            fields.append((one.name, one.type, msgspec.field(name=one.encode_name)))
        elif one.default_factory is not msgspec.NODEFAULT:
            default = msgspec.field(name=one.encode_name, default_factory=one.default_factory)
            fields.append((one.name, one.type, default))
        else:
            default = msgspec.field(name=one.encode_name, default=one.default)
            fields.append((one.name, one.type, default))
    name = f"Unread{kind.__name__}"
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


class Packed(Generic[T]):
    """The items of a JSON list, in compressed pieces, which are decoded when they are asked for.

    Args:
        text: The list. Spelled without white space it comes apart; else it is one piece.
        first: The name of each item's first member.
        decoder: Decodes a list of such items.
        where: What to call the place in an error.
        note: Is given the items of each piece once, in order. Without it nothing is decoded now.

    Raises:
        DamagedError: It is no list; with a ``note``, of no such items.
    """

    def __init__(
        self,
        text: memoryview,
        first: str,
        decoder: msgspec.json.Decoder[list[T]],
        where: str,
        note: Callable[[list[T]], None] | None = None,
    ) -> None:
        self._decoder, self._where = decoder, where
        self._chunks: list[bytes] = []
        self.starts: list[int] = []
        self.count = 0
        for chunk in _pieces(text, first, where):
            if note is not None:
                items = self._decoded(chunk)
                note(items)
                self.starts.append(self.count)
                self.count += len(items)
            self._chunks.append(isal_zlib.compress(chunk, 1))

    def unpacked(self, chunk: int) -> list[T]:
        """Return the items of one piece.

        Raises:
            DamagedError: They are no such items, which is known of those that were noted.
        """
        return self._decoded(isal_zlib.decompress(self._chunks[chunk]))

    def __iter__(self) -> Iterator[T]:
        for chunk in range(len(self._chunks)):
            yield from self.unpacked(chunk)

    def _decoded(self, chunk: bytes) -> list[T]:
        try:
            return self._decoder.decode(chunk)
        except UNREADABLE as error:
            raise DamagedError(f"{self._where} cannot be read: {error}") from error


def _pieces(text: memoryview, first: str, where: str) -> Iterator[bytes]:
    """Take a list apart into lists; an empty one is one."""
    # Within a text a quote has a backslash before it: this is found between items alone.
    border = re.compile(rb'\},(?=\{"%b":)' % first.encode())
    if bytes(text[:1]) != b"[":
        raise DamagedError(f"{where} cannot be read: it contains something other than a list")
    start, end = 1, len(text)
    while start < end:
        found = border.search(text, start + _CHUNK_BYTES)
        stop = found.start() + 1 if found else end
        yield b"".join((b"[", text[start:stop], b"]" if found else b""))
        start = stop + 1 if found else end


class PackedSequence(Sequence[T]):
    """A sequence of packed items, and others behind them.

    Args:
        packed: The first.
        tail: Those behind them.
        places: Which of all of them it has.
    """

    def __init__(
        self, packed: Packed[T], tail: list[T] | None = None, places: range | None = None
    ) -> None:
        self._packed = packed
        self._tail: list[T] = [] if tail is None else tail
        self._places = range(packed.count + len(self._tail)) if places is None else places
        self._kept: dict[int, list[T]] = {}

    def with_more(self) -> PackedSequence[T] | list[T]:
        """Return a copy that items can be appended to."""
        if self._places != range(self._packed.count + len(self._tail)):
            return list(self)
        return PackedSequence(self._packed, list(self._tail))

    def append(self, item: T) -> None:
        """Put an item behind the others."""
        self._tail.append(item)
        self._places = range(len(self._places) + 1)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return PackedSequence(self._packed, self._tail, self._places[index])
        place = self._places[index]
        if place >= self._packed.count:
            return self._tail[place - self._packed.count]
        chunk = bisect_right(self._packed.starts, place) - 1
        items = self._kept.get(chunk)
        if items is None:
            items = self._packed.unpacked(chunk)
            # Another thread may do the same; at worst one is unpacked twice.
            while len(self._kept) >= _KEPT:
                self._kept.pop(next(iter(self._kept), -1), None)
            self._kept[chunk] = items
        return items[place - self._packed.starts[chunk]]

    def __iter__(self) -> Iterator[T]:
        if self._places == range(self._packed.count + len(self._tail)):
            return chain(self._packed, self._tail)
        return (self[number] for number in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as a list's


class Noted:
    """What is to be known of all transactions of a log, taken down as they are read.

    Attributes:
        operations: What they did.
        gapless: Whether their numbers are 1, 2, 3 …
    """

    def __init__(self) -> None:
        self.operations: set[str] = set()
        self.gapless = True
        self._count = 0

    def take(self, some: Sequence[Any]) -> None:
        """Take down the next ones."""
        self.operations.update([one.operation for one in some])
        first, self._count = self._count + 1, self._count + len(some)
        self.gapless &= [one.number for one in some] == [*range(first, self._count + 1)]


class PackedTransactions(PackedSequence[T]):
    """The transactions of a large manifest.

    Args:
        packed: Them.
        noted: What was taken down of them when they were packed.
    """

    def __init__(self, packed: Packed[T], noted: Noted) -> None:
        super().__init__(packed)
        self.noted = noted
