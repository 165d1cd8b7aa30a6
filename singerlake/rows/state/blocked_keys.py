"""Rows with a blocked key, by the text of the key, whatever type its columns have.

A key's text stays the same where its type changes: 17, 17.0 and "17" are one. So a row may be held
for a blocked one that is none; never the other way round, unless values are spelled otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.format import times
from singerlake.format.erased_keys import KeyHashes
from singerlake.format.types import Columns, Kind, Type
from singerlake.rows.columns import canonical_text
from singerlake.rows.state import keys

_ONE_NUMBER = (Kind.NUMBER, Kind.DECIMAL)
_TEXTS = (Kind.STRING, Kind.TEXT, Kind.STRUCT, Kind.LIST)
"""Kinds whose values are texts once they are fit to be compared."""


@dataclass(frozen=True)
class BlockedRows:
    """Tells rows with a blocked key.

    Attributes:
        order: For each column of the key in the order in which it is hashed, its index in these.
    """

    hashes: KeyHashes
    columns: Columns
    order: tuple[int, ...]

    @classmethod
    def of(cls, hashes: KeyHashes, columns: Columns, members: Sequence[str]) -> BlockedRows:
        """Make one.

        Args:
            columns: The key's.
            members: What records call these columns, by which their order is known.
        """
        order = sorted(range(len(members)), key=members.__getitem__)
        return cls(hashes, columns, tuple(order))

    def mask(self, cells: Sequence[pa.Array | pa.ChunkedArray]) -> NDArray[np.bool_]:
        """Tell which rows have a blocked key.

        Args:
            cells: The key's columns, fit to be compared.
        """
        texts = self.texts(cells)
        found = np.array(self.hashes.has(texts), dtype=bool)
        if self.hashes.rounded:  # a list of an earlier release has keys as their columns had them
            found |= np.array(self.hashes.has(self.texts(cells, _rounded)), dtype=bool)
        return found

    def added(self, cells: Sequence[pa.Array]) -> KeyHashes:
        """Return the hashes with those of some more keys."""
        more = {self.hashes.hash_of(text) for text in self.texts(cells) if text is not None}
        return replace(self.hashes, hashes=self.hashes.hashes | more)

    def removed(self, cells: Sequence[pa.Array]) -> KeyHashes:
        """Return the hashes without those of some keys."""
        less = {self.hashes.hash_of(text) for text in self.texts(cells) if text is not None}
        return replace(self.hashes, hashes=self.hashes.hashes - less)

    def texts(
        self,
        cells: Sequence[pa.Array | pa.ChunkedArray],
        changed: Callable[[str, Type], str] = lambda text, _: text,
    ) -> list[str | None]:
        """Return the texts of keys; None of one with a null in it.

        Args:
            cells: The key's columns, fit to be compared.
            changed: Changes the text of a value.
        """
        columns = [
            [
                None if text is None else changed(text, self.columns[index][1])
                for text in _texts(cells[index], self.columns[index][1])
            ]
            for index in self.order
        ]
        if len(columns) == 1:
            return columns[0]
        return [
            None if None in parts else msgspec.json.encode(parts).decode()
            for parts in zip(*columns, strict=True)
        ]


def compared(cells: list[pa.Array], columns: Columns) -> list[pa.Array]:
    """Make a key's columns fit to be compared."""
    return keys.compared(cells, columns)


def _texts(cells: pa.Array | pa.ChunkedArray, type_: Type) -> list[str | None]:
    values: list[Any] = cells.to_pylist()
    if type_.kind in _TEXTS:
        return values
    if type_.kind is Kind.INTEGER:
        return [None if value is None else str(value) for value in values]
    return [None if value is None else _text(value, type_) for value in values]


def _text(value: Any, type_: Type) -> str:
    if type_.kind in _ONE_NUMBER:
        number = Decimal(str(value))
        if number.is_finite():
            digits = f"{number:f}"
            return digits.rstrip("0").rstrip(".") if "." in digits else digits
    return canonical_text.value_text(value, type_).strip('"')


def _rounded(text: str, type_: Type) -> str:
    """Return a key's text as it was while its column was a double, or kept six digits of a second.

    The column may have another type by now, which keeps more.
    """
    own = type_.own or type_
    if own.kind is Kind.TIMESTAMP:
        instant = times.parse(text)
        return text if instant is None else times.iso(instant)
    if own.kind not in _ONE_NUMBER:
        return text
    try:
        value = float(text)
    except ValueError:
        return text
    return canonical_text.number_text(value) if math.isfinite(value) else text
