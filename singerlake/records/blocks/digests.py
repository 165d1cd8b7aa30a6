"""What stands for each record: a digest of its bytes exactly as the tap wrote them.

Typed columns cannot tell ``12345678901234.123456`` from ``….123457``, which are one double, nor
see a member that the schema does not declare. So a revert compares rows by these digests, and a
version's second fingerprint is made of them. Of a line only the value of ``record`` counts: times
and versions around it may change when a line is sent or written again.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from singerlake.errors import DamagedError
from singerlake.format import set_hash
from singerlake.format.set_hash import DIGEST_BYTES


class _Record(msgspec.Struct, tag="RECORD", tag_field="type", gc=False):
    record: msgspec.Raw


class _Activation(msgspec.Struct, tag="ACTIVATE_VERSION", tag_field="type", gc=False):
    pass


_LINES = msgspec.json.Decoder(_Record | _Activation)


def of_lines(lines: bytes | memoryview, where: str, count: int) -> pa.Array:
    """Compute the digest of each record.

    Args:
        lines: RECORD and ACTIVATE_VERSION lines.
        where: What to call their block in an error.
        count: How many records are in them.

    Raises:
        DamagedError: A line is of another kind, or there are more or fewer records.
    """
    try:
        messages = _LINES.decode_lines(lines)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedError(f"{where} holds a line that is not a Singer message: {error}") from error
    records = [message.record for message in messages if type(message) is _Record]
    if len(records) != count:
        raise DamagedError(f"{where} has {len(records)} rows where {count} were expected")
    return column(set_hash.joined_digests(records))


def column(digests: bytes) -> pa.Array:
    """Make a column of digests that stand one behind the other."""
    count = len(digests) // DIGEST_BYTES
    ends = np.arange(0, (count + 1) * DIGEST_BYTES, DIGEST_BYTES, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(digests)]
    )
