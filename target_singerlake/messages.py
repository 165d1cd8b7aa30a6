"""Lines in: the envelope is decoded, the record inside it stays raw bytes."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from singerlake.format import times
from singerlake.format.nesting import MAX_LEVELS, too_deep
from target_singerlake.errors import InvalidLineError
from target_singerlake.values import Int64


class Record(msgspec.Struct, tag="RECORD", tag_field="type", gc=False):
    """A RECORD message."""

    stream: str
    record: Raw
    time_extracted: str | UnsetType | None = UNSET
    version: Int64 | None = None


class Schema(msgspec.Struct, tag="SCHEMA", tag_field="type"):
    """A SCHEMA message."""

    stream: str
    schema: Raw
    key_properties: list[str] | None = None
    bookmark_properties: Raw = Raw(b"null")

    @property
    def incremental(self) -> bool:
        """Whether the tap says that it goes by a replication key."""
        return bytes(self.bookmark_properties).strip() not in (b"null", b"[]", b'""')


class State(msgspec.Struct, tag="STATE", tag_field="type"):
    """A STATE message; its value goes out as it came."""

    value: Raw


class ActivateVersion(msgspec.Struct, tag="ACTIVATE_VERSION", tag_field="type"):
    """An ACTIVATE_VERSION message."""

    stream: str
    version: Int64


class Batch(msgspec.Struct, tag="BATCH", tag_field="type"):
    """A BATCH message: records in files of their own."""

    stream: str
    encoding: Raw
    manifest: list[str]
    version: Int64 | None = None
    time_extracted: str | None = None


Message = Record | Schema | State | ActivateVersion | Batch


class _Extracted(msgspec.Struct, gc=False):
    _sdc_extracted_at: str | UnsetType | None = UNSET


class _ExtractedLine(msgspec.Struct, gc=False):
    record: _Extracted


ANY: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
"""Decodes every message, records left raw."""

EXTRACTED = msgspec.json.Decoder(_ExtractedLine)
"""Decodes only a record's own ``_sdc_extracted_at``."""


def record_type(stream: str, kind: Any, *, timed: bool) -> type[msgspec.Struct]:
    """Build the type of one stream's RECORD messages, told apart by the stream.

    Args:
        kind: The type of its records.
        timed: Whether they must have a ``time_extracted``.

    Raises:
        ValueError: The name is beyond what msgspec can tell apart.
    """
    time: Any = ("time_extracted", str | None)
    if not timed:
        time = ("time_extracted", str | UnsetType | None, UNSET)
    return msgspec.defstruct(
        "Record",
        [
            ("type", Literal["RECORD"]),
            ("record", kind),
            time,
            ("version", Int64 | None, None),
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
        message = ANY.decode(line)
    except UnicodeDecodeError as error:
        raise InvalidLineError(f"line {number} is not UTF-8 text: {error.reason}") from error
    except msgspec.ValidationError as error:
        raise InvalidLineError(_describe(line, number, str(error))) from error
    except msgspec.DecodeError as error:
        raise InvalidLineError(f"line {number} is not JSON: {error}: {_shorten(line)}") from error
    except RecursionError:
        message = None
    if message is None or too_deep(line):
        raise InvalidLineError(
            f"line {number} is nested more than {MAX_LEVELS} levels deep: {_shorten(line)}"
        )
    return message


def time_of(line: bytes, received: str) -> str:
    """Choose the time that a RECORD line without ``time_extracted`` is given.

    Args:
        received: What it is given when it does not say itself.

    Returns:
        Its own ``_sdc_extracted_at`` in UTC if it has one that is a time.
    """
    try:
        own = EXTRACTED.decode(line).record._sdc_extracted_at
    except (msgspec.DecodeError, RecursionError):
        return received
    instant = times.parse(own) if isinstance(own, str) else None
    return times.iso(instant) if instant is not None else received


def says_nothing(line: _ExtractedLine) -> bool:
    """Tell whether a record has no ``_sdc_extracted_at``."""
    return line.record._sdc_extracted_at is UNSET


def _shorten(line: bytes) -> str:
    text = line[:80].decode("utf-8", "replace")
    return text + ("…" if len(line) > len(text) else "")


def _describe(line: bytes, number: int, reason: str) -> str:
    kinds = "RECORD, SCHEMA, STATE, ACTIVATE_VERSION or BATCH"
    if "required field `type`" in reason:
        return f"line {number} has no type, which must be {kinds}: {_shorten(line)}"
    if reason.endswith("- at `$.type`"):
        return f"line {number} has an unknown type, which must be {kinds}: {_shorten(line)}"
    if reason.endswith("- at `$.version`"):
        return (
            f"line {number} has a version that is not a 64-bit integer, so its table could not be "
            f"read: {_shorten(line)}"
        )
    return f"line {number} is not a Singer message: {reason}: {_shorten(line)}"
