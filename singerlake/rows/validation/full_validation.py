"""The whole of JSON Schema: whether a value is what a schema says, and if not, why.

What types can prove (``typed.py``) does not come here. Of the rest Rust decides nearly all, and
Python what Rust's numbers cannot hold.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import jsonschema_rs
import orjson

from singerlake.format.json_schema import TYPES
from singerlake.rows.validation import drafts, exact_numbers

# orjson reads integers past 64 bits as doubles and refuses numbers past a double's range;
# where one may be, the standard library reads the record instead.
_BIG_NUMBER = re.compile(rb"\d{16}|[eE][+-]?\d{3}")
_DECIMAL = re.compile(r"Decimal\('([^']*)'\)")
_MAX_REASON = 300


class UnreadableError(Exception):
    """A record that is JSON but beyond what Python reads: depth, or digits by the thousand."""


class NotASchemaError(ValueError):
    """What should be a JSON Schema is none. Caught where it is known whose it is."""


class Refusal(NamedTuple):
    """Why a schema does not allow a value.

    Attributes:
        path: Where in the value, as names and indexes; empty for the whole of it.
        message: What is wrong, in a sentence without its end.
        keyword: The word of the schema that refused it.
    """

    path: tuple[str | int, ...]
    message: str
    keyword: str

    @property
    def reason(self) -> str:
        """The message without its middle, where it is long: it has the value in it."""
        text, half = self.message, _MAX_REASON // 2
        return text if len(text) <= _MAX_REASON else f"{text[:half]} … {text[-half:]}"


def validator_of(
    schema: dict[str, Any],
    *,
    formats: bool = False,
    passed_over: Callable[[str, str], None] = lambda _keyword, _value: None,
) -> FullValidator:
    """Build the validator of a schema in any draft since 4.

    Args:
        schema: The schema.
        formats: Whether ``format`` must hold.
        passed_over: Told of each keyword that cannot be checked, and what it says.

    Raises:
        NotASchemaError: It is none.
    """
    draft = drafts.draft_of(schema)
    try:
        own = drafts.put_in_words_of(draft, schema, passed_over)
        return FullValidator(own, draft, formats=formats)
    except NotASchemaError:
        if draft is drafts.DRAFT_2020:
            raise
        # Older drafts are strict where it does not matter: a value twice in an enum.
        newest = drafts.put_in_words_of(drafts.DRAFT_2020, schema, lambda *_: None)
        return FullValidator(newest, drafts.DRAFT_2020, formats=formats)


class FullValidator:
    """Checks values against a schema: in Rust, and in Python what Rust's numbers cannot hold.

    Args:
        schema: In the words of its draft.
        draft: Which.
        formats: Whether ``format`` must hold.

    Raises:
        NotASchemaError: It is none.
    """

    def __init__(self, schema: dict[str, Any], draft: drafts.Draft, *, formats: bool) -> None:
        self._schema = schema
        self._draft = draft
        self._formats = formats
        self._python: Any = None
        self._exact: Any = None
        try:
            self._rust = draft.rust(schema, validate_formats=formats, offline=True)
        except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
            raise NotASchemaError(wrong_schema(error, schema)) from error

    def words_of(self, draft: drafts.Draft, schema: dict[str, Any]) -> dict[str, Any]:
        """Put the schema in the words of a draft, which may be those that it is in.

        Args:
            draft: Which.
            schema: The schema, as it came.
        """
        if draft is self._draft:
            return self._schema
        return drafts.put_in_words_of(draft, schema, lambda *_: None)

    def is_valid(self, record: Any, *, extreme: bool) -> bool:
        """Tell whether the schema allows a record.

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
            try:
                return self._in_python().is_valid(record)  # type: ignore[no-any-return]
            except OverflowError:  # what a number past a double's range is a multiple of
                return False

    def is_valid_exactly(self, data: bytes, *, extreme: bool) -> bool:
        """Tell whether the schema allows a record after all, by its numbers as they are written.

        As doubles, the last values before a bound are the bound; and as Python divides them, 2.01
        is no multiple of 0.01.

        Args:
            data: The record's text.
            extreme: As for :meth:`is_valid`.
        """
        record = exact_numbers.read(data, in_any_case=extreme)
        if record is None:
            return False
        try:
            with exact_numbers.arithmetic():
                return self._exactly().is_valid(record)  # type: ignore[no-any-return]
        except (ArithmeticError, RecursionError, re.error):
            return False

    def refusals(self, record: Any, data: bytes, *, extreme: bool) -> Iterator[Refusal]:
        """Yield each reason why the schema does not allow a record; none where it does.

        Args:
            record: Any JSON value.
            data: Its text.
            extreme: Whether it has a number beyond 64 bits or a double's range.
        """
        try:
            errors: list[Any] = [] if extreme else list(self._rust.iter_errors(record))
        except ValueError:
            errors = []
        if not errors:
            try:
                errors = self._errors_in_python(record, data, extreme=extreme)
            except ArithmeticError:
                yield Refusal((), "it has a number beyond all readers", "")
        for error in errors:
            in_rust = isinstance(error, jsonschema_rs.ValidationError)
            path = error.instance_path if in_rust else error.absolute_path
            keyword = str([*error.schema_path][-1]) if error.schema_path else ""
            yield Refusal(tuple(path), str(error.message), keyword)

    def _errors_in_python(self, record: Any, data: bytes, *, extreme: bool) -> list[Any]:
        exact = exact_numbers.read(data, in_any_case=True) if extreme else None
        with _python_patterns():
            if exact is None:
                return list(self._in_python().iter_errors(record))
            with exact_numbers.arithmetic():
                errors = list(self._exactly().iter_errors(exact))
            for error in errors:
                error.message = _DECIMAL.sub(r"\1", error.message)
            return errors

    def _exactly(self) -> Any:
        if self._exact is None:
            self._exact = self._pythons(exactly=True)
        return self._exact

    def _in_python(self) -> Any:
        if self._python is None:
            self._python = self._pythons()
        return self._python

    def _pythons(self, *, exactly: bool = False) -> Any:
        """Build the validator of ``jsonschema``, with what concerns texts as Rust has it."""
        import jsonschema

        kind = getattr(jsonschema, self._draft.python)
        texts = ("pattern", "format") if self._formats else ("pattern",)
        words: dict[str, Any] = {word: self._in_rust(word) for word in texts}
        types = kind.TYPE_CHECKER
        if exactly and self._draft is not drafts.DRAFT_4:
            types = types.redefine("integer", exact_numbers.is_integer)
        kind = jsonschema.validators.extend(kind, words, type_checker=types)
        return kind(exact_numbers.schema(self._schema) if exactly else self._schema)

    def _in_rust(self, word: str) -> Callable[..., Iterator[Exception]]:
        """Check a keyword about texts as it is elsewhere: not as Python understands it."""

        def check(_validator: Any, argument: str, value: Any, _schema: Any) -> Iterator[Exception]:
            import jsonschema

            if isinstance(value, str) and not _matcher(self._draft, word, argument).is_valid(value):
                yield jsonschema.ValidationError(f"{value!r} does not match {word} {argument!r}")

        return check


@lru_cache(maxsize=512)
def _matcher(draft: drafts.Draft, word: str, argument: str) -> jsonschema_rs.Validator:
    return draft.rust({word: argument}, validate_formats=True)


@contextmanager
def _python_patterns() -> Iterator[None]:
    """``patternProperties`` are Python's business where a number is beyond every other reader."""
    try:
        yield
    except re.error as error:
        raise UnreadableError(
            f"it has a number beyond 64 bits, and its schema a pattern that Python cannot read "
            f"({error})"
        ) from error


def read(data: bytes) -> tuple[Any, bool]:
    """Read a record, and whether it has a number beyond 64 bits or a double's range.

    Raises:
        UnreadableError: Python cannot read it.
    """
    try:
        if _BIG_NUMBER.search(data):
            return _read_big(data)
        return orjson.loads(data), False
    except RecursionError as error:
        raise UnreadableError("it is nested too deeply") from error
    except ValueError as error:
        raise UnreadableError(first_line(error)) from error


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


# What is wrong with a schema that is none, and at which property, in words.

_MOST = 300
_ITEMS = ("items", "prefixItems", "additionalItems")


def wrong_schema(error: Exception, schema: Any) -> str:
    """Say what is wrong with a schema, and where.

    Args:
        error: What the validators of JSON Schema say.
        schema: The schema.
    """
    reason = first_line(error)
    path: Sequence[Any] = getattr(error, "instance_path", None) or _reference(reason, schema)
    names, rest = _split(path)
    said, is_not_valid, _ = reason.partition(" is not valid under ")
    if is_not_valid and rest and rest[-1] == "type":
        reason = f"{said} is not a JSON Schema type, one or several of {', '.join(TYPES)}"
    if len(reason) > _MOST:
        reason = f"{reason[: _MOST // 2]} … {reason[-_MOST // 2 :]}"
    where = ".".join(map(str, rest))
    if names:
        where = f"property {names!r}, {where}" if where else f"property {names!r}"
    return f"{where}: {reason}" if where else reason


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, or its name."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _split(path: Sequence[Any]) -> tuple[str, list[Any]]:
    """Take apart a path: the property as people name it, and what stands behind that."""
    name, at = "", 0
    while at < len(path):
        if path[at] == "properties" and at + 1 < len(path):
            name += f".{path[at + 1]}" if name else str(path[at + 1])
            at += 2
        elif name and path[at] in _ITEMS and at + 1 < len(path):
            name += "[]"
            at += 2 if isinstance(path[at + 1], int) else 1
        else:
            break
    return name, list(path[at:])


def _reference(reason: str, schema: Any) -> list[Any]:
    """Find the ``$ref`` that an error is about which does not say where it stands."""
    for path, ref in _references(schema, []):
        if ref and (ref in reason or repr(ref.removeprefix("#")) in reason):
            return path
    return []


def _references(node: Any, path: list[Any]) -> Iterator[tuple[list[Any], str]]:
    parts = enumerate(node) if isinstance(node, list) else ()
    for word, inner in node.items() if isinstance(node, dict) else parts:
        here = [*path, word]
        if word == "$ref" and isinstance(inner, str):
            yield here, inner
        yield from _references(inner, here)
