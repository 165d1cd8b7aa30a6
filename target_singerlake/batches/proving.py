"""Proofs that lines of a file are valid records."""

from __future__ import annotations

from target_singerlake.chunk import Chunk
from target_singerlake.validation import Validator

DOUBTFUL, PROVEN, PROVEN_UNTIMED = range(3)
"""Of lines: that they need a closer look; that all are valid records; and that, where none of
these says a time of its own."""


def prove(validator: Validator, data: bytes) -> int:
    """Find out by one decoding whether lines are valid records, as nearly always.

    Returns:
        ``DOUBTFUL``, ``PROVEN`` or ``PROVEN_UNTIMED``.
    """
    chunk = Chunk(data)
    if validator.decoder is None or not chunk.plain:
        return DOUBTFUL
    if validator.values.may_leave_the_calendar(data):
        return DOUBTFUL
    if validator.untimed is not None and chunk.decode(validator.untimed):
        return PROVEN_UNTIMED
    if not chunk.decode(validator.decoder):
        return DOUBTFUL
    return PROVEN if _may_say_times(data) else PROVEN_UNTIMED


def _may_say_times(data: bytes) -> bool:
    """Tell whether a record may have an ``_sdc_extracted_at``, which may be spelled in escapes."""
    # From the right, and the backslash first, which is quickly found not to be there.
    escaped = b"\\" in data and data.rfind(b"\\u00") >= 0
    return escaped or data.rfind(b"_sdc_extracted_at") >= 0
