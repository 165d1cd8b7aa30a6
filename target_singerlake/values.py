"""Checks that a reader can read a record's values as what its columns are.

A record may be valid and yet hold what no column can: a date-time of the year 0, an integer past
64 bits. The rule is the readers' own (``singerlake.format.values``). A batch that decodes into
types which are no wider than the rule is proven; of any other, each value is tried. In a key what
does not fit is always refused: by it rows are told apart, so nobody could read any of the table.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Raw

from singerlake.format import values
from singerlake.format.log import SchemaEntry
from singerlake.format.messages import DELETED
from singerlake.format.types import DIGITS, TEXT, Columns, Kind, Type, columns_of, is_exact
from singerlake.rows.validation.typed import neutral_names, not_null
from target_singerlake.errors import InvalidRecordError
from target_singerlake.line_places import Line
from target_singerlake.misfits import Misfits, Noted

FEW = 16
"""So many first records are looked at one by one, in less time than types take to build."""
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_MARK = DELETED.encode()
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
_EXACT_INTEGERS = Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)]
"""What is certain to be a double of its own; of other numbers no type says so."""
_FINER = re.compile(rb"[.,]\d{6}\d*[1-9]")
"""Digits past the microsecond, of which a key must have none."""


class UnsureError(Exception):
    """A type cannot say what the column can hold."""


@dataclass(frozen=True)
class _Column:
    """A column whose values may not fit it, as those of a text always do."""

    name: str
    type: Type
    convert: values.Converter

    @cached_property
    def proves(self) -> Callable[[bytes], bool]:
        """Says of values, one a line, whether they are certain to fit."""
        if self.type.kind is Kind.DECIMAL and self.name != DELETED:
            digits = _digits(self.type.scale)
            return lambda texts: digits.fullmatch(texts + b"\n") is not None
        try:
            decode = msgspec.json.Decoder(_field(self.name, self.type)).decode_lines
        except (UnsureError, TypeError, ValueError):  # a field with a quote in its name, for one
            return lambda _texts: False

        def decodes(texts: bytes) -> bool:
            try:
                decode(texts)
            except (msgspec.DecodeError, RecursionError):
                return False
            return True

        return decodes


class _Tried:
    """Columns whose values are tried; each made once some are in doubt, as it takes long to build.

    Attributes:
        types: The types of those whose values may not fit, by their names.
    """

    def __init__(self, columns: Columns) -> None:
        self.types = {
            name: type_
            for name, type_ in _with_mark(columns)
            if type_.kind is not Kind.TEXT or name == DELETED
        }
        self._columns: dict[str, _Column] = {}

    def column(self, name: str) -> _Column:
        """Return one of them."""
        if name not in self._columns:
            type_ = self.types[name]
            self._columns[name] = _Column(name, type_, values.converter(type_))
        return self._columns[name]

    @cached_property
    def decimals(self) -> list[tuple[str, re.Pattern[bytes]]]:
        """The texts of decimals that are certain to fit, by the fields of :attr:`proof`."""
        return [
            (f"f{number}", _digits(type_.scale))
            for number, (name, type_) in enumerate(self.types.items())
            if type_.kind is Kind.DECIMAL and name != DELETED
        ]

    @cached_property
    def proof(self) -> msgspec.json.Decoder[Any] | None:
        """Decodes records only if their values fit, but for decimals; None if no type says so."""
        fields: list[tuple[str, Any, Any]] = []
        names: dict[str, str] = {}
        try:
            for number, (name, type_) in enumerate(self.types.items()):
                if type_.kind is Kind.DECIMAL and name != DELETED:
                    fields.append((f"f{number}", Raw, Raw(b"null")))
                else:
                    fields.append((f"f{number}", _field(name, type_), None))
                names[f"f{number}"] = name
            return msgspec.json.Decoder(msgspec.defstruct("Values", fields, rename=names, gc=False))
        except (UnsureError, TypeError, ValueError):  # a name with a quote in it, for one
            return None


class ValueCheck:
    """Knows what the columns of one stream can hold.

    Attributes:
        columns: The columns.
        has_times: Whether one of them holds instants.
        times_exact: Whether one of the key does, which then holds no digit past the microsecond.
        strict: Whether instants are among what is refused if it does not fit.

    Args:
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
        self._seen = 0
        self._learn(frozenset())

    def _learn(self, retyped: Container[str]) -> None:
        """Take up the columns."""
        self.columns = columns_of(self._entry, retyped=retyped)
        timed = {name for name, type_ in self.columns if _has_times(type_)}
        self.has_times = bool(timed)
        # A mark that is a column of times is among them.
        self._mark_apart = DELETED not in timed
        self.times_exact = any(_has_times(t) and is_exact(t) for _, t in self.columns)
        self.strict = self._refuses or not timed.isdisjoint(self._entry.key_properties)
        self._tried = _Tried(self.columns)

    def doubtful(self, records: Sequence[Raw]) -> frozenset[str]:
        """Find the columns some of whose values, in some valid records, may not fit."""
        self._seen += len(records)
        few = self._seen <= FEW
        if not few and self._fit(records):
            return frozenset()
        texts: dict[str, list[bytes]] = {}
        for record in map(_RECORD.decode, records):
            for name, value in record.items():
                if value is not None and name in self._tried.types:
                    texts.setdefault(name, []).append(value)
        if few:
            return frozenset(texts)
        return frozenset(
            name
            for name, cells in texts.items()
            if not self._column_fits(self._tried.column(name), b"\n".join(cells))
        )

    def _column_fits(self, column: _Column, texts: bytes) -> bool:
        if column.name == DELETED and _at_the_ends(texts):
            return False
        if _has_times(column.type) and self.may_leave_the_calendar(texts):
            return False
        return column.proves(texts)

    def _fit(self, records: Sequence[Raw]) -> bool:
        """Tell whether one decoding proves that all values fit, as nearly always."""
        if not self._tried.types:
            return True
        if self._tried.proof is None:
            return False
        data = b"\n".join(records)
        if self.may_leave_the_calendar(data):
            return False
        try:
            rows = self._tried.proof.decode_lines(data)
        except (msgspec.DecodeError, RecursionError):
            return False
        for name, digits in self._tried.decimals:
            texts = b"\n".join([getattr(row, name) for row in rows])
            if digits.fullmatch(texts + b"\n") is None:
                return False
        return True

    def may_leave_the_calendar(self, data: bytes) -> bool:
        """Tell whether a time may be one that its column cannot hold, which no type shows."""
        # From the right: Python then looks for them in a third of the time.
        if not self.has_times and (not self._mark_apart or data.rfind(_MARK) < 0):
            return False
        if _at_the_ends(data):
            return True
        if self.times_exact and _FINER.search(data):
            return True
        # Only who refuses must be as strict as a reader about a spelling that nobody uses.
        escaped = self.strict and any(data.rfind(escape) >= 0 for escape in _ESCAPES)
        return escaped and _ESCAPED.search(data) is not None

    def look(self, raw: Raw, line: Line, columns: Container[str] | None = None) -> None:
        """Try the values of a valid record.

        Args:
            raw: The record's bytes.
            line: Where it stands.
            columns: Those to look at, by :meth:`doubtful`; None for all.

        Raises:
            InvalidRecordError: A value does not fit, and is of the key or to be refused.
        """
        misfits = list(self.misfits(raw, columns))
        if misfits and self._retyped is not None:
            ask, self._retyped = self._retyped, None
            self._learn(ask())
            misfits = list(self.misfits(raw, columns))
        for column, rounds, reason in misfits:
            marks = column.name == DELETED and reason.endswith("is not a time")
            if refused := self._refusal(column.name, rounds=rounds, marks=marks):
                where = f"line {line}: the record of stream {self._stream!r}"
                raise InvalidRecordError(f"{where}: {reason}, {refused}", {})
            noted = self._noted.get((self._stream, column.name))
            if noted is None:
                first = f"line {line}: {reason}"
                self._noted[self._stream, column.name] = Misfits(
                    str(column.type), 1, first, of_key=rounds, marks=marks
                )
            else:
                noted.values += 1

    def _refusal(self, column: str, *, rounds: bool, marks: bool) -> str:
        """Say why a value that does not fit is refused; empty where it is taken."""
        if column in self._entry.key_properties and not rounds:
            return (
                "and the column is part of the key, so no query could read the table; correct "
                "the value or the column's type in the tap"
            )
        if self._refuses:
            harm = "it deletes no row" if marks else "queries of the column would fail"
            return f"so {harm}; check_values: false accepts it anyway"
        return ""

    def misfits(
        self, raw: Raw, columns: Container[str] | None = None
    ) -> Iterator[tuple[_Column, bool, str]]:
        """Yield each value's column, whether it only has to be rounded, and why it does not fit."""
        record = _RECORD.decode(raw)
        for name, type_ in self._tried.types.items():
            if (columns is not None and name not in columns) or (value := record.get(name)) is None:
                continue
            raw_value, column = bytes(value), self._tried.column(name)
            reason = values.misfit(raw_value, column.convert, name)
            if reason is None and name == DELETED and raw_value != b"null":
                reason = None if values.is_deletion(raw_value) else _no_time(raw_value)
            if reason:
                yield column, values.only_rounds(raw_value, type_), reason


def fitting_decoder(
    check: ValueCheck, keys: Sequence[str]
) -> msgspec.json.Decoder[msgspec.Struct] | None:
    """Build a decoder that takes only records whose values fit; None where no type says so.

    Args:
        keys: Members that must be there, and not be null.
    """
    columns = dict(check.columns)
    try:
        kinds = {name: _field(name, type_) for name, type_ in _with_mark(columns.items())}
        kinds.update((key, not_null(kinds.get(key, Raw))) for key in keys)
        neutral = neutral_names(kinds, keys)
        must = [(n, kinds[name]) for n, name in neutral.items() if name in keys]
        may: list[Any] = [(n, kinds[name], None) for n, name in neutral.items() if name not in keys]
        kind = msgspec.defstruct("Record", [*must, *may], rename=neutral, gc=False)
        return msgspec.json.Decoder(kind)
    except (UnsureError, TypeError, ValueError):
        return None


def _at_the_ends(data: bytes) -> bool:
    """Tell whether a time's offset leads out of the calendar's first or last day."""
    return any(data.rfind(day) >= 0 and edge.search(data) for day, edge in _EDGES.items())


def _has_times(type_: Type) -> bool:
    return type_.kind is Kind.TIMESTAMP or any(map(_has_times, type_.parts))


def _with_mark(columns: Iterable[tuple[str, Type]]) -> Columns:
    """Return columns with the mark of deletions, which a record may have undeclared."""
    known = tuple(columns)
    return known if any(name == DELETED for name, _ in known) else (*known, (DELETED, TEXT))


def _no_time(raw: bytes) -> str:
    return f"the value {values.shown(raw)} of {DELETED!r} is not a time"


def _field(name: str, type_: Type) -> Any:
    """Build a type of a record's member that is no wider than what its column can hold.

    The mark of deletions is a time besides.
    """
    if name != DELETED or type_.kind is Kind.DATE:
        return _nullable(type_)
    timed = type_.kind in (Kind.STRING, Kind.TIMESTAMP, Kind.TEXT)
    return dt.datetime | None if timed else None


def _nullable(type_: Type) -> Any:
    kind = _typed(type_)
    return Raw if kind is Raw else kind | None


def _typed(type_: Type) -> Any:
    """Build a type that is no wider than what a column can hold."""
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
    return _EXACT_INTEGERS if type_.exact and type_.kind is Kind.NUMBER else _PLAIN[type_.kind]


def _digits(scale: int) -> re.Pattern[bytes]:
    """Lines of decimals that are certain to fit; anything else must be tried."""
    number = rb"-?\d{1,%d}" % (DIGITS - scale) if scale < DIGITS else rb"-?0"
    if scale:
        number += rb"(?:\.\d{1,%d})?" % scale
    return re.compile(rb'(?:(?:null|%b|"%b")\n)*' % (number, number))
