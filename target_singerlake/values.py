"""Whether a reader can have a record's values as what its columns are.

A record may be valid and yet hold what no column can: a date-time of the year 0, an integer past
64 bits. The rule is the readers' own (``singerlake.format.values``). A batch that decodes into
types which are no wider than the rule is proven; of any other, each value is tried. In a key what
does not fit is always refused: by it rows are told apart, so nobody could read any of the table.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Raw

from singerlake.format import values
from singerlake.format.log import SchemaEntry
from singerlake.format.types import DIGITS, Kind, Type, columns_of
from target_singerlake.errors import InvalidRecordError

Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_RECORD = msgspec.json.Decoder(dict[str, Raw])
_EDGES = {
    b"9999-12-31": re.compile(rb'9999-12-31[^"]*-'),
    b"0001-01-01": re.compile(rb'0001-01-01[^"]*\+'),
}
"""A time of the last day leaves the calendar when a negative offset is taken away, one of the
first when a positive one is, which a type does not see. Without one they are everybody's words
for an end that is not known, and must not cost."""
_ESCAPES = (b"\\u003", b"\\u002")
_ESCAPED = re.compile(rb"\\u(?:003\d|002[bBdD])")
"""A digit, a dash or a plus in another spelling, which would hide such a day or its offset."""
_PLAIN: dict[Kind, Any] = {
    Kind.INTEGER: Int64,
    Kind.NUMBER: float,
    Kind.STRING: str,
    Kind.DATE: dt.date,
    Kind.TIMESTAMP: dt.datetime,
    Kind.BOOLEAN: bool,
    Kind.TEXT: Raw,
}
Noted: TypeAlias = "dict[tuple[str, str], Misfits]"


class UnsureError(Exception):
    """A type cannot say what the column can hold."""


@dataclass
class Misfits:
    """What a run has taken that a column cannot hold.

    Attributes:
        type: The column's type.
        values: How many.
        first: The first of them, in words.
    """

    type: str
    values: int
    first: str


class ValueCheck:
    """Knows what the columns of one stream can hold.

    Attributes:
        columns: The columns.
        has_times: Whether one of them holds instants.
        strict: Whether instants are among what is refused if it does not fit.

    Args:
        stream: The stream's name.
        entry: Its schema.
        noted: Where to note what does not fit.
        refuses: Whether what does not fit is refused instead, in the key or not.
        retyped: Gives the columns that the table has as text by a person's word; asked when
            the first value does not fit.
    """

    def __init__(
        self,
        stream: str,
        entry: SchemaEntry,
        noted: Noted,
        *,
        refuses: bool = False,
        retyped: Callable[[], Container[str]] | None = None,
    ) -> None:
        self._stream = stream
        self._noted = noted
        self._refuses = refuses
        self._entry = entry
        self._retyped = retyped
        self._learn(frozenset())

    def _learn(self, retyped: Container[str]) -> None:
        """Take up the columns."""
        self.columns = columns_of(self._entry, retyped=retyped)
        self._readers = [
            (name, type_, values.converter(type_))
            for name, type_ in self.columns
            if type_.kind is not Kind.TEXT
        ]
        timed = {name for name, type_ in self.columns if _has_times(type_)}
        self.has_times = bool(timed)
        self.strict = self._refuses or not timed.isdisjoint(self._entry.key_properties)
        self._decimals: list[tuple[str, re.Pattern[bytes]]] = []
        self._proof = self._built()

    def _built(self) -> msgspec.json.Decoder[Any] | None:
        fields: list[tuple[str, Any, Any]] = []
        names: dict[str, str] = {}
        try:
            for number, (name, type_, _) in enumerate(self._readers):
                if type_.kind is Kind.DECIMAL:
                    self._decimals.append((f"f{number}", _digits(type_.scale)))
                    fields.append((f"f{number}", Raw, Raw(b"null")))
                else:
                    fields.append((f"f{number}", _nullable(type_), None))
                names[f"f{number}"] = name
            return msgspec.json.Decoder(msgspec.defstruct("Values", fields, rename=names, gc=False))
        except (UnsureError, TypeError, ValueError):  # a name with a quote in it, for one
            return None

    def fit(self, records: Sequence[Raw]) -> bool:
        """Whether all values of some valid records are certain to fit."""
        if not self._readers:
            return True
        if self._proof is None:
            return False
        data = b"\n".join(records)
        if self.may_leave_the_calendar(data):
            return False
        try:
            rows = self._proof.decode_lines(data)
        except (msgspec.DecodeError, RecursionError):
            return False
        for name, digits in self._decimals:
            texts = b"\n".join([getattr(row, name) for row in rows])
            if digits.fullmatch(texts + b"\n") is None:
                return False
        return True

    def may_leave_the_calendar(self, data: bytes) -> bool:
        """Whether a time in here may be of a day at either end of the calendar."""
        if not self.has_times:
            return False
        # From the right: Python then looks for them in a third of the time.
        if any(data.rfind(day) >= 0 and edge.search(data) for day, edge in _EDGES.items()):
            return True
        # Only who refuses must be as strict as a reader about a spelling that nobody uses.
        escaped = self.strict and any(data.rfind(escape) >= 0 for escape in _ESCAPES)
        return escaped and _ESCAPED.search(data) is not None

    def look(self, raw: Raw, line: int) -> None:
        """Try each value of a valid record.

        Args:
            raw: The record's bytes.
            line: Its line number.

        Raises:
            InvalidRecordError: A value does not fit, and is of the key or to be refused.
        """
        found = list(self.misfits(raw))
        if found and self._retyped is not None:
            ask, self._retyped = self._retyped, None
            self._learn(ask())
            found = list(self.misfits(raw))
        for name, type_, said in found:
            if refused := self._refusal(name):
                where = f"line {line}: the record of stream {self._stream!r}"
                raise InvalidRecordError(f"{where}: {said}, {refused}", {})
            noted = self._noted.get((self._stream, name))
            if noted is None:
                first = f"line {line}: {said}"
                self._noted[self._stream, name] = Misfits(type_, 1, first)
            else:
                noted.values += 1

    def _refusal(self, column: str) -> str:
        """Why a value that does not fit is refused; empty where it is taken."""
        if column in self._entry.key_properties:
            return (
                "and it is of the key, by which rows are told apart: no query could read the "
                "table; mend the value or the column's type in the tap"
            )
        if self._refuses:
            return "so no query could read it; check_values: false takes it all the same"
        return ""

    def misfits(self, raw: Raw) -> Iterator[tuple[str, str, str]]:
        """Column, its type, and what is said of each value that does not fit."""
        record = _RECORD.decode(raw)
        for name, type_, read_value in self._readers:
            value = record.get(name)
            if value is not None and (said := values.misfit(bytes(value), read_value, name)):
                yield name, str(type_), said


@dataclass
class Warnings:
    """What the summary of a run says of values that no query can read.

    Attributes:
        noted: By stream and column.
    """

    noted: Noted = field(default_factory=dict)

    def words(self) -> Iterator[str]:
        """One sentence a column."""
        for (stream, column), found in sorted(self.noted.items()):
            count = "1 value" if found.values == 1 else f"{found.values:,} values"
            yield (
                f"{stream}: {count} taken that column {column!r} ({found.type}) cannot hold, the "
                f"first in {found.first}; a query that reads the column will fail: see 'Values "
                "that do not fit' in docs/types.md, or refuse such values with check_values: true"
            )


def proof_type(check: ValueCheck, keys: Sequence[str]) -> Any:
    """The type that only records decode to whose values fit; None where there is none.

    Args:
        check: Knows the columns.
        keys: Members that must be there.
    """
    columns = dict(check.columns)
    try:
        kinds = {name: _nullable(type_) for name, type_ in columns.items()}
        kinds.update((key, Raw) for key in keys if key not in kinds)
        neutral = {f"f{number}": name for number, name in enumerate(kinds)}
        must = [(n, kinds[name]) for n, name in neutral.items() if name in keys]
        may: list[Any] = [(n, kinds[name], None) for n, name in neutral.items() if name not in keys]
        return msgspec.defstruct("Record", [*must, *may], rename=neutral, gc=False)
    except (UnsureError, TypeError, ValueError):
        return None


def _has_times(type_: Type) -> bool:
    inner = [field for _, field in type_.fields] + ([type_.item] if type_.item else [])
    return type_.kind is Kind.TIMESTAMP or any(map(_has_times, inner))


def _nullable(type_: Type) -> Any:
    kind = _typed(type_)
    return Raw if kind is Raw else kind | None


def _typed(type_: Type) -> Any:
    """A type that is no wider than what a column can hold."""
    if type_.kind is Kind.STRUCT:
        names = {f"f{number}": name for number, (name, _) in enumerate(type_.fields)}
        fields: list[Any] = [
            (f"f{number}", _nullable(inner), None) for number, (_, inner) in enumerate(type_.fields)
        ]
        return msgspec.defstruct("Struct", fields, rename=names, gc=False)
    if type_.item is not None:
        return list[_nullable(type_.item)]  # type: ignore[misc]
    if type_.kind not in _PLAIN:
        raise UnsureError
    return _PLAIN[type_.kind]


def _digits(scale: int) -> re.Pattern[bytes]:
    """Lines of decimals that are certain to fit; anything else must be tried."""
    number = rb"-?\d{1,%d}" % (DIGITS - scale) if scale < DIGITS else rb"-?0"
    if scale:
        number += rb"(?:\.\d{1,%d})?" % scale
    return re.compile(rb'(?:(?:null|%b|"%b")\n)*' % (number, number))
