"""How many records of some lines are deletions."""

from __future__ import annotations

from io import BytesIO

import msgspec
from msgspec import Raw

from singerlake.format.messages import DELETED
from singerlake.format.values import is_deletion

_NAME = DELETED.encode()
_NULLS = (_NAME + b'": null', _NAME + b'":null')


class _Record(msgspec.Struct):
    mark: Raw = msgspec.field(name=DELETED, default=Raw(b"null"))


class _Line(msgspec.Struct):
    record: _Record


_LINE = msgspec.json.Decoder(_Line)


def count(text: bytes) -> int:
    """Count the deletions among RECORD lines, each valid and with its newline."""
    named = text.count(_NAME)
    if not named or named == sum(map(text.count, _NULLS)):
        return 0
    marked = (line for line in BytesIO(text) if _NAME in line)
    return sum(is_deletion(bytes(_LINE.decode(line).record.mark)) for line in marked)
