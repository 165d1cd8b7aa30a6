"""The object of a search: a text, wherever it stands, or the rows of a key.

Each has a pattern that matches wherever it may stand; where the pattern matches, the sought thing
itself looks closer.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import Any

from singerlake.errors import UsageError
from singerlake.format import times
from singerlake.format.names import TableName
from singerlake.format.types import Kind, columns_of
from singerlake.log.table_state import TableState
from singerlake.ops.erase import documents, spelling
from singerlake.ops.erase.documents import Members

NUMERIC = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.DECIMAL, Kind.TEXT})
OF_TIME = frozenset({Kind.DATE, Kind.TIMESTAMP})
MAX_DEPTH = 4
"""How deep JSON documents may be strings within others: a refused line is one in its row's line."""

_EXPONENT = rb"(?:^|[^0-9A-Za-z.])(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]"
"""A number with an exponent may be any number; no escape such as ``\\u00e9`` is one."""
_ESCAPED_DIGIT = rb"\\+u003[0-9]"
"""In a number that is a string, any digit may be an escape."""
_ANYTHING = b""
_TRUTHS = {"true": [b"true"], "false": [b"false"]}
_FORMS = {
    Kind.INTEGER: "a whole number",
    Kind.NUMBER: "a number",
    Kind.DECIMAL: "a number",
    Kind.BOOLEAN: "true or false",
    Kind.DATE: "a date",
    Kind.TIMESTAMP: "an instant, as in 2026-01-31T12:00:00Z",
    Kind.STRUCT: "a JSON object",
    Kind.LIST: "a JSON array",
}
"""What a key's value looks like; any text may be a string."""


class Sought(ABC):
    """One thing that is looked for.

    Attributes:
        label: What reports call it. They do not repeat it, for they are kept for longer.
        pattern: Matches wherever it may stand in bytes, however JSON spells it.
    """

    label: str
    pattern: bytes

    @abstractmethod
    def in_line(self, line: bytes, *, only_own: bool) -> bool:
        """Tell whether it stands in a line that its pattern matches.

        Args:
            line: One line, of JSON or of anything else.
            only_own: Whether messages of other streams than the table's do not count.
        """


class Text(Sought):
    """A text, sought in all there is.

    Args:
        label: What reports call it.

    Raises:
        UsageError: It is empty, or has several lines.
    """

    def __init__(self, label: str, text: str) -> None:
        if not text.strip():
            raise UsageError("the text to search for is empty: use one that identifies the person")
        if "\n" in text or "\r" in text:
            raise UsageError("the text to search for has several lines: use one of them")
        self.label = label
        self.text = text
        self.pattern = spelling.pattern_of(text)
        self.quoted_pattern = spelling.quoted_pattern_of(text)
        self.other_bytes = spelling.plain_bytes(text)

    def in_line(self, line: bytes, *, only_own: bool) -> bool:  # noqa: ARG002
        """Tell that it does: the pattern says all."""
        del line
        return True


@dataclass(frozen=True)
class KeyNames:
    """The names that the columns of a table's key have, or once had.

    Attributes:
        names: Each the names of a whole key, as records or people have them.
        kinds: What values the columns have, or had, by name.
    """

    table: TableName
    names: Sequence[tuple[str, ...]]
    kinds: Mapping[str, frozenset[Kind]]

    @classmethod
    def of(cls, snapshot: TableState) -> KeyNames:
        """Collect them from all schemas of a table, and from what people said of its key.

        Raises:
            UsageError: It never had a key.
        """
        keys: dict[tuple[str, ...], None] = {}
        kinds: dict[str, set[Kind]] = {}
        for entry in snapshot.schemas.values():
            keys[tuple(entry.key_properties)] = None
            for name, type_ in columns_of(entry):
                kinds.setdefault(name, set()).add(type_.kind)
        for overlay in snapshot.overlays.values():
            shown = {name: one.name for name, one in overlay.columns.items() if one.name}
            own = {called: name for name, called in shown.items()}
            for key in [*keys]:
                keys[tuple(shown.get(name, name) for name in key)] = None
            if overlay.key:
                keys[tuple(overlay.key)] = None
                keys[tuple(own.get(name, name) for name in overlay.key)] = None
            for name, called in shown.items():
                kinds.setdefault(called, set()).update(kinds.get(name, ()))
        named = [key for key in keys if key]
        if not named:
            raise UsageError(
                f"{snapshot.table} has no key: use --text, with a value that only these rows have"
            )
        return cls(snapshot.table, named, {name: frozenset(has) for name, has in kinds.items()})


class Key(Sought):
    """The rows of a key, in lines and in columns.

    Args:
        label: What reports call it.
        text: The key as ``_row_id`` shows it: a JSON array of texts where it has several columns.
        names: The names of its columns.

    Raises:
        UsageError: No key that the table had has this number of columns, or values of this form.
    """

    def __init__(self, label: str, text: str, names: KeyNames) -> None:
        self.label = label
        self._table = names.table
        self._kinds = names.kinds
        self.alternatives = [
            (key, values)
            for key in names.names
            if (values := _values(text, len(key))) and self._may_be(key, values)
        ]
        if not self.alternatives:
            raise UsageError(_refusal(names))
        patterns = [self._pattern_of(key[0], values[0]) for key, values in self.alternatives]
        self.pattern = spelling.either(dict.fromkeys(patterns))

    @property
    def texts(self) -> Iterator[str]:
        """The names and the values."""
        return chain.from_iterable(chain.from_iterable(self.alternatives))

    @property
    def is_ascii(self) -> bool:
        """Whether all encodings that a search knows spell it alike, but for zeros."""
        return all(map(str.isascii, self.texts))

    def in_line(self, line: bytes, *, only_own: bool) -> bool:
        """Tell whether the line is a row of the key, or has one in it; see :class:`Sought`.

        A line of JSON that was cut off, as at the end of a file, counts if the key's names and
        values stand in it. In any other line, the objects of JSON within it count.
        """
        return self._in_text(line.decode("utf-8", "replace"), only_own, MAX_DEPTH)

    def is_row(self, row: Mapping[str, Any]) -> bool:
        """Tell whether a row, by its members or columns, is one of the key."""
        return self.may_have(row) and any(
            all(
                any(self._is(one, value, name) for one in documents.all_of(row, name))
                for name, value in zip(key, values, strict=True)
            )
            for key, values in self.alternatives
        )

    def may_have(self, columns: Container[str]) -> bool:
        """Tell whether rows with these columns may be rows of the table, and not rejected lines.

        A rejected line has a number, and a key may be called so.
        """
        return not documents.keeps_rejected(columns) or documents.keeps_rejected(self._kinds)

    def _may_be(self, key: tuple[str, ...], values: tuple[str, ...]) -> bool:
        """Tell whether columns can have the values: else none would be found, whatever is there."""
        kinds = [self._kinds.get(name, frozenset()) for name in key]
        return all(
            not of or any(_has_form(value, kind) for kind in of)
            for value, of in zip(values, kinds, strict=True)
        )

    def _in(self, document: Members, only_own: bool, depth: int) -> bool:
        """Tell whether a document is a row, a message with one, or has such as a text in it."""
        records = [one for one in documents.all_of(document, "record") if isinstance(one, Members)]
        streams = documents.all_of(document, "stream")
        others = only_own and bool(streams) and self._table.stream not in streams
        if not others and any(map(self.is_row, records)):
            return True
        is_message = "stream" in document and (records or "schema" in document)
        if depth == MAX_DEPTH and not is_message and self.is_row(document):
            return True
        return depth > 0 and any(
            self._in_text(value, only_own, depth - 1)
            for row in (document, *records)
            for _, value in row.pairs
            if isinstance(value, str) and value.lstrip().startswith("{")
        )

    def _in_text(self, text: str, only_own: bool, depth: int) -> bool:
        found, cut_off = documents.embedded(text)
        if any(self._in(one, only_own, depth) for one in found):
            return True
        return bool(cut_off) and self._in_pieces(cut_off.encode("utf-8", "surrogatepass"))

    def _in_pieces(self, line: bytes) -> bool:
        """Tell whether the names and values of a key stand in what is no JSON."""
        return any(
            all(
                re.search(spelling.pattern_of(name), line)
                and re.search(self._pattern_of(name, value), line)
                for name, value in zip(key, values, strict=True)
            )
            for key, values in self.alternatives
        )

    def _pattern_of(self, name: str, value: str) -> bytes:
        kinds = self._kinds.get(name, frozenset())
        if kinds & OF_TIME:
            return _ANYTHING  # an instant is spelled in too many ways
        if value.startswith(("{", "[")):
            return _ANYTHING  # so is an object
        patterns = [b'"' + spelling.pattern_of(value) + rb'\\*"', *_TRUTHS.get(value.lower(), ())]
        if (number := _number(value)) is not None:
            digits = f"{abs(number):f}"
            digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
            digits = digits.removeprefix("0") or digits  # a string may have more zeros, or none
            more = rb"0*" if "." in digits else rb"(?:\.0*)?"
            alone = rb"(?:^|[^0-9.])0*" + re.escape(digits).encode() + more + rb"(?:[^0-9.]|$)"
            patterns += [alone, _EXPONENT, _ESCAPED_DIGIT]
        return spelling.either(patterns)

    def _is(self, value: Any, text: str, name: str) -> bool:
        kinds = self._kinds.get(name, frozenset())
        if isinstance(value, str):
            if value == text:
                return True
            if kinds & NUMERIC:
                return (number := _number(text)) is not None and number == _number(value)
            return bool(kinds & OF_TIME) and _instant(text) == _instant(value) is not None
        if isinstance(value, bool):
            return text.lower() == str(value).lower()
        if isinstance(value, (int, float, Decimal)):
            return (number := _number(text)) is not None and number == _number(str(value))
        if isinstance(value, (date, datetime)):
            return _instant(text) == _instant(value) is not None
        if isinstance(value, (dict, list)):
            return any(documents.has(value, one) for one in _documents(text))
        return False


def _refusal(names: KeyNames) -> str:
    """Explain why a table cannot have a key, and what its keys look like."""
    keys = []
    for key in names.names:
        forms = [
            " or ".join(sorted({_FORMS.get(kind, "a text") for kind in names.kinds.get(name, ())}))
            for name in key
        ]
        parts = [
            f"{name} ({form})" if form else name for name, form in zip(key, forms, strict=True)
        ]
        keys.append(", ".join(parts))
    one, several = "its value alone", 'a JSON array of that many texts, such as \'["17","2"]\''
    widths = {len(key) > 1 for key in names.names}
    give = " or ".join([one] * (False in widths) + [several] * (True in widths))
    return (
        f"--key is not a key of {names.table}, whose key is {' or '.join(sorted({*keys}))}: give "
        f"{give}, as in _row_id"
    )


def _has_form(text: str, kind: Kind) -> bool:
    if kind is Kind.INTEGER:
        return (number := _number(text)) is not None and number == number.to_integral_value()
    if kind in (Kind.NUMBER, Kind.DECIMAL):
        return _number(text) is not None
    if kind is Kind.BOOLEAN:
        return text.lower() in _TRUTHS
    if kind in OF_TIME:
        return _instant(text) is not None
    if kind in (Kind.STRUCT, Kind.LIST):
        wanted = dict if kind is Kind.STRUCT else list
        return any(isinstance(one, wanted) for one in _documents(text))
    return True


def _values(text: str, count: int) -> tuple[str, ...]:
    """Read the values of a key from a row's id; nothing where it has another number of columns."""
    if count == 1:
        return (text,)
    parts = _documents(text)
    if len(parts) == 1 and isinstance(parts[0], list) and len(parts[0]) == count:
        return tuple(map(str, parts[0]))
    return ()


def _documents(text: str) -> list[Any]:
    try:
        return [documents.read(text)]
    except (ValueError, RecursionError):
        return []


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= 400 else None  # noqa: PLR2004


def _instant(value: str | date) -> datetime | None:
    if isinstance(value, str):
        return times.parse(value)
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
    return datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
