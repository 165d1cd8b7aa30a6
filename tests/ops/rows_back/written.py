"""What an operation that writes rows again has written, on whatever engine."""

from __future__ import annotations

import re
from typing import Any

from singerlake.lake import Table

_GONE = re.compile(rb'"_sdc_deleted_at": ?"20[2-9][^"]*"')
"""When an operation deleted a row, which is no other row's."""
_TIME = re.compile(r'"time_extracted": ?"[^"]*"')


def written(table: Table, number: int) -> dict[str, Any]:
    """All that a transaction says, but for names and times."""
    (entry,) = [one for one in table.entries() if one.number == number]
    metadata = dict(entry.metadata or {})
    return {
        "operation": entry.operation,
        "schema": (entry.schema_hash, entry.schemas),
        "metrics": entry.metrics,
        "metadata": metadata,
        "blocks": [
            (
                block.number,
                block.schema_hash,
                block.rows,
                len(block.activations),
                text(table, block),
            )
            for block in entry.blocks
        ],
    }


def written_untimed(table: Table, number: int) -> str:
    """The same as text, without the times of new records."""
    return _TIME.sub("", str(written(table, number)))


def text(table: Table, block: Any) -> bytes:
    """A block's lines, with one time for all deletions and one Singer version that is new."""
    lines = _GONE.sub(b'"_sdc_deleted_at": "now"', table.read_block(block))
    return re.sub(rb'"version": ?\d{12,}', b'"version": "new"', lines)
