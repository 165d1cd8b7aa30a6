"""Lines of JSON objects as typed rows: each value as a record's value is read, or a problem.

A member that a line does not mention is told apart from a null. What a line says twice, or of a
column that is not there, is never guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from singerlake.format import values
from singerlake.format.nesting import MAX_LEVELS, too_deep
from singerlake.format.types import Columns
from singerlake.nearest import offer
from singerlake.quantities import repeated
from singerlake.rows.batches.problems import Problem, Problems, kept
from singerlake.rows.blocks import fast_decoding
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.input.values import json_summary
from singerlake.rows.input.values.known_members import NESTED, checked, strict_converter

Line: TypeAlias = tuple[int, bytes]
"""The number of a line, from 1, and its bytes."""

BOM = b"\xef\xbb\xbf"
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TOO_DEEP = f"is nested more than {MAX_LEVELS - 1} levels deep"
_NAME_END = re.compile(rb'"[ \t\r]*:')
_BEFORE, _AFTER = b'{"type":"RECORD","record":', b"}\n"


class RowError(ValueError):
    """A line that is no row; its text says why. Caught where the line's number is known."""


@dataclass
class JsonRows:
    """Rows of a few lines, column by column.

    Attributes:
        lines: The number of each row's line.
        arrays: The cells of each column that was asked for.
        omitted: Of each row, the indexes of the columns that it does not mention; None for none.
        special: By name, the values of members that say something of the row itself, each as
            ``values.converter`` read it.
        problems: What is wrong with any of the lines. A row with a problem may be among the rows.
    """

    lines: list[int]
    arrays: list[pa.Array]
    omitted: list[list[int] | None]
    special: dict[str, list[Any]]
    problems: Problems = field(default_factory=Problems)


def members_of(line: bytes) -> dict[str, msgspec.Raw]:
    """Take a line apart into the raw values of its object's members.

    Raises:
        RowError: It is no JSON, no object, or has a name twice.
    """
    try:
        members = _OBJECT.decode(line)
    except RecursionError:
        raise RowError(_TOO_DEEP) from None
    except msgspec.ValidationError as error:
        raise RowError("is not a JSON object: write one object per line") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RowError(json_summary.fault(line, error)) from error
    if too_deep(line, 1):
        raise RowError(_TOO_DEEP)
    # There is one such place for each member at least: so many and no more are all different.
    if len(_NAME_END.findall(line)) != len(members):
        _check_names(line)
    return members


def _check_names(line: bytes) -> None:
    try:
        pairs = json_summary.parse(line.decode())
    except (ValueError, RecursionError) as error:
        raise RowError(f"is not valid JSON: {error}") from error
    if twice := repeated(name for name, _ in pairs):
        raise RowError(f"contains {twice[0]!r} twice")


class JsonReader:
    """Reads lines into the columns of a table.

    Args:
        columns: The table's columns that rows may name.
        special: Types of members that say something of the row itself, by name.
        source: What problems call the file.
        ignored: Names of members to pass over.
    """

    def __init__(
        self,
        columns: Columns,
        special: Mapping[str, values.Converter],
        source: str,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        self._columns = columns
        self._special = dict(special)
        self._source = source
        self._indexes = {name: index for index, (name, _) in enumerate(columns)}
        self._converters = [strict_converter(type_) for _, type_ in columns]
        self._nested = [(name, type_) for name, type_ in columns if type_.kind in NESTED]
        self._known = self._indexes.keys() | self._special.keys() | ignored

    def read(self, lines: Sequence[Line]) -> JsonRows:
        """Read some lines."""
        rows = JsonRows([], [], [], {name: [] for name in self._special})
        members: list[dict[str, msgspec.Raw]] = []
        good: list[bytes] = []
        for number, line in lines:
            try:
                found = members_of(line)
            except RowError as error:
                text = kept(line.decode("utf-8", "replace"))
                rows.problems.add(Problem(self._source, number, None, text, str(error)))
                continue
            if not found.keys() <= self._known:
                self._add_unknown(rows.problems, number, found)
            members.append(found)
            good.append(line)
            rows.lines.append(number)
        rows.omitted = [self._omitted(found) for found in members]
        self._read_special(rows, members)
        rows.arrays = self._arrays(rows, members, good)
        rows.problems.first.sort(key=lambda problem: problem.line or 0)
        return rows

    def _add_unknown(
        self, problems: Problems, number: int, found: Mapping[str, msgspec.Raw]
    ) -> None:
        for name in found:
            if name not in self._known:
                reason = f"the table has no such column: {offer(name, list(self._indexes))}"
                problems.add(Problem(self._source, number, name, None, reason))

    def _omitted(self, found: Mapping[str, msgspec.Raw]) -> list[int] | None:
        if self._indexes.keys() <= found.keys():
            return None
        return [index for name, index in self._indexes.items() if name not in found]

    def _read_special(self, rows: JsonRows, members: list[dict[str, msgspec.Raw]]) -> None:
        for name, read_value in self._special.items():
            rows.special[name] = self._cells(rows, members, name, read_value)

    def _arrays(
        self, rows: JsonRows, members: list[dict[str, msgspec.Raw]], lines: list[bytes]
    ) -> list[pa.Array]:
        text = b"".join(part for line in lines for part in (_BEFORE, line, _AFTER))
        read = fast_decoding.read(text, self._columns, len(lines))
        if read is not None and not self._would_lose(members):
            return read.columns
        return [
            pa.array(self._cells(rows, members, name, read_value), arrow_type(type_))
            for (name, type_), read_value in zip(self._columns, self._converters, strict=True)
        ]

    def _would_lose(self, members: list[dict[str, msgspec.Raw]]) -> bool:
        """Tell whether an object has a member that its column has not."""
        try:
            for name, type_ in self._nested:
                for found in members:
                    if (raw := found.get(name)) is not None:
                        checked(bytes(raw), type_)
        except values.MisfitError:
            return True
        return False

    def _cells(
        self,
        rows: JsonRows,
        members: list[dict[str, msgspec.Raw]],
        name: str,
        read_value: Callable[[bytes], Any],
    ) -> list[Any]:
        cells: list[Any] = []
        for number, found in zip(rows.lines, members, strict=True):
            raw = found.get(name)
            value = None
            if raw is not None:
                try:
                    value = read_value(bytes(raw))
                except ValueError as error:
                    problem = misfit_problem(self._source, number, name, bytes(raw), error)
                    rows.problems.add(problem)
            cells.append(value)
        return cells


def misfit_problem(source: str, line: int, column: str, raw: bytes, error: ValueError) -> Problem:
    """Say that a value does not fit its column, from what its converter raised."""
    what = error.args[0] if isinstance(error, values.MisfitError) else str(error)
    return Problem(
        source, line, column, kept(raw.decode("utf-8", "replace")), f"is not a valid {what}"
    )
