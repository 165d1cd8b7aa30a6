"""The ``time_extracted`` of RECORD lines that came without one."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from msgspec import UNSET

from singerlake.format import times
from singerlake.format.messages import time_member, with_time
from target_singerlake import messages
from target_singerlake.chunk import Chunk

_TIME = attrgetter("time_extracted")


def timed_chunk(chunk: Chunk, records: list[Any]) -> Chunk:
    """Give each line of a decoded chunk its ``time_extracted``."""
    if UNSET not in map(_TIME, records):
        return chunk
    if chunk.records and set(map(_TIME, records)) == {UNSET}:
        extracted = chunk.decode(messages.EXTRACTED)
        if extracted is not None and all(map(messages.says_nothing, extracted)):
            # The commonest case, of a tap that leaves times to others: one for all the lines.
            return chunk.appended(time_member(times.iso(times.now())))
    return Chunk.of(timed_lines(chunk.lines, records))


def timed_lines(lines: list[bytes], records: list[Any]) -> list[bytes]:
    """Give each decoded line its ``time_extracted``."""
    if UNSET not in map(_TIME, records):
        return lines
    received = times.iso(times.now())
    return [
        line
        if record.time_extracted is not UNSET
        else with_time(line, messages.time_of(line, received))
        for line, record in zip(lines, records, strict=True)
    ]
