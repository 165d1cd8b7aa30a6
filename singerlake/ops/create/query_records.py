"""Checks a query's rows, and writes them as RECORD lines.

Each row has the number of its part in a column of its own, behind the others. A row's record is
its canonical text (``canonical_text.py``): the text that the fingerprint hashes, so that what is
written and what is proved later are the same bytes. Values that a lake cannot hold (NaN, a year
past 9999, text that is no UTF-8) are refused by name, never turned.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.errors import InvalidQueryError
from singerlake.format.types import Columns, Kind, Type
from singerlake.ops.create.answer import PART
from singerlake.ops.create.record_writer import RecordWriter
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks.exact_decoding import DELETED_AT
from singerlake.rows.columns.arrow_types import DAYS, MICROS
from singerlake.rows.state.fingerprint import SUMMED, Proof, Sums

CHECKED = f"{SUMMED}, bytes long, nulls array<long>"


@dataclass
class RowChecker:
    """Looks at a query's rows: what they come down to, and that all may be.

    Attributes:
        columns: The new table's columns, in the order in which they come.
        keys: Indexes of the key columns.
    """

    columns: Columns
    keys: list[int]

    def __call__(self, batches: Batches) -> Batches:
        """Give one row: the rows' sums, their bytes, and nulls of each key column."""
        sums = Sums((Proof.VALUES,))
        size = 0
        nulls = [0] * len(self.keys)
        for batch in batches:
            for index, (name, type_) in enumerate(self.columns):
                check_values(batch.column(alias(index)), name, type_)
            size += batch.nbytes
            sums.take(batch, self.columns)
            for n, index in enumerate(self.keys):
                nulls[n] += batch.column(alias(index)).null_count
        summed = sums.batch().append_column("bytes", pa.array([size], pa.int64()))
        yield summed.append_column("nulls", pa.array([nulls], pa.list_(pa.int64())))


def check_values(array: pa.Array, name: str, type_: Type) -> None:
    """Make sure that every value of a column can be written and read back the same.

    Raises:
        InvalidQueryError: One cannot; names the column.
    """
    if name == DELETED_AT and array.null_count < len(array):
        raise InvalidQueryError(
            f"column {name!r} marks deleted rows, which a table does not show: leave it out, or "
            "rename it"
        )
    if (misfit := _misfit(array, type_)) is not None:
        raise InvalidQueryError(f"column {name!r} holds {misfit}, which a lake cannot store")


def _misfit(array: pa.Array, type_: Type) -> str | None:
    if type_.kind is Kind.NUMBER:
        finite = pc.all(pc.is_finite(array)).as_py()
        return None if finite in (True, None) else "NaN or Infinity"
    if type_.kind is Kind.DATE:
        return _outside(pc.cast(array, pa.int32()), DAYS, "a date")
    if type_.kind is Kind.TIMESTAMP:
        return _outside(pc.cast(array, pa.int64()), MICROS, "a time")
    if type_.kind is Kind.STRING:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            return "text that is not UTF-8"
    inner = [(array.flatten(), type_.item)] if type_.item else []
    if type_.fields:
        members = [member for _, member in type_.fields]
        inner = list(zip(array.flatten(), members, strict=True))
    misfits = (_misfit(values, member) for values, member in inner)
    return next((misfit for misfit in misfits if misfit is not None), None)


def _outside(numbers: pa.Array, bounds: tuple[int, int], what: str) -> str | None:
    extremes = pc.min_max(numbers).as_py()
    if extremes["min"] is None or bounds[0] <= extremes["min"] <= extremes["max"] <= bounds[1]:
        return None
    return f"{what} outside the years 1 to 9999"


class PartWriter(RecordWriter):
    """Writes rows as a part of the number that the first of them has."""

    def __call__(self, batches: Batches) -> Batches:
        """Write a part, if it has any row; see :meth:`RecordWriter.write`."""
        some = (batch for batch in batches if len(batch))
        if (first := next(some, None)) is not None:
            yield from self.write(chain([first], some), first.column(PART)[0].as_py())
