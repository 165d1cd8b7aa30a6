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
_NAME = b"_sdc_extracted_at"
_LETTERS = (b"\\u005", b"\\u006", b"\\u007")
"""How an escape begins that stands for a letter of it, or for its underscores."""


def timed_chunk(chunk: Chunk, records: list[Any]) -> Chunk:
    """Give each line of a decoded chunk its ``time_extracted``."""
    if UNSET not in map(_TIME, records):
        return chunk
    if chunk.records and set(map(_TIME, records)) == {UNSET} and _say_nothing(chunk):
        # The commonest case, of a tap that leaves times to others: one for all the lines.
        return chunk.appended(time_member(times.iso(times.now())))
    return Chunk.of(timed_lines(chunk.lines, records))


def _say_nothing(chunk: Chunk) -> bool:
    """Tell whether no record has an ``_sdc_extracted_at``."""
    # From the right: Python then looks for a name in two thirds of the time.
    named = chunk.data.rfind(_NAME) >= 0 or (
        chunk.data.find(b"\\") >= 0 and any(chunk.data.rfind(one) >= 0 for one in _LETTERS)
    )
    if not named:
        return True
    extracted = chunk.decode(messages.EXTRACTED)
    return extracted is not None and all(map(messages.says_nothing, extracted))


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
