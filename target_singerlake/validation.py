"""Whether records are what their schema says: proven by types, else decided in full."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec
import orjson
from msgspec import Raw

from singerlake.format.log import SchemaEntry
from singerlake.format.types import Columns
from target_singerlake import drafts, exact, typed
from target_singerlake.errors import InvalidRecordError, InvalidSchemaError, MissingKeyError
from target_singerlake.values import Noted, ValueCheck, proof_type

# orjson reads integers past 64 bits as doubles and refuses numbers past a double's range;
# where one may be, the standard library reads the record instead.
_BIG_NUMBER = re.compile(rb"\d{16}|[eE][+-]?\d{3}")
_MAX_REASON = 300
_SETTINGS = {
    False: "the setting validate_records: false takes records unchecked",
    True: "the setting validate_formats: false leaves formats unchecked",
}
"""What lets a refused record in, where not (or where just) its format is wrong."""


@lru_cache(maxsize=512)
def _shared_decoder(
    schema: str, keys: tuple[str, ...], formats: bool, columns: Columns | None
) -> msgspec.json.Decoder[Any] | None:
    """One set of types for all streams of one schema: what is shared stays in the caches."""
    spec = json.loads(schema)
    return typed.record_decoder(spec, list(keys), formats=formats, columns=columns)


class _UnreadableError(Exception):
    """A record that is JSON but beyond what Python reads: depth, or digits by the thousand."""


class Validator:
    """Checks the records of one stream under one schema.

    Attributes:
        proof: The type that only records decode to which are valid and whose values fit, but
            for times at either end of the calendar; None where there is no such type.
        values: Knows what the columns can hold.

    Args:
        stream: The stream's name, for errors.
        schema: Its JSON Schema, in any draft since 4: see :mod:`drafts`.
        keys: Its key properties; a record must have them whatever the schema says.
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
        passed_over: Callable[[str, str], None] = lambda _keyword, _said: None,
        check_values: bool = False,
        noted: Noted | None = None,
        retyped: Callable[[], Container[str]] | None = None,
    ) -> None:
        self._stream = stream
        self._keys = keys
        self._full: _FullValidator | None = None
        self._fast = typed.key_decoder(keys)
        entry = SchemaEntry(schema, keys)
        if records:
            # Types know the words of one draft only; what they take, each draft takes.
            newest = drafts.put_in_words_of(drafts.DRAFT_2020, schema, lambda *_: None)
            draft = drafts.draft_of(schema)
            own = drafts.put_in_words_of(draft, schema, passed_over)
            try:
                self._full = _FullValidator(stream, own, draft, formats=formats)
            except InvalidSchemaError:
                if draft is drafts.DRAFT_2020:
                    raise
                # Older drafts are strict where it does not matter: a value twice in an enum.
                draft = drafts.DRAFT_2020
                self._full = _FullValidator(stream, newest, draft, formats=formats)
            words = json.dumps(newest), tuple(keys), formats
            self._fast = _shared_decoder(*words, None)
        noted = {} if noted is None else noted
        self.values = ValueCheck(stream, entry, noted, refuses=check_values, retyped=retyped)
        if records:
            fitting = _shared_decoder(*words, self.values.columns)
            self.proof = None if fitting is None else fitting.type
        else:
            self.proof = proof_type(self.values, keys)

    def accept(self, records: Sequence[Raw]) -> bool:
        """Whether all of these are valid; for the reason, ask :meth:`check` one by one."""
        if self._fast is not None:
            try:
                self._fast.decode_lines(b"\n".join(records))
                return True
            except (msgspec.DecodeError, RecursionError):
                pass
        try:
            return all(self._accept_in_full(raw) for raw in records)
        except _UnreadableError:
            return False

    def check(self, raw: Raw, line: int) -> None:
        """Check one record.

        Args:
            raw: Its bytes.
            line: Its line number, for the error.

        Raises:
            MissingKeyError: A key property is not there.
            InvalidRecordError: The schema does not allow it, or no column can hold a value that
                is of the key or to be refused.
        """
        if self.accept([raw]):
            self.values.look(raw, line)
            return
        try:
            record, extreme = _read(raw)
            found = self._full and self._full.error(record, extreme=extreme)
        except _UnreadableError as error:
            raise InvalidRecordError(f"{self._where(line)} cannot be read: {error}", {}) from error
        if not isinstance(record, dict):
            raise InvalidRecordError(f"{self._where(line)} holds no object as its record", {})
        missing = [key for key in self._keys if key not in record]
        if missing:
            raise MissingKeyError(
                f"{self._where(line)} has no value for its key "
                + ", ".join(repr(key) for key in missing)
            )
        if found:
            raise InvalidRecordError(f"{self._where(line)}, {found}", record)

    def _accept_in_full(self, raw: Raw) -> bool:
        record, extreme = _read(raw)
        return (
            isinstance(record, dict)
            and all(key in record for key in self._keys)
            and (
                self._full is None
                or self._full.is_valid(record, extreme=extreme)
                or self._full.is_valid_exactly(bytes(raw))
            )
        )

    def _where(self, line: int) -> str:
        return f"line {line}: the record of stream {self._stream!r}"


class _FullValidator:
    """The whole of JSON Schema: in Rust, and in Python for what Rust's numbers cannot hold."""

    def __init__(
        self, stream: str, schema: dict[str, Any], draft: drafts.Draft, *, formats: bool
    ) -> None:
        self._schema = schema
        self._draft = draft
        self._formats = formats
        self._python: Any = None
        self._exact: Any = None
        try:
            self._rust = draft.rust(schema, validate_formats=formats, offline=True)
        except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
            raise InvalidSchemaError(
                f"the schema of stream {stream!r} is no JSON Schema: {_first_line(error)}; "
                f"mend it in the tap, or {_SETTINGS[False]}"
            ) from error

    def is_valid(self, record: Any, *, extreme: bool) -> bool:
        """Whether the schema allows a record.

        Args:
            record: Any JSON value.
            extreme: Whether it has a number beyond 64 bits or a double's range.
        """
        if not extreme:
            try:
                return self._rust.is_valid(record)
            except ValueError:  # nested more deeply than it goes
                pass
        with _python_patterns():
            return self._in_python().is_valid(record)  # type: ignore[no-any-return]

    def is_valid_exactly(self, data: bytes) -> bool:
        """Whether the schema allows a record after all, by its numbers as they are written.

        As doubles, the last values before a bound are the bound.
        """
        record = exact.read(data)
        if record is None:
            return False
        if self._exact is None:
            self._exact = self._pythons(exactly=True)
        try:
            with exact.arithmetic():
                return self._exact.is_valid(record)  # type: ignore[no-any-return]
        except (ArithmeticError, RecursionError, re.error):
            return False

    def error(self, record: Any, *, extreme: bool) -> str:
        """What is wrong with a record, and in which field; empty if nothing is."""
        try:
            found: Any = next(iter(self._rust.iter_errors(record)), None) if not extreme else None
        except ValueError:
            found = None
        path = found.instance_path if found is not None else ()
        if found is None:
            with _python_patterns():
                found = next(iter(self._in_python().iter_errors(record)), None)
            path = found.absolute_path if found is not None else ()
        if found is None:
            return ""
        reason = str(found.message)
        if len(reason) > _MAX_REASON:
            reason = f"{reason[: _MAX_REASON // 2]} … {reason[-_MAX_REASON // 2 :]}"
        field = ".".join(str(part) for part in path)
        setting = _SETTINGS[list(found.schema_path)[-1:] == ["format"]]
        return f"field {field!r}: {reason}; {setting}" if field else f"{reason}; {setting}"

    def _in_python(self) -> Any:
        if self._python is None:
            self._python = self._pythons()
        return self._python

    def _pythons(self, *, exactly: bool = False) -> Any:
        """The validator of ``jsonschema``, with what concerns texts as Rust has it."""
        import jsonschema

        kind = getattr(jsonschema, self._draft.python)
        texts = ("pattern", "format") if self._formats else ("pattern",)
        words: dict[str, Any] = {word: self._in_rust(word) for word in texts}
        types = kind.TYPE_CHECKER
        if exactly and self._draft is not drafts.DRAFT_4:
            types = types.redefine("integer", exact.is_integer)
        kind = jsonschema.validators.extend(kind, words, type_checker=types)
        return kind(exact.schema(self._schema) if exactly else self._schema)

    def _in_rust(self, word: str) -> Callable[..., Iterator[Exception]]:
        """A keyword about texts, as it is elsewhere: not as Python understands it."""

        def check(_validator: Any, said: str, value: Any, _schema: Any) -> Iterator[Exception]:
            import jsonschema

            if isinstance(value, str) and not _matcher(self._draft, word, said).is_valid(value):
                yield jsonschema.ValidationError(f"{value!r} does not match {word} {said!r}")

        return check


@lru_cache(maxsize=512)
def _matcher(draft: drafts.Draft, word: str, said: str) -> jsonschema_rs.Validator:
    return draft.rust({word: said}, validate_formats=True)


@contextmanager
def _python_patterns() -> Iterator[None]:
    """``patternProperties`` are Python's business where a number is beyond every other reader."""
    try:
        yield
    except re.error as error:
        raise _UnreadableError(
            f"it has a number beyond 64 bits, and its schema a pattern that Python cannot read "
            f"({error})"
        ) from error


def _read(raw: Raw) -> tuple[Any, bool]:
    """A record, and whether it has a number beyond 64 bits or a double's range."""
    data = bytes(raw)
    try:
        if _BIG_NUMBER.search(data):
            return _read_big(data)
        return orjson.loads(data), False
    except RecursionError as error:
        raise _UnreadableError("it is nested too deeply") from error
    except ValueError as error:
        raise _UnreadableError(_first_line(error)) from error


def _read_big(data: bytes) -> tuple[Any, bool]:
    extreme = False

    def integer(text: str) -> int:
        nonlocal extreme
        value = int(text)
        extreme = extreme or not -(1 << 63) <= value < 1 << 64
        return value

    def real(text: str) -> float:
        nonlocal extreme
        value = float(text)
        extreme = extreme or math.isinf(value)
        return value

    return json.loads(data, parse_int=integer, parse_float=real), extreme


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
