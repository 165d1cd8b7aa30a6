"""Validation of records by their schema: proven by types, else decided in full."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Raw

from singerlake.format.log import SchemaEntry
from singerlake.format.refused_lines import FORMATS_UNCHECKED, UNCHECKED
from singerlake.format.types import Columns
from singerlake.rows.validation import drafts, typed
from singerlake.rows.validation.full_validation import (
    FullValidator,
    NotASchemaError,
    Refusal,
    UnreadableError,
    read,
    validator_of,
)
from target_singerlake.errors import InvalidRecordError, InvalidSchemaError, MissingKeyError
from target_singerlake.line_places import Line
from target_singerlake.misfits import Noted
from target_singerlake.values import FEW, ValueCheck, fitting_decoder

_NOTHING = Annotated[int, msgspec.Meta(ge=1, le=0)]
"""What no value is."""
_SETTINGS = {
    False: UNCHECKED,
    True: FORMATS_UNCHECKED,
}
"""What lets a refused record in, where not (or where just) its format is wrong."""


@lru_cache(maxsize=512)
def _shared_decoder(
    schema: str, keys: tuple[str, ...], formats: bool, columns: Columns | None
) -> msgspec.json.Decoder[Any] | None:
    """One set of types for all streams of one schema: what is shared stays in the caches."""
    spec = json.loads(schema)
    return typed.record_decoder(spec, list(keys), formats=formats, columns=columns)


@lru_cache(maxsize=512)
def _shared_validator(
    schema: str, formats: bool
) -> tuple[FullValidator, str, tuple[tuple[str, str], ...]]:
    """Build what decides in full, for all streams of one schema.

    Returns:
        It, the schema in the words of the newest draft, and what it passes over.

    Raises:
        NotASchemaError: It is none.
    """
    passed_over: list[tuple[str, str]] = []
    spec = json.loads(schema)
    full = validator_of(spec, formats=formats, passed_over=lambda *one: passed_over.append(one))
    # Types know the words of one draft only; what they take, each draft takes.
    newest = json.dumps(full.words_of(drafts.DRAFT_2020, spec))
    return full, newest, tuple(passed_over)


class Validator:
    """Checks the records of one stream under one schema.

    Attributes:
        values: Knows what the columns can hold.

    Args:
        schema: Its JSON Schema, in any draft since 4 (:mod:`singerlake.rows.validation.drafts`).
        keys: Its key properties; a record must have a value in each, whatever the schema says.
        records: Whether records are validated at all; the keys always are.
        formats: Whether ``format`` must hold.
        passed_over: Told of each keyword that cannot be checked, and what it says.
        check_values: Whether values that no column can hold are refused; in the key they
            always are.
        noted: Where to note them if not.
        retyped: Gives the columns that a person made text of, where somebody must ask.

    Raises:
        InvalidSchemaError: The schema is none.
    """

    def __init__(
        self,
        stream: str,
        schema: dict[str, Any],
        keys: list[str],
        *,
        records: bool = True,
        formats: bool = False,
        passed_over: Callable[[str, str], None] = lambda _keyword, _value: None,
        check_values: bool = False,
        noted: Noted | None = None,
        retyped: Callable[[], Container[str]] | None = None,
    ) -> None:
        self._stream = stream
        self._keys = keys
        self._full: FullValidator | None = None
        self._words: tuple[str, tuple[str, ...], bool] | None = None
        entry = SchemaEntry(schema, keys)
        if records:
            try:
                self._full, newest, unread = _shared_validator(json.dumps(schema), formats)
            except NotASchemaError as error:
                raise InvalidSchemaError(
                    f"the schema of stream {stream!r} is not a JSON Schema: {error}; "
                    f"correct it in the tap, or {_SETTINGS[False]}"
                ) from error
            for one in unread:
                passed_over(*one)
            self._words = newest, tuple(keys), formats
        noted = {} if noted is None else noted
        self.values = ValueCheck(stream, entry, noted, refuses=check_values, retyped=retyped)
        self._seen = 0

    @cached_property
    def decoder(self) -> msgspec.json.Decoder[Any] | None:
        """Decodes only records that are valid and whose values fit; None where no type says so.

        Times at either end of the calendar are left to :attr:`values`. Made once it is needed: a
        SCHEMA may be followed by few records, and types take long to build.
        """
        if self._words is not None:
            return _shared_decoder(*self._words, self.values.columns)
        return fitting_decoder(self.values, self._keys)

    @cached_property
    def _fast(self) -> msgspec.json.Decoder[Any] | None:
        """Decodes only valid records, whether or not their values fit; made once it is needed."""
        if self._words is not None:
            return _shared_decoder(*self._words, None)
        return typed.key_decoder(self._keys)

    @property
    def proof(self) -> Any:
        """The type that :attr:`decoder` decodes to; None where there is none."""
        return None if self.decoder is None else self.decoder.type

    @property
    def proves_types(self) -> bool:
        """Whether records that :attr:`decoder` takes have their columns' types."""
        return self._full is not None

    @cached_property
    def untimed(self) -> msgspec.json.Decoder[Any] | None:
        """As :attr:`decoder`, and only records that say no time of their own; None as there."""
        if self.decoder is None:
            return None
        own = [("own_time", _NOTHING, None)]
        rename = {"own_time": "_sdc_extracted_at"}
        try:
            kind = msgspec.defstruct("Untimed", own, bases=(self.proof,), rename=rename, gc=False)
            return msgspec.json.Decoder(kind)
        except (TypeError, ValueError):  # the schema names such a member, for one
            return None

    def accept(self, records: Sequence[Raw]) -> bool:
        """Tell whether all of these are valid; for the reason, ask :meth:`check` one by one."""
        self._seen += len(records)
        few = self._seen <= FEW
        # What types prove may be beyond what Python reads, such as digits by the thousand.
        return (
            (few and self._all_in_full(records))
            or self._by_types(records)
            or (not few and self._all_in_full(records))
        )

    def _by_types(self, records: Sequence[Raw]) -> bool:
        if self._fast is None:
            return False
        try:
            self._fast.decode_lines(b"\n".join(records))
        except (msgspec.DecodeError, RecursionError):
            return False
        return True

    def _all_in_full(self, records: Sequence[Raw]) -> bool:
        try:
            return all(self._accept_in_full(raw) for raw in records)
        except UnreadableError:
            return False

    def check(self, raw: Raw, line: Line) -> None:
        """Check one record.

        Args:
            line: Where it stands, for the error.

        Raises:
            MissingKeyError: A key property is null, or not there.
            InvalidRecordError: The schema does not allow it, or no column can hold a value that
                is of the key or to be refused.
        """
        if self.accept([raw]):
            self.values.look(raw, line)
            return
        try:
            record, extreme = read(bytes(raw))
            refusals = self._full and self._full.refusals(record, bytes(raw), extreme=extreme)
            refusal = next(refusals or iter(()), None)
        except UnreadableError as error:
            raise InvalidRecordError(f"{self._where(line)} cannot be read: {error}", {}) from error
        if not isinstance(record, dict):
            raise InvalidRecordError(f"{self._where(line)} has a record that is not an object", {})
        if missing := [key for key in self._keys if record.get(key) is None]:
            what = "null" if all(key in record for key in missing) else "no value"
            raise MissingKeyError(
                f"{self._where(line)} has {what} for its key {', '.join(map(repr, missing))}, so "
                "its row could not be identified: have the tap send a value, or choose another "
                "key (key_properties in the tap, __key_properties__ in stream_maps)"
            )
        if refusal:
            raise InvalidRecordError(f"{self._where(line)}, {_words(refusal)}", record)

    def _accept_in_full(self, raw: Raw) -> bool:
        record, extreme = read(bytes(raw))
        return (
            isinstance(record, dict)
            and all(record.get(key) is not None for key in self._keys)
            and (
                self._full is None
                or self._full.is_valid(record, extreme=extreme)
                or self._full.is_valid_exactly(bytes(raw), extreme=extreme)
            )
        )

    def _where(self, line: Line) -> str:
        return f"line {line}: the record of stream {self._stream!r}"


def _words(refusal: Refusal) -> str:
    field = ".".join(str(part) for part in refusal.path)
    reason = f"{refusal.reason}; {_SETTINGS[refusal.keyword == 'format']}"
    return f"field {field!r}: {reason}" if field else reason
