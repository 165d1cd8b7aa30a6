"""Lines in: the envelope is decoded, the record inside it stays raw bytes."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from singerlake.format import times
from target_singerlake.errors import InvalidLineError

T = TypeVar("T")


class Record(msgspec.Struct, tag="RECORD", tag_field="type", gc=False):
    """A RECORD message."""

    stream: str
    record: Raw
    time_extracted: str | UnsetType | None = UNSET
    version: int | None = None


class Schema(msgspec.Struct, tag="SCHEMA", tag_field="type"):
    """A SCHEMA message."""

    stream: str
    schema: Raw
    key_properties: list[str] | None = None


class State(msgspec.Struct, tag="STATE", tag_field="type"):
    """A STATE message; its value goes out as it came."""

    value: Raw


class ActivateVersion(msgspec.Struct, tag="ACTIVATE_VERSION", tag_field="type"):
    """An ACTIVATE_VERSION message."""

    stream: str
    version: int


class Batch(msgspec.Struct, tag="BATCH", tag_field="type"):
    """A BATCH message: records in files of their own."""

    stream: str
    encoding: Raw
    manifest: list[str]


Message = Record | Schema | State | ActivateVersion | Batch


class _Extracted(msgspec.Struct, gc=False):
    _sdc_extracted_at: str | UnsetType | None = UNSET


class _ExtractedLine(msgspec.Struct, gc=False):
    record: _Extracted


ANY: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
"""Decodes every message, records left raw."""

_EXTRACTED = msgspec.json.Decoder(_ExtractedLine)
_FIRST = itemgetter(0)
_LAST = itemgetter(-1)
_BEFORE_LAST = itemgetter(-2)
_CR = {ord("\r")}
_BRACES = ({ord("{")}, {ord("}")})
# How nearly every tap begins a RECORD line. Only a guess that saves time: what a line is,
# the decoders say.
_RECORD_STARTS = (b'{"type": "RECORD"', b'{"type":"RECORD"')


def split(data: bytes) -> list[bytes] | None:
    """Cut a chunk into lines.

    Args:
        data: Whole lines, each ended by a newline.

    Returns:
        The lines without their newlines; None where they are not plainly one JSON object
        each in UTF-8, and need a closer look, one by one, with :func:`decode_line`.
    """
    lines = data.split(b"\n")
    lines.pop()
    try:
        ends = set(map(_LAST, lines))
        if ends == _CR:
            ends = set(map(_BEFORE_LAST, lines))
        if (set(map(_FIRST, lines)), ends) != _BRACES:
            return None
        if not data.isascii():
            data.decode("utf-8")  # msgspec skips over raw values without looking at this
    except (IndexError, UnicodeDecodeError):
        return None  # an empty line, or one in another encoding
    return lines


def not_records(lines: list[bytes]) -> list[int]:
    """The places of the lines that do not look like a RECORD."""
    return [n for n, line in enumerate(lines) if not line.startswith(_RECORD_STARTS)]


def decode_lines(data: bytes, count: int, decoder: msgspec.json.Decoder[T]) -> list[T] | None:
    """Decode many lines at once.

    Args:
        data: Lines that :func:`split` found plain, or some of them.
        count: How many.
        decoder: Of one message.

    Returns:
        One message for each line; None where the decoder refuses one.
    """
    # A decoder of lines is at ease with two messages on a line and one message on two. As
    # every line begins with { and ends with }, a message cannot go on to the next line, for
    # JSON never has { after }; so as many messages as lines means one on each.
    try:
        messages = decoder.decode_lines(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    return messages if len(messages) == count else None


def record_type(stream: str, kind: Any) -> type[msgspec.Struct]:
    """The type of one stream's RECORD messages, told from other streams' by their stream.

    Args:
        stream: The stream's name.
        kind: The type of its records.

    Raises:
        ValueError: The name is beyond what msgspec can tell apart.
    """
    return msgspec.defstruct(
        "Record",
        [
            ("type", Literal["RECORD"]),
            ("record", kind),
            ("time_extracted", str | UnsetType | None, UNSET),
            ("version", int | None, None),
        ],
        tag_field="stream",
        tag=stream,
        gc=False,
    )


def decode_line(line: bytes, number: int) -> Message:
    """Decode one line.

    Args:
        line: Without its newline.
        number: Its number in the input, from 1, for the error.

    Raises:
        InvalidLineError: It is no Singer message.
    """
    try:
        line.decode("utf-8")
        return ANY.decode(line)
    except UnicodeDecodeError as error:
        raise InvalidLineError(f"line {number} is not UTF-8 text: {error.reason}") from error
    except msgspec.ValidationError as error:
        raise InvalidLineError(_describe(line, number, str(error))) from error
    except msgspec.DecodeError as error:
        raise InvalidLineError(f"line {number} is not JSON: {error}: {_shorten(line)}") from error
    except RecursionError as error:
        raise InvalidLineError(f"line {number} is nested too deeply: {_shorten(line)}") from error


def time_of(line: bytes, received: str) -> str:
    """The time a RECORD line without ``time_extracted`` is given.

    Args:
        line: The line.
        received: What it is given when it does not say itself.

    Returns:
        Its own ``_sdc_extracted_at`` in UTC if it has one that is a time.
    """
    try:
        own = _EXTRACTED.decode(line).record._sdc_extracted_at
    except (msgspec.DecodeError, RecursionError):
        return received
    instant = times.parse(own) if isinstance(own, str) else None
    return times.iso(instant) if instant is not None else received


def with_time(line: bytes, stamp: str) -> bytes:
    """Splice a ``time_extracted`` into a line; every other byte stays as it is."""
    end = line.rindex(b"}")
    return b'%b, "time_extracted": "%b"%b' % (line[:end], stamp.encode("ascii"), line[end:])


def _shorten(line: bytes) -> str:
    text = line[:80].decode("utf-8", "replace")
    return text + ("…" if len(line) > len(text) else "")


def _describe(line: bytes, number: int, reason: str) -> str:
    kinds = "RECORD, SCHEMA, STATE, ACTIVATE_VERSION or BATCH"
    if "required field `type`" in reason:
        return f"line {number} has no type, which must be {kinds}: {_shorten(line)}"
    if reason.endswith("- at `$.type`"):
        return f"line {number} has an unknown type, which must be {kinds}: {_shorten(line)}"
    return f"line {number} is no Singer message: {reason}: {_shorten(line)}"
