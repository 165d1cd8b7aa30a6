"""Singer lines that Singerlake builds or changes itself; all others stay as their tap wrote them.

Lines that are made here end in a newline. A function that changes a line takes and gives it
without one, and leaves every byte that it need not touch.
"""

from __future__ import annotations

import msgspec

from singerlake.format.log import SchemaEntry

DELETED = "_sdc_deleted_at"
"""The member of a record that says it was deleted."""

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def schema_line(stream: str, entry: SchemaEntry) -> bytes:
    """Build a SCHEMA line."""
    message = {
        "type": "SCHEMA",
        "stream": stream,
        "schema": entry.schema,
        "key_properties": entry.key_properties,
    }
    return msgspec.json.encode(message) + b"\n"


def activate_version_line(stream: str, version: int) -> bytes:
    """Build an ACTIVATE_VERSION line."""
    message = {"type": "ACTIVATE_VERSION", "stream": stream, "version": version}
    return msgspec.json.encode(message) + b"\n"


def record_line(stream: str, record: bytes, stamp: str, version: int | None = None) -> bytes:
    """Build a RECORD line.

    Args:
        record: The record's own JSON, which goes in as it is.
        stamp: Its ``time_extracted``.
        version: Its Singer version, if it has one.
    """
    before, after = around_record(stream, stamp, version)
    return b"".join((before, record, after))


def around_record(stream: str, stamp: str, version: int | None = None) -> tuple[bytes, bytes]:
    """Build what stands before and after a record's JSON in its line, once for many records."""
    before = b'{"type":"RECORD","stream":%b,"record":' % msgspec.json.encode(stream)
    versioned = b"" if version is None else b',"version":%d' % version
    return before, b'%b,"time_extracted":"%b"}\n' % (versioned, stamp.encode("ascii"))


def time_member(stamp: str) -> bytes:
    """Build a ``time_extracted`` as it goes behind the last member of an object."""
    return b', "time_extracted": "%b"' % stamp.encode("ascii")


def with_time(line: bytes, stamp: str) -> bytes:
    """Splice a ``time_extracted`` into a RECORD line, with or without its newline."""
    end = line.rindex(b"}")
    return b"".join((line[:end], time_member(stamp), line[end:]))


def with_version(line: bytes, version: int) -> bytes:
    """Put a RECORD line under another Singer version."""
    members = _MEMBERS.decode(line)
    members["version"] = msgspec.Raw(b"%d" % version)
    return msgspec.json.encode(members)


def record_of(line: bytes) -> bytes:
    """Return the record of a RECORD line, as it stands there."""
    return bytes(_MEMBERS.decode(line)["record"])


def as_deletion(line: bytes, stamp: str) -> bytes:
    """Turn a RECORD line into the one that deletes its row."""
    members = _MEMBERS.decode(line)
    record = _MEMBERS.decode(members["record"])
    record[DELETED] = msgspec.Raw(b'"%b"' % stamp.encode("ascii"))
    members["record"] = msgspec.Raw(msgspec.json.encode(record))
    return msgspec.json.encode(members)
