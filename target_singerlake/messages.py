"""Lines in: the envelope is decoded, the record inside it stays raw bytes."""

from __future__ import annotations

import re

import msgspec
from msgspec import UNSET, Raw, UnsetType

from singerlake.format import times
from target_singerlake.errors import InvalidLineError


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


_DECODER: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_EXTRACTED = msgspec.json.Decoder(_Extracted)
_END = re.compile(rb"\}[ \t\r]*$")


def decode_chunk(data: bytes) -> tuple[list[bytes], list[Message]] | None:
    """Decode many lines at once.

    Args:
        data: Whole lines, each ended by a newline.

    Returns:
        The lines without their newlines and one message each; None where a line needs a
        closer look, one by one, with :func:`decode_line`.
    """
    # decode_lines is at ease with two messages on a line and one message on two. Where every
    # line begins with { and ends with }, a message cannot go on to the next line, for JSON
    # never has { after }; then as many messages as lines means one on each.
    lines = data.split(b"\n")
    lines.pop()
    if data.count(b"}\n{") != len(lines) - 1 or not data.startswith(b"{"):
        return None
    try:
        if not data.isascii():
            data.decode("utf-8")  # msgspec skips over raw values without looking at this
        messages = _DECODER.decode_lines(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if len(messages) != len(lines) or not data.endswith(b"}\n"):
        return None
    return lines, messages


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
        return _DECODER.decode(line)
    except UnicodeDecodeError as error:
        raise InvalidLineError(f"line {number} is not UTF-8 text: {error.reason}") from error
    except msgspec.ValidationError as error:
        raise InvalidLineError(_describe(line, number, str(error))) from error
    except msgspec.DecodeError as error:
        raise InvalidLineError(f"line {number} is not JSON: {error}: {_shorten(line)}") from error


def time_of(record: Raw, received: str) -> str:
    """The time a record without ``time_extracted`` is given.

    Args:
        record: The record's bytes.
        received: What it is given when it does not say itself.

    Returns:
        Its own ``_sdc_extracted_at`` in UTC if it has one that is a time.
    """
    try:
        own = _EXTRACTED.decode(record)._sdc_extracted_at
    except msgspec.DecodeError:
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
