"""The records of new rows, and the new values of cells, as JSON: from typed columns.

A new row's record has its members in the order of the schema's properties. A null is written where
the schema allows it; elsewhere the member is left out if it need not be there, and is a problem
if it must. A column that a row says nothing of gets its default, or null. How values are spelled
is in ``json_spelling.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.format.json_schema import resolved
from singerlake.format.log import SchemaEntry
from singerlake.format.types import Columns
from singerlake.rows.batches.problems import RowProblem
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.columns import canonical_text
from singerlake.rows.columns.canonical_text import Quoted, in_quotes
from singerlake.rows.given.values import json_cells
from singerlake.rows.given.values.json_cells import Spelled
from singerlake.rows.lines.json_spelling import (
    MARKS,
    REASONS,
    may_have_marks,
    spelling_of,
    texts,
)
from singerlake.rows.lines.patched_lines import NewValues


class Records(NamedTuple):
    """Records as JSON, one a row, and what is wrong with them.

    Attributes:
        texts: Of each row; of one with a problem it means nothing.
        problems: In the order of the columns.
    """

    texts: list[bytes]
    problems: list[RowProblem]


class Changes(NamedTuple):
    """Members to be set in records, and what is wrong with them.

    Attributes:
        rows: How many rows there are.
        columns: By member; a null text takes the member away.
        problems: In the order of the columns.
    """

    rows: int
    columns: list[NewValues]
    problems: list[RowProblem]

    @property
    def members(self) -> list[dict[str, bytes | None]]:
        """What each row sets, as ``members.patched`` takes it."""
        members: list[dict[str, bytes | None]] = [{} for _ in range(self.rows)]
        for name, is_set, written in self.columns:
            rows = np.flatnonzero(is_set)
            cells = written.take(pa.array(rows)).cast(pa.large_binary()).to_pylist()
            for row, cell in zip(rows.tolist(), cells, strict=True):
                members[row][name] = cell
        return members


class RecordTexts:
    """Writes rows of a table as JSON.

    Args:
        columns: The table's columns.
        entry: The schema that they are of and that records are to meet.
        members: What records call those columns that people call otherwise.
    """

    def __init__(
        self,
        columns: Columns,
        entry: SchemaEntry,
        members: Mapping[str, str] | None = None,
    ) -> None:
        whole = resolved(entry.schema, entry.schema)
        properties = whole.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = {*entry.key_properties, *_required(whole, properties)}
        self.columns = columns
        self.spellings = [
            spelling_of(type_, properties.get(name, {}), entry.schema, required=name in required)
            for name, type_ in columns
        ]
        self._defaults = _defaults(properties, entry)
        self._keys = frozenset(entry.key_properties)
        self._members = members or {}

    def member(self, name: str) -> str:
        """Return what records call a column."""
        return self._members.get(name, name)

    def records(
        self, batch: pa.RecordBatch, named: Sequence[int], sets: pa.Array | None = None
    ) -> Records:
        """Write rows as records of their own.

        Args:
            batch: Has the cells of ``named`` columns, by their aliases, or their JSON, as
                ``json_cells.put`` has it.
            named: Indexes of the columns that the rows name.
            sets: For each row the indexes of those that it sets, as a list; null, and None for
                all rows, where it sets all. What is of the key is always set.
        """
        written, problems = self.lines(batch, named, sets)
        return Records(written.cast(pa.large_binary()).to_pylist(), problems)

    def lines(
        self,
        batch: pa.RecordBatch,
        named: Sequence[int],
        sets: pa.Array | None = None,
        around: canonical_text.Around = ("", ""),
    ) -> tuple[pa.Array, list[RowProblem]]:
        """Do as :meth:`records`, and leave the records in one array.

        Args:
            batch: As there.
            named: As there.
            sets: As there.
            around: What to put before and behind each record.
        """
        members: list[tuple[str, Spelled]] = []
        problems: list[RowProblem] = []
        for index, (name, _) in enumerate(self.columns):
            is_set = self._is_set(index, named, sets, batch.num_rows)
            written: Spelled = pa.nulls(batch.num_rows, pa.large_string())
            if is_set.any():
                written, found = self._cells(index, batch, is_set)
                problems += found
            if not is_set.all():
                written, found = self._unset(index, in_quotes(written), ~is_set)
                problems += found
            members.append((self.member(name), written))
        return canonical_text.object_texts(members, batch.num_rows, around), problems

    def changes(
        self, batch: pa.RecordBatch, named: Sequence[int], sets: pa.Array | None = None
    ) -> Changes:
        """Write the cells that rows set, to be set in records that are there.

        Args:
            batch: Has the cells of ``named`` columns, by their aliases.
            named: Indexes of the columns that the rows name.
            sets: As in :meth:`records`.
        """
        columns: list[NewValues] = []
        problems: list[RowProblem] = []
        for index in named:
            is_set = self._is_set(index, named, sets, batch.num_rows)
            if is_set.any():
                written, found = self._cells(index, batch, is_set)
                problems += found
                member = self.member(self.columns[index][0])
                columns.append(NewValues(member, is_set, in_quotes(written)))
        return Changes(batch.num_rows, columns, problems)

    def _is_set(
        self, index: int, named: Sequence[int], sets: pa.Array | None, count: int
    ) -> NDArray[np.bool_]:
        if index not in named:
            return np.zeros(count, dtype=np.bool_)
        if sets is None or self.columns[index][0] in self._keys:
            return np.ones(count, dtype=np.bool_)
        is_set: NDArray[np.bool_] = sets.is_null().to_numpy(zero_copy_only=False).copy()
        chosen = sets.flatten().to_numpy(zero_copy_only=False) == index
        is_set[pc.list_parent_indices(sets).to_numpy()[chosen]] = True
        return is_set

    def _cells(
        self, index: int, batch: pa.RecordBatch, is_set: NDArray[np.bool_]
    ) -> tuple[Spelled, list[RowProblem]]:
        """Write cells as JSON; null where a member is left out."""
        name, spelling = self.columns[index][0], self.spellings[index]
        problems: list[RowProblem] = []
        written = json_cells.get(batch, index)
        if isinstance(written, Quoted):  # none is null
            return written, problems
        if written is None:
            written, problems = self._values(index, batch.column(alias(index)), is_set)
        if spelling.nullable:
            written = pc.fill_null(written, "null") if written.null_count else written
        elif spelling.required:
            nulls = _rows(written.is_null(), is_set)
            problems += [RowProblem(row, name, None, "cannot be null") for row in nulls]
        return written, problems

    def _values(
        self, index: int, array: pa.Array, is_set: NDArray[np.bool_]
    ) -> tuple[pa.Array, list[RowProblem]]:
        """Write values as JSON; null where they are."""
        written = texts(array, self.spellings[index])
        problems = []
        if may_have_marks(written):
            marked = pc.fill_null(pc.match_substring_regex(written, MARKS), False)
            for row in _rows(marked, is_set):
                mark = next(letter for letter in written[row].as_py() if letter in REASONS)
                name = self.columns[index][0]
                problems.append(RowProblem(row, name, _shown(array[row]), REASONS[mark]))
        return written, problems

    def _unset(
        self, index: int, written: pa.Array, is_unset: NDArray[np.bool_]
    ) -> tuple[pa.Array, list[RowProblem]]:
        """Write what a new row has in a column that it says nothing of."""
        name, spelling = self.columns[index][0], self.spellings[index]
        default = self._defaults.get(name, b"null" if spelling.nullable else None)
        text = pa.scalar(None if default is None else default.decode(), pa.large_string())
        problems = []
        if default is None and spelling.required:
            rows = np.flatnonzero(is_unset).tolist()
            problems = [RowProblem(row, name, None, _MISSING) for row in rows]
        return pc.if_else(pa.array(is_unset), text, written), problems


_MISSING = "is missing: a new row needs it, because it cannot be null and has no default"


def _required(whole: dict[str, Any], properties: dict[str, Any]) -> set[str]:
    """The members that a record must have; draft 3 says it at the property."""
    listed = whole.get("required")
    flagged = {
        name
        for name, spec in properties.items()
        if isinstance(spec, dict) and spec.get("required") is True
    }
    return {*flagged, *listed} if isinstance(listed, list) else flagged


def _defaults(properties: dict[str, Any], entry: SchemaEntry) -> dict[str, bytes]:
    specs = {name: resolved(spec, entry.schema) for name, spec in properties.items()}
    return {
        name: msgspec.json.encode(spec["default"])
        for name, spec in specs.items()
        if "default" in spec
    }


def _rows(mask: pa.Array, is_set: NDArray[np.bool_]) -> list[int]:
    rows: list[int] = np.flatnonzero(mask.to_numpy(zero_copy_only=False) & is_set).tolist()
    return rows


def _shown(value: pa.Scalar) -> str | None:
    try:
        return str(value.as_py())
    except (ValueError, OverflowError):  # a year that Python has not, text that is not UTF-8
        if pa.types.is_nested(value.type):
            return None
    if pa.types.is_temporal(value.type):
        return str(value.cast(pa.string()).as_py())
    return bytes(value.as_buffer()).decode("utf-8", "replace")
