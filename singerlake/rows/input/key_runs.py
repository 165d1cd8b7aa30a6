"""Keys that rise from row to row, as in most files: none of them is there twice.

That is seen in passing. Where no column of a key does nothing but rise, rows must be compared.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format.types import Columns, Kind
from singerlake.rows.batches.row_columns import alias


class Run(msgspec.Struct):
    """The values of a column in some rows, one behind the other.

    Attributes:
        rising: Whether each is greater than the one before.
        first: The first, if there is one.
    """

    rising: bool = True
    first: int | bytes | None = None
    last: int | bytes | None = None

    def take(self, values: pa.Array) -> None:
        """Take in more values."""
        if not self.rising or not len(values):
            return
        if pa.types.is_string(values.type):
            values = values.cast(pa.binary())
        rises = values.null_count == 0 and pc.all(pc.less(values[:-1], values[1:])).as_py()
        self.follow(Run(rises is not False, values[0].as_py(), values[-1].as_py()))

    def follow(self, other: Run) -> None:
        """Put the rows of another run behind these."""
        if other.first is None:
            self.rising &= other.rising
            return
        rises = self.last is None or self.last < other.first  # type: ignore[operator]  # of one type
        self.rising &= other.rising and rises
        self.first, self.last = self.first if self.first is not None else other.first, other.last


class KeyRuns:
    """Follows the columns of a key that can be followed.

    Args:
        keys: The names of its key.
    """

    def __init__(self, columns: Columns, keys: Iterable[str]) -> None:
        names = frozenset(keys)
        self._runs = {
            index: Run()
            for index, (name, type_) in enumerate(columns)
            if name in names and type_.kind in (Kind.INTEGER, Kind.STRING)
        }

    def take(self, batch: pa.RecordBatch) -> None:
        """Take in rows that have the values of the key."""
        for index, run in self._runs.items():
            run.take(batch.column(alias(index)))

    def encode(self) -> bytes:
        """Encode what was seen."""
        return msgspec.msgpack.encode(list(self._runs.values()))


_RUNS = msgspec.msgpack.Decoder(list[Run])


def all_differ(parts: Iterable[bytes]) -> bool:
    """Tell whether the rows of some parts surely have different keys.

    Args:
        parts: What each part has encoded, in the order of their rows.
    """
    whole: list[Run] = []
    for part in map(_RUNS.decode, parts):
        if not whole:
            whole = part
            continue
        for run, more in zip(whole, part, strict=True):
            run.follow(more)
    return any(run.rising for run in whole)
